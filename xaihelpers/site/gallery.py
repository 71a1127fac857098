"""The gallery: every picture of a bird that the committed notebooks show, with its caption and its place."""

import base64
import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from xaihelpers.site.figure_texts import drawers_of, figure_text, shows_pictures
from xaihelpers.site.notebook_page import section_of
from xaihelpers.site.notebook_set import GROUPS, Notebook

# the tens digit of a notebook -> the heading over its pictures
HEADINGS = {
    "0": "The birds, and one attribute changed",
    "1": "What a bottleneck names, and where",
    "2": "Explanations and their scores",
    "3": "Birds in words",
    "4": "Where a model looks, and what a judge says of it",
    "5": "Substituted attributes",
    "6": "Probes and planted faults",
    "9": "What the shipped models were taught",
}


@dataclass(frozen=True)
class Picture:
    """A figure of pictures in a committed notebook."""

    notebook: Notebook
    at: int  # the number of its cell
    png: bytes
    words: str

    @property
    def file(self) -> str:
        return f"{self.notebook.number}_{self.at:03d}.png"


def pictures(notebooks: Mapping[str, Notebook]) -> Iterator[Picture]:
    """All figures of pictures, in the order of the notebooks; the first PNG of a cell."""
    for notebook in notebooks.values():
        drawers = drawers_of(notebook)
        for at, cell in enumerate(notebook.cells):
            if cell["cell_type"] != "code" or not shows_pictures(cell, drawers):
                continue
            data = [output["data"] for output in cell["outputs"] if "image/png" in output.get("data", {})]
            png = base64.b64decode("".join(data[0]["image/png"]))
            yield Picture(notebook, at, png, figure_text(notebook, at))


def gallery_page(found: list[Picture], folder: Path) -> str:
    """The page in markdown; the pictures are written into `folder`/gallery."""
    (folder / "gallery").mkdir(exist_ok=True)
    lines = [
        "# Gallery: bird by bird",
        "",
        "Every figure of the notebooks that shows pictures, as it was committed, with what the notebook says "
        "of it. The birds of the aviary and the things of the everyday world are drawn; each of their "
        "attributes is known. A picture opens in full size; the line below it leads to its place.",
        "",
    ]
    tens = ""
    for picture in found:
        if picture.notebook.number[0] != tens:
            tens = picture.notebook.number[0]
            lines += [f"## {HEADINGS.get(tens, GROUPS[tens])}", ""]
        (folder / "gallery" / picture.file).write_bytes(picture.png)
        alt = html.escape(picture.words, quote=True)
        place = f"{{ref}}`{picture.notebook.number} · {picture.notebook.name} <{place_of(picture)}>`"
        lines += [
            f"```{{figure}} gallery/{picture.file}",
            f":alt: {alt}",
            "",
            f"{_plain(picture.words)} Notebook {place}.",
            "```",
            "",
        ]
    return "\n".join(lines)


def place_of(picture: Picture) -> str:
    return section_of(picture.notebook, picture.at)


def _plain(text: str) -> str:
    for mark in "\\*_$<[]{}`#":
        text = text.replace(mark, f"\\{mark}")
    return text if text.endswith((".", "…", "?")) else f"{text}."
