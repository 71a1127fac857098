"""Made-up attention maps over pictures whose truth is known, and the score that each deserves.

A map v is (SIZE, SIZE) in [0, 1]. What of it is above .4 counts as attended:

    covered = |attended and thing| / |thing|        precise = |attended and thing| / |attended|

and the rubric of the prompt turns both into a score from 0 to 5.
"""

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageFilter
from scipy.ndimage import distance_transform_edt
from tqdm.auto import tqdm

from recipes.annotator_training.lesson_pictures import SIZE

BLURRED = {"thing": 0.24, "part": 0.13, "beside": 0.08, "anywhere": 0.06, "dot": 0.04}  # kind -> share
SHARP = {"exact": 0.12, "cut": 0.1, "rim": 0.1, "elsewhere": 0.06, "inverted": 0.03, "all": 0.02}
SHARP["nothing"] = 0.02
SCENES = 0.2  # share of pictures that show two things, of which one is attended
ATTENDED = 0.4  # attention above it counts


def blurred_thing(rng: np.random.Generator, thing: np.ndarray) -> np.ndarray:
    """The mask of a thing (SIZE, SIZE) as a blurred map, in four of ten cases fading to a side."""
    blur = ImageFilter.GaussianBlur(rng.uniform(1, 8))
    heat = np.asarray(Image.fromarray(np.uint8(thing) * 255).filter(blur)) / 255
    heat = heat * rng.uniform(0.6, 1.5)
    if rng.random() < 0.4:
        strength = rng.uniform(0, 1)
        axis = np.mgrid[0:SIZE, 0:SIZE][rng.integers(2)] / SIZE
        heat = heat * (1 - strength * axis**2)
    return heat


def spot(rng: np.random.Generator, kind: str, thing: np.ndarray) -> np.ndarray:
    """A round spot (SIZE, SIZE): on the thing ("part"), at the top right ("dot"), or anywhere.

    Those of "beside" and "thing" are moved until they lie beside the thing.
    """
    ys, xs = np.nonzero(thing)
    pixel = rng.integers(len(xs)) if len(xs) else 0
    if kind == "part" and len(xs):
        y, x = ys[pixel], xs[pixel]
    elif kind == "dot":
        y, x = SIZE * 0.08, SIZE * 0.92
    else:
        y, x = rng.uniform(0, SIZE, 2)
    for _ in range(12 if kind in ("beside", "thing") else 0):
        if not thing[int(y), int(x)]:
            break
        y, x = rng.uniform(0, SIZE, 2)
    spread = SIZE * (rng.uniform(0.04, 0.07) if kind == "dot" else rng.uniform(0.06, 0.24))
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    distance = (rows - y) ** 2 + (columns - x) ** 2
    return rng.uniform(0.7, 1) * np.exp(-distance / (2 * spread**2))


def sharp_map(rng: np.random.Generator, kind: str, thing: np.ndarray) -> np.ndarray:
    """A map (SIZE, SIZE) of 0 and 1: the thing, a part of it, more than it, or what it is not."""
    if kind == "cut":  # the pixels nearest to one of them
        ys, xs = np.nonzero(thing)
        start = rng.integers(len(ys))
        nearest = np.argsort((ys - ys[start]) ** 2 + (xs - xs[start]) ** 2)
        chosen = nearest[: int(len(ys) * rng.uniform(0.1, 0.95)) + 1]
        lit = np.zeros_like(thing)
        lit[ys[chosen], xs[chosen]] = True
    elif kind == "rim":  # and what is nearest around it
        beside = distance_transform_edt(~thing)
        count = min(int(thing.sum() / rng.uniform(0.15, 0.95)), thing.size - 1)
        lit = beside <= np.partition(beside.ravel(), count)[count]
    elif kind == "elsewhere":
        shifts = rng.integers(0, SIZE, (12, 2))
        places = [np.roll(thing, tuple(shift), (0, 1)) for shift in shifts]
        lit = min(places, key=lambda place: (place & thing).sum())
    else:
        fixed = {"exact": thing, "inverted": ~thing, "all": np.ones_like(thing)}
        lit = fixed.get(kind, np.zeros_like(thing))
    return lit.astype(float)


def attention_map(rng: np.random.Generator, thing: np.ndarray) -> np.ndarray:
    """A map (SIZE, SIZE) in [0, 1] of a kind drawn by BLURRED and SHARP: sharp, or as a CAM might give it.

    Six in ten of the blurred ones are as coarse as a feature map. thing: its mask (SIZE, SIZE) bool.
    """
    kinds = BLURRED | SHARP
    kind = rng.choice(list(kinds), p=np.array(list(kinds.values())) / sum(kinds.values()))
    if kind in SHARP:
        return sharp_map(rng, kind, thing)
    heat = blurred_thing(rng, thing) if kind == "thing" else np.zeros((SIZE, SIZE))
    n_spots = {
        "thing": rng.integers(0, 2),
        "part": 1,
        "beside": rng.integers(1, 3),
        "anywhere": rng.integers(2, 5),
        "dot": 1,
    }[kind]
    for _ in range(n_spots):
        heat = np.maximum(heat, spot(rng, kind, thing))
    if rng.random() < 0.6:  # as coarse as a feature map
        cells = int(rng.choice([7, 8, 14]))
        coarse = Image.fromarray(np.float32(heat)).resize((cells, cells), Image.Resampling.BOX)
        heat = np.asarray(coarse.resize((SIZE, SIZE), Image.Resampling.BICUBIC))
    heat = heat + rng.uniform(0, 0.06) * rng.random()
    return ((heat - heat.min()) / max(np.ptp(heat), 1e-9)).clip(0, 1)


def masked(image: np.ndarray, heat: np.ndarray, alpha: float = 25.0, beta: float = 0.4) -> np.ndarray:
    """An image (3, SIZE, SIZE) under its mask: paper autoxplain, equations 1 and 2."""
    return np.uint8(image / (1 + np.exp(alpha * (beta - heat))))


def heated(image: np.ndarray, heat: np.ndarray, opacity: float = 0.45) -> np.ndarray:
    """An image (3, SIZE, SIZE) under its attention as a heat-map."""
    colors = plt.cm.jet(heat)[..., :3].transpose(2, 0, 1)
    return np.uint8(255 * opacity * colors + (1 - opacity) * image)


def overlap(heat: np.ndarray, thing: np.ndarray, level: float = ATTENDED) -> tuple[float, float]:
    """How much of the thing is attended, and how much of the attention lies on the thing, in [0, 1]."""
    attended = heat > level
    both = (attended & thing).sum()
    return both / max(thing.sum(), 1), both / max(attended.sum(), 1)


def rubric(covered: float, precise: float) -> int:
    """The score 0 to 5 that the rubric of the prompt gives."""
    if covered < 0.05:
        return 0
    if covered < 0.15:
        return 1
    if covered < 0.40 or precise < 0.40:
        return 2
    if covered < 0.65 or precise < 0.65:
        return 3
    return 4 if covered < 0.85 or precise < 0.85 else 5


def side_by_side(
    rng: np.random.Generator, pixels: np.ndarray, parts: np.ndarray, row: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Two pictures on grey at half their size: pixels, part numbers of the first, row of the other."""
    half, upper = SIZE // 2, slice(SIZE // 4, SIZE // 4 + SIZE // 2)
    scene = np.full((3, SIZE, SIZE), 128, np.uint8)
    of_first, other = np.zeros((SIZE, SIZE), np.uint8), int(rng.integers(len(pixels)))
    places = [slice(0, half), slice(half, SIZE)][:: rng.choice([1, -1])]
    for shown, place in zip((row, other), places, strict=True):
        whole = Image.fromarray(pixels[shown].transpose(1, 2, 0))
        small = whole.resize((half, half), Image.Resampling.BOX)
        scene[:, upper, place] = np.asarray(small).transpose(2, 0, 1)
    of_first[upper, places[0]] = parts[row][::2, ::2]
    return scene, of_first, other


def under_attention(pool: dict, count: int, seed: int, stream: int) -> tuple:
    """`count` pictures of a pool under attention maps, even ones masked, odd ones as a heat-map.

    pool: "birds" and "things" as `stacked` gives them. stream: of the random numbers.
    Returns rows (world, row, row of a second thing or -1), pixels (N, 3, SIZE, SIZE), maps (N, SIZE, SIZE)
    float16, scores (N,), part numbers of what the map is about (N, SIZE, SIZE).
    """
    rows, made = [], []
    for number in tqdm(range(count), desc="attention maps"):
        rng = np.random.default_rng([seed, number, stream])
        world = ("birds", "things")[number % 4 // 2]
        pixels, parts, *_ = pool[world]
        row = int(np.random.default_rng([seed, number, stream + 1]).integers(len(pixels)))
        image, of_thing, other = pixels[row], parts[row], -1
        if rng.random() < SCENES:
            image, of_thing, other = side_by_side(rng, pixels, parts, row)
        thing = of_thing > 0
        heat = attention_map(rng, thing)
        if other >= 0 and rng.random() < 0.5:
            heat = thing.astype(float)
        show = heated if number % 2 else masked
        rows.append((world, row, other))
        score = rubric(*overlap(heat, thing))
        made.append((show(image, heat), heat.astype(np.float16), score, of_thing))
    return rows, *(np.stack(column) for column in zip(*made, strict=True))
