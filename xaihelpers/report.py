"""Notebook 99 as a page: one HTML file that needs nothing else."""

from pathlib import Path

from nbconvert import HTMLExporter
from traitlets.config import Config

from xaihelpers.paths import write_whole

EXERCISES = ["exercise", "stub", "answer", "check"]  # tags of cells that are not for the page


def write_report(executed: Path, page: Path) -> None:
    """Write an executed notebook as a page without code and exercises, whole or not at all.

    Pictures are inside it, and it loads nothing from elsewhere: nbconvert's template "basic" has no script
    and no style of its own.
    Raises OSError, leaving an earlier page, if it cannot be written.
    """
    config = Config({"TagRemovePreprocessor": {"enabled": True, "remove_cell_tags": EXERCISES}})
    hidden = {"exclude_input": True, "exclude_output_prompt": True, "exclude_anchor_links": True}
    exporter = HTMLExporter(config, template_name="basic", **hidden)
    body, _ = exporter.from_filename(str(executed))
    write_whole(page, f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Report</title>\n{body}'.encode())
