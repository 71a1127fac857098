"""What a world gives away: the sources from which an attribute might be told without being looked at.

A source is a row of numbers (D,) for each picture: of the background, the seat, the silhouette, the file's
place in the list and so on. `telling.told` says how well labels are told from it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.ndimage import maximum_filter, minimum_filter

from xaihelpers.worlds.aviary.individuals import FOLLOWS, GROUPS, NEEDS, Individual, individual, shuffled
from xaihelpers.worlds.aviary.parts import PARTS, REST
from xaihelpers.worlds.aviary.pose import PLANS, Pose
from xaihelpers.worlds.canvas import SIZE
from xaihelpers.worlds.free_scenes import FreePose
from xaihelpers.worlds.telling import Told, standard_deviation, told

SIDE = SIZE // 2  # pictures are looked at in half their size
RIM = 4  # pixels of these around the bird that count as bird: soft edges, shadows, JPEG's blocks
CORE = 1  # pixels from another part within which a part's colour is not read
CELLS, FORM_CELLS = 8, 16  # cells a side that a background and a silhouette are reduced to
CORNER = 3  # side of a corner in pixels
VISIBLE = 12  # pixels of a part in the whole picture from which on it counts as seen
# Groups that a silhouette shows, or a box around it: there it looks at the attribute itself.
FORM = ("bill_shape", "bill_length", "tail_shape", "wing_shape", "size", "shape", "head_pattern")
HEAD = ("beak", "crown", "forehead", "left eye", "nape", "right eye", "throat")
SEATS = sorted({plan.seat for plan in PLANS.values()})


# What pictures and their files give


def look(file: str | Path, parts: np.ndarray) -> dict[str, np.ndarray]:
    """What one picture gives away, source by source: its file, and itself with the bird or a part hidden.

    file: of the image. parts: its part mask (H, W), 0 where there is no bird.
    Returns "background", "position", "extent", "silhouette", "parts seen", "part colors" (a row of 4 for each
        part number, flat: mean red, green, blue and the lightness's standard deviation, NaN of a hidden part)
        and "file size", each (D,) float64. Lengths are in sides of the picture.
    Raises ValueError for a mask of another size than the image.
    """
    with Image.open(file) as picture:
        if parts.shape != picture.size[::-1]:
            raise ValueError(
                f"{file}: a mask of {parts.shape} pixels for an image of {picture.size[::-1]} (rows, columns)"
            )
        tables = getattr(picture, "quantization", None) or {}
        small = picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)
    quantisation = [sum(tables.get(number, [0])) for number in (0, 1)]
    pixels = np.bincount(parts.ravel(), minlength=REST + 1)[1:]
    image = np.asarray(small, dtype=np.float32)
    parts = np.asarray(Image.fromarray(parts).resize((SIDE, SIDE), Image.Resampling.NEAREST))
    rows, columns = (parts > 0).any(1).nonzero()[0], (parts > 0).any(0).nonzero()[0]
    centre, sides, form = np.full(2, np.nan), np.zeros(2), np.zeros(FORM_CELLS**2)
    box = np.s_[:, :]
    if len(rows):
        corners = np.array([[columns[0], rows[0]], [columns[-1] + 1, rows[-1] + 1]])
        centre, sides = corners.mean(0) / SIDE, (corners[1] - corners[0]) / SIDE
        form = _form(parts[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
        left, top = np.maximum(corners[0] - CORE, 0)
        right, bottom = corners[1] + CORE
        box = np.s_[top:bottom, left:right]
    return {
        "background": _background(image, parts),
        "position": centre,
        "extent": sides,
        "silhouette": form,
        "parts seen": (pixels >= VISIBLE).astype(np.float64),
        "part colors": _part_colors(image[box], parts[box], len(pixels)).ravel(),
        "file size": np.array([Path(file).stat().st_size, *quantisation], dtype=np.float64),
    }


def _form(parts: np.ndarray) -> np.ndarray:
    """The silhouette within its box on 16 × 16 cells, flat, mirrored so that its mass lies to the left."""
    bird = Image.fromarray(np.where(parts > 0, 255, 0).astype(np.uint8))
    cells = np.asarray(bird.resize((FORM_CELLS, FORM_CELLS), Image.Resampling.BOX), dtype=np.float64) / 255
    halves = np.split(cells, 2, axis=1)
    mirrored = halves[0].sum() < halves[1].sum()
    return (cells[:, ::-1] if mirrored else cells).ravel()


def _cell_means(field: np.ndarray) -> np.ndarray:
    """Means over 8 × 8 squares of a field (112, 112) or (112, 112, C), (8, 8, C), C = 1."""
    side = SIDE // CELLS
    means = np.kron(np.eye(CELLS, dtype=np.float32), np.full(side, 1 / side, np.float32))  # (8, 112)
    in_rows = (means @ field.reshape(SIDE, -1)).reshape(CELLS, SIDE, -1)
    return means @ in_rows


def outside(parts: np.ndarray, rim: int = 2 * RIM) -> np.ndarray:
    """Which pixels are background: more than `rim` pixels from the bird across and down, (H, W) bool.

    parts: (H, W), 0 where there is no bird.
    """
    return maximum_filter((parts > 0).astype(np.uint8), 2 * rim + 1) == 0


def _background(image: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Cells, corners, spread and histograms of what is not bird; what it hides takes the mean of the rest."""
    seen = outside(parts, RIM).astype(np.float32)
    colors = image[seen > 0]
    if len(colors) == 0:
        return np.full(3 * (CELLS**2 + 4 + 1 + 8), np.nan)
    mean = colors.mean(0)
    weight = _cell_means(seen)
    cells = _cell_means(image * seen[..., None]) / np.maximum(weight, 1e-6)
    cells = np.where(weight > 0.1, cells, mean)
    first, last = slice(0, CORNER), slice(SIDE - CORNER, SIDE)
    corners = []
    for rows in (first, last):
        for columns in (first, last):
            is_seen = seen[rows, columns].all()
            corners.append(image[rows, columns].mean((0, 1)) if is_seen else mean)
    levels = (colors // 32).astype(np.int64)
    histograms = [np.bincount(levels[:, channel], minlength=8) / len(levels) for channel in range(3)]
    return np.concatenate([cells.ravel(), np.ravel(corners), colors.std(0), *histograms]).astype(np.float64)


def _part_colors(image: np.ndarray, parts: np.ndarray, n_parts: int) -> np.ndarray:
    """Mean color and spread of lightness of each part, (n_parts, 4), away from its border with another."""
    width = 2 * CORE + 1
    inside = (parts > 0) & (maximum_filter(parts, width) == minimum_filter(parts, width))
    numbers, colors = parts[inside], image[inside]  # (n,), (n, 3)
    count = np.bincount(numbers, minlength=n_parts + 1)[1:].astype(np.float64)
    lightness = colors.mean(1, dtype=np.float64)
    weights = [*colors.T, lightness, lightness**2]
    sums = np.stack([np.bincount(numbers, weight, n_parts + 1)[1:] for weight in weights], 1)
    count[count < 4] = np.nan
    means = sums / count[:, None]
    spread = np.sqrt(np.maximum(means[:, 4] - means[:, 3] ** 2, 0))
    return np.column_stack([means[:, :3], spread])


def other_parts(part_colors: np.ndarray, group: str) -> np.ndarray:
    """The colours of all parts but those that show an attribute group.

    part_colors: (N, P·4), of many pictures as `look` gives them.
    group: of attributes, as "crown_color" or "has_crown_color".
    Returns (N, P·4) with NaN for the parts that show it; all of it where the whole bird does.
    """
    of_parts = part_colors.reshape(len(part_colors), -1, 4).copy()
    shown = shown_on(group)
    for number, name in enumerate([*PARTS, "rest"]):
        if name in shown:
            of_parts[:, number] = np.nan
    return of_parts.reshape(len(part_colors), -1)


def shown_on(group: str) -> tuple[str, ...]:
    """The parts (CUB's 15, and "rest" of the bird) that a group of the 28 is drawn on.

    Raises ValueError: an unknown group.
    """
    group = group.removeprefix("has_")
    if group not in GROUPS:
        raise ValueError(f"unknown attribute group {group!r}; they are {', '.join(GROUPS)}")
    if group in ("size", "shape"):
        return (*PARTS, "rest")
    if group == "head_pattern":
        return (*HEAD, "rest")
    regions = FOLLOWS.get(group) or (NEEDS[group],)
    return tuple(name for name in PARTS if name.endswith(tuple(regions)))


def told_by_others(
    part_colors: np.ndarray, labels: np.ndarray, groups: Sequence[str], classes: np.ndarray, **more
) -> Told:
    """How well each label is told from the colours of the parts that do not show it.

    part_colors: (N, P·4), of many pictures as `look` gives them.
    groups: L names, the attribute group of each label.
    labels, classes and more: as of `told`. A label of the whole bird has NaN areas.
    Raises ValueError as `told` does, and for an unknown group.
    """
    shown = [shown_on(group) for group in groups]
    columns, found = [], []
    for one in dict.fromkeys(shown):  # groups that are shown on the same parts
        members = np.array([number for number, parts in enumerate(shown) if parts == one])
        columns.append(members)
        group = groups[members[0]]
        found.append(told(other_parts(part_colors, group), labels[:, members], classes, **more))
    order = np.argsort(np.concatenate(columns))
    terms, by_label, shuffled, _ = (
        np.concatenate(part, axis=-1)[..., order] for part in zip(*found, strict=True)
    )
    deviation = standard_deviation(np.asarray(labels))
    blind = np.array([len(parts) > len(PARTS) for parts in shown])
    terms, by_label, shuffled = (np.where(blind, np.nan, part) for part in (terms, by_label, shuffled))
    limit = np.nanmax((shuffled - 0.5) / deviation, initial=-np.inf)
    return Told(terms, by_label, shuffled, (by_label - 0.5) / deviation > limit)


# What the renderer and the file's place give


def individual_at(settings: dict, number: int) -> tuple[Individual, Pose]:
    """The bird of a drawn aviary and its pose, made again.

    settings: what lies in the world's aviary.json. number: of its image, from 0.
    """
    bird = individual(settings["seed"], number, number // settings["images_per_class"])
    share = settings.get("decorrelated", 0)
    if share:
        bird = shuffled(bird, np.random.default_rng([bird.seed, number, 20]), share)
    return bird, FreePose(bird) if "scenes" in settings else Pose(bird)


def place_of(pose: Pose) -> dict[str, np.ndarray]:
    """What a pose gives away: "seat" (one of seven, 0 or 1), "leaf scale" and "pose" (angles in radians)."""
    seat = np.array([name == pose.seat for name in SEATS], dtype=np.float64)
    angles = [pose.flip, pose.tilt, pose.nod, pose.wing_raised, pose.tail_swing]
    return {"seat": seat, "leaf scale": np.array([pose.grain]), "pose": np.array(angles, dtype=np.float64)}


def file_order(numbers: np.ndarray, n_files: int, n_blocks: int) -> np.ndarray:
    """In which of `n_blocks` equal stretches of the list of files each one lies, (N, n_blocks), 0 or 1."""
    block = np.asarray(numbers) * n_blocks // n_files
    return (block[:, None] == np.arange(n_blocks)).astype(np.float64)


def random_numbers(bird: Individual) -> np.ndarray:
    """The first two random numbers of each of a bird's streams for pose, scene and light, (18,)."""
    streams = [np.random.default_rng([bird.seed, bird.index, number]) for number in range(1, 10)]
    return np.concatenate([stream.random(2) for stream in streams])


def settings_of(root: str | Path) -> dict | None:
    """The settings that the aviary in a folder was drawn with; None for a folder of other pictures."""
    file = Path(root) / "aviary.json"
    return json.loads(file.read_text()) if file.is_file() else None


def stacked(rows: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """One table (N, D) a source, of the N pictures' own."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
