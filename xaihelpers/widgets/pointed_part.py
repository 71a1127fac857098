"""Where is the part? A person points at it, and the concept's map says at which rank it has that place.

Paper alignment, equation 11: the concept location metric asks whether a part's centre is among the
alpha * M1 * M2 / 12 highest pixels of the concept's map, the region Omega.
"""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure

from xaihelpers.kernels.coam import location_region, upsample
from xaihelpers.plots import to_picture, wrapped_lines
from xaihelpers.scores.alignment import location_ranks
from xaihelpers.widgets.board import Board
from xaihelpers.widgets.controls import choice, point

SIDE, TITLE = 3.0, 0.5  # inches: a picture's width, the line above it
LINES = ("-", "--", ":")  # of Omega, from the least alpha on


def part_board(
    pictures: dict[str, object],
    concepts: Sequence[str],
    maps: torch.Tensor,
    alphas: Sequence[float],
    centres: torch.Tensor | None = None,
) -> Board:
    """A board on which one points to a concept's part.

    pictures: name -> image, as `plots.to_picture` takes them, all of one size (M1, M2).
    concepts: L names. maps: (n, L, H, W), the concepts' maps of these pictures.
    alphas: sizes of Omega in twelfths of the picture.
    centres: (n, L, 2, 2), the annotated centres (left or right; x, y) in pixels, NaN where they are not
        visible; shown once somebody has pointed.
    Raises ValueError: as `Board`; and for maps as `kernels.coam.location_region` does.
    """
    names, concepts, alphas = list(pictures), list(concepts), sorted(alphas)
    images = [to_picture(image) for image in pictures.values()]
    size = images[0].shape[:2]
    height = SIDE * size[0] / size[1]
    controls = [
        choice("picture", "picture", names),
        choice("concept", "concept", concepts),
        point("place", "the picture: click where the part is, or move the ring by the arrow keys"),
    ]

    def draw(values: dict) -> tuple[Figure, str]:
        i, j = names.index(values["picture"]), concepts.index(values["concept"])
        concept_map = maps[i, j].detach().cpu().float()
        place = None
        if values["place"]:
            place = [
                min(part * side, side - 1e-3) for part, side in zip(values["place"], size[::-1], strict=True)
            ]
        known = None if centres is None else centres[i, j].cpu().float()
        fig = Figure(figsize=(2 * SIDE + 0.1, height + TITLE))
        plain, mapped = (fig.add_axes([left, 0, 0.495, height / (height + TITLE)]) for left in (0, 0.505))
        plain.imshow(images[i], aspect="auto")
        plain.set_title(wrapped_lines(f"Where is “{values['concept']}”?", 36), fontsize=10)
        _draw_map(mapped, images[i], concept_map, alphas)
        for ax in (plain, mapped):
            ax.axis("off")
            _draw_places(ax, place, known if place else None)
        return fig, _in_words(concept_map, place, known, alphas, size)

    def adjust(old: dict, new: dict) -> dict:
        asked = ("picture", "concept")
        return new if all(old[name] == new[name] for name in asked) else new | {"place": None}

    title = "Point to the part on the left; the map on the right says at which rank it has that place."
    first = {"picture": names[0], "concept": concepts[0], "place": None}
    area = (0, TITLE / (height + TITLE), 0.495, height / (height + TITLE))
    return Board(title, controls, first, draw, adjust=adjust, area=area)


def _in_words(concept_map, place, known, alphas: list, size: tuple[int, int]) -> str:
    if place is None:
        return "Nobody has pointed yet. Outlined: Ω for " + ", ".join(f"α = {a:g}" for a in alphas) + "."
    text = _rank_in_words("The place that you point to", concept_map, [place, [np.nan] * 2], alphas, size)
    if known is not None and not known.isnan().all():
        text += "\n" + _rank_in_words("The annotated centre (cross)", concept_map, known, alphas, size)
    return text


def _rank_in_words(what: str, concept_map, points, alphas: list, size: tuple[int, int]) -> str:
    points = torch.as_tensor(np.asarray(points, dtype=np.float32))
    rank = int(location_ranks(concept_map[None, None], points[None, None], size))
    n_pixels = size[0] * size[1]
    inside = [f"α = {a:g}: {'in' if rank < int(a * n_pixels / 12) else 'not in'} Ω" for a in alphas]
    return f"{what} has rank {rank + 1:,} of {n_pixels:,} pixels; {', '.join(inside)}."


def _draw_map(ax, image: np.ndarray, concept_map: torch.Tensor, alphas: list) -> None:
    """The map over the picture, with an outline of Omega for each alpha."""
    size = image.shape[:2]
    ax.imshow(image, aspect="auto")
    ax.imshow(upsample(concept_map[None], size)[0].numpy(), cmap="viridis", alpha=0.55, aspect="auto")
    for alpha, line in zip(alphas, LINES * len(alphas), strict=False):
        region = location_region(concept_map[None], int(alpha * size[0] * size[1] / 12), size)[0]
        if region.any() and not region.all():
            ax.contour(region.numpy(), levels=[0.5], colors="white", linestyles=line, linewidths=1.4)
    outlines = ", ".join(f"{alpha:g}" for alpha in alphas)
    ax.set_title(f"its map; outlines: Ω, α = {outlines}", fontsize=10)


def _draw_places(ax, place, known) -> None:
    """A ring where somebody points, crosses on the annotated centres."""
    if place is not None:
        ax.plot(*place, "o", ms=12, mfc="none", mec="black", mew=3)
        ax.plot(*place, "o", ms=12, mfc="none", mec="white", mew=1.5)
    for x, y in [] if known is None else known.tolist():
        ax.plot(x, y, "x", ms=9, color="black", mew=3)
        ax.plot(x, y, "x", ms=8, color="white", mew=1.5)
