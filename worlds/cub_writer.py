"""Drawn worlds on disk: the folders and formats of CUB-200-2011, and the part mask of every image.

A world's folder appears only when it is whole.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock
from joblib import Parallel, delayed
from PIL import Image
from tqdm.auto import tqdm

from worlds.canvas import Picture
from xaihelpers.paths import data_home

TRAIN_SHARE = 0.6


class DrawnImage(NamedTuple):
    """An image and what the tables say of it.

    present: (A,) bool, the attributes that are to be seen.
    certainty: (A,) int, how certain an annotator could be of each, from 1 (not visible) to 4 (definitely).
    """

    picture: Picture
    present: np.ndarray
    certainty: np.ndarray


def _draw_to(root: Path, path: str, draw_one: Callable, number: int, label: int) -> DrawnImage:
    """Draw an image to images/ and masks/; returns it without its pixels."""
    drawn = draw_one(number, label)
    image_file, mask_file = root / "images" / path, (root / "masks" / path).with_suffix(".png")
    for file in (image_file, mask_file):
        file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(drawn.picture.image).save(image_file, quality=92)
    Image.fromarray(drawn.picture.parts).save(mask_file)
    return drawn._replace(picture=drawn.picture._replace(image=None, parts=None))


def _write_tables(
    root: Path,
    images: list[DrawnImage],
    paths: list[str],
    classes: Sequence[str],
    parts: Sequence[str],
    attributes: Sequence[str],
    seed: int,
) -> None:
    """Write all tables of CUB-200-2011; a share of each class's images, drawn by the seed, is for training.

    images, paths: as many of each class, those of the first class first.
    """
    per_class = len(images) // len(classes)
    labels, train = np.repeat(np.arange(len(classes)), per_class), np.zeros(len(images), int)
    for label in range(len(classes)):
        order = np.random.default_rng([seed, label, 11]).permutation(per_class)
        train[label * per_class + order[: round(TRAIN_SHARE * per_class)]] = 1
    boxes, points, shown = [], [], []
    for number, drawn in enumerate(images, 1):
        boxes.append(" ".join(f"{value:.1f}" for value in drawn.picture.box))
        for part, (x, y) in enumerate(drawn.picture.points, 1):
            place = "0.0 0.0 0" if np.isnan(x) else f"{x:.1f} {y:.1f} 1"
            points.append(f"{number} {part} {place}")
        for attribute, (present, certainty) in enumerate(zip(drawn.present, drawn.certainty, strict=True), 1):
            shown.append(f"{number} {attribute} {int(present)} {certainty} 0.0")
    tables = {
        "images.txt": _numbered(paths),
        "classes.txt": _numbered(f"{number:03d}.{name}" for number, name in enumerate(classes, 1)),
        "image_class_labels.txt": _numbered(labels + 1),
        "train_test_split.txt": _numbered(train),
        "bounding_boxes.txt": _numbered(boxes),
        "parts/parts.txt": _numbered(parts),
        "parts/part_locs.txt": points,
        "attributes/attributes.txt": _numbered(attributes),
        "attributes/certainties.txt": _numbered(("not visible", "guessing", "probably", "definitely")),
        "attributes/image_attribute_labels.txt": shown,
        "attributes/class_attribute_labels_continuous.txt": _class_percentages(images, per_class),
    }
    for name, lines in tables.items():
        file = root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))


def _numbered(names: Iterable) -> list[str]:
    return [f"{number} {name}" for number, name in enumerate(names, 1)]


def _class_percentages(images: list[DrawnImage], per_class: int) -> list[str]:
    """A line per class: percentages of its images with each attribute, of those where it could be seen."""
    lines = []
    for start in range(0, len(images), per_class):
        of_class = images[start : start + per_class]
        present = np.sum([drawn.present for drawn in of_class], 0, float)
        visible = np.sum([drawn.certainty > 1 for drawn in of_class], 0)
        percentages = 100 * present / np.maximum(visible, 1)
        lines.append(" ".join(f"{value:.10g}" if value else "0.0" for value in percentages))
    return lines


def ensure_world(
    name: str,
    kind: str,
    wanted: dict,
    classes: Sequence[str],
    parts: Sequence[str],
    attributes: Sequence[str],
    draw_one: Callable[[int, int], DrawnImage],
    jobs: int = -1,
) -> Path:
    """The folder `name` of a world under `data_home()`, drawn (with a progress bar) if it is not there yet.

    The folder appears only when it is whole: images are drawn to a folder of its own, which is then renamed,
    and a second process waits for the first.

    kind: "aviary" or "everyday"; the settings lie in a file of this name, aviary.json or everyday.json.
    wanted: the settings, among them the seed, images_per_class and the version of the renderer.
    draw_one: called with an image's number and its label, both from 0.
    jobs: number of worker processes, as joblib's `n_jobs`.
    Raises ValueError: the folder holds a world of other settings, or something else.
    """
    root, settings_name = data_home() / name, f"{kind}.json"

    def is_there() -> bool:
        """Whether this very world is drawn."""
        file = root / settings_name
        return file.exists() and json.loads(file.read_text()) == wanted

    if is_there():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{root}.lock"):
        if is_there():  # by now: another process has drawn it
            return root
        if root.exists():
            raise ValueError(
                f"{root} is no drawn world of these settings, {wanted}: its {settings_name} tells others or "
                "is missing. Move it away or choose another name."
            )
        # of a killed run, whose last workers may still be writing there
        for leftover in root.parent.glob(f"{root.name}.partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{root.name}.partial-", dir=root.parent))
        partial.chmod(0o755)
        work, paths, per_class = [], [], wanted["images_per_class"]
        for number in range(len(classes) * per_class):
            label, of_class = divmod(number, per_class)
            file = f"{classes[label]}_{of_class + 1:04d}_{number + 1}.jpg"
            paths.append(f"{label + 1:03d}.{classes[label]}/{file}")
            work.append(delayed(_draw_to)(partial, paths[-1], draw_one, number, label))
        drawn = Parallel(n_jobs=jobs, batch_size=16, return_as="generator")(work)
        images = list(tqdm(drawn, f"drawing {name}", len(paths), unit="image"))
        _write_tables(partial, images, paths, classes, parts, attributes, wanted["seed"])
        (partial / settings_name).write_text(json.dumps(wanted))
        os.replace(partial, root)
    return root
