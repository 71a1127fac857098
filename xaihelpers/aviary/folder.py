"""The aviary on disk, in exactly the folders and formats of CUB-200-2011, and beside them what CUB lacks: a mask of the parts of every bird."""
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..worlds import Drawn, ensure_world, part_mask, save_picture, source_version, write_tables
from .draw import PARTS, draw
from .individuals import ATTRIBUTES, GROUPS, NEEDS, individual, species_table, true_attributes

__all__ = ["IMAGES_PER_CLASS", "certainties", "ensure", "part_mask", "renderer_version"]
IMAGES_PER_CLASS = 50
_GROUP_OF = [group for group, values in GROUPS.items() for _ in values]


@cache
def renderer_version() -> str:
    """Hash of the renderer's own source, its species and the writer of its tables: a folder drawn by another version is drawn again."""
    package = files("xaihelpers")
    return source_version(*(path for path in (package / "aviary").iterdir() if path.name.endswith((".py", ".csv"))), package / "worlds.py")


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


def _draw_to(root: Path, numbers: list[int], seed: int, per_class: int) -> list[Drawn]:
    """Draw the birds with these numbers (0-based over the whole aviary)."""
    rows, names = [], species_table()["name"]
    for number in numbers:
        species = number // per_class
        bird = individual(seed, number, species)
        picture = draw(bird)
        path = f"{species + 1:03d}.{names[species]}/{names[species]}_{number % per_class + 1:04d}_{number + 1}.jpg"
        save_picture(root, path, picture.image, picture.parts)
        certainty = certainties(picture.parts, picture.points, np.random.default_rng([seed, number, 10]))
        rows.append(Drawn(number + 1, path, picture.box, picture.points, true_attributes(bird) & (certainty > 1), certainty))
    return rows


def ensure(name: str = "aviary", images_per_class: int = IMAGES_PER_CLASS, seed: int = 0, jobs: int = -1) -> Path:
    """The folder of an aviary under `data_home()`, drawn if it is not there yet: 48 species × `images_per_class` birds of 224×224 pixels, 60 % of each class for
    training. Raises ValueError as `worlds.ensure_world`."""
    species = species_table()["name"]
    wanted = {"seed": seed, "images_per_class": images_per_class, "species": len(species), "renderer": renderer_version()}
    return ensure_world(name, "aviary", wanted, len(species) * images_per_class, partial(_draw_to, seed=seed, per_class=images_per_class),
                        lambda root, rows: write_tables(root, rows, species, PARTS, ATTRIBUTES, seed, images_per_class), ("seed", "images_per_class"), jobs)
