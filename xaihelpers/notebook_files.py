"""Executed notebooks as files: cleaned for a commit, and their errors as text."""

import base64
import io
import re

from PIL import Image

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def clean_notebook(notebook: dict) -> None:
    """Make an executed notebook fit to be committed, in place.

    papermill's metadata and finished progress bars go, figures become PNGs of 64 colours, and of a widget
    stays what it gives to a reader without a kernel.
    """
    kept = {
        name: value for name, value in notebook["metadata"].items() if name not in ("papermill", "widgets")
    }
    notebook["metadata"] = kept | {"kernelspec": KERNELSPEC}
    for cell in notebook["cells"]:
        metadata = cell["metadata"].items()
        cell["metadata"] = {k: v for k, v in metadata if k not in ("papermill", "execution") and v != []}
        if cell["cell_type"] == "code":
            cell["outputs"] = [output for output in cell["outputs"] if not _is_progress_bar(output)]
            for output in cell["outputs"]:
                output.get("data", {}).pop(WIDGET_VIEW, None)
                if png := output.get("data", {}).get("image/png"):
                    output["data"]["image/png"] = _small_png(png)


def error_text(notebook: dict) -> str:
    """The failing cell's number and its error; empty if no cell failed."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                return f"in cell [{cell['execution_count']}]\n  {output['ename']}: {output['evalue'][:1000]}"
    return ""


def picture(notebook: dict, name: str) -> bytes:
    """The figure that an executed notebook records by a name, as a PNG; empty if it has none."""
    for cell in notebook["cells"]:
        if f'run.figure(fig, "{name}"' in "".join(cell["source"]):
            for output in cell["outputs"]:
                output.get("data", {}).pop(WIDGET_VIEW, None)
                if png := output.get("data", {}).get("image/png"):
                    return base64.b64decode("".join(png))
    return b""


def _is_progress_bar(output: dict) -> bool:
    """Whether an output is nothing but tqdm's bar, as text or as a widget that needs a kernel."""
    if output.get("name") == "stderr":
        text = "".join(output["text"]).replace("\r", "\n")
        lines = [line for line in text.splitlines() if line.strip("\x1b[A ")]
        return all(re.search(r"\[\d+:\d\d", line) for line in lines)
    data = output.get("data", {})
    return WIDGET_VIEW in data and not {"image/png", "text/html"} & set(data)


def _small_png(encoded: str) -> str:
    """A PNG in base64, reduced to 64 colours chosen for it: a seventh of the size for pictures of birds."""
    image, small = Image.open(io.BytesIO(base64.b64decode(encoded))), io.BytesIO()
    reduced = image.convert("RGB").quantize(64, kmeans=3, dither=Image.Dither.NONE)
    reduced.save(small, "PNG", optimize=True)
    return min(base64.b64encode(small.getvalue()).decode(), "".join(encoded.split()), key=len)
