"""The report: notebook 99 as `make run` makes it, from runs of several kinds, in one file."""

import os
import re
from itertools import product
from unittest.mock import patch

import matplotlib.pyplot as plt
import pytest
import torch
import yaml
from bs4 import BeautifulSoup
from notebook_nets import FOLDER, PATHS

from xaihelpers import claims, ledger, long_runs, run, spending, tables
from xaihelpers.grids import parameters_of
from xaihelpers.records import Run, read_runs
from xaihelpers.scores import Interval
from xaihelpers.tables import paper_table

HALF, FALLS = "alignment-product-half-absent", "alignment-product-falls-with-l"
KEEPS, PEOPLE_FOLLOWED = "sub-tied-keeps-bird", "autoxplain-judge-follows-people"
KEPT = [tables.REAL_RUNS, long_runs.FOLDER]


def recorded(folder, number, rows, data="aviary", model="aviary_resnet", **changed):
    """A run as a notebook makes it, not yet written; rows: {(paper, table): list of rows}."""
    defaults = {name: one.default for name, one in parameters_of(PATHS[number]).items()}
    given = {"data": data} if "data" in defaults else {}
    made = Run(number, {**defaults, **given, **changed}, torch.device("cpu"), folder)
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
    about |= {"readings": {"another head": None, "by size": None, "by presence alone": None}}
    about |= {"rivals": {"random order": None, "prevalence": None}}
    made.verdict(HALF, Interval(47.0, 41.0, 53.0, 960, 260.0), controls={"one <value>": False}, **about)
    made.verdict(FALLS, Interval(-3.0, -9.0, 3.0, 960, 100.0), level=("classes", 48, 500), **about)
    made.finish()
    void = existence(41.3, void="void: fails a control")
    made = recorded(folder, "13", {("alignment", 1): void}, seed=5)
    made.verdict(HALF, Interval(48.0, 45.0, 51.0, 960, 260.0), **about)
    made.finish()
    real = about | {"data": "CUB_200_2011", "model": "squeezenet1_1"}
    own = {"data": "CUB_200_2011", "model": "squeezenet1_1"}
    made = recorded(folder, "13", {("alignment", 1): existence(33.3)}, **own, weights="/some/file.pth")
    made.verdict(HALF, Interval(71.0, 68.0, 74.0, 900, 900.0), controls={"sees": True}, **real)
    made.finish()
    for draws, seed in product((2, 3), (0, 1)):
        accuracy = [{"classifier": "probe", "metric": "accuracy", "value": 10.0 * draws + seed}]
        recorded(folder, "11", {("alignment", 3): accuracy}, draws=draws, seed=seed).finish()
    made = recorded(folder, "51", {}, data="studio")
    asked = {"readings": {"another schedule": None}, "rivals": {"random numbers": None}}
    made.verdict(KEEPS, Interval(-21.0, -31.0, -11.0, 600, 200.0), "studio", "flux", needs="", **asked)
    made.finish()
    printed = {"claim": HALF, "verdict": claims.UNDOCUMENTED, "why": "5,794 test birds", "metric": "%"}
    printed |= {"value": 50.7, "low": 49.4, "high": 52.0, "cases": 5794}
    recorded(folder, "63", {("alignment", "own table"): [printed]}, "printed tables", "as printed").finish()
    row = {"model": "judge", "asked": 7, "cost": 0.25, "currency": "USD"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("xaihelpers.spending.Account.rows", lambda account: [row])
        recorded(folder, "62", {}).finish()
    made = recorded(folder.parent / "kept", "12", {}, **own)
    made.parameters |= yaml.safe_load((FOLDER / "presets" / "12.paper.yaml").read_text())
    made.finish()
    recorded(folder.parent / "long_runs", "12", {}, n_samples=99).finish()
    (folder / "22-0123456789").mkdir()
    (folder / "22-0123456789" / "run.json").write_text("{")
    (folder / "notebooks").mkdir()
    (folder / "notebooks" / f"{PATHS['81'].stem}.failed.ipynb").write_text("{}")


def executed(folder):
    """Run the notebook as `make run` does; returns the page and its text."""
    kept = ["-p", f"real_runs={folder.parent / 'kept'}", "-p", f"long_runs={folder.parent / 'long_runs'}"]
    arguments = ["99", *kept, "--jobs", "1", "--results", str(folder)]
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
    rows = [row.find_all(["td", "th"]) for row in table.find_all("tr")]
    return [[cell.get_text(" ", strip=True) for cell in row] for row in rows]


@pytest.mark.notebooks
def test_the_ledger_takes_runs_in_their_order(made):
    page, text = made
    head = page.find(lambda tag: tag.name == "th" and tag.text == "kind")
    kinds = [row.find_all("td")[1].text for row in head.find_parent("table").find_all("tr")[1:]]
    assert list(dict.fromkeys(kinds)) == ["paper", "real", "long", "default", "other"]
    assert len(kinds) == 12
    known, rows = claims.load_claims(), {}
    for row in table_of(page, "The ledger of claims")[1:]:
        (claim,) = [one.id for one in known.values() if row[1].startswith(f"{one.claim} {one.paper}, ")]
        assert row[0] == known[claim].about
        rows[claim] = row[2:]
    assert rows.keys() == known.keys()
    printed, own, real, long, drawn, why = rows[HALF]
    assert printed.startswith("50.7 ")
    assert own == f"{claims.UNDOCUMENTED} 50.7 [49.4, 52] 5,794 test birds"
    # at the defaults an instrument failed, at another seed it holds
    assert re.fullmatch(r"too few cases 47 \[41, 53\] 13-\w{10}", drawn)
    assert long == "–" and re.fullmatch(r"fails 71 \[68, 74\] 13-\w{10}", real) and why == ""
    _, own, real, long, drawn, why = rows[FALLS]
    assert own == long == real == "–" and drawn.startswith("too few cases -3 [-9, 3] 13-")
    assert why.startswith("drawn: worth 100 independent cases; about 432 classes would decide")
    assert why.endswith("python -m xaihelpers.run 13 -f paper")  # no run at the paper's size
    _, _, real, long, drawn, _ = rows[KEEPS]
    assert drawn.startswith("fails -21 [-31, -11]") and long == real == "–"  # a studio is drawn, too
    assert rows[PEOPLE_FOLLOWED][-1] == "python -m xaihelpers.run 42"  # which nobody has run


def test_a_verdict_stands_under_the_kind_of_its_data(tmp_path):
    """By what a run was given, whatever its data are called."""
    presets = {name: ledger.presets("51")[name] for name in ("paper", "stored")}
    of_52 = ledger.presets("52")["paper"]
    for number, given, data, column in (
        ("51", {}, "studio", "drawn"),
        ("51", {"seed": 7}, "studio", "drawn"),
        ("51", {"n_pairs": 3}, "studio", ""),
        ("51", presets["stored"], "studio", "long"),
        ("51", presets["paper"], "CUB_200_2011", "real"),
        ("51", {"data": "CUB_200_2011"}, "CUB_200_2011", ""),  # a shipped generator makes the images
        ("52", of_52, "drawn images of aviary", "long"),
        ("52", of_52, "sub_flux and CUB_200_2011", "real"),
        ("54", {}, "aviary, exact pairs", "drawn"),
        ("11", {"data": "Aviary"}, "aviary", ""),
        ("11", {"data": "/mine/aviary"}, "aviary", "real"),
        ("11", {"data": "/aviary/mine"}, "/aviary/mine", "real"),
        ("11", {"data": "/gone/photos"}, "photos", ""),  # drawn, as its run recorded
        ("31", {"data": ["aviary", "mine"]}, "aviary", ""),
        ("31", {"data": ["aviary", "mine"]}, "mine", "real"),
    ):
        parameters = {name: one.default for name, one in ledger.declared()[number].items()} | given
        made = {"notebook": number, "parameters": parameters, "folder": tmp_path / "results" / "run"}
        made["drawn"] = ["/gone/photos"]
        assert ledger.column_of({"data": data}, made) == column, (number, given, data)
    for made in read_runs(*KEPT):
        columns = {ledger.column_of(verdict, made) for verdict in made["verdicts"]}
        assert columns <= {"real" if made["folder"].parent == KEPT[0] else "long"}, made["folder"]


def test_what_a_claim_lacks_is_a_command():
    claim, start = claims.load_claims()[KEEPS], "python -m xaihelpers.run"
    assert ledger.command(claim, []) == f"{start} 51"
    (stored,) = [made for made in read_runs(long_runs.FOLDER) if made["notebook"] == "51"]
    assert ledger.command(claim, [stored]) == f"{start} 51 -f paper"
    of_paper = stored | {"parameters": stored["parameters"] | ledger.presets("51")["paper"]}
    assert ledger.command(claim, [of_paper]) == ""


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
        "data = CUB_200_2011, weights = file.pth, chance 24.6",
        "chance 24.6",
        "seed = 5, chance 24.6",
    ]
    of_run = ["value", "interval", "cases"]
    assert [name for name in names if name] == ["value", *of_run * 3]
    real, drawn = ["33.3", "[30.3, 36.3]", "1,040"], ["61.7", "[58.7, 64.7]", "1,040"]
    seed_5 = ["41.3 void", "[38.3, 44.3]", "1,040"]
    assert first == ["entire test set", "theta", "1", "CEM", "39.2", *real, *drawn, *seed_5]
    assert "Of the l concepts that mattered most" in text  # the caption


@pytest.mark.notebooks
def test_what_a_reader_of_the_page_finds(made):
    """Counts, other seeds, what went wrong, notes, bills, a grid; and nothing from another address."""
    page, text = made
    assert f"own table: 1 of {len(claims.load_claims())} claims have a verdict" in text
    assert re.search(r"all claims: 2 of \d+ decided\s+holds 0, fails 2, ill-posed 0", text)
    _, *rows = table_of(page, "Verdicts of other seeds")
    assert rows == [["13", HALF, "aviary · aviary_resnet", "changes", "instrument failed", "holds"]]
    assert "22-0123456789/run.json is damaged and was left out" in text
    assert re.search(rf"{PATHS['81'].stem}\s+failed; its error is in notebooks/", text)
    assert re.search(rf"{PATHS['14'].stem}\s+not run yet", text)
    assert "Table 1: the order is another <here>." in text
    assert re.search(r"judge\s+7\s+0.25\s+USD", text)
    assert "notebook 11, draws: 2 settings, 4 runs" in text
    _, *means = table_of(page, "Means over the draws")
    ends = [["2", "20.50", "[14.15, 26.85]"], ["2", "30.50", "[24.15, 36.85]"]]
    assert [row[-3:] for row in means] == ends
    assert not page.find_all(["script", "link", "iframe", "object"])
    assert all(tag["src"].startswith("data:image/png;base64,") for tag in page.find_all("img"))
    assert page.find("img", alt="Birds & concepts.") and not page.find_all(href=True)
    assert not re.search("https?://|url\\(|@import", str(page))
    assert "def partners" not in text and "Exercise" not in text
