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

from recipes.clip_training.captions import TEMPLATES, Style, Words, caption_of
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


def held_out_birds(dataset: Dataset, words: Words, n_test: int = 0) -> HeldOut:
    """`n_test` birds of the test split (0: all), the same for every CLIP, with their texts."""
    rows = np.flatnonzero(~dataset.images.train.to_numpy())
    rows = np.sort(np.random.default_rng(0).permutation(rows)[: n_test or len(rows)])
    present, labels = image_attributes(dataset)[0].numpy()[rows], dataset.labels[rows]
    rng, style = np.random.default_rng(0), Style("attributes", 5)
    five = [caption_of(words, rng, shown, label, style) for shown, label in zip(present, labels, strict=True)]
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


def first_is_preferred(clip: Clip, images: torch.Tensor, pairs: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Whether a pair's first text fits its picture better, (N,), ½ where both fit alike; and is it truncated?

    images: (N, e). pairs: two texts for each.
    """
    first, second = (
        embed_texts(clip, list(side), "truncate", exact=False) for side in zip(*pairs, strict=True)
    )
    gap = (images * first.rows).sum(1) - (images * second.rows).sum(1)
    gap = gap.where(gap.abs() > 1e-6, 0)  # less is mere rounding
    return (gap.sign() + 1) / 2, first.truncated


def retrieval(cosines: torch.Tensor) -> Iterator[tuple]:
    """Whether the captions and pictures that belong together are among the first 1 and 5; cosines: (N, N)."""
    for name, table in (("caption of a picture", cosines), ("picture of a caption", cosines.T)):
        rank = (table > table.diagonal()[:, None]).sum(1)
        for n in (1, 5):
            yield f"retrieval, {name}, first {n}", rank < n, n / len(cosines)


def one_word_wrong(clip: Clip, images: torch.Tensor, pairs: dict[int, list]) -> Iterator[tuple]:
    """Whether the right list fits the picture better; ½ where both are truncated alike."""
    for k, texts in pairs.items():
        noticed, truncated = first_is_preferred(clip, images, texts)
        yield f"one of {k} words wrong is noticed", noticed, 0.5
        yield f"lists of {k} truncated", truncated, math.nan


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
        in_place, _ = first_is_preferred(clip, images, held_out.weight_pairs)
        yield "weights in place are preferred", in_place, 0.5
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
