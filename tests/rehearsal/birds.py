"""CUB-200-2011 and SUB in their own folders and files: all species and attributes, images of noise."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image

from xaihelpers.datasets import write_sub
from xaihelpers.paths import PROJECT
from xaihelpers.worlds import aviary
from xaihelpers.worlds.aviary.individuals import ATTRIBUTES
from xaihelpers.worlds.aviary.parts import PARTS

SPECIES = 200
OF_SUB = 33  # birds, and attributes
TRAIN, TEST = 2, 1  # images of a species


def class_names() -> list[str]:
    """200 names as CUB writes them: of species that the drawn world knows, and invented ones between."""
    names = {number: f"Stand_in_{number:03d}" for number in range(1, SPECIES + 1)}
    with open(Path(aviary.__file__).with_name("species.csv"), newline="") as file:
        names |= {int(row["cub_class"]): row["name"] for row in csv.DictReader(file)}
    return [f"{number:03d}.{name}" for number, name in sorted(names.items())]


def noise(rng: np.random.Generator, width: int, height: int, colour: np.ndarray | None = None) -> Image.Image:
    """An image of blurred noise, about a colour (3,)."""
    small = rng.integers(0, 256, (6, 8, 3))
    if colour is not None:
        small = (small + colour) // 2
    return Image.fromarray(small.astype("uint8")).resize((width, height), Image.Resampling.BICUBIC)


def birds_of_sub() -> list[str]:
    """The 33 of `class_names` that the benchmark's images are of."""
    return [name for name in class_names() if "Stand_in" not in name][:OF_SUB]


def write_cub(root: Path, train: int = TRAIN, test: int = TEST, only: list[str] | None = None) -> None:
    """All files of the data set; the list of attributes lies beside the folder, as in its archive.

    only: classes that have images; all by default.
    """
    rng = np.random.default_rng(0)
    names, n_each = class_names(), train + test
    with_images = [label for label, name in enumerate(names) if only is None or name in only]
    groups = np.array([name.split("::")[0] for name in ATTRIBUTES])
    profiles = np.zeros((SPECIES, len(ATTRIBUTES)), bool)
    for group in dict.fromkeys(groups):
        members = np.flatnonzero(groups == group)
        profiles[np.arange(SPECIES), rng.choice(members, SPECIES)] = True
    colours = rng.integers(0, 256, (SPECIES, 3))
    tables: dict[str, list[str]] = {
        "images.txt": [],
        "image_class_labels.txt": [],
        "train_test_split.txt": [],
        "bounding_boxes.txt": [],
        "parts/part_locs.txt": [],
        "attributes/image_attribute_labels.txt": [],
    }
    images, labels, split, boxes, parts, attributes = tables.values()
    percentages = 100.0 * profiles
    for place, label in enumerate(with_images):
        name, of_class = names[label], []
        (root / "images" / name).mkdir(parents=True, exist_ok=True)
        for number in range(n_each):
            image = place * n_each + number
            file = f"{name}/{name[4:]}_{number + 1:04d}_{image + 1}.jpg"
            width, height = (250, 180) if image % 4 else (180, 250)
            noise(rng, width, height, colours[label]).save(root / "images" / file, quality=85)
            images.append(f"{image + 1} {file}")
            labels.append(f"{image + 1} {label + 1}")
            split.append(f"{image + 1} {int(number < train)}")
            boxes.append(f"{image + 1} 20.0 15.0 {width - 40}.0 {height - 30}.0")
            places = rng.uniform(20, min(width, height) - 20, (len(PARTS), 2))
            for part, (x, y) in enumerate(places, 1):
                seen = rng.random() < 0.85
                parts.append(
                    f"{image + 1} {part} {x:.1f} {y:.1f} 1" if seen else f"{image + 1} {part} 0.0 0.0 0"
                )
            present = profiles[label] ^ (rng.random(len(ATTRIBUTES)) < 0.06)
            of_class.append(present)
            certainties = rng.choice([1, 2, 3, 4], len(ATTRIBUTES), p=[0.1, 0.1, 0.3, 0.5])
            for attribute, (there, sure) in enumerate(zip(present, certainties, strict=True), 1):
                more = " 0" if (image + attribute) % 5000 == 0 else ""  # the published file has such lines
                attributes.append(f"{image + 1} {attribute} {int(there and sure > 1)} {sure} 3.1{more}")
        percentages[label] = 100 * np.mean(of_class, axis=0)
    tables["attributes/class_attribute_labels_continuous.txt"] = [
        " ".join(f"{value:.10g}" if value else "0.0" for value in row) for row in percentages
    ]
    certainties = ("not visible", "guessing", "probably", "definitely")
    tables["attributes/certainties.txt"] = _numbered(certainties)
    tables["classes.txt"] = _numbered(names)
    tables["parts/parts.txt"] = _numbered(PARTS)
    tables["parts/part_click_locs.txt"] = parts[:30]
    tables["README"] = ["A stand-in for rehearsals: noise."]
    for name, lines in tables.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(f"{line}\n" for line in lines))
    (root.parent / "attributes.txt").write_text("".join(f"{line}\n" for line in _numbered(ATTRIBUTES)))


def _numbered(names) -> list[str]:
    return [f"{number} {name}" for number, name in enumerate(names, 1)]


def write_benchmark(folder: Path) -> None:
    """SUB's parquet files: each of 33 birds with each of 33 attributes, an image each, in two shards."""
    rng = np.random.default_rng(1)
    attributes = (PROJECT / "data/prompts/sub_attributes.txt").read_text().split()
    birds = birds_of_sub()
    pairs = [(attribute, bird) for attribute in attributes for bird in birds]
    for shard in range(2):
        some = pairs[shard::2]
        images = [noise(rng, 48, 48) for _ in some]
        names = ([pair[i] for pair in some] for i in (0, 1))
        write_sub(folder, images, *names, attributes, birds, shard, 2)


def write_few_of_cub(root: Path) -> None:
    """The same with images of 33 species alone, those of SUB: for what is trained from pixels."""
    write_cub(root, only=birds_of_sub())


def write_concept_file(file: Path) -> None:
    """Concepts by name, one a line, as a label-free bottleneck takes them; of random words, to be unlike."""
    rng = np.random.default_rng(8)
    words = (
        "red blue dark long webbed crown tail bill feet on a of with near shore lake small y2 of q x".split()
    )
    lines = [" ".join(rng.choice(words, 1 + n % 7)) for n in range(300)]
    file.write_text("".join(f"{line}\n" for line in dict.fromkeys(lines) if len(line) <= 30))
