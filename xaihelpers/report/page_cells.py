"""The page of the report as a file: cells of HTML, in one page that needs nothing else."""

import base64
import re
from html import escape
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter

from xaihelpers import paths
from xaihelpers.paths import FolderError

STYLE_FILE = Path(__file__).with_name("report.css")
# what would load something from elsewhere
LOADING = (
    r"""<(?:script|link|iframe|object|embed)\b|\bsrc\s*=\s*["']?(?!["']?data:)|@import|url\((?!["']?data:)"""
)


def html_cell(html: str) -> nbformat.NotebookNode:
    """A notebook cell that shows this HTML."""
    output = nbformat.v4.new_output("display_data", {"text/html": html})
    return nbformat.v4.new_code_cell(outputs=[output])


def figure_html(png: Path | bytes, caption: str, anchor: str = "") -> str:
    """A figure with its caption; the image is inside the HTML. Raises OSError if the file cannot be read.

    png: its file or its content. anchor: the id under which a link finds it.
    """
    data = base64.b64encode(png if isinstance(png, bytes) else png.read_bytes()).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{escape(caption)}">'
    name = f' id="{anchor}"' if anchor else ""
    return f"<figure{name}>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def page(cells: list, title: str) -> str:
    """Notebook cells as one HTML page without code, scripts or addresses, the images inside it.

    Raises ValueError if something in the cells would be loaded from elsewhere.
    """
    # the template "basic" brings no script and no style of its own
    exporter = HTMLExporter(
        template_name="basic",
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    body, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    without_images = re.sub(r"base64,[^\"']*", "base64,", body)
    loading = re.search(LOADING, without_images)
    if loading:
        around = without_images[max(0, loading.start() - 80) : loading.end() + 80]
        raise ValueError(f"The report would not stand alone: {around!r}")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE_FILE.read_text()}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all, in place of an earlier one. Raises FolderError if it cannot."""
    try:
        paths.write_whole(path, text.encode())
    except OSError as error:
        remedy = "make room or permit writing there, or name another folder by the parameter results"
        raise FolderError(f"Could not write {path} ({error.strerror}): {remedy}.") from error
