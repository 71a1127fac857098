"""What the papers print, and recorded rows beside it."""

import pandas as pd

from xaihelpers import tables
from xaihelpers.records import COLUMNS
from xaihelpers.tables import PAPER, Source, beside

ABOUT = {"run": "13-a", "data": "aviary", "model": "cbm"}


def recorded(rows, table, **about):
    """Rows as of `read_records`."""
    frame = pd.DataFrame(rows)
    return frame.reindex(columns=dict.fromkeys([*COLUMNS, *frame])).assign(
        paper="alignment", table=table, **ABOUT | about
    )


def test_a_key_has_one_spelling():
    keys = [50.0, "0.001", 1, " theta ", float("nan"), ""]
    assert [tables.key_text(key) for key in keys] == ["50", "0.001", "1", "theta", "", ""]


def test_printed_and_recorded_rows_meet_by_their_keys():
    numbers = {"metric": "CEM", "value": 60.0, "low": 57.0, "high": 63.0, "chance": 25.0}
    first = {"images": "entire test set", "basis": "theta", "l": 1.0}  # as a column with gaps is read
    further = {**first, "basis": "energy"}  # the paper has no such row
    rows = recorded([{**first, **numbers}, {**further, **numbers, "value": 70.0, "void": "fails"}], "1")
    names, found = beside(rows, "alignment", "1")
    assert len(names) == 19 and list(names.columns) == ["images", "basis", "l", "metric"]
    ours, theirs = found[Source("13-a", "aviary", "cbm")], found[PAPER]
    assert (theirs.value.iloc[0], ours.value.iloc[0], ours.low.iloc[0]) == (39.2, 60.0, 57.0)
    assert names.iloc[-1].tolist() == ["entire test set", "energy", "1", "CEM"]
    assert pd.isna(theirs.value.iloc[-1]) and ours.value.iloc[-1] == 70.0
    assert ours.void.iloc[-1] == "fails" and pd.isna(ours.void.iloc[0])
    assert theirs.low.isna().all()  # numbers of a run stand under the run alone


def test_a_key_that_the_paper_does_not_vary_stands_beside_its_own_choice():
    keys = {"samples": 50, "lambda": 0.001, "classifier": "post-hoc CBM"}
    numbers = {**keys, "metric": "accuracy", "value": 70.0}
    rows = [numbers | {"values": name} for name in ("margin", "as published")]
    names, found = beside(recorded(rows, "3"), "alignment", "3")
    theirs = found[PAPER].value.set_axis(names["values"])
    assert theirs["as published"] == 26.7 and pd.isna(theirs["margin"])


def test_long_tables_are_joined_by_name_and_fractions_are_no_keys():
    names, found = beside(recorded([{"metric": "CGIM1", "value": 0.1}], "6"), "alignment", "6")
    assert names.attribute.nunique() == 115 and names.attribute.iloc[0] == "has_bill_shape::dagger"
    assert "Duck-like shape (printed as 82)" in set(names.attribute)
    row = {"over": "mean over classes", "share below 0": 0.25, "metric": "CGIM1", "value": 0.5}
    names, found = beside(recorded([row], "6-8"), "alignment", "6-8")
    assert "share below 0" not in names and len(names) == 6
    (ours,) = [rows for source, rows in found.items() if source != PAPER]
    assert ours["share below 0"].dropna().tolist() == [0.25]


def test_a_run_stands_beside_the_paper_and_real_birds(monkeypatch):
    keys = {"images": "entire test set", "basis": "theta", "l": 1, "metric": "CEM"}
    real = recorded([{**keys, "l": 1.0, "value": 50, "low": 45, "high": 55}], "1", model="squeezenet1_0, a")
    monkeypatch.setattr(tables, "read_records", lambda folder: real)
    found = tables.beside_paper(pd.DataFrame([keys, {**keys, "basis": "energy"}]), "alignment", 1)
    assert found.paper[0] == 39.2 and pd.isna(found.paper[1])
    assert found["real: squeezenet1_0"].tolist() == ["50.0 [45.0, 55.0]", "–"]
