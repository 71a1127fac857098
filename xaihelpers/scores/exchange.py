"""Is an explanation about the class or about the picture? The exchange among classmates (not in the papers).

A yardstick gives s(e, i), the score of an explanation e on image i. Explanations are exchanged:

    own          s(e_i, i)
    classmate's  s(e_π(i), i)   π(i): another image of the same label and the same prediction
    other's      s(e_σ(i), i)   σ(i): an image of another class
    picture part = own − classmate's        class part = classmate's − other's
    ceiling      = the truth's picture part, in the same cells
    look         = (picture part − the soft reciter's) / (ceiling − the soft reciter's)

A cell is the images of one label and one prediction: with the prediction alone, who recites the class that it
has recognised, and errs, would have a picture part. In each cell one random order is shifted by one, two, …,
and the mean over shifts counts; an image that is alone in its cell has no classmate.

The soft reciter knows the model's own class scores z and no picture,

    Σ_k softmax(z_i / t)_k · (what class k usually has),

at the temperature t at which its own picture part is greatest. A picture that looks a little like another
species carries that doubt in its class scores, and who recites by these does not look at any part.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from xaihelpers.outputs import ConceptOutputs
from xaihelpers.scores.intervals import Interval, interval, ratio_interval

SHIFTS = 10
# of the soft reciter, in spreads of an image's class scores
TEMPERATURES = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
FEWEST = 0.5  # share of images with a classmate below which there is no number
ROUNDING = 1e-9  # of the greatest score
Judge = Callable[[torch.Tensor], torch.Tensor]  # rows (N,): score on image i of the explanation of rows[i]


class Partners(NamedTuple):
    """With whom each of N images exchanges its explanation."""

    classmates: torch.Tensor  # (S, N) int64, rows; its own row where an image is alone
    others: torch.Tensor  # (S, N) int64, rows; the own row where there is a single class
    cells: torch.Tensor  # (N,) int64, of one label and one prediction
    alone: torch.Tensor  # (N,) bool, without a classmate
    labels: torch.Tensor  # (N,) int64

    @property
    def clusters(self) -> np.ndarray | None:
        """(N,), the classes, over which intervals are; None of a single one."""
        labels = self.labels.cpu().numpy()
        return labels if (labels != labels[0]).any() else None

    @property
    def left_out(self) -> str:
        """How many images have no classmate, or too few have one, in words; "" where all have one."""
        n, n_alone = len(self.labels), int(self.alone.sum())
        if n_alone > (1 - FEWEST) * n:
            return f"{n - n_alone} of {n} images have a classmate, and half are needed"
        if n_alone:
            return f"{n_alone} of {n} images are alone with their label and prediction: left out"
        return ""


def partners(
    labels: torch.Tensor,
    predictions: torch.Tensor | None = None,
    keys: Sequence | None = None,
    shifts: int = SHIFTS,
    seed: int = 0,
) -> Partners:
    """Draw classmates and images of other classes for N images, on the device of `labels`.

    labels, predictions: (N,) int64. Without predictions a cell is of one label; who recites what it has
        recognised, and errs, then has a picture part.
    keys: N different ids by which the draw knows an image whatever the order of rows; None takes the rows.
    shifts: S, how many partners of each kind an image gets; those of a small cell come again.
    """
    n, device = len(labels), labels.device
    rng = np.random.default_rng(seed)
    chance, luck = rng.permutation(n), rng.random((shifts, n))  # of each image
    if keys is not None:
        rows = np.unique(np.asarray(keys), return_inverse=True)[1]
        chance, luck = chance[rows], luck[:, rows]
    chance, luck = torch.from_numpy(chance).to(device), torch.from_numpy(luck).to(device)
    cells = labels if predictions is None else labels * (1 + predictions.amax()) + predictions
    cells, kinds = (groups.unique(return_inverse=True)[1] for groups in (cells, labels))
    order, place, start, size = _sorted(cells, chance)
    steps = 1 + torch.arange(shifts, device=device)[:, None] % (size - 1).clamp(min=1)
    classmates = order[start + (place - start + steps) % size]
    order, place, start, size = _sorted(kinds, chance)
    steps, own = (luck * (n - size)).long(), torch.arange(n, device=device)
    others = order[(start + size + steps) % n] if len(kinds.unique()) > 1 else own.expand(shifts, n)
    return Partners(classmates, others, cells, classmates[0] == own, labels)


def _sorted(groups: torch.Tensor, chance: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows by groups 0, 1, … and, within them, by chance; of each its place, its group's start and size."""
    order = (groups * len(groups) + chance).argsort()
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    counts = groups.bincount()
    return order, place, (counts.cumsum(0) - counts)[groups], counts[groups]


class Rungs(NamedTuple):
    """Scores of N images, float64: own, what of it is the picture's, and the class's; NaN where unknown."""

    own: torch.Tensor
    picture: torch.Tensor
    of_class: torch.Tensor


def climb(judge: Judge, drawn: Partners) -> Rungs:
    """Own, classmates' and others' explanations on each of N images."""

    def mean_loss(partners_of):  # summed as losses, so that a reciter's is exactly 0
        losses = [own - judge(rows).double() for rows in partners_of]
        return torch.stack(losses).mean(0)

    own = judge(torch.arange(len(drawn.labels), device=drawn.labels.device)).double()
    picture = mean_loss(drawn.classmates).masked_fill(drawn.alone, torch.nan)
    has_others = drawn.others[0] != torch.arange(len(own), device=own.device)
    of_class = (mean_loss(drawn.others) - picture).where(has_others, torch.nan)
    return Rungs(own, picture, of_class)


def soft_reciters(scores: torch.Tensor, usual: torch.Tensor) -> Iterator[torch.Tensor]:
    """What class scores alone tell of concepts, values (N, L) from 0 to 1 at each of TEMPERATURES.

    scores: z (N, K). usual: (K, L), the share of a class's images that have a concept.
    """
    spread = scores.std(1, correction=0).median().clamp(min=1e-30)
    for temperature in TEMPERATURES:
        yield (scores / (temperature * spread)).softmax(1).to(usual) @ usual


def saying(outputs: ConceptOutputs, shares: torch.Tensor) -> ConceptOutputs:
    """The same decisions, explained through the same head by shares (N, L) of presence, 0 to 1.

    The class weights are those of the model for values of this scale: a standard deviation becomes 1.
    """
    weights, scale = outputs.class_weights, outputs.values.std(0)
    contributions = shares
    if weights is not None:
        weights = weights * scale.where(scale > 0, 1)[:, None]
        contributions = shares * weights.T[outputs.predictions]
    changed = {"values": shares, "contributions": contributions, "class_weights": weights}
    return replace(outputs, concept_maps=None, thresholds=torch.full_like(scale, 0.5), **changed)


class Ladder(NamedTuple):
    """The rungs of a model's explanations, of the soft reciter and of the truth, by one yardstick."""

    own: Rungs
    drawn: Partners
    soft: Rungs | None = None  # None: there are no class scores, or nothing that can be said by them
    truth: Rungs | None = None  # None: nobody knows it

    def _interval(self, cases: torch.Tensor) -> Interval:
        extent = float(self.own.own.nan_to_num().abs().amax().clamp(min=1e-30))
        about = {"clusters": self.drawn.clusters, "bounds": (-2 * extent, 2 * extent)}
        return interval(cases.cpu().numpy(), **about)

    def beyond(self, rungs: Rungs) -> torch.Tensor:
        """Picture parts (N,) beyond the soft reciter's."""
        return rungs.picture if self.soft is None else rungs.picture - self.soft.picture

    @property
    def refused(self) -> str:
        """Why there is no picture part; "" where there is one."""
        if self.drawn.alone.double().mean() > 1 - FEWEST:
            return self.drawn.left_out
        if self.truth is not None and self._permutes(self.truth.picture):
            return "classmates have the same truth here, as where labels are those of classes"
        return ""

    def _permutes(self, parts: torch.Tensor) -> bool:
        """Whether the parts add up to 0 in every cell, as of scores that an exchange only moves about."""
        sums = torch.zeros(len(parts), dtype=torch.float64, device=parts.device)
        sums.index_add_(0, self.drawn.cells, parts.nan_to_num())
        size = self.truth.own.abs().nan_to_num().amax().clamp(min=1e-30)
        return bool(sums.abs().max() <= ROUNDING * len(parts) * size)

    @property
    def picture(self) -> Interval:
        """The picture part, own less a classmate's, with its 95 % interval over classes."""
        return self._interval(self.own.picture)

    @property
    def of_class(self) -> Interval:
        """The class part, a classmate's less another class's."""
        return self._interval(self.own.of_class)

    @property
    def ahead(self) -> Interval:
        """By how much the picture part leads that of the soft reciter, paired."""
        return self._interval(self.beyond(self.own))

    @property
    def room(self) -> Interval:
        """By how much the truth leads the soft reciter: where this holds 0, the yardstick sees no look."""
        return self._interval(self.beyond(self.truth))

    @property
    def can_see(self) -> bool:
        """Whether the yardstick sees a look at all: the truth's lead lies above 0."""
        return self.truth is not None and not self.refused and self.room.low > 0

    @property
    def look(self) -> Interval:
        """The share of what the truth gains by looking; only where `can_see`."""
        parts = [self.beyond(rungs).cpu().numpy() for rungs in (self.own, self.truth)]
        return ratio_interval(*parts, clusters=self.drawn.clusters)


def ladder(
    own: Judge,
    drawn: Partners,
    truth: Judge | None = None,
    soft: Sequence[Judge] = (),
) -> Ladder:
    """The ladder of one yardstick.

    own, truth: of the model's explanations and of true ones. soft: of the soft reciter, a judge for each
        temperature; the one with the greatest picture part stays.
    """
    reciters = [climb(judge, drawn) for judge in soft]
    means = [float(rungs.picture.nanmean()) for rungs in reciters]
    strongest = reciters[int(np.nanargmax(means))] if np.isfinite(means).any() else None
    return Ladder(climb(own, drawn), drawn, strongest, truth and climb(truth, drawn))


def paid_for(scores: torch.Tensor, drawn: Partners) -> torch.Tensor:
    """What scores (N, N) of lists, a column each, beside pictures pay for the picture, and at all, (2, N).

    All that is paid is the score of the own list less that of another class's picture's.
    """
    every = torch.arange(len(scores), device=scores.device)
    rungs = climb(lambda rows: scores[every, rows], drawn)
    return torch.stack([rungs.picture, rungs.picture + rungs.of_class])


def picture_share(*paid: torch.Tensor, clusters: torch.Tensor) -> Interval:
    """The picture's share in %, of what is paid, as of `paid_for`; with its interval over clusters (N,).

    Of a second scorer, who cannot look, the share is taken off; with a third, who knows the truth, the rest
    is in % of what that one has beyond the second.
    """

    def statistic(*columns):
        own, *others = (
            100 * above.mean() / below.mean()
            for above, below in zip(columns[::2], columns[1::2], strict=True)
        )
        beyond = own - others[0] if others else own
        return 100 * beyond / (others[1] - others[0]) if len(others) > 1 else beyond

    columns = [one.cpu().numpy() for of in paid for one in of]
    return interval(*columns, statistic=statistic, clusters=clusters.cpu().numpy())
