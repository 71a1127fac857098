"""What a CLIP knows of held-out birds: retrieval, zero-shot species and attributes, wrong words, weights.

The area under the ROC curve of attribute j, with s⁺ the cosine of a random bird that shows it and s⁻ that of
one that does not, is

    A_j = P(s⁺ > s⁻) + ½ P(s⁺ = s⁻).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score

from recipes.clip_training.captions import TEMPLATES, Words, caption_of
from recipes.clip_training.clip_birds import part_areas, parts_of_attributes
from xaihelpers.datasets import Dataset, image_attributes
from xaihelpers.models.clip import Clip, embed_texts
from xaihelpers.scores import conceptscore, intervals

PAIR_TEMPLATE = TEMPLATES[2 % len(TEMPLATES)]


class HeldOut(NamedTuple):
    """Birds of a test split, and the texts that a CLIP is asked about."""

    paths: pd.Series
    labels: torch.Tensor  # (N,)
    present: np.ndarray  # (N, A) bool
    five: list[str]  # a caption of five attributes for each
    pairs: dict[int, list]  # number of concepts -> a true list and one with a word wrong for each
    weight_pairs: list  # a list in sentences with the parts' shares in place and permuted; without masks none


def held_out_birds(dataset: Dataset, words: Words, n_test: int) -> HeldOut:
    """`n_test` birds of the test split (0: all), the same for every CLIP, with their texts."""
    rows = np.flatnonzero(~dataset.images.train.to_numpy())
    rows = np.sort(np.random.default_rng(0).permutation(rows)[: n_test or len(rows)])
    present, labels = image_attributes(dataset)[0].numpy()[rows], dataset.labels[rows]
    rng = np.random.default_rng(0)
    five = []
    for shown, label in zip(present, labels, strict=True):
        five.append(caption_of(words, rng, shown, label, "attributes", 5, None, 1))
    group_of, pairs = dataset.attributes.group.to_numpy(), {}
    for k in (5, 12):
        pairs[k] = [list_pair(words, rng, shown, k, group_of) for shown in present]
    weight_pairs, parts = [], parts_of_attributes(dataset)
    for row, shown in zip(rows if dataset.mask_names is not None else [], present, strict=False):
        area = part_areas(dataset.part_mask(int(row)), parts, len(dataset.parts))
        weight_pairs.append(weight_pair(words, rng, shown, area))
    return HeldOut(dataset.images.path.iloc[rows], labels, present, five, pairs, weight_pairs)


def list_pair(
    words: Words, rng: np.random.Generator, shown: np.ndarray, k: int, group_of: np.ndarray
) -> list[str]:
    """A true list of k concepts in template 3, and the same with one concept made wrong.

    The wrong one is another value of the same group, where the bird leaves one. group_of: (A,).
    """
    right = rng.permutation(np.flatnonzero(shown))[:k]
    wrong, place = right.copy(), rng.integers(len(right))
    others = np.flatnonzero((group_of == group_of[right[place]]) & ~shown)
    wrong[place] = rng.choice(others if len(others) else np.flatnonzero(~shown))
    weights = np.linspace(1, 0.2, len(right)).tolist()
    lists = []
    for side in (right, wrong):
        phrases = [words.phrases[j] for j in side]
        lists.append(conceptscore.describe(phrases, weights, PAIR_TEMPLATE))
    return lists


def weight_pair(words: Words, rng: np.random.Generator, shown: np.ndarray, area: np.ndarray) -> list[str]:
    """Five sentences, the largest part first, with the shares of their parts, and with these permuted."""
    chosen = rng.permutation(np.flatnonzero(shown))[:5]
    chosen = chosen[np.argsort(-area[chosen], kind="stable")]
    shares, both = area[chosen] / max(area[chosen].sum(), 1e-9), []
    for values in (shares, rng.permutation(shares)):
        named = zip(chosen, values, strict=True)
        both.append("; ".join(f"{words.said[j][0]} {value:.2f}" for j, value in named))
    return both


def first_is_preferred(gap: torch.Tensor) -> torch.Tensor:
    """1 where a gap of cosines is positive, 0 where negative, ½ where it is mere rounding."""
    return (gap.where(gap.abs() > 1e-6, 0).sign() + 1) / 2


def weights_in_place(clip: Clip, images: torch.Tensor, weight_pairs: list) -> torch.Tensor:
    """Whether a list fits better with the shares at their sentences, (N,); ½ where both are alike."""
    in_place, permuted = (
        embed_texts(clip, list(side), "truncate", exact=False).rows
        for side in zip(*weight_pairs, strict=True)
    )
    return first_is_preferred((images * in_place).sum(1) - (images * permuted).sum(1))


def retrieval(cosines: torch.Tensor) -> Iterator[tuple]:
    """Whether the captions and pictures that belong together are among the first 1 and 5; cosines: (N, N)."""
    for name, table in (("caption of a picture", cosines), ("picture of a caption", cosines.T)):
        rank = (table > table.diagonal()[:, None]).sum(1)
        for n in (1, 5):
            yield f"retrieval, {name}, first {n}", rank < n, n / len(cosines)


def one_word_wrong(clip: Clip, images: torch.Tensor, pairs: dict[int, list]) -> Iterator[tuple]:
    """Whether the right list fits the picture better; ½ where both are truncated alike."""
    for k, texts in pairs.items():
        right, wrong = (
            embed_texts(clip, list(side), "truncate", exact=False) for side in zip(*texts, strict=True)
        )
        gap = (images * right.rows).sum(1) - (images * wrong.rows).sum(1)
        yield f"one of {k} words wrong is noticed", first_is_preferred(gap), 0.5
        yield f"lists of {k} truncated", right.truncated, math.nan


def zero_shot_attributes(cosines: torch.Tensor, present: np.ndarray) -> torch.Tensor:
    """A_j of each attribute that ten birds show and ten do not; cosines, present: (N, A)."""
    areas = []
    for j in range(present.shape[1]):
        if 10 <= present[:, j].sum() <= len(present) - 10:
            areas.append(roc_auc_score(present[:, j], cosines[:, j]))
    return torch.tensor(areas)


def measures(clip: Clip, words: Words, held_out: HeldOut, images: torch.Tensor) -> Iterator[tuple]:
    """Metric, values by bird (or attribute) and chance level of one CLIP; images: (N, e)."""
    captions = embed_texts(clip, held_out.five, "truncate", exact=False).rows
    yield from retrieval(images @ captions.T)
    # "a" before a vowel, too, as in SPECIES_CAPTIONS
    lines = [f"a photo of a {name}" for name in words.species]
    names = embed_texts(clip, lines, "truncate", exact=False).rows
    named = (images @ names.T).argmax(1)
    yield "zero-shot species", named == held_out.labels, 1 / len(words.species)
    yield from one_word_wrong(clip, images, held_out.pairs)
    if held_out.weight_pairs:
        right = weights_in_place(clip, images, held_out.weight_pairs)
        yield "weights in place are preferred", right, 0.5
    lines = [f"a bird with {phrase}" for phrase in words.phrases]
    phrases = embed_texts(clip, lines, "truncate", exact=False).rows
    areas = zero_shot_attributes(images @ phrases.T, held_out.present)
    yield "zero-shot attributes (ROC area, over attributes)", areas, 0.5


def measured_rows(clip: Clip, words: Words, held_out: HeldOut, images: torch.Tensor, who: str) -> list[dict]:
    """Rows of who, metric, value (%), interval and chance; species are clusters."""
    rows = []
    for metric, values, chance in measures(clip, words, held_out, images):
        look = {"clusters": held_out.labels} if len(values) == len(held_out.labels) else {}
        interval = intervals.interval(100 * values.float(), bounds=intervals.PERCENT, **look)
        row = {"who": who, "metric": metric, **interval._asdict(), "chance": 100 * chance}
        rows.append(row)
    return rows
