"""Yardsticks of a model's values, weights and decisions: what a file of outputs supports alone.

Each function takes the evidence and the names wanted, and returns name -> Cases.
"""

from functools import partial

import torch

from xaihelpers.datasets import class_concepts
from xaihelpers.outputs import ConceptOutputs
from xaihelpers.paths import PROJECT
from xaihelpers.scorecard.evidence import Evidence
from xaihelpers.scorecard.reading import Cases, pseudo_cases
from xaihelpers.scores import alignment, causal, interventions, leakage, sub
from xaihelpers.yardsticks.planted_models import ridge_head

PERMUTATIONS = 10
N_PURITY = 400  # images whose leakages are read, drawn once
FIRST = 3  # l of CEM
N_EFFECTIVE = 5
SUB_ATTRIBUTES = (PROJECT / "data" / "prompts" / "sub_attributes.txt").read_text().split()  # sub, appendix C


def global_importance(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """CGIM over concepts (alignment, eq. 3–5)."""
    truth = class_concepts(e.ground.world, e.attributes)
    own = alignment.cgim(e.known, e.labels, truth)["concept"]  # (3, L')
    generator = torch.Generator().manual_seed(e.ground.seed)
    others = []
    for _ in range(PERMUTATIONS):
        order = torch.randperm(len(e.attributes), generator=generator)
        renamed = e.known.of_concepts([e.known.concepts[column] for column in order])
        others.append(alignment.cgim(renamed, e.labels, truth)["concept"])
    permuted, groups = torch.stack(others).nanmean(0), sub.groups_of(e.attributes)
    ceiling = float(alignment.cgim_ceiling(truth).nanmean())
    found = {}
    for number, (cosines, blind) in enumerate(zip(own, permuted, strict=True), 1):
        found[f"CGIM{number}"] = Cases(cosines, {"names permuted": blind}, groups)
    found["CGIM1"] = found["CGIM1"]._replace(sighted=ceiling)
    return found


def existence(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """CEM over images (alignment, eq. 9)."""
    first = min(FIRST, len(e.attributes))
    centre = (e.training or e.known).values.mean(0)
    common = alignment.concept_existence(e.prevalence.expand_as(e.present), e.present, first)
    found = {}
    for name in names:
        ranked = alignment.concept_importance(e.known, name.removeprefix("CEM by "), centre)
        states = (ranked, ranked[e.another])
        own, swapped = (alignment.concept_existence(one, e.present, first) for one in states)
        found[name] = Cases(own, {"the most common concepts": common, "another image's": swapped}, e.labels)
    return found


def concepts_right(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """T and T_A (sub, section 5.6)."""
    found = {}
    for name in names:
        among = sub_attributes(e) if name == "T_A" else ()
        called, usual = e.known.values > e.known.thresholds, (e.prevalence > 0.5).expand_as(e.present)
        own, blind = (sub.concept_accuracy(one, e.present, e.attributes, among) for one in (called, usual))
        found[name] = Cases(own, {"what most images have": blind}, e.labels)
    return found


def sub_attributes(e: Evidence) -> list[str]:
    """The concepts that the benchmark SUB asks for."""
    return [name for name in SUB_ATTRIBUTES if name in e.attributes]


def areas(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """Areas under the ROC curve of the concepts' values, over all pairs of images or those within a class."""

    def area(rows, groups):
        of_rows = None if groups is None else groups[rows]
        return alignment.concept_aucs(e.known.values[rows], e.present[rows], of_rows).nanmean()

    found = {}
    for name in names:
        groups = e.labels if name.endswith("within a class") else None
        cases = pseudo_cases(partial(area, groups=groups), len(e.rows), seed=e.ground.seed)
        found[name] = Cases(cases, {"no order": 0.5})
    return found


def accuracy(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """Of the class."""
    return {"accuracy": Cases(e.outputs.predictions == e.labels, _usual(e), e.labels)}


def _usual(e: Evidence) -> dict[str, torch.Tensor]:
    """Whether always the most frequent class would have been right."""
    return {"the most frequent class": e.labels == e.labels.mode().values}


def leakages(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """CTL, ICL, OIS and NIS (see `scores.leakage`): noise has nothing to leak."""
    rows = e.sample(N_PURITY, 6)
    present, labels, values = e.present[rows], e.labels[rows], e.known.values[rows]
    n, seed, n_pairs = len(rows), e.ground.seed, len(e.attributes) * (len(e.attributes) - 1)
    noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))

    def leaked(values, name, rows):
        some = values[rows], present[rows]
        if name == "CTL":
            return leakage.concept_task_leakage(*some, labels[rows]).nanmean()
        if name == "ICL":
            return leakage.inter_concept_leakage(*some).sum() / max(n_pairs, 1)
        if name == "OIS":
            return leakage.oracle_impurity(*some)
        if e.training is not None and values is not noise:
            return leakage.niche_impurity(*some, e.training.values, e.truth[e.training_rows])
        fit, judge = rows[::2], rows[1::2]  # no training values: every second image serves for them
        return leakage.niche_impurity(values[judge], present[judge], values[fit], present[fit])

    found = {}
    for name in names:
        own = pseudo_cases(partial(leaked, values, name), n, seed=seed)
        key = ("noise", name, e.rows[rows].tobytes(), tuple(e.attributes))
        if key not in e.ground.kept:  # the same for all models with these concepts
            e.ground.kept[key] = pseudo_cases(partial(leaked, noise, name), n, seed=seed)
        found[name] = Cases(own, {"noise": e.ground.kept[key]})
    return found


def few_concepts(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """What the weights of five concepts a class decide: is it right, and is it what all decide?"""
    values, theta = e.outputs.values, e.outputs.class_weights
    bias = (e.outputs.logits - values @ theta).mean(0)
    n, decided = min(N_EFFECTIVE, len(theta)), e.outputs.predictions
    few = interventions.effective_concepts_logits(values, theta, bias, n).argmax(1)
    blind = {"the most frequent decision": decided == decided.mode().values}
    found = {"decision kept by 5": Cases(few == decided, blind, e.labels)}
    if e.labels is not None:
        found["accuracy at 5"] = Cases(few == e.labels, _usual(e), e.labels)
    return found


def completeness(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """What a new classifier of the values reaches, of what the network reaches."""
    n_classes = len(e.outputs.classes)
    weights, bias = ridge_head(e.training.values, e.ground.world.labels[e.training_rows], n_classes)
    right = (e.known.values @ weights + bias).argmax(1) == e.labels
    none, whole = (interventions.completeness(one, e.network_accuracy, n_classes) for one in (0.0, 1.0))
    own, blind = (none + (whole - none) * one.double() for one in (right, *_usual(e).values()))
    return {"completeness": Cases(own, dict.fromkeys(_usual(e), blind), e.labels, bounds=(none, whole))}


def corrections(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """Interventions: the area under the curve of accuracy as concepts are corrected."""
    values, theta, thresholds = e.outputs.values, e.outputs.class_weights, e.outputs.thresholds
    low, high = own_scale(e)
    settings = {"thresholds": thresholds, "seed": e.ground.seed}
    found = {}
    for name in names:
        curve_areas = []
        for truth in (e.present, e.present[e.another]):
            corrected = values.clone()
            corrected[:, e.columns] = torch.where(truth > 0.5, high, low)
            corrected = torch.where(corrected.isfinite(), corrected, values)
            asked = (values, corrected, theta, e.outputs.logits - values @ theta, e.labels)
            curve = interventions.intervention_curve(*asked, name.split(", ")[1], **settings)
            curve_areas.append(interventions.curve_area(curve))
        found[name] = Cases(curve_areas[0], {"another image's truth": curve_areas[1]}, e.labels)
    return found


def unexplained(e: Evidence) -> float:
    """Share of the logits' variance that is not of values and class weights."""
    logits, rest = e.outputs.logits, e.outputs.logits - e.outputs.values @ e.outputs.class_weights
    spread = [(one - one.mean(1, keepdim=True)).var(0).sum() for one in (rest, logits)]  # as softmax sees it
    return float(spread[0] / spread[1])


def own_scale(e: Evidence) -> tuple[torch.Tensor, torch.Tensor]:
    """What the model itself says of absent and of present: mean values (L',) below and above its thresholds.

    NaN of a concept that it never calls absent, or never present, which has no scale.
    """
    values, called = e.known.values, e.known.values > e.known.thresholds
    return values.masked_fill(called, torch.nan).nanmean(0), values.masked_fill(~called, torch.nan).nanmean(0)


def effects_between_images(e: Evidence, names: list[str]) -> dict[str, Cases]:
    """Do claimed reasons move with decisions, from each image to another one?"""
    found = effect_agreement(e, e.outputs, e.outputs.take(e.another), seed=e.ground.seed)
    return {"effect agreement between images": found}


def effect_agreement(e: Evidence, before: ConceptOutputs, after: ConceptOutputs, **folds) -> Cases:
    """The agreement of claimed and real effects on the class predicted before, as pseudo-values.

    folds: of `pseudo_cases`.
    """
    predicted = before.predictions[:, None]
    logits = [one.logits.gather(1, predicted)[:, 0] for one in (before, after)]
    found = []
    for shift in (0, 1):
        claims = [(one.values @ e.outputs.class_weights).roll(shift, 1) for one in (before, after)]
        parts = [*logits, *(one.gather(1, predicted)[:, 0] for one in claims)]

        def agreement(rows, parts=parts):
            return causal.effect_agreement(*(part[rows] for part in parts))

        found.append(pseudo_cases(agreement, len(predicted), **folds))
    return Cases(found[0], {"another class's reasons": found[1]})
