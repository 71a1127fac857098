"""The aviary on disk, in exactly the folders and formats of CUB-200-2011, and beside them what CUB lacks: a mask of the parts of every bird."""
import hashlib
import json
import os
import shutil
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from filelock import FileLock
from joblib import Parallel, delayed
from PIL import Image
from tqdm.auto import tqdm

from ..paths import data_home
from .draw import PARTS, draw
from .individuals import ATTRIBUTES, GROUPS, NEEDS, individual, species_table, true_attributes

IMAGES_PER_CLASS, TRAIN_SHARE = 50, 0.6
_GROUP_OF = [group for group, values in GROUPS.items() for _ in values]


@cache
def renderer_version() -> str:
    """Hash of the renderer's own source and species: a folder drawn by another version is drawn again."""
    folder = files("xaihelpers.aviary")
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir(), key=lambda path: path.name) if path.name.endswith((".py", ".csv")))).hexdigest()[:12]


def certainties(parts: np.ndarray, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How sure an annotator could be of each attribute, int (312,): 1 not visible, 3 probably (its part shows little), 4 definitely."""
    area = np.bincount(parts.ravel(), minlength=17)
    by_group = {}
    for group in GROUPS:
        needed = [i for i, part in enumerate(PARTS) if part.endswith(NEEDS.get(group, "\0"))]
        if not needed:
            by_group[group] = 4
        elif np.isnan(points[needed, 0]).all():
            by_group[group] = 1
        else:
            by_group[group] = 3 if area[[i + 1 for i in needed]].sum() < 40 or rng.random() < 0.1 else 4
    return np.array([by_group[group] for group in _GROUP_OF])


def _draw_to(root: Path, seed: int, numbers: list[int], per_class: int) -> list[tuple]:
    """Draw the birds with these numbers (0-based over the whole aviary); returns (image id, path, box, points, present, certainty) of each."""
    rows, table = [], species_table()
    for number in numbers:
        species = number // per_class
        bird = individual(seed, number, species)
        picture = draw(bird)
        path = f"{species + 1:03d}.{table['name'][species]}/{table['name'][species]}_{number % per_class + 1:04d}_{number + 1}.jpg"
        for kind, pixels, name, options in (("images", picture.image, path, {"quality": 92}), ("masks", picture.parts, Path(path).with_suffix(".png"), {})):
            (file := root / kind / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(file, **options)
        certainty = certainties(picture.parts, picture.points, np.random.default_rng([seed, number, 10]))
        rows.append((number + 1, path, picture.box, picture.points, true_attributes(bird) & (certainty > 1), certainty))
    return rows


def _write_tables(root: Path, rows: list[tuple], seed: int, per_class: int) -> None:
    table = species_table()
    classes = {row[0]: (row[0] - 1) // per_class + 1 for row in rows}
    train = set()
    for species in range(len(table)):
        order = np.random.default_rng([seed, species, 11]).permutation(per_class)[:round(TRAIN_SHARE * per_class)]
        train |= {species * per_class + int(i) + 1 for i in order}

    def write(name, lines):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("".join(f"{line}\n" for line in lines))

    write("images.txt", (f"{i} {path}" for i, path, *_ in rows))
    write("classes.txt", (f"{k + 1} {k + 1:03d}.{name}" for k, name in enumerate(table["name"])))
    write("image_class_labels.txt", (f"{i} {k}" for i, k in classes.items()))
    write("train_test_split.txt", (f"{i} {int(i in train)}" for i in classes))
    write("bounding_boxes.txt", (f"{i} " + " ".join(f"{v:.1f}" for v in box) for i, _, box, *_ in rows))
    write("parts/parts.txt", (f"{i + 1} {part}" for i, part in enumerate(PARTS)))
    write("parts/part_locs.txt", (f"{i} {p + 1} " + ("0.0 0.0 0" if np.isnan(x) else f"{x:.1f} {y:.1f} 1")
                                  for i, _, _, points, *_ in rows for p, (x, y) in enumerate(points)))
    write("attributes/attributes.txt", (f"{i + 1} {name}" for i, name in enumerate(ATTRIBUTES)))
    write("attributes/certainties.txt", ("1 not visible", "2 guessing", "3 probably", "4 definitely"))
    write("attributes/image_attribute_labels.txt", (f"{i} {a + 1} {int(present[a])} {certainty[a]} 0.0"
                                                    for i, *_, present, certainty in rows for a in range(len(ATTRIBUTES))))
    present, seen = np.array([r[4] for r in rows], float), np.array([r[5] for r in rows]) > 1
    of_class = np.array([classes[r[0]] for r in rows])
    shares = [100 * present[of_class == k].sum(0) / np.maximum(seen[of_class == k].sum(0), 1) for k in range(1, len(table) + 1)]
    write("attributes/class_attribute_labels_continuous.txt", (" ".join(f"{v:.10g}" if v else "0.0" for v in row) for row in shares))


def _settings(root: Path) -> dict | None:
    """What a whole aviary was drawn with; None where there is none, or its aviary.json is damaged."""
    try:
        return json.loads((root / "aviary.json").read_text())
    except (OSError, ValueError):
        return None


def ensure(name: str = "aviary", images_per_class: int = IMAGES_PER_CLASS, seed: int = 0, jobs: int = -1) -> Path:
    """The folder of an aviary under `data_home()`, drawn (with a progress bar) if it is not there yet.

    48 species × `images_per_class` birds of 224×224 pixels, 60 % of each class for training. The folder appears only when it is whole: drawing goes to a
    folder of its own that is then renamed, and a second process waits for the first. A folder of other settings raises ValueError; one drawn by
    an older renderer is drawn again.
    """
    root = data_home() / name
    wanted = {"seed": seed, "images_per_class": images_per_class, "species": len(species_table()), "renderer": renderer_version()}
    if _settings(root) == wanted:
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{root}.lock"):
        found = _settings(root)
        if found == wanted:
            return root
        if found and any(found.get(key) != wanted[key] for key in ("seed", "images_per_class")):
            raise ValueError(f"{root} holds an aviary of other settings ({found}); choose another name for this one ({wanted})")
        if root.exists() and not found:
            raise ValueError(f"{root} exists and is no aviary (no whole aviary.json in it); move it away or choose another name")
        for left in root.parent.glob(f"{name}.partial-*"):  # of a killed drawing, whose last workers may still be writing there
            shutil.rmtree(left, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{name}.partial-", dir=root.parent))
        partial.chmod(0o755)
        total = len(species_table()) * images_per_class
        chunks = [list(range(start, min(start + 16, total))) for start in range(0, total, 16)]
        rows: list[tuple] = []
        with tqdm(total=total, desc=f"drawing {name}", unit="bird") as bar:
            for done in Parallel(n_jobs=jobs, return_as="generator")(delayed(_draw_to)(partial, seed, chunk, images_per_class) for chunk in chunks):
                rows += done
                bar.update(len(done))
        _write_tables(partial, rows, seed, images_per_class)
        (partial / "aviary.json").write_text(json.dumps(wanted))
        if root.exists():  # an older drawing: aside in one step, so that no moment shows half of it
            shutil.rmtree(old := root.with_name(f"{name}.old"), ignore_errors=True)
            os.replace(root, old)
            shutil.rmtree(old)
        os.replace(partial, root)
    return root


def part_mask(root: Path, image_path: str) -> np.ndarray:
    """Where the parts of one bird are, uint8 (224, 224): 0 background, 1…15 the visible part (ids of parts.txt), 16 the rest of the bird.

    `image_path` as in images.txt. Raises FileNotFoundError where a data set has no masks (the real CUB has none).
    """
    file = Path(root) / "masks" / Path(image_path).with_suffix(".png")
    if not file.exists():
        raise FileNotFoundError(f"{file} is missing: only the aviary knows the mask of each part")
    return np.asarray(Image.open(file))
