"""Yardsticks that need more than outputs of test images: concept maps, or probes.

Each function takes the evidence and the names wanted, and yields these with their readings.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from PIL import Image

from xaihelpers.datasets import part_points, parts_of
from xaihelpers.kernels.coam import location_region
from xaihelpers.saliency.methods import scaled_maps
from xaihelpers.scores import alignment, interventions, sub
from xaihelpers.yardsticks.evidence import Evidence
from xaihelpers.yardsticks.of_values import Found, effect_agreement, own_scale
from xaihelpers.yardsticks.planted_maps import centre_map, decisive_maps, inside
from xaihelpers.yardsticks.reading import Reading, judged

N_MAPS = 200  # images whose maps are judged by points
N_MASKS = 60  # and by masks
SIZE = (224, 224)  # pixels that a whole image is scaled to where maps are compared with places


def on_part(e: Evidence, parts: Sequence[str]) -> torch.Tensor:
    """Which of the known concepts lie on one of these parts, (L',) bool."""
    return torch.tensor([bool(parts_of(name, parts)) for name in e.attributes])


def location(e: Evidence, names: Sequence[str]) -> Found:
    """CLM and overlap with the part (alignment, eq. 11) of the most important concept that lies on a part."""
    world, rows = e.ground.world, e.sample(N_MAPS, 3)
    some, eligible = e.known.take(rows), on_part(e, world.parts)
    top = alignment.top_concepts(alignment.concept_importance(some, "product"), 1, eligible)[:, 0]
    columns, index = eligible.nonzero()[:, 0], torch.arange(len(rows))
    shift = np.random.default_rng(e.ground.seed).integers(1, max(len(columns), 2), len(rows))
    other = columns[(torch.searchsorted(columns, top.contiguous()) + torch.from_numpy(shift)) % len(columns)]
    rivals = {"another concept's map": some.concept_maps[index, other], **_blob(some.concept_maps)}
    points = part_points(world, e.rows[rows], SIZE)
    parts = [[world.parts.index(part) for part in parts_of(name, world.parts)] for name in e.attributes]
    centres = alignment.concept_points(points, parts)[index, top]  # (n, 2, 2)

    def hits(maps):
        ranks = alignment.location_ranks(maps[:, None], centres[:, None], SIZE)
        return alignment.concept_location(ranks, SIZE, 1, 1)

    own = some.concept_maps[index, top]
    yield "CLM", judged(hits, own, rivals, e.classes_of(rows))
    if world.mask_names is not None:
        masks = []
        for mask, column in zip(_masks(e, rows[:N_MASKS]), top, strict=False):
            parts = parts_of(e.attributes[column], world.mask_names)
            masks.append(np.isin(mask, [1 + world.mask_names.index(part) for part in parts]))
        masks = torch.from_numpy(np.array(masks))

        def overlap(maps):
            regions = location_region(maps[:N_MASKS], SIZE[0] * SIZE[1] // 12, SIZE)
            return alignment.region_iou(regions, masks)

        yield "CoAM overlap", judged(overlap, own, rivals, e.classes_of(rows[:N_MASKS]))


def _blob(maps: torch.Tensor) -> dict[str, torch.Tensor]:
    """A round patch in the middle, in place of each map."""
    return {"a blob in the centre": centre_map(*maps.shape[-2:]).expand(len(maps), -1, -1)}


def _masks(e: Evidence, rows: np.ndarray) -> np.ndarray:
    """Numbers of the parts (n, H, W), as the maps see them."""
    masks = [Image.fromarray(e.ground.world.part_mask(int(row))) for row in e.rows[rows]]
    return np.array([np.array(mask.resize(SIZE, Image.Resampling.NEAREST)) for mask in masks])


def on_object(e: Evidence, names: Sequence[str]) -> Found:
    """The share of the class's attention on the object: maps of concepts by the predicted class's weights."""
    rows = e.sample(N_MASKS, 3)
    some, birds = e.known.take(rows), torch.from_numpy(_masks(e, rows) > 0)
    own = scaled_maps(decisive_maps(some, some.concept_maps))[0]
    judge = partial(inside, objects=birds)
    yield "inside the bird", judged(judge, own, _blob(some.concept_maps), e.classes_of(rows))


def known_pairs(e: Evidence) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """Rows of the probes before and after (n,) one of the known concepts is set, and the concept's column."""
    probes = e.ground.probes
    before, after = probes.rows("before"), probes.rows("after")
    asked = probes.pictures["attribute"].iloc[before]
    kept = asked.isin(e.attributes).to_numpy()
    columns = [e.attributes.index(name) for name in asked[kept]]
    return before[kept], after[kept], torch.tensor(columns, dtype=torch.int64)


def effects(e: Evidence, names: Sequence[str]) -> Found:
    """Do claimed reasons move with decisions, when one attribute is set?"""
    before, after, own = known_pairs(e)
    groups = np.array(e.attributes)[own]
    yield "effect agreement", effect_agreement(e, e.probed.take(before), e.probed.take(after), groups=groups)


def _probed_values(e: Evidence, *rows: np.ndarray) -> list[torch.Tensor]:
    """Values of the known concepts for some of the probes, on a scale from absent, 0, to present, 1."""
    low, high = own_scale(e)
    return [(e.probed.values[some][:, e.columns] - low) / (high - low) for some in rows]


def substituted(e: Evidence, names: Sequence[str]) -> Found:
    """S+ and S− (sub, section 5.5) and the own response, on exact pairs."""
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
    other = own.roll(1).where(own.roll(1) != own, (own + 1) % len(e.attributes))
    scaled = _probed_values(e, *pair)
    response, of_other = (interventions.own_response(*scaled, columns) for columns in (own, other))
    yield "own response", Reading(response, {"another concept's": of_other, "none": 0}, clusters)


def locality(e: Evidence, names: Sequence[str]) -> Found:
    """Values of the concepts of a covered part against those with another part covered."""
    probes, found = e.ground.probes, []
    rows = [probes.rows(kind) for kind in ("whole", "one", "other")]
    whole, *covered = _probed_values(e, *rows)
    usable = torch.isfinite(sum(own_scale(e)))
    for number in range(len(whole)):
        both = []
        for mine, (own, other) in zip(rows[1:], (covered, covered[::-1]), strict=True):
            here = on_part(e, probes.pictures["part"].iloc[mine[number]].split("|")) & usable
            if here.any():
                states = (part[[number]] for part in (whole, own, other))
                both.append(float(interventions.locality(*states, here)))
        found.append(np.mean(both) if both else np.nan)
    yield "locality", Reading(np.array(found), {"any part alike": 0})
