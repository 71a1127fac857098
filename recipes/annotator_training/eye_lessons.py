"""What the annotator's eye learns from a batch of pictures."""

import numpy as np
import torch
import torch.nn.functional as F

from recipes.annotator_training.lesson_pictures import SLICES, Picture, cropped
from worlds import aviary
from xaihelpers import datasets
from xaihelpers.instruments.eye import CELL, GROUPS, Eye, normalised
from xaihelpers.training import group_loss

N_OF_BIRDS = sum(len(values) for values in GROUPS["birds"].values())
PARTS_OF = [  # the numbers of the parts that each group of a bird is about; none of the whole bird
    [aviary.PARTS.index(part) + 1 for part in datasets.parts_of(f"has_{group}")] if group != "seat" else []
    for group in GROUPS["birds"]
]


def in_other_light(pixels: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Pixels (N, 3, H, W) in [0, 1], each picture brighter or darker, and a little tinted."""

    def drawn(spread: float, channels: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(0, spread, (len(pixels), channels, 1, 1))).float()

    return (pixels * (1 + drawn(0.12, 1)) * (1 + drawn(0.02, 3)) + drawn(0.04, 1)).clamp(0, 1)


def shares_of_places(parts: torch.Tensor) -> torch.Tensor:
    """How much of each group's parts lies in each cell, (N, G, cells).

    parts: numbers of birds' parts (N, SIZE, SIZE). The shares of a group sum to 1, or are 0 where none of its
        parts is to be seen.
    """
    found = []
    for numbers in PARTS_OF:
        lit = torch.isin(parts, torch.tensor(numbers, dtype=parts.dtype)) if numbers else parts > 0
        shares = F.avg_pool2d(lit[:, None].float(), CELL).flatten(1)
        found.append(shares / shares.sum(1, keepdim=True).clamp(min=1e-6))
    return torch.stack(found, 1)


def eye_loss(
    eye: Eye, pictures: dict[str, list[Picture]], rng: np.random.Generator, count: int
) -> torch.Tensor:
    """Of `count` pictures, a sixth of them things: values, what can be seen, where to look, and the name.

    values      mean cross-entropy of the groups that can be seen
    visible     binary cross-entropy of whether something of a group can be seen
    places      of birds: -sum over cells of (share of the group's parts) log(attention), over six
    names       of ordinary birds: a tenth of the cross-entropy; of all, whether it is a thing, as such
    """
    n_birds = count - max(1, count // 6)
    rows = [pictures["birds"][rng.integers(len(pictures["birds"]))] for _ in range(n_birds)]
    rows += [pictures["things"][rng.integers(len(pictures["things"]))] for _ in range(count - n_birds)]
    pixels, parts = map(torch.stack, zip(*(cropped(row, rng) for row in rows), strict=True))
    device = next(eye.parameters()).device
    pixels = normalised(in_other_light(pixels, rng)).to(device, memory_format=torch.channels_last)
    found = eye(pixels)
    loss = 0.0
    n_groups = len(GROUPS["birds"])
    for world, some in (("birds", slice(0, n_birds)), ("things", slice(n_birds, None))):
        seen = torch.from_numpy(np.stack([row.seen for row in rows[some]])).float().to(device)
        can = torch.stack([seen[:, columns].any(1) for columns in SLICES[world]], 1).float()
        if world == "birds":
            values, visible = found["values"][some, :N_OF_BIRDS], found["visible"][some, :n_groups]
        else:
            values, visible = found["values"][some, N_OF_BIRDS:], found["visible"][some, n_groups:]
        loss = loss + group_loss(values, seen, SLICES[world])
        loss = loss + F.binary_cross_entropy_with_logits(visible, can)
    shares = shares_of_places(parts[:n_birds]).to(device)
    attention = found["places"][:n_birds, :n_groups].log_softmax(2)
    loss = loss - (shares * attention).sum() / shares.sum().clamp(min=1) / 6
    labels = torch.tensor([row.label for row in rows[:n_birds]], device=device)
    if (labels >= 0).any():
        loss = loss + 0.1 * F.cross_entropy(found["names"][:n_birds], labels, ignore_index=-1)
    is_thing = (torch.arange(count, device=device) >= n_birds).float()
    return loss + F.binary_cross_entropy_with_logits(found["is_thing"], is_thing)
