"""The page of the report: the one of this machine where there is one, else how it is made."""

from collections.abc import Mapping
from pathlib import Path

from xaihelpers.site.notebook_set import Notebook


def report_page(report: Path | None, notebooks: Mapping[str, Notebook]) -> str:
    """The page in markdown. report: the file of notebook 99, None if this machine has none."""
    lines = [
        "# The report",
        "",
        "Every recorded result beside the paper's, with the ledger of claims first. Each column of a table "
        "leads to the run that made it, with all its settings.",
        "",
    ]
    if report is not None:
        lines += [
            "The report of the machine that this site was made on is here, as one file that needs nothing "
            'else: <a href="full_report.html">open the report</a>.',
            "",
        ]
    else:
        lines += [
            "The machine that this site was made on keeps no report. `make run` runs every notebook and ends "
            "with the path of the report; `python -m xaihelpers.site --report PATH` takes it into the site.",
            "",
        ]
    if "99" in notebooks:
        page = notebooks["99"].document
        lines += [f"[Notebook 99]({page}.ipynb) makes it, and shows the ledger of the committed run.", ""]
    return "\n".join(lines)
