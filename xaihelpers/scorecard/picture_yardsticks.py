"""Yardsticks that need more than outputs of test images: concept maps, probes, or the model itself."""

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from xaihelpers.datasets import load_image, part_index, parts_of
from xaihelpers.datasets.images import image_sizes, part_points, place_points
from xaihelpers.saliency import perturbation
from xaihelpers.saliency.methods import scaled_maps
from xaihelpers.scorecard.evidence import Ask, Evidence
from xaihelpers.scorecard.reading import (
    DRAWN,
    LABELLED,
    UNLABELLED,
    Missing,
    Reading,
    pseudo_cases,
    share,
)
from xaihelpers.scorecard.value_yardsticks import THRESHOLDS, WEIGHTS, own_scale
from xaihelpers.scores import alignment, autoxplain, causal, sub

N_MAPS = 200  # images whose maps are judged by points
N_MASKS = 60  # and by masks
N_PERTURBED = 8
STEPS = 10
SIDE = 224  # pixels that a whole image is scaled to where maps are compared with places
MAPS = "concept_maps, (N, L, H, W), in the outputs or as a file of their own (--maps)"
CURVES = ("deletion", "insertion", "AOPC", "average drop")


def map_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """CLM, overlap with the part (alignment, eq. 11), and the share of attention on the object."""
    every = ("CLM", "CoAM overlap", "inside the bird")
    world = e.ground.world
    if e.outputs.concept_maps is None:
        yield Missing(every, "there are no concept maps", MAPS)
        return
    if world.parts is None or not e.has_labels:
        yield Missing(
            every, f"{world.name} knows no place of any part", "data with parts, as CUB or the aviary"
        )
        return
    on_part = [bool(parts_of(name, world.parts)) for name in e.attributes]
    if any(on_part):
        yield from _located(e, torch.tensor(on_part))
    else:
        yield Missing(every[:2], "none of the concepts lies on a part", "concepts of parts")
    if world.mask_names is None:
        yield Missing(every[1:], f"{world.name} has no masks", "a drawn world")
    elif e.known.class_weights is None:
        yield Missing(every[2:], "a class's map is its concepts' by their weights", WEIGHTS)
    else:
        yield _inside(e)


def _chosen(e: Evidence, eligible: torch.Tensor, count: int):
    """Rows, and of each the most important concept that lies on a part, another such concept, and maps."""
    rows = e.sample(count, 3)
    some = e.known.take(rows)
    top = alignment.top_concepts(alignment.concept_importance(some, "product"), 1, eligible)[:, 0]
    columns = eligible.nonzero()[:, 0]
    shift = np.random.default_rng(e.ground.seed).integers(1, max(len(columns), 2), len(rows))
    place = torch.searchsorted(columns, top.contiguous())
    other = columns[(place + torch.from_numpy(shift)) % len(columns)]
    maps = some.concept_maps
    index = torch.arange(len(rows))
    shown = {"own": maps[index, top], "another concept's map": maps[index, other]}
    shown["a blob in the centre"] = _blob(maps.shape[2:]).expand(len(rows), -1, -1)
    return rows, top, shown


def _blob(size) -> torch.Tensor:
    """A round patch in the middle, an eighth of the side wide."""
    y, x = ((torch.arange(n) + 0.5) / n - 0.5 for n in size)
    return torch.exp(-(y[:, None] ** 2 + x**2) / (2 * 0.125**2))


def _located(e: Evidence, eligible: torch.Tensor) -> Iterator[Reading]:
    world, size = e.ground.world, (SIDE, SIDE)
    rows, top, shown = _chosen(e, eligible, N_MAPS)
    places = e.rows[rows]
    if e.view is not None:
        size = (e.view[1], e.view[1])
        points = part_points(world, places, *e.view)
    else:
        located = world.part_locations[torch.from_numpy(places)]
        points = place_points(located, image_sizes(world, places), size)
    parts = [[part_index(world, part) for part in parts_of(name, world.parts)] for name in e.attributes]
    centres = alignment.concept_points(points, parts)[torch.arange(len(rows)), top]  # (n, 2, 2)
    hits = {}
    for name, maps in shown.items():
        ranks = alignment.location_ranks(maps[:, None], centres[:, None], size)
        hits[name] = alignment.concept_location(ranks, size, 1, 1).double().numpy()
    labels = None if e.labels is None else e.labels[rows].numpy()
    yield share("CLM", "alignment", LABELLED, hits.pop("own"), hits, clusters=labels, sighted=100.0)
    if world.mask_names is not None:
        yield _overlap(e, rows[:N_MASKS], top[:N_MASKS], shown, size)


def _masks(e: Evidence, rows: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Numbers of the parts (n, H, W), as the maps see them."""
    found = []
    for row in e.rows[rows]:
        mask = Image.fromarray(e.ground.world.part_mask(int(row)))
        if e.view is not None:
            scale = e.view[0] / min(mask.size)
            mask = mask.resize([round(scale * side) for side in mask.size], Image.Resampling.NEAREST)
            left, top = ((side - size[0]) // 2 for side in mask.size)
            mask = mask.crop((left, top, left + size[0], top + size[0]))
        found.append(np.array(mask.resize(size, Image.Resampling.NEAREST)))
    return np.array(found)


def _overlap(e: Evidence, rows, top, shown, size) -> Reading:
    world = e.ground.world
    numbers = _masks(e, rows, size)
    masks = []
    for mask, column in zip(numbers, top.tolist(), strict=True):
        parts = parts_of(e.attributes[column], world.mask_names)
        masks.append(np.isin(mask, [1 + world.mask_names.index(part) for part in parts]))
    masks = torch.from_numpy(np.array(masks))
    found = {}
    for name, maps in shown.items():
        found[name] = alignment.region_overlap(maps[: len(rows)], masks, 1).double().numpy()
    labels = None if e.labels is None else e.labels[rows].numpy()
    own = found.pop("own")
    return Reading("CoAM overlap", "alignment", DRAWN, own, found, labels, bounds=(0, 1))


def _class_maps(e: Evidence, rows: np.ndarray) -> torch.Tensor:
    """Where the evidence for each predicted class lies, (n, H, W) in [0, 1]: maps by their weights."""
    some = e.known.take(rows)
    weights = some.class_weights.T[some.predictions]  # (n, L')
    return scaled_maps(torch.einsum("nl,nlhw->nhw", weights, some.concept_maps))[0]


def _inside(e: Evidence) -> Reading:
    rows = e.sample(N_MASKS, 3)
    birds = torch.from_numpy(_masks(e, rows, (SIDE, SIDE) if e.view is None else (e.view[1],) * 2) > 0)
    found = []
    for maps in (_class_maps(e, rows), _blob(e.known.concept_maps.shape[2:]).expand(len(rows), -1, -1)):
        large = F.interpolate(maps[:, None], tuple(birds.shape[1:]), mode="bilinear")[:, 0]
        found.append(autoxplain.inside_at_equal_area(large, birds).double().numpy())
    labels = None if e.labels is None else e.labels[rows].numpy()
    blind = {"a blob in the centre": found[1]}
    return share("inside the bird", "autoxplain", DRAWN, found[0], blind, clusters=labels, sighted=100.0)


class _AskedNetwork(torch.nn.Module):
    """A model that is asked for pictures, as a network of pixels in [0, 1] less their mean."""

    def __init__(self, ask: Ask, mean: float):
        super().__init__()
        self.ask, self.mean = ask, mean

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits (N, K) of inputs (N, 3, H, W)."""
        pixels = ((inputs + self.mean).clamp(0, 1) * 255).round().to(torch.uint8)
        return self.ask([Image.fromarray(one.permute(1, 2, 0).numpy()) for one in pixels]).logits


def perturbation_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """Deletion, insertion, AOPC and average drop of the class's map (autoxplain, section 4.1)."""
    if e.outputs.concept_maps is None:
        yield Missing(CURVES, "there are no concept maps", MAPS)
        return
    if e.ask is None:
        yield Missing(
            CURVES, "the model cannot be asked again", "a function from pictures to outputs (--ask)"
        )
        return
    if e.known.class_weights is None:
        yield Missing(CURVES, "a class's map is its concepts' by their weights", WEIGHTS)
        return
    rows = e.sample(N_PERTURBED, 4)
    files = e.ground.world.images["path"].iloc[e.rows[rows]]
    pixels = [torch.from_numpy(np.array(load_image(file).resize((SIDE, SIDE)))) for file in files]
    inputs = torch.stack(pixels).permute(0, 3, 1, 2) / 255
    mean = float(inputs.mean())
    network, classes = _AskedNetwork(e.ask, mean), e.outputs.predictions[rows]
    random = torch.rand(len(rows), 7, 7, generator=torch.Generator().manual_seed(e.ground.seed))
    blob = _blob((7, 7)).expand(len(rows), -1, -1)
    found = []
    for maps in (_class_maps(e, rows), blob, random):
        found.append(perturbation.perturb(network, inputs - mean, maps, classes, STEPS))
    fields = ("deletion_auc", "insertion_auc", "aopc", "average_drop")
    for name, field in zip(CURVES, fields, strict=True):
        own, *rest = (getattr(curves, field).double().numpy() for curves in found)
        blind = dict(zip(("a blob in the centre", "a random map"), rest, strict=True))
        low = name in ("deletion", "average drop")
        yield Reading(name, "autoxplain", UNLABELLED, own, blind, bounds=(-1, 1), low_is_good=low)


def probe_readings(e: Evidence) -> Iterator[Reading | Missing]:
    """S+, S−, own response and effect agreement on exact pairs; locality with parts covered."""
    of_pairs = ("S+", "S-", "own response", "effect agreement")
    probes = e.ground.probes
    if probes is None:
        what = f"{e.ground.world.name} cannot be drawn with one thing changed"
        give = "a drawn world; on photographs, a substitution benchmark in notebook 53"
        yield Missing((*of_pairs, "locality"), what, give)
        return
    if e.probed is None:
        give = "outputs for the probes (--probes writes the pictures, --probed reads the outputs), or --ask"
        yield Missing((*of_pairs, "locality"), "the model was not asked about pictures with one change", give)
        return
    if e.known.thresholds is None:
        yield Missing((*of_pairs[:3], "locality"), "what the model calls present is not known", THRESHOLDS)
    columns = {name: j for j, name in enumerate(e.attributes)}
    before, after = probes.rows("before"), probes.rows("after")
    asked = [columns.get(name, -1) for name in probes.pictures["attribute"].iloc[before]]
    kept = np.flatnonzero(np.array(asked, int) >= 0)
    if len(kept) < 2:
        yield Missing(
            of_pairs, f"{len(kept)} of {len(before)} pairs change one of its concepts", "more pairs"
        )
    else:
        yield from _pairs(e, before[kept], after[kept], torch.tensor(asked)[kept])
    whole = probes.rows("whole")
    if e.known.thresholds is not None and len(whole) > 1:
        yield from _covered(e, whole, probes.rows("one"), probes.rows("other"))


def _truth(e: Evidence, rows: np.ndarray) -> torch.Tensor:
    """What the probes show of the model's known concepts, (n, L') bool."""
    held = e.ground.world.attributes["name"].tolist()
    return e.ground.probes.truth[rows][:, [held.index(name) for name in e.attributes]]


def _pairs(e: Evidence, before: np.ndarray, after: np.ndarray, own: torch.Tensor) -> Iterator[Reading]:
    targets = [e.attributes[j] for j in own.tolist()]
    clusters = np.array(targets)
    outputs = [e.probed.take(rows) for rows in (before, after)]
    values = [one.values[:, e.columns] for one in outputs]
    if e.known.thresholds is not None:
        yield from _substituted(e, values, (before, after), own, targets)
    if e.outputs.class_weights is None:
        return
    predicted = outputs[0].predictions[:, None]
    claims = [one.values @ e.outputs.class_weights for one in outputs]
    logits = [one.logits.gather(1, predicted)[:, 0] for one in outputs]
    cases = []
    for shift in (0, 1):
        said = [one.roll(shift, 1).gather(1, predicted)[:, 0] for one in claims]
        cases.append(_agreement_cases(logits, said, clusters))
    blind = {"another class's reasons": cases[1]}
    yield Reading("effect agreement", "literature", DRAWN, cases[0], blind, sighted=1.0)


def _agreement_cases(logits, said, clusters: np.ndarray) -> np.ndarray:
    """Pseudo-values of the agreement of effects, over folds of pairs that keep an attribute together."""

    def agreement(kept):
        return causal.effect_agreement(*(part[kept] for part in (*logits, *said)))

    return pseudo_cases(agreement, len(clusters), groups=clusters)


def _substituted(e: Evidence, values, rows, own: torch.Tensor, targets) -> Iterator[Reading]:
    clusters = np.array(targets)
    called = [part > e.known.thresholds for part in values]
    truth = [_truth(e, part) for part in rows]
    groups = sub.groups_of(e.attributes)
    same = torch.from_numpy(groups[own][:, None] == groups[None])
    removed = truth[0] & ~truth[1] & same
    was, now = (sub.substitution_scores(one, targets, removed, e.attributes) for one in called)
    guess = sub.chance_scores(targets, removed, e.attributes)
    for name, field in {"S+": "s_plus", "S-": "s_minus"}.items():
        blind = {"the bird before": getattr(was, field), "a guess in the group": getattr(guess, field)}
        yield share(name, "sub", DRAWN, getattr(now, field), blind, clusters=clusters, sighted=100.0)
    low, high = own_scale(e)
    scaled = [(part - low) / (high - low) for part in values]
    other = own.roll(1).where(own.roll(1) != own, (own + 1) % len(low))
    response, of_other = (causal.own_response(*scaled, columns).double().numpy() for columns in (own, other))
    blind = {"another concept's": of_other, "none": np.zeros(len(response))}
    yield Reading("own response", "literature", DRAWN, response, blind, clusters, sighted=1.0)


def _covered(e: Evidence, whole, one, other) -> Iterator[Reading]:
    """Values of the concepts of a covered part against those with another part covered."""
    low, high = own_scale(e)
    said = [(e.probed.values[rows][:, e.columns] - low) / (high - low) for rows in (whole, one, other)]
    hidden = e.ground.probes.pictures["part"]
    world, found, swapped = e.ground.world, [], []
    on_part = [set(parts_of(name, world.mask_names)) for name in e.attributes]
    usable = torch.isfinite(low + high)
    for number in range(len(whole)):
        states = [part[[number]] for part in said]
        both = []
        for rows, order in ((one, (0, 1, 2)), (other, (0, 2, 1))):
            parts = set(hidden.iloc[rows[number]].split("|"))
            mine = torch.tensor([bool(parts & own) for own in on_part]) & usable
            if mine.any():
                both.append(float(causal.locality(*(states[place] for place in order), mine)))
        found.append(np.mean(both) if both else np.nan)
    swapped = np.zeros(len(found))
    yield Reading("locality", "literature", DRAWN, np.array(found), {"any part alike": swapped})
