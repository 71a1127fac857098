"""What the annotator's eye learns from a batch of pictures."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from tqdm.auto import tqdm

from recipes.annotator_training.lesson_pictures import SLICES, Picture, cropped
from worlds import aviary
from xaihelpers import datasets
from xaihelpers.instruments import eye as eyes
from xaihelpers.instruments.eye import CLOSE, CLOSE_GROUPS, GROUPS, Eye, normalised
from xaihelpers.training import group_loss

READ = {"birds": SLICES["birds"][len(CLOSE_GROUPS) :], "things": SLICES["things"]}  # by the eye as a whole
CLOSE_SLICES = SLICES["birds"][: len(CLOSE_GROUPS)]
SUBSTITUTED = 1 / 3  # share of substituted birds among those that are looked at closely
PARTS_OF = [  # the numbers of the parts that each group of a bird is about; none of the whole bird
    [aviary.PARTS.index(part) + 1 for part in datasets.parts_of(f"has_{group}")] if group != "seat" else []
    for group in GROUPS["birds"]
]


def in_other_light(pixels: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Pixels (N, 3, H, W) in [0, 1], each picture brighter or darker, and a little tinted."""

    def drawn(spread: float, channels: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(0, spread, (len(pixels), channels, 1, 1))).float()

    return (pixels * (1 + drawn(0.12, 1)) * (1 + drawn(0.02, 3)) + drawn(0.04, 1)).clamp(0, 1)


def shares_of_places(parts: torch.Tensor, n_cells: int) -> torch.Tensor:
    """How much of each group's parts lies in each cell, (N, groups, cells).

    parts: numbers of birds' parts as each group sees them, (N, groups, S, S). n_cells: a side. The shares of
        a group sum to 1, or are 0 where none of its parts is to be seen.
    """
    found = []
    for numbers, seen in zip(PARTS_OF, parts.unbind(1), strict=False):
        lit = torch.isin(seen, torch.tensor(numbers, dtype=parts.dtype)) if numbers else seen > 0
        shares = F.adaptive_avg_pool2d(lit[:, None].float(), n_cells).flatten(1)
        found.append(shares / shares.sum(1, keepdim=True).clamp(min=1e-6))
    return torch.stack(found, 1)


def off_place(shares: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Minus the mean log attention of places (N, groups, cells) on the cells where the parts lie."""
    shares = shares.to(places.device)
    return -(shares * places.log_softmax(2)).sum() / shares.sum().clamp(min=1)


def eye_loss(
    eye: Eye, pictures: dict[str, list[Picture]], rng: np.random.Generator, count: int
) -> torch.Tensor:
    """Of `count` pictures, a sixth of them things, for the eye that sees the whole.

    values      mean cross-entropy of the seat and of what a thing has, where they can be seen
    visible     binary cross-entropy of whether something of these can be seen
    places      of birds: `off_place` over six
    names       of ordinary birds: a tenth of the cross-entropy; of all, whether it is a thing, as such
    """
    n_birds = count - max(1, count // 6)
    rows = [pictures["birds"][rng.integers(len(pictures["birds"]))] for _ in range(n_birds)]
    rows += [pictures["things"][rng.integers(len(pictures["things"]))] for _ in range(count - n_birds)]
    pixels, parts = map(torch.stack, zip(*(cropped(row, rng) for row in rows), strict=True))
    device = next(eye.parameters()).device
    pixels = normalised(in_other_light(pixels, rng)).to(device, memory_format=torch.channels_last)
    found = eye(pixels)
    values, visible, loss = found["values"], found["visible"], 0.0
    for world, some in (("birds", slice(0, n_birds)), ("things", slice(n_birds, None))):
        seen = torch.from_numpy(np.stack([row.seen for row in rows[some]])).float().to(device)
        seen = seen[:, READ[world][0].start :]
        start, n_groups = READ[world][0].start, len(READ[world])
        columns = [slice(of.start - start, of.stop - start) for of in READ[world]]
        can = torch.stack([seen[:, of].any(1) for of in columns], 1).float()
        loss = loss + group_loss(values[some, : seen.shape[1]], seen, columns)
        loss = loss + F.binary_cross_entropy_with_logits(visible[some, :n_groups], can)
        values, visible = values[:, seen.shape[1] :], visible[:, n_groups:]
    seen_by_all = parts[:n_birds, None].expand(-1, len(PARTS_OF), -1, -1)
    n_cells = eyes.SIZE // eyes.CELL
    places = found["places"][:n_birds, : len(PARTS_OF)]
    loss = loss + off_place(shares_of_places(seen_by_all, n_cells), places) / 6
    labels = torch.tensor([row.label for row in rows[:n_birds]], device=device)
    if (labels >= 0).any():
        loss = loss + 0.1 * F.cross_entropy(found["names"][:n_birds], labels, ignore_index=-1)
    is_thing = (torch.arange(count, device=device) >= n_birds).float()
    return loss + F.binary_cross_entropy_with_logits(found["is_thing"], is_thing)


def close_loss(
    eye: Eye, pictures: dict[str, list[Picture]], rng: np.random.Generator, count: int
) -> torch.Tensor:
    """Of `count` birds, `located`, whose species says nothing or the wrong thing, for the eye of their parts.

    values      mean cross-entropy of the groups that can be seen, of birds with random attributes; and of
                substituted ordinary ones, of what was changed and of as many other groups
    visible     binary cross-entropy of whether something of a group can be seen
    places      `off_place` in each square, over six
    """
    n_substituted = int(SUBSTITUTED * count)
    of_kinds = {"substituted": n_substituted, "random": count - n_substituted}
    rows = [
        pictures[kind][rng.integers(len(pictures[kind]))] for kind, n in of_kinds.items() for _ in range(n)
    ]
    pixels = torch.from_numpy(np.stack([row.image for row in rows])).permute(0, 3, 1, 2) / 255
    parts = torch.from_numpy(np.stack([row.parts for row in rows]))
    boxes = nearby(torch.from_numpy(np.stack([row.boxes for row in rows])), rng)
    squares = eyes.cut_out(normalised(in_other_light(pixels, rng)), boxes, CLOSE)
    parts, turned = parts_in(parts, boxes), torch.from_numpy(rng.random(count) < 0.5)
    squares[turned], parts[turned] = squares[turned].flip(-1), parts[turned].flip(-1)
    device = next(eye.parameters()).device
    places, values, visible = eye.close(squares.to(device))
    seen = np.stack([row.seen for row in rows])[:, : CLOSE_SLICES[-1].stop]
    can = np.stack([seen[:, of].any(1) for of in CLOSE_SLICES], 1)
    asked = can.copy()
    for number, row in enumerate(rows[:n_substituted]):
        changed = np.array([(row.seen[of] & ~row.was[of]).any() for of in CLOSE_SLICES])
        others = rng.permutation(np.flatnonzero(can[number] & ~changed))[: changed.sum()]
        asked[number] = changed | np.isin(np.arange(len(changed)), others)
    sizes = [of.stop - of.start for of in CLOSE_SLICES]
    wanted = torch.from_numpy(seen & asked.repeat(sizes, 1)).float().to(device)
    loss = group_loss(values[n_substituted:], wanted[n_substituted:], CLOSE_SLICES)
    if wanted[:n_substituted].any():
        loss = loss + group_loss(values[:n_substituted], wanted[:n_substituted], CLOSE_SLICES) / 3
    can = torch.from_numpy(can).float().to(device)
    loss = loss + F.binary_cross_entropy_with_logits(visible, can)
    shares = shares_of_places(parts[:, eyes.REGION_OF], round(places.shape[2] ** 0.5))
    return loss + off_place(shares, places) / 6


def parts_in(parts: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Numbers of parts (N, S, S) in squares (N, R, 4) in shares of the side: (N, R, CLOSE, CLOSE)."""
    size, cells = parts.shape[-1], (torch.arange(CLOSE) + 0.5) / CLOSE
    at = boxes[..., :2, None] + (boxes[..., 2:] - boxes[..., :2])[..., None] * cells  # (N, R, 2, CLOSE)
    columns, lines = ((at * size).floor().long() + 1).clamp(0, size + 1).unbind(2)
    rows = torch.arange(len(parts))[:, None, None, None]
    return F.pad(parts, (1, 1, 1, 1))[rows, lines[..., None], columns[:, :, None]]  # 0 beside the picture


def located(eye: Eye, pictures: Sequence[Picture], batch_size: int = 64) -> list[Picture]:
    """Pictures of birds with the squares in which the eye looks for their parts."""
    found, device = [], next(eye.parameters()).device
    for start in tqdm(range(0, len(pictures), batch_size), "places"):
        some = pictures[start : start + batch_size]
        pixels = torch.from_numpy(np.stack([row.image for row in some])).permute(0, 3, 1, 2) / 255
        boxes = eyes.looked_at(eye.eval(), normalised(pixels).to(device))[1].cpu().numpy()
        found += [row._replace(boxes=of_row) for row, of_row in zip(some, boxes, strict=True)]
    return found


def nearby(boxes: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Squares (N, R, 4) moved and scaled a little."""
    n, regions = boxes.shape[:2]
    side, middle = boxes[..., 2:] - boxes[..., :2], (boxes[..., :2] + boxes[..., 2:]) / 2
    middle = middle + side * torch.from_numpy(rng.uniform(-0.08, 0.08, (n, regions, 2))).float()
    half = side * torch.from_numpy(rng.uniform(0.85, 1.2, (n, regions, 1))).float() / 2
    return torch.cat([middle - half, middle + half], 2)
