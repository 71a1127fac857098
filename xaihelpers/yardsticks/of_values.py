"""Yardsticks of a model's values, weights and decisions: what a file of outputs supports alone.

Each function takes the evidence and the names wanted, and yields names, these among them, with readings.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from xaihelpers.datasets import class_concepts
from xaihelpers.outputs import ConceptOutputs
from xaihelpers.paths import PROJECT
from xaihelpers.scores import alignment, interventions, leakage, sub
from xaihelpers.yardsticks.evidence import Evidence
from xaihelpers.yardsticks.planted_models import ridge_head
from xaihelpers.yardsticks.reading import Reading, judged, pseudo_cases

PERMUTATIONS = 10
N_PURITY = 400  # images whose leakages are read, drawn once
FIRST = 3  # l of CEM
N_EFFECTIVE = 5
SUB_ATTRIBUTES = (PROJECT / "data" / "prompts" / "sub_attributes.txt").read_text().split()  # sub, appendix C
Found = Iterator[tuple[str, Reading]]


def global_importance(e: Evidence, names: Sequence[str]) -> Found:
    """CGIM over concepts (alignment, eq. 3–5)."""
    truth, n = class_concepts(e.ground.world, e.attributes), len(e.attributes)

    def cosines(order):  # (3, L')
        renamed = e.known.of_concepts([e.known.concepts[column] for column in order])
        return alignment.cgim(renamed, e.labels, truth)["concept"]

    generator = torch.Generator().manual_seed(e.ground.seed)
    others = [cosines(torch.randperm(n, generator=generator)) for _ in range(PERMUTATIONS)]
    blind = torch.stack(others).nanmean(0)
    for name, own, permuted in zip(names, cosines(range(n)), blind, strict=True):
        yield name, Reading(own, {"names permuted": permuted}, sub.groups_of(e.attributes))


def existence(e: Evidence, names: Sequence[str]) -> Found:
    """CEM over images (alignment, eq. 9)."""
    judge = partial(alignment.concept_existence, present=e.present, first=min(FIRST, len(e.attributes)))
    centre = (e.training or e.known).values.mean(0)
    for name in names:
        ranked = alignment.concept_importance(e.known, name.removeprefix("CEM by "), centre)
        rivals = {"the most common concepts": e.prevalence.expand_as(e.present)}
        yield name, judged(judge, ranked, rivals | {"another image's": ranked[e.another]}, e.labels)


def concepts_right(e: Evidence, names: Sequence[str]) -> Found:
    """T and T_A (sub, section 5.6)."""
    rivals = {"what most images have": (e.prevalence > 0.5).expand_as(e.present)}
    about = {"truth": e.present, "attributes": e.attributes}
    for name, among in {"T": (), "T_A": SUB_ATTRIBUTES}.items():
        yield name, judged(partial(sub.concept_accuracy, among=among, **about), e.called, rivals, e.labels)


def areas(e: Evidence, names: Sequence[str]) -> Found:
    """Areas under the ROC curve of the concepts' values, over all pairs of images or those within a class.

    Images of one class were also told to be of one: who recites a class, right or wrong, then has no order.
    """
    of_one_class = e.labels * len(e.outputs.classes) + e.outputs.predictions
    for name in names:
        groups = of_one_class if name.endswith("within a class") else torch.zeros(len(e.rows))

        def area(rows, groups=groups):
            return alignment.concept_aucs(e.known.values[rows], e.present[rows], groups[rows]).nanmean()

        yield name, Reading(pseudo_cases(area, len(e.rows), e.ground.seed), {"no order": 0.5})


def accuracy(e: Evidence, names: Sequence[str]) -> Found:
    """Of the class."""
    yield "accuracy", Reading(e.outputs.predictions == e.labels, _usual(e), e.labels)


def _usual(e: Evidence) -> dict[str, torch.Tensor]:
    """Whether always the most frequent class would have been right."""
    return {"the most frequent class": e.labels == e.labels.mode().values}


def leakages(e: Evidence, names: Sequence[str]) -> Found:
    """CTL, ICL, OIS and NIS (see `scores.leakage`) beside what the truth leaks, read as well."""
    drawn, n_pairs = e.sample(N_PURITY, 6), max(len(e.attributes) * (len(e.attributes) - 1), 1)
    present, labels, values = e.present[drawn], e.labels[drawn], e.known.values[drawn]
    generator = torch.Generator().manual_seed(e.ground.seed)
    tight, tight_trained = leak_free(values, present, generator), ()
    trained = () if e.training is None else (e.training.values, e.truth[e.training_rows])
    if trained:
        tight_trained = leak_free(*trained, generator), trained[1]

    def leaked(rows, values, trained):
        some = values[rows], present[rows]
        fit, judge = rows[::2], rows[1::2]  # where no training values are, every second image serves for them
        halves = values[judge], present[judge], values[fit], present[fit]
        return (
            leakage.concept_task_leakage(*some, labels[rows]).nanmean(),
            leakage.inter_concept_leakage(*some).sum() / n_pairs,
            leakage.oracle_impurity(*some),
            leakage.niche_impurity(*(some + trained if trained else halves)),
        )

    asked = {"values": values, "trained": trained}, {"values": tight, "trained": tight_trained}
    found = [pseudo_cases(partial(leaked, **one), len(drawn), e.ground.seed).T for one in asked]
    for name, cases, of_truth in zip(names, *found, strict=True):
        yield name, Reading(cases, {"the truth, read as well": of_truth})


def leak_free(values: torch.Tensor, present: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values (n, L) dealt out anew among the images that have a concept, and among those that lack it.

    They tell as much of their own concepts as before, and of all else what the truth (n, L) tells.
    """
    order, other = ((present + torch.rand(present.shape, generator=generator)).argsort(0) for _ in range(2))
    return torch.empty_like(values).scatter_(0, order, values.gather(0, other))


def exchanged_head(e: Evidence, names: Sequence[str]) -> Found:
    """What another model's head, which has learnt from the truth, decides by what this one calls present."""
    train = e.ground.world.train if e.ground.world.train.any() else ~e.ground.world.train
    n_classes = len(e.outputs.classes)
    weights, bias = ridge_head(e.truth[train], e.ground.world.labels[train], n_classes)

    right = (e.called.float() @ weights + bias).argmax(1) == e.labels
    renamed = torch.randperm(len(e.attributes), generator=torch.Generator().manual_seed(e.ground.seed))
    blind = {"names permuted": e.called[:, renamed], "another image's": e.called[e.another]}
    for name, called in blind.items():
        blind[name] = (called.float() @ weights + bias).argmax(1) == e.labels
    yield "exchanged head", Reading(right, blind | _usual(e), e.labels)


def few_concepts(e: Evidence, names: Sequence[str]) -> Found:
    """What the weights of five concepts a class decide: is it right, and is it what all decide?"""
    values, theta, decided = e.outputs.values, e.outputs.class_weights, e.outputs.predictions
    bias, n = (e.outputs.logits - values @ theta).mean(0), min(N_EFFECTIVE, len(theta))
    few = interventions.effective_concepts_logits(values, theta, bias, n).argmax(1)
    blind = {"the most frequent decision": decided == decided.mode().values}
    yield "decision kept by 5", Reading(few == decided, blind, e.labels)
    if e.labels is not None:
        yield "accuracy at 5", Reading(few == e.labels, _usual(e), e.labels)


def completeness(e: Evidence, names: Sequence[str]) -> Found:
    """What a new classifier of the values reaches, of what the network reaches."""
    n_classes = len(e.outputs.classes)
    weights, bias = ridge_head(e.training.values, e.ground.world.labels[e.training_rows], n_classes)
    right = (e.known.values @ weights + bias).argmax(1) == e.labels
    none, whole = (interventions.completeness(one, e.network_accuracy, n_classes) for one in (0.0, 1.0))
    blind = {name: none + (whole - none) * usual.double() for name, usual in _usual(e).items()}
    cases = none + (whole - none) * right.double()
    yield "completeness", Reading(cases, blind, e.labels, (none, whole))


def corrections(e: Evidence, names: Sequence[str]) -> Found:
    """Interventions: the area under the curve of accuracy as concepts are corrected."""
    values, theta = e.outputs.values, e.outputs.class_weights
    low, high = own_scale(e)

    def area(truth, policy):
        corrected = values.clone()
        corrected[:, e.columns] = torch.where(truth > 0.5, high, low)
        corrected = torch.where(corrected.isfinite(), corrected, values)
        asked = (values, corrected, theta, e.outputs.logits - values @ theta, e.labels, policy)
        curve = interventions.intervention_curve(*asked, e.outputs.thresholds, seed=e.ground.seed)
        return torch.trapezoid(curve, dx=0.25, dim=0)  # over the shares 0, 1/4 … 1

    rivals = {"another image's truth": e.present[e.another]}
    for name in names:
        yield name, judged(partial(area, policy=name.split(", ")[1]), e.present, rivals, e.labels)


def unexplained(e: Evidence) -> float:
    """Share of the logits' variance that is not of values and class weights."""
    logits, rest = e.outputs.logits, e.outputs.logits - e.outputs.values @ e.outputs.class_weights
    spread = [(one - one.mean(1, keepdim=True)).var(0).sum() for one in (rest, logits)]  # as softmax sees it
    return float(spread[0] / spread[1])


def own_scale(e: Evidence) -> tuple[torch.Tensor, torch.Tensor]:
    """What the model itself says of absent and of present: mean values (L',) below and above its thresholds.

    NaN of a concept that it never calls absent, or never present, which has no scale.
    """
    values = e.known.values
    return tuple(values.masked_fill(left_out, torch.nan).nanmean(0) for left_out in (e.called, ~e.called))


def effects_between_images(e: Evidence, names: Sequence[str]) -> Found:
    """Do claimed reasons move with decisions, from each image to another one?"""
    found = effect_agreement(e, e.outputs, e.outputs.take(e.another), seed=e.ground.seed)
    yield "effect agreement between images", found


def effect_agreement(e: Evidence, before: ConceptOutputs, after: ConceptOutputs, **folds) -> Reading:
    """The agreement of claimed and real effects on the class predicted before. folds: of `pseudo_cases`."""
    predicted = before.predictions[:, None]
    effects = []  # real, claimed, and claimed for another class: (n, 2) each, before and after
    for shift in (None, 0, 1):
        both = []
        for one in (before, after):
            logits = one.logits if shift is None else (one.values @ e.outputs.class_weights).roll(shift, 1)
            both.append(logits.gather(1, predicted))
        effects.append(torch.cat(both, 1))
    real, own, other = effects

    def agreement(claimed):
        def statistic(rows):
            return interventions.effect_agreement(real[rows].diff(), claimed[rows].diff())

        return pseudo_cases(statistic, len(predicted), **folds)

    return judged(agreement, own, {"another class's reasons": other}, None)
