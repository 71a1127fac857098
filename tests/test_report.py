"""The report: notebook 99 as `make run` makes it, from runs of several kinds, in one file."""

import os
import re
from itertools import product
from unittest.mock import patch

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch
import yaml
from bs4 import BeautifulSoup
from notebook_nets import FOLDER, PATHS

from xaihelpers import claims, run, spending
from xaihelpers.grids import parameters_of
from xaihelpers.records import Run
from xaihelpers.report import write_report
from xaihelpers.scores import Interval
from xaihelpers.tables import paper_table

HALF, FALLS = "alignment-product-half-absent", "alignment-product-falls-with-l"


def recorded(folder, number, rows, data="aviary", model="aviary_resnet", **changed):
    """A run as a notebook makes it, not yet written; rows: {(paper, table): list of rows}."""
    defaults = {name: value for name, (_, value) in parameters_of(PATHS[number]).items()}
    made = Run(number, {**defaults, **changed}, torch.device("cpu"), folder)
    for (paper, table), part in rows.items():
        made.record(part, paper, table, data, model)
    return made


def existence(value, **more):
    """Rows of Table 1: 18 different values, the first of them `value`."""
    rows = paper_table("alignment", 1)[["images", "basis", "l"]]
    rows = rows.assign(metric="CEM", value=value + rows.index / 10, low=value - 3, high=value + 3)
    return rows.assign(cases=1040.0 - 77 * (rows.index > 8), chance=24.6, **more)


def draw(made, name, caption):
    """A figure of a run."""
    fig, ax = plt.subplots(figsize=(5, 3))
    ax.plot([0, 1])
    made.figure(fig, name, caption)
    plt.close(fig)


def fill(folder):
    """Runs at the defaults, with another seed and on real birds, a grid, and two that went wrong."""
    about = {"data": "aviary", "model": "aviary_resnet"}
    made = recorded(folder, "13", {("alignment", 1): existence(61.7)})
    made.note("Table 1: the order is another <here>.")
    draw(made, "figure", "Birds & concepts.")
    made.verdict(HALF, Interval(47.0, 41.0, 53.0, 960, 260.0), controls={"one <value>": False}, **about)
    made.verdict(FALLS, Interval(-3.0, -9.0, 3.0, 960, 100.0), available=960, **about)
    made.finish()
    void = existence(41.3, void="void: fails a control")
    made = recorded(folder, "13", {("alignment", 1): void}, seed=5)
    made.verdict(HALF, Interval(48.0, 45.0, 51.0, 960, 260.0), **about)
    made.finish()
    real = {"data": "CUB_200_2011", "model": "squeezenet1_1"}
    made = recorded(folder, "13", {("alignment", 1): existence(33.3)}, **real, weights="/some/file.pth")
    made.verdict(HALF, Interval(71.0, 68.0, 74.0, 900, 900.0), controls={"sees": True}, **real)
    made.finish()
    for draws, seed in product((2, 3), (0, 1)):
        accuracy = [{"classifier": "probe", "metric": "accuracy", "value": 10.0 * draws + seed}]
        recorded(folder, "11", {("alignment", 3): accuracy}, draws=draws, seed=seed).finish()
    printed = {"claim": HALF, "verdict": claims.UNDOCUMENTED, "why": "5,794 test birds", "metric": "%"}
    printed |= {"value": 50.7, "low": 49.4, "high": 52.0, "cases": 5794}
    recorded(folder, "63", {("alignment", "own table"): [printed]}, "printed tables", "as printed").finish()
    # keys that the report could take for its own
    told = [{"source": "seed", "block": "first", "metric": "AUC", "value": 0.5}]
    made = recorded(folder, "62", {("collection", "told"): told})
    row = {"model": "judge", "asked": 7, "cost": 0.25, "currency": "USD"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("xaihelpers.spending.Account.rows", lambda account: [row])
        made.finish()
    preset = yaml.safe_load((FOLDER / "presets" / "12.paper.yaml").read_text())
    long = {("collection", "told"): told}
    made = recorded(folder.parent / "kept", "12", long, **real)
    made.parameters |= preset
    made.finish()
    recorded(folder.parent / "kept", "12", long, seed=1).finish()
    (folder / "22-0123456789").mkdir()
    (folder / "22-0123456789" / "run.json").write_text("{")
    (folder / "notebooks").mkdir()
    (folder / "notebooks" / f"{PATHS['81'].stem}.failed.ipynb").write_text("{}")


def executed(folder):
    """Run the notebook as `make run` does; returns the page and its text."""
    kept = f"real_runs={folder.parent / 'kept'}"
    arguments = ["99", "-p", kept, "--jobs", "1", "--results", str(folder)]
    with patch.dict(os.environ):  # which a run in this process changes
        assert run.main(arguments) == 0
    page = BeautifulSoup((folder / "report.html").read_text(), "html.parser")
    return page, page.get_text(" ")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    spending.begin()  # an earlier test may have asked a model
    folder = tmp_path_factory.mktemp("report") / "results"
    fill(folder)
    return executed(folder)


def table_of(page, *words):
    """The rows of texts of the table after the heading or in the caption with these words, its head first."""
    place = page.find(lambda tag: tag.name in ("h3", "caption") and all(word in tag.text for word in words))
    table = place.find_parent("table") or place.find_next("table")
    return [[cell.text.strip() for cell in row.find_all(["td", "th"])] for row in table.find_all("tr")]


@pytest.mark.notebooks
def test_the_ledger_takes_runs_in_their_order(made):
    page, text = made
    runs = page.find("table").find_all("tr")[1:]
    kinds = [row.find_all("td")[1].text for row in runs]
    assert list(dict.fromkeys(kinds)) == ["paper", "real", "long", "default", "other"]
    assert len(kinds) == 11
    rows = [row[1:] for row in table_of(page, "The ledger of claims")]
    known = claims.load_claims()
    (half,) = [row for row in rows if row[0].startswith(known[HALF].claim + " (")]
    assert "50.7" in half[1] and half[2:4] == [claims.UNDOCUMENTED, "50.7 [49.4, 52]; 5,794 test birds"]
    # the run at the defaults stands, though its instrument failed and that of another seed decides
    assert half[4] == "instrument failed" and half[5].startswith("47 [41, 53] %; failed control: one <value>")
    assert half[6] == "fails" and half[7].startswith("71 [68, 74] % (CUB_200_2011 · squeezenet1_1")
    (falls,) = [row for row in rows if row[0].startswith(known[FALLS].claim + " (")]
    assert falls[2] == falls[6] == "not decided" and falls[3] == falls[7] == "–"
    assert falls[4] == "too few cases" and "-3 [-9, 3] points; about 900 independent cases" in falls[5]
    assert f"own table: 1 of {len(known)} claims have a verdict" in text


@pytest.mark.notebooks
def test_paper_and_runs_stand_beside_each_other_each_under_its_own_data(made):
    page, text = made
    _, on, about, names, keys, first, *others = table_of(page, "alignment, Table 1:", "(CEM)")
    assert [key for key in keys if key] == ["images", "basis", "l", "metric"] and len(others) == 17
    assert [word for word in on if word] == [
        "CUB-200-2011 · ResNet-18",
        "CUB_200_2011 · squeezenet1_1",
        "aviary · aviary_resnet",
        "aviary · aviary_resnet",
    ]
    assert [word for word in about if word] == [
        "weights = file.pth, chance 24.6",
        "chance 24.6",
        "seed = 5, chance 24.6",
    ]
    of_run = ["value", "interval", "cases"]
    assert [name for name in names if name] == ["value", *of_run * 3]
    real, drawn = ["33.3", "[30.3, 36.3]", "1,040"], ["61.7", "[58.7, 64.7]", "1,040"]
    seed_5 = ["41.3 void", "[38.3, 44.3]", "1,040"]
    assert first == ["entire test set", "theta", "1", "CEM", "39.2", *real, *drawn, *seed_5]
    assert "Of the l concepts that mattered most" in text  # the caption
    assert table_of(page, "collection, told")[-1][:3] == ["seed", "first", "AUC"]


@pytest.mark.notebooks
def test_what_went_wrong_and_what_was_noted_is_said(made):
    page, text = made
    assert "22-0123456789/run.json is damaged and was left out" in text
    failed = PATHS["81"].stem
    assert re.search(rf"{failed}\s+failed; its error is in notebooks/{failed}.failed.ipynb", text)
    assert re.search(rf"{PATHS['14'].stem}\s+not run yet", text)
    assert "Table 1: the order is another <here>." in text
    assert re.search(r"judge\s+7\s+0.25\s+USD", text)
    assert "notebook 11, draws: 2 settings, 4 runs" in text
    _, *means = table_of(page, "Means over the draws")
    assert [row[-3:] for row in means] == [
        ["2", "20.50", "[14.15, 26.85]"],
        ["2", "30.50", "[24.15, 36.85]"],
    ]


@pytest.mark.notebooks
def test_the_page_stands_alone(made):
    page, text = made
    assert not page.find_all(["script", "link", "iframe", "object"])
    assert all(tag["src"].startswith("data:image/png;base64,") for tag in page.find_all("img"))
    assert page.find("img", alt="Birds & concepts.") and len(page.find_all("img")) >= 3
    assert not page.find_all(href=True) and not re.search("https?://|url\\(|@import", str(page))
    assert "def partners" not in text and "Exercise" not in text


@pytest.mark.notebooks
def test_an_empty_folder_gives_a_sentence(tmp_path):
    page, text = executed(tmp_path / "none")
    assert "Nothing recorded yet: run `make run`" in text
    assert "39.2" in text  # the papers' tables are there


def test_a_page_is_whole_or_as_it_was(tmp_path, monkeypatch):
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("one")]), tmp_path / "a")
    (tmp_path / "page.html").write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", full)
        with pytest.raises(OSError, match="No space left"):
            write_report(tmp_path / "a", tmp_path / "page.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "page.html"]
    assert (tmp_path / "page.html").read_text() == "before"
    write_report(tmp_path / "a", tmp_path / "page.html")
    assert "<p>one</p>" in (tmp_path / "page.html").read_text()
