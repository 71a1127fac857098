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
CHUNK = 16  # images that a worker draws at once


class DrawnImage(NamedTuple):
    """An image and what the tables say of it.

    present: (A,) bool, the attributes that are to be seen.
    certainty: (A,) int, how certain an annotator could be of each, from 1 (not visible) to 4 (definitely).
    """

    picture: Picture
    present: np.ndarray
    certainty: np.ndarray


def _draw_some(
    root: Path, numbers: list[int], classes: Sequence[str], per_class: int, draw_one: Callable
) -> list[tuple[str, DrawnImage]]:
    """Draw these images (from 0) to images/ and masks/; the path of each, and it without its pixels."""
    rows = []
    for number in numbers:
        label, place = divmod(number, per_class)
        name = classes[label]
        path = f"{label + 1:03d}.{name}/{name}_{place + 1:04d}_{number + 1}.jpg"
        drawn = draw_one(number, label)
        image_file = root / "images" / path
        mask_file = (root / "masks" / path).with_suffix(".png")
        for file in (image_file, mask_file):
            file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(drawn.picture.image).save(image_file, quality=92)
        Image.fromarray(drawn.picture.parts).save(mask_file)
        rows.append((path, drawn._replace(picture=drawn.picture._replace(image=None, parts=None))))
    return rows


def _write_tables(
    root: Path,
    rows: list[tuple[str, DrawnImage]],
    classes: Sequence[str],
    parts: Sequence[str],
    attributes: Sequence[str],
    seed: int,
    per_class: int,
) -> None:
    """Write all tables of CUB-200-2011; a share of each class's images, drawn by the seed, is for training.

    rows: of each image, `per_class` of class 1 first, then those of class 2, and so on.
    """
    train = _training_numbers(len(classes), per_class, seed)
    paths, boxes, points, labels = [], [], [], []
    for image, (path, drawn) in enumerate(rows, 1):
        paths.append(path)
        boxes.append(" ".join(f"{value:.1f}" for value in drawn.picture.box))
        for part, (x, y) in enumerate(drawn.picture.points, 1):
            place = "0.0 0.0 0" if np.isnan(x) else f"{x:.1f} {y:.1f} 1"
            points.append(f"{image} {part} {place}")
        for attribute, (present, certainty) in enumerate(zip(drawn.present, drawn.certainty, strict=True), 1):
            labels.append(f"{image} {attribute} {int(present)} {certainty} 0.0")
    numbers = range(1, len(rows) + 1)
    tables = {
        "images.txt": _numbered(paths),
        "classes.txt": _numbered(f"{number:03d}.{name}" for number, name in enumerate(classes, 1)),
        "image_class_labels.txt": _numbered((number - 1) // per_class + 1 for number in numbers),
        "train_test_split.txt": _numbered(int(number in train) for number in numbers),
        "bounding_boxes.txt": _numbered(boxes),
        "parts/parts.txt": _numbered(parts),
        "parts/part_locs.txt": points,
        "attributes/attributes.txt": _numbered(attributes),
        "attributes/certainties.txt": _numbered(("not visible", "guessing", "probably", "definitely")),
        "attributes/image_attribute_labels.txt": labels,
        "attributes/class_attribute_labels_continuous.txt": _class_percentages(rows, per_class),
    }
    for name, lines in tables.items():
        file = root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))


def _training_numbers(n_classes: int, per_class: int, seed: int) -> set[int]:
    """The numbers (from 1) of the images for training: a share of each class, drawn by the seed."""
    numbers = set()
    for label in range(n_classes):
        order = np.random.default_rng([seed, label, 11]).permutation(per_class)
        chosen = order[: round(TRAIN_SHARE * per_class)]
        numbers |= {label * per_class + int(index) + 1 for index in chosen}
    return numbers


def _numbered(names: Iterable) -> list[str]:
    return [f"{number} {name}" for number, name in enumerate(names, 1)]


def _class_percentages(rows: list[tuple[str, DrawnImage]], per_class: int) -> list[str]:
    """A line per class: percentages of its images with each attribute, of those where it could be seen."""
    lines = []
    for start in range(0, len(rows), per_class):
        of_class = [drawn for _, drawn in rows[start : start + per_class]]
        present = np.sum([drawn.present for drawn in of_class], 0, float)
        visible = np.sum([drawn.certainty > 1 for drawn in of_class], 0)
        percentages = 100 * present / np.maximum(visible, 1)
        lines.append(" ".join(f"{value:.10g}" if value else "0.0" for value in percentages))
    return lines


def _settings(file: Path) -> dict | None:
    """What a whole world was drawn with; None where there is none, or its file is damaged."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def ensure_world(
    name: str,
    kind: str,
    wanted: dict,
    fixed: Sequence[str],
    classes: Sequence[str],
    parts: Sequence[str],
    attributes: Sequence[str],
    draw_one: Callable[[int, int], DrawnImage],
    jobs: int = -1,
) -> Path:
    """The folder `name` of a world under `data_home()`, drawn (with a progress bar) if it is not there yet.

    The folder appears only when it is whole: images are drawn to a folder of its own, which is then renamed,
    and a second process waits for the first. Where `name` is a symbolic link, the link stays and its target
    is drawn.

    kind: "aviary" or "everyday world"; the settings lie in a file of its first word, aviary.json or
        everyday.json.
    wanted: the settings, among them the seed and images_per_class.
    fixed: names of settings in which a folder that is there must agree. One that differs in another setting
        (the version of the renderer) is drawn again.
    draw_one: called with an image's number and its label, both from 0.
    jobs: number of worker processes, as joblib's `n_jobs`.
    Raises ValueError: the folder holds a world of other settings, or something else.
    """
    place, settings_name = data_home() / name, f"{kind.split()[0]}.json"
    if _settings(place / settings_name) == wanted:
        return place
    root = place.resolve()  # the target of a symbolic link
    root.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{root}.lock"):
        existing = _settings(root / settings_name)
        if existing == wanted:
            return place
        if existing and any(existing.get(key) != wanted.get(key) for key in fixed):
            raise ValueError(
                f"{root} holds an {kind} of other settings ({existing}); choose another name for this one "
                f"({wanted})"
            )
        if root.exists() and not existing:
            raise ValueError(
                f"{root} exists and is no {kind} (no whole {settings_name} in it); move it away or choose "
                "another name"
            )
        # of a killed run, whose last workers may still be writing there
        for leftover in root.parent.glob(f"{root.name}.partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{root.name}.partial-", dir=root.parent))
        partial.chmod(0o755)
        per_class = wanted["images_per_class"]
        rows = _draw_all(partial, classes, per_class, draw_one, jobs, f"drawing {name}")
        _write_tables(partial, rows, classes, parts, attributes, wanted["seed"], per_class)
        (partial / settings_name).write_text(json.dumps(wanted))
        if root.exists():  # an older drawing: moved aside in one step, so that no moment shows half of it
            older = root.with_name(f"{root.name}.old")
            shutil.rmtree(older, ignore_errors=True)
            os.replace(root, older)
            shutil.rmtree(older)
        os.replace(partial, root)
    return place


def _draw_all(
    folder: Path, classes: Sequence[str], per_class: int, draw_one: Callable, jobs: int, description: str
) -> list[tuple[str, DrawnImage]]:
    """Draw all images to `folder` in parallel; what `_draw_some` says of them, in order."""
    total, rows = len(classes) * per_class, []
    chunks = [list(range(start, min(start + CHUNK, total))) for start in range(0, total, CHUNK)]
    work = (delayed(_draw_some)(folder, chunk, classes, per_class, draw_one) for chunk in chunks)
    with tqdm(total=total, desc=description, unit="image") as bar:
        for drawn in Parallel(n_jobs=jobs, return_as="generator")(work):
            rows += drawn
            bar.update(len(drawn))
    return rows
