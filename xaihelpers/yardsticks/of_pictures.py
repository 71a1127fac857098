"""Yardsticks that need more than outputs of test images: concept maps, or probes.

Each function takes the evidence and the names wanted, and yields these with their readings.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from PIL import Image

from xaihelpers.datasets import part_points, parts_of
from xaihelpers.saliency.methods import scaled_maps
from xaihelpers.saliency.nulls import centre_map
from xaihelpers.scores import alignment, exchange, sub
from xaihelpers.yardsticks.evidence import Evidence
from xaihelpers.yardsticks.of_values import Found, effect_agreement
from xaihelpers.yardsticks.planted_maps import decisive_maps, inside
from xaihelpers.yardsticks.reading import judged

N_MAPS = 200  # images whose maps are judged by points
N_MASKS = 60  # and by masks
MAP_SHIFTS = 3  # classmates with whom each of these exchanges its map
SIZE = (224, 224)  # pixels that a whole image is scaled to where maps are compared with places


def on_part(e: Evidence, parts: Sequence[str]) -> torch.Tensor:
    """Which of the known concepts lie on one of these parts, (L',) bool."""
    return torch.tensor([bool(parts_of(name, parts)) for name in e.attributes])


def location(e: Evidence, names: Sequence[str]) -> Found:
    """CLM (alignment, eq. 11) of the most important concept that lies on a part."""
    world, rows = e.ground.world, e.sample(N_MAPS, 3)
    some, eligible = e.known.take(rows), on_part(e, world.parts)
    maps, index, columns = some.concept_maps, torch.arange(len(rows)), eligible.nonzero()[:, 0]
    top = alignment.top_concepts(alignment.concept_importance(some, "product"), 1, eligible)[:, 0]
    shift = np.random.default_rng(e.ground.seed).integers(1, max(len(columns), 2), len(rows))
    other = (torch.searchsorted(columns, top.contiguous()) + torch.from_numpy(shift)) % len(columns)
    rivals = {"another concept's map": maps[index, columns[other]], **_blob(maps)}
    parts = [[world.parts.index(part) for part in parts_of(name, world.parts)] for name in e.attributes]
    places = alignment.concept_points(part_points(world, e.rows[rows], SIZE), parts)  # (n, L', 2, 2)

    def hits(shown):
        ranks = alignment.location_ranks(shown[:, None], places[index, top][:, None], SIZE)
        return alignment.concept_location(ranks, SIZE, 1, 1)

    near = partial(alignment.near_points, grid=(28, 28), size=SIZE)
    maps_of, truth_of = (lambda by: maps[by, top]), (lambda by: near(places[by, top]))
    ladder = partial(_exchanged, e, rows, hits, maps_of, truth_of)
    yield "CLM", judged(hits, maps[index, top], rivals, e.classes_of(rows), ladder)


def _exchanged(
    e: Evidence, rows: np.ndarray, judge: Callable, maps_of: Callable, truth_of: Callable
) -> exchange.Ladder | None:
    """The exchange of maps. judge: maps (n, h, w) -> scores (n,). maps_of, truth_of: rows (n,) -> maps."""
    drawn = e.partners(rows, MAP_SHIFTS)
    if drawn is None:
        return None
    return exchange.ladder(lambda by: judge(maps_of(by)), drawn, lambda by: judge(truth_of(by)))


def _blob(maps: torch.Tensor) -> dict[str, torch.Tensor]:
    """A round patch in the middle, in place of each map."""
    return {"a blob in the centre": centre_map(*maps.shape[-2:]).expand(len(maps), -1, -1)}


def _masks(e: Evidence, rows: np.ndarray) -> np.ndarray:
    """Numbers of the parts (n, H, W), as the maps see them."""
    masks = [Image.fromarray(e.ground.world.part_mask(int(row))) for row in e.rows[rows]]
    return np.array([np.array(mask.resize(SIZE, Image.Resampling.NEAREST)) for mask in masks])


def on_object(e: Evidence, names: Sequence[str]) -> Found:
    """The share of the class's attention on the object: maps of concepts by the predicted class's weights."""
    rows = e.sample_pairs(N_MASKS, 3)
    some, birds = e.known.take(rows), torch.from_numpy(_masks(e, rows) > 0)
    own = scaled_maps(decisive_maps(some, some.concept_maps))[0]
    judge = partial(inside, objects=birds)
    ladder = partial(_exchanged, e, rows, judge, own.__getitem__, birds.float().__getitem__)
    yield "inside the bird", judged(judge, own, _blob(some.concept_maps), e.classes_of(rows), ladder)


def known_pairs(e: Evidence) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """Rows of the probes before and after (n,) one of the known concepts is set, and the concept's column."""
    attributes = e.ground.probes.pictures["attribute"]
    before = np.flatnonzero(attributes.isin(e.attributes))[::2]
    columns = [e.attributes.index(name) for name in attributes.iloc[before]]
    return before, before + 1, torch.tensor(columns, dtype=torch.int64)


def effects(e: Evidence, names: Sequence[str]) -> Found:
    """Do claimed reasons move with decisions, when one attribute is set?"""
    before, after, own = known_pairs(e)
    groups = np.array(e.attributes)[own]
    yield "effect agreement", effect_agreement(e, e.probed.take(before), e.probed.take(after), groups=groups)


def substituted(e: Evidence, names: Sequence[str]) -> Found:
    """S+ and S− (sub, section 5.5), on exact pairs."""
    *pair, own = known_pairs(e)
    targets, groups = [e.attributes[column] for column in own], sub.groups_of(e.attributes)
    held = e.ground.world.attributes["name"].tolist()
    truth = e.ground.probes.truth[:, [held.index(name) for name in e.attributes]]
    removed = truth[pair[0]] & ~truth[pair[1]] & torch.from_numpy(groups[own][:, None] == groups[None])
    called = [e.probed.values[rows][:, e.columns] > e.known.thresholds for rows in pair]
    was, now = (sub.substitution_scores(one, targets, removed, e.attributes) for one in called)
    guess, clusters = sub.chance_scores(targets, removed, e.attributes), np.array(targets)
    for name, field in {"S+": "s_plus", "S-": "s_minus"}.items():
        rivals = {"the bird before": was, "a guess in the group": guess}
        yield name, judged(lambda one, field=field: getattr(one, field), now, rivals, clusters)
