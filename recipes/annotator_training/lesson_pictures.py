"""Pictures of both worlds with all that is to be seen in them, from which the annotator learns.

A picture is a row (pixels, part numbers, what is to be seen, class). What is to be seen are the attributes of
its world that are visible, and after them one column for each seat (birds) or category (things).
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from PIL import Image, ImageOps
from tqdm.auto import tqdm

from xaihelpers import datasets
from xaihelpers.worlds import aviary, everyday
from xaihelpers.worlds.aviary.pose import Pose

SIZE, PATCH = 128, 16  # side of a picture and of a patch, in pixels
N_PATCHES = (SIZE // PATCH) ** 2
SEATS = ["branch", "trunk", "water", "air", "rock", "shallows", "ground"]
SPECIES = [name.replace("_", " ") for name in aviary.species_table()["name"]]
CATEGORIES = list(everyday.CATEGORIES)
THINGS = [name.replace("_", " ") for name in CATEGORIES]
NAMES = {"birds": SPECIES, "things": THINGS}
ATTRIBUTES = {"birds": aviary.ATTRIBUTES, "things": everyday.ATTRIBUTES}
GROUPS = {
    "birds": {**aviary.GROUPS, "seat": SEATS},
    "things": {**everyday.GROUPS, "category": CATEGORIES},
}


def group_slices(groups: dict[str, list[str]]) -> list[slice]:
    """The columns of each attribute group, whose values stand side by side."""
    ends = np.cumsum([len(values) for values in groups.values()])
    return [slice(end - len(values), end) for end, values in zip(ends, groups.values(), strict=True)]


SLICES = {world: group_slices(groups) for world, groups in GROUPS.items()}


def reduced(image: Image.Image, mask: Image.Image) -> tuple[np.ndarray, np.ndarray]:
    """Picture (SIZE, SIZE, 3) and part numbers (SIZE, SIZE), uint8, of a world's 224 x 224 pixels."""
    pixels = ImageOps.fit(image, (SIZE, SIZE), Image.Resampling.BICUBIC)
    parts = mask.resize((SIZE, SIZE), Image.Resampling.NEAREST)
    return np.asarray(pixels), np.asarray(parts)


def is_seat(bird) -> np.ndarray:
    """Which of the SEATS a bird sits on, (7,) bool."""
    return np.array(SEATS) == Pose(bird).seat


def is_category(label: int) -> np.ndarray:
    """Which of the CATEGORIES a thing is of, bool."""
    return np.arange(len(CATEGORIES)) == label


def drawn_bird(seed: int, number: int) -> tuple:
    """A picture drawn for training; every odd number has attributes drawn at random and the class -1.

    Returns picture (SIZE, SIZE, 3), part numbers (SIZE, SIZE), what is to be seen (312 + 7,) bool, species.
    """
    rng = np.random.default_rng([seed, number, 93])
    label = int(rng.integers(len(SPECIES)))
    bird = aviary.individual(2000 + seed, number, label)
    if number % 2:
        bird = aviary.shuffled(bird, rng, share=rng.uniform(0.3, 1))
        label = -1
    picture = aviary.draw(bird)
    visible = aviary.visible_attributes(bird, picture, rng)
    seen = np.concatenate([visible, is_seat(bird)])
    return *reduced(Image.fromarray(picture.image), Image.fromarray(picture.parts)), seen, label


def drawn_thing(seed: int, number: int) -> tuple:
    """The same of an everyday thing: of every odd number colours and place are random, the class stays."""
    rng = np.random.default_rng([seed, number, 94])
    thing = everyday.thing(2000 + seed, number, str(rng.choice(CATEGORIES)))
    if number % 2:
        thing = everyday.shuffled(thing, rng)
    picture = everyday.draw(thing)
    label = CATEGORIES.index(thing.category)
    seen = np.concatenate([everyday.true_attributes(thing, picture.parts), is_category(label)])
    return *reduced(Image.fromarray(picture.image), Image.fromarray(picture.parts)), seen, label


def drawn_portrait(seed: int, number: int, stream: int = 96) -> tuple:
    """The same of a bird cropped to its box: no class and no seat can be asked for.

    Of every odd number most attributes are random, of the others one group in ten. stream: of the birds; none
    is of two of them.
    """
    rng = np.random.default_rng([seed, number, stream])
    bird = aviary.individual(3000 + seed + stream, number, int(rng.integers(len(SPECIES))))
    share = rng.uniform(0.3, 1) if number % 2 else rng.uniform(0.04, 0.16)
    bird = aviary.shuffled(bird, rng, share=share)
    picture = aviary.draw(bird)
    visible = aviary.visible_attributes(bird, picture, rng)
    seen = np.concatenate([visible, np.zeros(len(SEATS), bool)])
    image = datasets.crop_to_box(Image.fromarray(picture.image), picture.box)
    mask = datasets.crop_to_box(Image.fromarray(picture.parts), picture.box)
    return *reduced(image, mask), seen, -1


def stored_pictures(name: str, world, rows: Iterable[int]) -> list[tuple]:
    """The same of images on disk. The seat of a bird is not annotated, but its renderer knows it.

    name: "birds" or "things". world: that data set, loaded. rows: of its table of images.
    """
    annotated = datasets.image_attributes(world)[0].numpy()
    found = []
    for row in rows:
        label = int(world.labels[row])
        extra = is_seat(aviary.individual(0, row, label)) if name == "birds" else is_category(label)
        image = datasets.load_image(world.images.path.iloc[row])
        pixels, parts = reduced(image, Image.fromarray(world.part_mask(row)))
        found.append((pixels, parts, np.concatenate([annotated[row], extra]), label))
    return found


def stacked(rows: Iterable[tuple]) -> list[np.ndarray]:
    """Pixels (N, 3, SIZE, SIZE) and parts (N, SIZE, SIZE) uint8, seen (N, A) bool, label (N,)."""
    pixels, parts, seen, label = (np.stack(column) for column in zip(*rows, strict=True))
    return [pixels.transpose(0, 3, 1, 2).copy(), parts, seen, label]


def training_rows(world, count: int) -> np.ndarray:
    """Rows of a data set's training split: `count` of them at equal distances, or with 0 all."""
    rows = world.train.nonzero()[:, 0].numpy()
    if count:
        rows = rows[:: max(1, len(rows) // count)][:count]
    return rows


def gather_pictures(
    name: str, draw: Callable[[int], tuple], count: int, stored: Iterable[tuple] = (), folder: str = ""
) -> list[np.ndarray]:
    """Stored pictures, and `count` drawn ones after them, as `stacked` gives them.

    draw: makes the picture of a number. folder: where they are kept as drawn_<name>.npz and, if they are
        there, read from; "" keeps none.
    """
    file = Path(folder or ".") / f"drawn_{name}.npz"
    if folder and file.exists():
        return [*np.load(file).values()]
    numbers = tqdm(range(count), desc=f"drawing {name}")
    parallel = Parallel(n_jobs=-1 if count > 500 else 1, batch_size=32)
    arrays = stacked([*stored, *parallel(delayed(draw)(number) for number in numbers)])
    if folder:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, *arrays)
    return arrays


def held_out(name: str, world, count: int) -> tuple[list[np.ndarray], list[str]]:
    """`count` pictures of a world's test split (0: all), as `stacked` gives them, and their files."""
    rows = (~world.train).nonzero()[:, 0].numpy()
    rows = np.random.default_rng(0).permutation(rows)[: count or len(rows)]
    return stacked(stored_pictures(name, world, rows)), world.images.path.iloc[rows].tolist()


def as_images(pixels: np.ndarray) -> list[Image.Image]:
    """PIL images of pixels (N, 3, SIZE, SIZE) uint8."""
    return [Image.fromarray(picture.transpose(1, 2, 0)) for picture in pixels]
