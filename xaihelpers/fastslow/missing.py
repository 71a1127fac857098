"""What could not be had: left out of every share, counted beside it, and marked where it is much."""

from collections.abc import Sequence

import pandas as pd

from xaihelpers.ask.failures import KINDS, MARKED

FAILED = "failed (%)"


def answered(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers that could be had: those that failed are left out of every share, and counted apart."""
    return answers[answers["failure"] != "failed"]


def failure_table(answers: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """How often each of the four failures came about, in % of what was asked, for each part of the answers.

    answers: with `failure`, as `choose` returns them, before those that failed are left out.
    Returns the keys, a column "… (%)" for each kind, `asked`, and `mark`, which says where more than
    `ask.failures.MARKED` % could not be had.
    """
    rows = []
    for key, part in answers.groupby(list(keys), sort=False):
        shares = {f"{kind} (%)": 100 * (part["failure"] == kind).mean() for kind in KINDS}
        mark = f"over {MARKED:.0f} % failed" if shares[FAILED] > MARKED else ""
        rows.append(dict(zip(keys, key, strict=True)) | shares | {"asked": len(part), "mark": mark})
    return pd.DataFrame(rows, columns=[*keys, *(f"{kind} (%)" for kind in KINDS), "asked", "mark"])


def failure_note(shares: pd.DataFrame, keys: Sequence[str]) -> str:
    """The marked rows of a `failure_table` by their keys, in words; an empty text where there are none."""
    parts = []
    for row in shares[shares["mark"] != ""].to_dict("records"):
        name = ", ".join(str(row[key]) for key in keys if row[key] != "")
        parts.append(f"{name} ({row[FAILED]:.1f} % of {row['asked']})")
    return f"More than {MARKED:.0f} % of the answers could not be had: {'; '.join(parts)}." if parts else ""


def failure_mark(shares: pd.DataFrame, model: str | None = None, data: str | None = None) -> str:
    """What is added to a model's name in a recorded row, where answers to it could not be had.

    shares: a `failure_table` by model and data, and whatever else.
    model, data: of the recorded row; a data set that is not in the table (a mean over several), or None,
        stands for all, and so does None for the model.
    Returns an empty text where none of the rows is marked.
    """
    of_row = shares["mark"] != ""
    if model is not None:
        of_row &= shares["model"] == model
    if data in set(shares["data"]):
        of_row &= shares["data"] == data
    return f", marked: up to {shares[of_row][FAILED].max():.0f} % failed" if of_row.any() else ""
