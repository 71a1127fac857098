"""Yardsticks of a model's values, weights and decisions: what a file of outputs supports alone.

Each function takes the evidence and the names wanted, and yields names, these among them, with readings.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from xaihelpers.datasets import class_concepts
from xaihelpers.outputs import ConceptOutputs
from xaihelpers.scores import alignment, interventions, sub
from xaihelpers.scores.leakage import concept_task_leakage
from xaihelpers.yardsticks.evidence import Evidence
from xaihelpers.yardsticks.reading import Reading, judged, pseudo_cases

PERMUTATIONS = 10
N_PURITY = 400  # images whose leakage is read, drawn once
FIRST = 3  # l of CEM
Found = Iterator[tuple[str, Reading]]


def global_importance(e: Evidence, names: Sequence[str]) -> Found:
    """CGIM₁ over concepts (alignment, eq. 3)."""
    truth, n = class_concepts(e.ground.world, e.attributes), len(e.attributes)

    def cosines(order):  # (L',)
        renamed = e.known.of_concepts([e.known.concepts[column] for column in order])
        return alignment.cgim(renamed, e.labels, truth)["concept"][0]

    generator = torch.Generator().manual_seed(e.ground.seed)
    others = [cosines(torch.randperm(n, generator=generator)) for _ in range(PERMUTATIONS)]
    blind = {"names permuted": torch.stack(others).nanmean(0)}
    yield "CGIM1", Reading(cosines(range(n)), blind, sub.groups_of(e.attributes))


def existence(e: Evidence, names: Sequence[str]) -> Found:
    """CEM over images (alignment, eq. 9)."""
    first, common = min(FIRST, len(e.attributes)), e.prevalence.expand_as(e.present)
    judge = partial(alignment.concept_existence, present=e.present, first=first)
    for name in names:
        rank = partial(alignment.concept_importance, basis=name.removeprefix("CEM by "))

        def exchanged(outputs, rank=rank):
            top = alignment.top_concepts(rank(outputs, centre=outputs.values.mean(0)), first)
            return lambda rows: e.present.gather(1, top[rows]).double().mean(1)

        ranked = rank(e.known, centre=e.centre)
        rivals = {"the most common concepts": common, "another image's": ranked[e.another]}
        yield name, judged(judge, ranked, rivals, e.labels, partial(e.exchanged, exchanged))


def concepts_right(e: Evidence, names: Sequence[str]) -> Found:
    """T (sub, section 5.6)."""
    usual = {"what most images have": (e.prevalence > 0.5).expand_as(e.present)}
    judge = partial(sub.concept_accuracy, truth=e.present, attributes=e.attributes)

    def exchanged(outputs):
        called = outputs.values > outputs.thresholds
        return lambda rows: judge(called[rows])

    yield "T", judged(judge, e.called, usual, e.labels, partial(e.exchanged, exchanged))


def areas(e: Evidence, names: Sequence[str]) -> Found:
    """Areas under the ROC curve of the concepts' values, over all pairs of images or those within a class.

    Images of one class were also told to be of one: who recites a class, right or wrong, then has no order.
    """
    for name in names:
        groups = torch.zeros(len(e.rows))
        if name.endswith("within a class"):
            groups = e.labels * len(e.outputs.classes) + e.outputs.predictions

        def area(rows, groups=groups):
            return alignment.concept_aucs(e.known.values[rows], e.present[rows], groups[rows]).nanmean()

        yield name, Reading(pseudo_cases(area, len(e.rows), e.ground.seed), {"no order": 0.5})


def accuracy(e: Evidence, names: Sequence[str]) -> Found:
    """Of the class."""
    usual = {"the most frequent class": e.labels == e.labels.mode().values}
    yield "accuracy", Reading(e.outputs.predictions == e.labels, usual, e.labels)


def leakage(e: Evidence, names: Sequence[str]) -> Found:
    """CTL (see `scores.leakage`) beside what the truth leaks, read as well."""
    drawn = e.sample(N_PURITY, 6)
    present, labels, values = e.present[drawn], e.labels[drawn], e.known.values[drawn]
    tight = leak_free(values, present, torch.Generator().manual_seed(e.ground.seed))

    def leaked(rows, values):
        return concept_task_leakage(values[rows], present[rows], labels[rows]).nanmean()

    asked = (partial(leaked, values=one) for one in (values, tight))
    own, of_truth = (pseudo_cases(one, len(drawn), e.ground.seed) for one in asked)
    yield "CTL", Reading(own, {"the truth, read as well": of_truth})


def leak_free(values: torch.Tensor, present: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values (n, L) dealt out anew among the images that have a concept, and among those that lack it.

    They tell as much of their own concepts as before, and of all else what the truth (n, L) tells.
    """
    order, other = ((present + torch.rand(present.shape, generator=generator)).argsort(0) for _ in range(2))
    return torch.empty_like(values).scatter_(0, order, values.gather(0, other))


def corrections(e: Evidence, names: Sequence[str]) -> Found:
    """Interventions: the area under the curve of accuracy as concepts are corrected, the least sure first."""
    values, theta = e.outputs.values, e.outputs.class_weights
    low, high = own_scale(e)

    def area(truth):
        corrected = values.clone()
        corrected[:, e.columns] = torch.where(truth > 0.5, high, low)
        corrected = torch.where(corrected.isfinite(), corrected, values)
        asked = (values, corrected, theta, e.outputs.logits - values @ theta, e.labels)
        curve = interventions.intervention_curve(*asked, e.outputs.thresholds)
        return torch.trapezoid(curve, dx=0.25, dim=0)  # over the shares 0, 1/4 … 1

    rivals = {"another image's truth": e.present[e.another]}
    yield "interventions, uncertainty", judged(area, e.present, rivals, e.labels)


def carried(e: Evidence, columns: Sequence[int]) -> float:
    """Which share of the decision some of the L concepts carry, by values and class weights, 0 to 1.

    Of the variance of the class scores, as softmax sees them, among the images of one class (of one decision,
    where there are no classes): what goes with the class can be carried by anything that knows it.
    """
    columns, groups = list(columns), e.outputs.predictions if e.labels is None else e.labels
    rest = e.outputs.logits - e.outputs.values[:, columns] @ e.outputs.class_weights[columns]
    sums = []
    for scores in (rest, e.outputs.logits):
        scores = (scores - scores.mean(1, keepdim=True)).double()
        sums.append(
            sum(
                (scores[groups == one] - scores[groups == one].mean(0)).square().sum()
                for one in groups.unique()
            )
        )
    return max(float(1 - sums[0] / sums[1]), 0.0)


def own_scale(e: Evidence) -> tuple[torch.Tensor, torch.Tensor]:
    """What the model itself says of absent and of present: mean values (L',) below and above its thresholds.

    NaN of a concept that it never calls absent, or never present, which has no scale.
    """
    values = e.known.values
    return tuple(values.masked_fill(left_out, torch.nan).nanmean(0) for left_out in (e.called, ~e.called))


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
