"""Yardsticks of a model's values, weights and decisions: what a file of outputs supports alone."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from xaihelpers.bottlenecks.planted import ridge_head
from xaihelpers.scorecard.evidence import Evidence
from xaihelpers.scorecard.reading import LABELLED, UNLABELLED, Missing, Reading, pseudo_cases, share
from xaihelpers.scores import alignment, causal, interventions, leakage, sub

PERMUTATIONS = 10
N_PURITY = 400  # images whose leakages are read, drawn once
FIRST = 3  # l of CEM
N_EFFECTIVE = 5
LABELS_NEEDED = "data with concept labels, as a folder in CUB-200-2011's format (--data)"
THRESHOLDS = "thresholds, (L,), the values above which the model itself calls a concept present"
WEIGHTS = "class_weights, (L, K), of a linear head"
LEAKAGES = ("CTL", "ICL", "OIS", "NIS")
CORRECTED = tuple(f"interventions, {policy}" for policy in interventions.POLICIES)


def alignment_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """CGIM over concepts and CEM over images (paper alignment, eq. 3–5 and 9)."""
    every = ("CGIM1", "CGIM2", "CGIM3", *(f"CEM by {basis}" for basis in (*alignment.BASES, "contrast")))
    if not e.has_labels:
        yield Missing(every, f"{e.ground.world.name} has no concept labels", LABELS_NEEDED)
        return
    of_weights = ("CGIM1", "CGIM2", "CGIM3", "CEM by weight", "CEM by contrast")
    linear = e.known.class_weights is not None
    if not linear:
        yield Missing(of_weights, "the outputs have no class weights", WEIGHTS)
    elif e.labels is None:
        yield Missing(of_weights[:3], f"{e.ground.world.name} has no classes", "data with classes")
    else:
        yield from _cgim(e)
    yield from _existence(e, (*alignment.BASES, alignment.CONTRAST) if linear else ("value", "product"))


def _cgim(e: Evidence) -> Iterator[Reading]:
    truth = e.ground.class_truth(e.attributes)
    own = alignment.cgim(e.known, e.labels, truth)["concept"]  # (3, L')
    generator = torch.Generator().manual_seed(e.ground.seed)
    others = []
    for _ in range(PERMUTATIONS):
        order = torch.randperm(len(e.attributes), generator=generator)
        weights, values = e.known.class_weights[order], e.known.values[:, order]
        renamed = replace(e.known, class_weights=weights, values=values)
        others.append(alignment.cgim(renamed, e.labels, truth)["concept"])
    permuted = torch.stack(others).nanmean(0)
    groups = sub.groups_of(e.attributes)
    best = float(alignment.cgim_ceiling(truth).nanmean())
    for number, (cosines, of_others) in enumerate(zip(own, permuted, strict=True), 1):
        yield Reading(
            f"CGIM{number}",
            "alignment",
            LABELLED,
            cosines.numpy(),
            {"names permuted": of_others.numpy()},
            groups,
            bounds=(-1, 1),
            sighted=best if number == 1 else float("nan"),
        )


def _existence(e: Evidence, bases: tuple[str, ...]) -> Iterator[Reading]:
    first = min(FIRST, len(e.attributes))
    present, n = e.present, len(e.rows)
    centre = (e.training or e.known).values.mean(0)
    common = alignment.concept_existence(e.prevalence.expand(n, -1), present, first)
    for basis in bases:
        ranked = alignment.concept_importance(e.known, basis, centre)
        swapped = alignment.concept_existence(ranked[e.another], present, first)
        yield share(
            f"CEM by {basis}",
            "alignment",
            LABELLED,
            alignment.concept_existence(ranked, present, first),
            {"the most common concepts": common, "another image's": swapped},
            clusters=e.labels,
            sighted=100.0,
        )


def truth_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """T and T_A (paper sub), areas under the ROC curve, and the accuracy of the class."""
    wanted = ("T", "T_A", "concept AUC", "concept AUC within a class")
    if not e.has_labels:
        yield Missing(wanted, f"{e.ground.world.name} has no concept labels", LABELS_NEEDED)
    else:
        yield from _concepts_right(e)
    if e.labels is None:
        yield Missing(("accuracy",), f"{e.ground.world.name} has no classes", "data with classes")
        return
    right = (e.outputs.predictions == e.labels).double()
    yield share("accuracy", "control", LABELLED, right, _guess(e), clusters=e.labels, sighted=100.0)


def _guess(e: Evidence) -> dict[str, np.ndarray]:
    """Whether always the most frequent class would have been right, (n,)."""
    return {"the most frequent class": (e.labels == e.labels.mode().values).double().numpy()}


def _concepts_right(e: Evidence) -> Iterator[Reading | Missing]:
    present, n = e.present, len(e.rows)
    if e.known.thresholds is None:
        yield Missing(("T", "T_A"), "the outputs have no thresholds", THRESHOLDS)
    else:
        called = e.known.values > e.known.thresholds
        usual = (e.prevalence > 0.5).expand(n, -1)
        among = [name for name in e.ground.sub_attributes if name in e.attributes]
        for name, some in {"T": (), "T_A": among}.items():
            if name == "T_A" and not among:
                continue
            own, blind = (sub.concept_accuracy(one, present, e.attributes, some) for one in (called, usual))
            blind = {"what most images have": blind}
            yield share(name, "sub", LABELLED, own, blind, clusters=e.labels, sighted=100.0)
    groups = {"concept AUC": None, "concept AUC within a class": e.labels}
    for name, group in groups.items():
        if name != "concept AUC" and (group is None or e.ground.labels == "class"):
            yield Missing((name,), "labels do not vary within a class", "labels of each image")
            continue

        def area(rows, group=group):
            of_rows = None if group is None else group[rows]
            return alignment.concept_aucs(e.known.values[rows], present[rows], of_rows).nanmean()

        cases = pseudo_cases(area, n, seed=e.ground.seed)
        blind = {"no order": np.full(len(cases), 0.5)}
        yield Reading(name, "control", LABELLED, cases, blind, sighted=1.0)


def purity_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """CTL, ICL, OIS and NIS (see `scores.leakage`): low is good, and noise has nothing to leak."""
    if not e.has_labels or e.labels is None:
        yield Missing(LEAKAGES, f"{e.ground.world.name} lacks concept labels or classes", LABELS_NEEDED)
        return
    rows = e.sample(N_PURITY, 6)
    present, labels, values = e.present[rows], e.labels[rows], e.known.values[rows]
    n_pairs = len(e.attributes) * (len(e.attributes) - 1)
    training = None
    if e.training is not None:
        training = e.training.values, e.ground.present(e.attributes, e.training_rows)

    def leaked(values, rows, name):
        some = values[rows], present[rows]
        if name == "CTL":
            return leakage.concept_task_leakage(*some, labels[rows]).nanmean()
        if name == "ICL":
            return leakage.inter_concept_leakage(*some).sum() / max(n_pairs, 1)
        if name == "OIS":
            return leakage.oracle_impurity(*some)
        if training is not None and values is not noise:
            return leakage.niche_impurity(*some, *training)
        fit, judge = rows[::2], rows[1::2]  # no training values: every second image serves for them
        return leakage.niche_impurity(values[judge], present[judge], values[fit], present[fit])

    n, seed = len(rows), e.ground.seed
    noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))
    for name in LEAKAGES:
        own = pseudo_cases(lambda rows, name=name: leaked(values, rows, name), n, seed=seed)
        key = ("noise", name, e.rows[rows].tobytes(), tuple(e.attributes))
        if key not in e.ground.kept:  # the same for all models with these concepts
            e.ground.kept[key] = pseudo_cases(lambda rows, name=name: leaked(noise, rows, name), n, seed=seed)
        blind = {"noise": e.ground.kept[key]}
        yield Reading(name, "literature", LABELLED, own, blind, low_is_good=True)


def sufficiency_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """Accuracy at n effective concepts, completeness, interventions (see `scores.interventions`)."""
    few = f"accuracy at {N_EFFECTIVE}"
    every = (few, "completeness", *CORRECTED)
    if e.labels is None:
        yield Missing(every, f"{e.ground.world.name} has no classes", "data with classes")
        return
    theta = e.outputs.class_weights
    if theta is None:
        yield Missing((few, *CORRECTED), "the outputs have no class weights", WEIGHTS)
    else:
        bias = (e.outputs.logits - e.outputs.values @ theta).mean(0)
        n = min(N_EFFECTIVE, len(theta))
        found = interventions.effective_concepts_logits(e.outputs.values, theta, bias, n).argmax(1)
        right = (found == e.labels).double()
        yield share(few, "literature", LABELLED, right, _guess(e), clusters=e.labels, sighted=100.0)
        yield from _corrections(e)
    yield from _completeness(e)


def _completeness(e: Evidence) -> Iterator[Reading | Missing]:
    name, n_classes = ("completeness",), len(e.outputs.classes)
    if e.training is None:
        yield Missing(
            name, "a new classifier has to be fitted", "outputs of training images, in the same file"
        )
        return
    if e.network_accuracy is None:
        why = "the network that the concepts are to explain is not known"
        yield Missing(name, why, "its accuracy, from 0 to 1 (--network-accuracy)")
        return
    labels = e.ground.world.labels[e.training_rows]
    weights, bias = ridge_head(e.training.values, labels, n_classes)
    right = ((e.known.values @ weights + bias).argmax(1) == e.labels).double().numpy()
    none, whole = (interventions.completeness(share, e.network_accuracy, n_classes) for share in (0.0, 1.0))
    blind = {name: none + (whole - none) * one for name, one in _guess(e).items()}
    cases = none + (whole - none) * right
    yield Reading(
        name[0], "literature", LABELLED, cases, blind, e.labels.numpy(), bounds=(none, whole), sighted=1.0
    )


def _corrections(e: Evidence) -> Iterator[Reading | Missing]:
    values, theta = e.outputs.values, e.outputs.class_weights
    if e.outputs.thresholds is None:
        yield Missing(CORRECTED, "what a correction would put in is not known", THRESHOLDS)
        return
    if not e.has_labels:
        yield Missing(CORRECTED, f"{e.ground.world.name} has no concept labels", LABELS_NEEDED)
        return
    rest = e.outputs.logits - values @ theta
    rest = rest - rest.mean(1, keepdim=True)  # softmax does not see a constant of an image
    logits = e.outputs.logits - e.outputs.logits.mean(1, keepdim=True)
    unexplained = float(rest.var(0).sum() / logits.var(0).sum())
    if unexplained > 1e-3:
        why = f"{100 * unexplained:.0f} % of the logits' variance is not of values and class weights"
        yield Missing(CORRECTED, why, "a model that decides by its concepts alone")
        return
    low, high = own_scale(e)
    present = e.present
    for policy in interventions.POLICIES:
        areas = []
        for truth in (present, present[e.another]):
            corrected = values.clone()
            corrected[:, e.columns] = torch.where(truth > 0.5, high, low)
            corrected = torch.where(corrected.isfinite(), corrected, values)
            asked = (values, corrected, theta, e.outputs.logits - values @ theta, e.labels)
            settings = {"thresholds": e.outputs.thresholds, "seed": e.ground.seed}
            curve = interventions.intervention_curve(*asked, policy, **settings)
            areas.append(interventions.curve_area(curve))
        blind = {"another image's truth": areas[1]}
        name = f"interventions, {policy}"
        yield share(name, "literature", LABELLED, areas[0], blind, clusters=e.labels)


def own_scale(e: Evidence) -> tuple[torch.Tensor, torch.Tensor]:
    """What the model itself says of absent and of present: mean values (L',) below and above its thresholds.

    NaN of a concept that it never calls absent, or never present, which has no scale.
    """
    values, called = e.known.values, e.known.values > e.known.thresholds
    low = values.masked_fill(called, torch.nan).nanmean(0)
    high = values.masked_fill(~called, torch.nan).nanmean(0)
    return low, high


def decision_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """What needs no label: do claimed reasons move with decisions, and do a few of them suffice?"""
    names = ("effect agreement between images", f"decision kept by {N_EFFECTIVE}")
    theta, values, logits = e.outputs.class_weights, e.outputs.values, e.outputs.logits
    if theta is None:
        yield Missing(names, "the outputs have no class weights", WEIGHTS)
        return
    other, predicted = e.another, e.outputs.predictions[:, None]
    claims = values @ theta

    def agreement(rows, claimed):
        pairs = [part.gather(1, predicted)[rows, 0] for part in (logits, logits[other])]
        said = [part.gather(1, predicted)[rows, 0] for part in (claimed, claimed[other])]
        return causal.effect_agreement(*pairs, *said)

    n, seed = len(values), e.ground.seed
    own, blind = (
        pseudo_cases(lambda rows, of=of: agreement(rows, of), n, seed=seed)
        for of in (claims, claims.roll(1, 1))
    )
    blind = {"another class's reasons": blind}
    yield Reading(names[0], "literature", UNLABELLED, own, blind, sighted=1.0)
    bias = (logits - claims).mean(0)
    few = interventions.effective_concepts_logits(values, theta, bias, min(N_EFFECTIVE, len(theta)))
    kept = (few.argmax(1) == e.outputs.predictions).double()
    usual = e.outputs.predictions.mode().values
    blind = {"the most frequent decision": (e.outputs.predictions == usual).double().numpy()}
    yield share(names[1], "literature", UNLABELLED, kept, blind, clusters=e.labels, sighted=100.0)
