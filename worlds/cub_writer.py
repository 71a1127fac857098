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

from xaihelpers.paths import data_home

TRAIN_SHARE = 0.6
CHUNK = 16  # images that a worker draws at once


class DrawnImage(NamedTuple):
    """What the tables say of one image.

    number: from 1. path: inside the folder images. box: x, y, width and height in pixels.
    points: (P, 2), x and y of each part's centre, NaN where it is not visible.
    present: (A,) bool, the attributes that are to be seen.
    certainty: (A,) int, how certain an annotator could be of each, from 1 (not visible) to 4 (definitely).
    """

    number: int
    path: str
    box: tuple[float, float, float, float]
    points: np.ndarray
    present: np.ndarray
    certainty: np.ndarray


def save_drawn_image(root: Path, path: str, image: np.ndarray, parts: np.ndarray) -> None:
    """Save an image (H, W, 3) as JPEG in images/ and its part mask (H, W) as PNG in masks/, both uint8."""
    image_file = root / "images" / path
    mask_file = (root / "masks" / path).with_suffix(".png")
    for file in (image_file, mask_file):
        file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(image_file, quality=92)
    Image.fromarray(parts).save(mask_file)


def write_tables(
    root: Path,
    rows: list[DrawnImage],
    classes: Sequence[str],
    parts: Sequence[str],
    attributes: Sequence[str],
    seed: int,
    per_class: int,
) -> None:
    """Write all tables of CUB-200-2011; a share of each class's images, drawn by the seed, is for training.

    rows: an entry for each image, `per_class` of class 1 first, then those of class 2, and so on.
    """
    class_of = {row.number: (row.number - 1) // per_class + 1 for row in rows}
    train = _training_numbers(len(classes), per_class, seed)
    boxes, points, labels = [], [], []
    for row in rows:
        sides = " ".join(f"{value:.1f}" for value in row.box)
        boxes.append(f"{row.number} {sides}")
        for part, (x, y) in enumerate(row.points, 1):
            points.append(_part_line(row.number, part, x, y))
        for attribute, (present, certainty) in enumerate(zip(row.present, row.certainty, strict=True), 1):
            labels.append(f"{row.number} {attribute} {int(present)} {certainty} 0.0")
    class_names = [f"{number:03d}.{name}" for number, name in enumerate(classes, 1)]
    certainties = ("not visible", "guessing", "probably", "definitely")
    tables = {
        "images.txt": [f"{row.number} {row.path}" for row in rows],
        "classes.txt": _numbered(class_names),
        "image_class_labels.txt": [f"{number} {label}" for number, label in class_of.items()],
        "train_test_split.txt": [f"{number} {int(number in train)}" for number in class_of],
        "bounding_boxes.txt": boxes,
        "parts/parts.txt": _numbered(parts),
        "parts/part_locs.txt": points,
        "attributes/attributes.txt": _numbered(attributes),
        "attributes/certainties.txt": _numbered(certainties),
        "attributes/image_attribute_labels.txt": labels,
        "attributes/class_attribute_labels_continuous.txt": _class_percentages(rows, class_of, len(classes)),
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


def _numbered(names: Iterable[str]) -> list[str]:
    return [f"{number} {name}" for number, name in enumerate(names, 1)]


def _part_line(image: int, part: int, x: float, y: float) -> str:
    place = "0.0 0.0 0" if np.isnan(x) else f"{x:.1f} {y:.1f} 1"
    return f"{image} {part} {place}"


def _class_percentages(rows: list[DrawnImage], class_of: dict[int, int], n_classes: int) -> list[str]:
    """A line per class: percentages of its images with each attribute, of those where it could be seen."""
    present = np.array([row.present for row in rows], float)
    visible = np.array([row.certainty for row in rows]) > 1
    labels = np.array([class_of[row.number] for row in rows])
    lines = []
    for label in range(1, n_classes + 1):
        members = labels == label
        percentages = 100 * present[members].sum(0) / np.maximum(visible[members].sum(0), 1)
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
    total: int,
    draw_to: Callable,
    write: Callable,
    fixed: Sequence[str],
    jobs: int = -1,
) -> Path:
    """The folder `name` of a world under `data_home()`, drawn (with a progress bar) if it is not there yet.

    The folder appears only when it is whole: images are drawn to a folder of its own, which is then renamed,
    and a second process waits for the first. Where `name` is a symbolic link, the link stays and its target
    is drawn.

    kind: "aviary" or "everyday world"; the settings lie in a file of its first word, aviary.json or
        everyday.json.
    wanted: the settings. total: number of images.
    draw_to: called with a folder and numbers from 0 to total - 1; draws these images and returns their
        `DrawnImage` rows.
    write: called with a folder and all rows; writes the tables.
    fixed: names of settings in which a folder that is there must agree. One that differs in another setting
        (the version of the renderer) is drawn again.
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
        write(partial, _draw_all(partial, total, draw_to, jobs, f"drawing {name}"))
        (partial / settings_name).write_text(json.dumps(wanted))
        if root.exists():  # an older drawing: moved aside in one step, so that no moment shows half of it
            older = root.with_name(f"{root.name}.old")
            shutil.rmtree(older, ignore_errors=True)
            os.replace(root, older)
            shutil.rmtree(older)
        os.replace(partial, root)
    return place


def _draw_all(folder: Path, total: int, draw_to: Callable, jobs: int, description: str) -> list[DrawnImage]:
    """Draw the images 0 … total - 1 to `folder` in parallel; their rows in that order."""
    chunks = [list(range(start, min(start + CHUNK, total))) for start in range(0, total, CHUNK)]
    parallel = Parallel(n_jobs=jobs, return_as="generator")
    rows: list[DrawnImage] = []
    with tqdm(total=total, desc=description, unit="image") as bar:
        for drawn in parallel(delayed(draw_to)(folder, chunk) for chunk in chunks):
            rows += drawn
            bar.update(len(drawn))
    return rows
