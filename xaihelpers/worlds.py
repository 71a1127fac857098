"""Drawn worlds on disk: whole or not at all, in exactly the folders and formats of CUB-200-2011, and beside them a mask of the parts of every image."""
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock
from joblib import Parallel, delayed
from PIL import Image
from tqdm.auto import tqdm

from .paths import data_home

TRAIN_SHARE = 0.6


class Drawn(NamedTuple):
    """What the tables say of one image: its number from 1, its path, its box (x, y, width, height), each part's centre (P, 2), NaN where it is not visible, and for
    each attribute whether it is present (A,) and how sure an annotator could be (A,), 1 not visible … 4 definitely."""
    number: int
    path: str
    box: tuple[float, float, float, float]
    points: np.ndarray
    present: np.ndarray
    certainty: np.ndarray


def save_picture(root: Path, path: str, image: np.ndarray, parts: np.ndarray) -> None:
    """An image (H, W, 3) as JPEG under images/, its mask of parts (H, W) as PNG under masks/."""
    for kind, pixels, name, options in (("images", image, path, {"quality": 92}), ("masks", parts, Path(path).with_suffix(".png"), {})):
        (file := root / kind / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file, **options)


def write_tables(root: Path, rows: list[Drawn], classes: Sequence[str], parts: Sequence[str], attributes: Sequence[str], seed: int, per_class: int) -> None:
    """All tables of CUB-200-2011; a share of each class, drawn by the seed, is for training."""
    of = {row.number: (row.number - 1) // per_class + 1 for row in rows}
    train = set()
    for k in range(len(classes)):
        order = np.random.default_rng([seed, k, 11]).permutation(per_class)[:round(TRAIN_SHARE * per_class)]
        train |= {k * per_class + int(i) + 1 for i in order}

    def write(name, lines):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("".join(f"{line}\n" for line in lines))

    write("images.txt", (f"{row.number} {row.path}" for row in rows))
    write("classes.txt", (f"{k + 1} {k + 1:03d}.{name}" for k, name in enumerate(classes)))
    write("image_class_labels.txt", (f"{i} {k}" for i, k in of.items()))
    write("train_test_split.txt", (f"{i} {int(i in train)}" for i in of))
    write("bounding_boxes.txt", (f"{row.number} " + " ".join(f"{v:.1f}" for v in row.box) for row in rows))
    write("parts/parts.txt", (f"{i + 1} {part}" for i, part in enumerate(parts)))
    write("parts/part_locs.txt", (f"{row.number} {p + 1} " + ("0.0 0.0 0" if np.isnan(x) else f"{x:.1f} {y:.1f} 1") for row in rows for p, (x, y) in enumerate(row.points)))
    write("attributes/attributes.txt", (f"{i + 1} {name}" for i, name in enumerate(attributes)))
    write("attributes/certainties.txt", ("1 not visible", "2 guessing", "3 probably", "4 definitely"))
    write("attributes/image_attribute_labels.txt", (f"{row.number} {a + 1} {int(row.present[a])} {row.certainty[a]} 0.0" for row in rows for a in range(len(attributes))))
    present, seen = np.array([row.present for row in rows], float), np.array([row.certainty for row in rows]) > 1
    of_class = np.array([of[row.number] for row in rows])
    shares = [100 * present[of_class == k].sum(0) / np.maximum(seen[of_class == k].sum(0), 1) for k in range(1, len(classes) + 1)]
    write("attributes/class_attribute_labels_continuous.txt", (" ".join(f"{v:.10g}" if v else "0.0" for v in row) for row in shares))


def _settings(file: Path) -> dict | None:
    """What a whole world was drawn with; None where there is none, or its file is damaged."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def ensure_world(name: str, kind: str, wanted: dict, total: int, draw_to: Callable, write: Callable, fixed: Sequence[str], jobs: int = -1) -> Path:
    """The folder `name` of a world under `data_home()`, drawn (with a progress bar) if it is not there yet.

    kind: "aviary" or "everyday world"; its settings `wanted` lie in a file of its first word, aviary.json or everyday.json. draw_to(folder, numbers): draws the
    images of these numbers (from 0 to total - 1) and returns their `Drawn` rows. write(folder, rows): writes the tables. The folder appears only when it is whole:
    drawing goes to a folder of its own that is then renamed, and a second process waits for the first. A folder that differs in a setting named in `fixed` raises
    ValueError; one that differs in others (an older renderer) is drawn again.
    """
    root, file = data_home() / name, f"{kind.split()[0]}.json"
    if _settings(root / file) == wanted:
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{root}.lock"):
        found = _settings(root / file)
        if found == wanted:
            return root
        if found and any(found.get(key) != wanted[key] for key in fixed):
            raise ValueError(f"{root} holds an {kind} of other settings ({found}); choose another name for this one ({wanted})")
        if root.exists() and not found:
            raise ValueError(f"{root} exists and is no {kind} (no whole {file} in it); move it away or choose another name")
        for left in root.parent.glob(f"{root.name}.partial-*"):  # of a killed drawing, whose last workers may still be writing there
            shutil.rmtree(left, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{root.name}.partial-", dir=root.parent))
        partial.chmod(0o755)
        chunks = [list(range(start, min(start + 16, total))) for start in range(0, total, 16)]
        rows: list[Drawn] = []
        with tqdm(total=total, desc=f"drawing {name}", unit="image") as bar:
            for done in Parallel(n_jobs=jobs, return_as="generator")(delayed(draw_to)(partial, chunk) for chunk in chunks):
                rows += done
                bar.update(len(done))
        write(partial, rows)
        (partial / file).write_text(json.dumps(wanted))
        if root.exists():  # an older drawing: aside in one step, so that no moment shows half of it
            shutil.rmtree(old := root.with_name(f"{root.name}.old"), ignore_errors=True)
            os.replace(root, old)
            shutil.rmtree(old)
        os.replace(partial, root)
    return root


def part_mask(root: Path, image_path: str | Path) -> np.ndarray:
    """Where the parts of one image are, uint8 (224, 224): 0 background, 1…P the visible part (ids of parts.txt), and in the aviary 16 the rest of the bird.

    `image_path` as in images.txt. Raises FileNotFoundError where a data set has no masks (the real CUB has none).
    """
    file = Path(root) / "masks" / Path(image_path).with_suffix(".png")
    if not file.exists():
        raise FileNotFoundError(f"{file} is missing: only the aviary and the everyday world know the mask of each part")
    return np.asarray(Image.open(file))


def source_version(*files) -> str:
    """Hash of a renderer's own source and tables: a folder drawn by another version is drawn again."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files, key=lambda path: path.name))).hexdigest()[:12]
