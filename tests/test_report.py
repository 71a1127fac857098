"""The report: the paper's numbers beside the run's, on whose data, with chance and notes, in one file."""

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest
import torch
import yaml
from bs4 import BeautifulSoup

from xaihelpers import claims
from xaihelpers.parameters import declared_parameters
from xaihelpers.paths import FolderError
from xaihelpers.records import Run
from xaihelpers.report import findings, number_tables, page_cells, run_tables
from xaihelpers.report.number_tables import Block
from xaihelpers.scores import Interval
from xaihelpers.tables import PAPER, Source, paper_table

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def defaults(number):
    """The parameters of a notebook at its defaults."""
    path = next(FOLDER.glob(f"{number}_*.ipynb"))
    source = next(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    return {name: value for name, (_, value) in declared_parameters(source).items()}


def recorded(folder, number, rows, data="aviary", model="aviary_resnet", **changed):
    """A run as a notebook makes it, not yet written; rows: {(paper, table): list of rows}."""
    run = Run(number, {**defaults(number), **changed}, torch.device("cpu"), folder)
    for (paper, table), part in rows.items():
        run.record(part, paper, table, data, model)
    return run


def existence(value):
    """Rows of Table 1: 18 different values, the first of them `value`."""
    keys = paper_table("alignment", 1)[["images", "basis", "l"]].to_dict("records")
    return [
        {
            **key,
            "metric": "CEM",
            "value": value + i / 10,
            "low": value - 3,
            "high": value + 3,
            "cases": 1040 if i < 9 else 963,
            "chance": 24.6 if i < 9 else 24.8,
        }
        for i, key in enumerate(keys)
    ]


def importances(keys):
    metrics = ("CGIM1", "CGIM2", "CGIM3")
    return [{**key, "metric": name, "value": k / 20 - 0.3} for name in metrics for k, key in enumerate(keys)]


def draw(run, name, caption):
    """A figure of a run."""
    fig, ax = plt.subplots(figsize=(5, 3))
    ax.plot([0, 1])
    run.figure(fig, name, caption)
    plt.close(fig)


HALF, FALLS = "alignment-product-half-absent", "alignment-product-falls-with-l"


def fill(folder):
    """A results folder with runs at the defaults, another seed, real birds, and one that failed."""
    run = recorded(folder, "13", {("alignment", 1): existence(61.7)})
    run.note("Table 1: the order is another <here>.")
    draw(run, "figure", "Birds & concepts.")
    about = {"data": "aviary", "model": "aviary_resnet", "figure": "figure"}
    run.verdict(HALF, Interval(47.0, 41.0, 53.0, 960, 260.0), controls={"one <value>": False}, **about)
    run.verdict(FALLS, Interval(-3.0, -9.0, 3.0, 960, 100.0), available=960, **about)
    run.finish()
    run = recorded(folder, "13", {("alignment", 1): existence(41.3)}, seed=5)
    run.verdict(HALF, Interval(48.0, 45.0, 51.0, 960, 260.0), **about | {"figure": ""})
    run.finish()
    real = {"data": "CUB_200_2011", "model": "squeezenet1_1", "backbone": "squeezenet1_1"}
    run = recorded(folder, "13", {("alignment", 1): existence(33.3)}, **real, weights="/some/file.pth")
    about |= {"data": "CUB_200_2011", "model": "squeezenet1_1", "figure": ""}
    run.verdict(HALF, Interval(71.0, 68.0, 74.0, 900, 900.0), controls={"sees": True}, **about)
    run.finish()
    concepts = [{"attribute": name} for name in ("has_bill_shape::dagger", "has_eye_color::black")]
    steps = {("collection", "steps and costs"): [{"metric": "seconds", "value": 3.0}]}
    recorded(folder, "12", {("alignment", 6): importances(concepts), **steps}).finish()
    for draws, seed in product((2, 3), (0, 1)):  # a grid
        accuracy = [{"classifier": "probe", "metric": "accuracy", "value": 10.0 * draws + seed}]
        recorded(folder, "11", {("alignment", 3): accuracy}, draws=draws, seed=seed).finish()
    printed = {"claim": HALF, "verdict": claims.UNDOCUMENTED, "why": "5,794 test birds", "metric": "%"}
    printed |= {"value": 50.7, "low": 49.4, "high": 52.0, "cases": 5794}
    recorded(folder, "63", {("alignment", "own table"): [printed]}, "printed tables", "as printed").finish()
    # keys that the report could take for its own
    told = [{"source": "seed", "block": "first", "metric": "AUC", "value": 0.5}]
    run = recorded(folder, "62", {("collection", "told"): told})
    draw(run, "yardsticks", "Yardsticks and faults.")
    run.finish()
    (folder / "notebooks").mkdir()
    error = nbformat.v4.new_output("error", ename="ValueError", evalue="no such bird")
    broken = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[error])])
    failed = next(FOLDER.glob("91_*.ipynb")).with_suffix(".failed.ipynb").name
    nbformat.write(broken, folder / "notebooks" / failed)


def execute(folder):
    """Run the notebook on a results folder; returns the report as text and all that the notebook printed."""
    out = folder.parent / f"{folder.name}_executed.ipynb"
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(FOLDER / "99_report.ipynb"),
        str(out),
        "--no-progress-bar",
        "-p",
        "results",
        str(folder),
        "-p",
        "real_runs",
        "",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder.parent)
    assert done.returncode == 0, done.stderr[-4000:]
    cells = json.loads(out.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    return (folder / "report.html").read_text(), "".join(
        "".join(output.get("text", "")) for output in outputs
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "results"
    folder.mkdir()
    fill(folder)
    return *execute(folder), folder


def heading_of(text, anchor):
    """The heading with this address."""
    return BeautifulSoup(text, "html.parser").find("h3", id=anchor)


def table_of(text, table, paper="alignment"):
    """The rows (lists of texts) and headings of a table of a paper."""
    table = heading_of(text, f"{paper}-table-{table}").find_next("table")
    rows = [[cell.text for cell in row.find_all("td")] for row in table.tbody.find_all("tr")]
    return rows, [cell.get_text("|") for cell in table.thead.find_all("th")]


@pytest.mark.notebooks
def test_the_ledger_of_claims_comes_first(made):
    text, printed, _ = made
    page = BeautifulSoup(text, "html.parser")
    assert page.find("h2")["id"] == "ledger"
    ledger, rows = page.find("table", class_="ledger"), {}
    for row in ledger.find_all("tr"):
        cells = [cell.get_text(" ") for cell in row.find_all("td")]
        rows[cells[0].split("section")[0].strip() if cells else ""] = cells[1:]
    known = claims.load_claims()
    paper, own, drawn_number, drawn, real_number, real = rows[known[HALF].claim]
    assert "50.7" in paper
    assert own.startswith("depends on undocumented code") and "50.7 [49.4, 52]; 5,794 test birds" in own
    # the run at the defaults stands, though its instrument failed and that of another seed decides
    assert drawn_number.strip().startswith("47.0 [41.0, 53.0]") and drawn == "instrument failed"
    assert "failed control: one <value>" in drawn_number
    assert real_number.strip().startswith("71.0 [68.0, 74.0]") and real == "fails"
    falls = rows[known[FALLS].claim]
    assert falls[1] == "not decided"  # its own table was not asked
    assert "−3.00 [−9.00, 3.00]" in falls[2] and "about 900 independent cases" in falls[2]
    assert falls[3] == "too few cases"
    assert "verdicts that the rule would now decide otherwise: none" in printed
    assert f"own table: 1 of {len(known)} claims have a verdict" in printed
    assert "drawn data: holds 0, fails 0" in printed and "real data: holds 0, fails 1" in printed
    assert "notebook 11, draws: 2 settings, 4 runs" in printed
    assert "draws: 2 settings" in page.find(id="grid").find_next("figcaption").text


@pytest.mark.notebooks
def test_paper_and_runs_stand_beside_each_other(made):
    rows, heads = table_of(made[0], 1)
    assert len(rows) == 18
    assert rows[0][:4] == ["entire test set", "θ", "1", "39.2"]
    assert rows[0][4:] == ["33.3", "[30.3, 36.3]", "24.6", "61.7", "[58.7, 64.7]", "24.6"] + [
        "41.3",
        "[38.3, 44.3]",
        "24.6",
    ]
    sources = [head for head in heads if head.startswith(("paper", "this run"))]
    cases = "|963 to 1,040 cases"  # a column of their own where there are fewer runs
    assert sources == [
        "paper|CUB-200-2011|ResNet-18",
        f"this run|CUB_200_2011|squeezenet1_1|weights = file.pth{cases}",
        f"this run|aviary|aviary_resnet{cases}",
        f"this run|aviary|aviary_resnet|seed = 5{cases}",
    ]
    heading = heading_of(made[0], "alignment-table-1")
    assert heading.text == "Table 1 · Do the concepts exist? (CEM)"
    assert heading.find_next("p").text.startswith("Of the l concepts")
    assert heading_of(made[0], "collection-table-steps-and-costs").text == "Steps and costs"
    rows, _ = table_of(made[0], 6)
    assert rows[0][:3] == ["bill shape: dagger", "0.54", "−0.30"] and len(rows) == 114
    assert "114 printed by the paper, 2 measured here, 2 of them both (shown first)" in made[0]
    rows, heads = table_of(made[0], "told", "collection")
    assert heads[:2] == ["source", "block"] and rows == [["seed", "first", "0.5"]]


@pytest.mark.notebooks
def test_what_was_not_run_is_said_and_what_was_noted(made):
    soup = BeautifulSoup(made[0], "html.parser")
    assert "Not run yet" in soup.find(id="alignment-table-2").find_next(class_="quiet").text
    assert "Tables 4, 5 of the paper are definitions" in soup.text
    runs = soup.find(id="runs").find_next("table")
    state = {row.find("td").text[:2]: row.find_all("td")[-1].text for row in runs.tbody.find_all("tr")}
    assert state["91"] == "failed: ValueError: no such bird"
    assert state["13"] == "recorded"
    assert "Nothing was run yet" in soup.find(id="autoxplain-notes").find_next("p").text
    notes = soup.find(id="alignment-notes").find_next("ul")
    assert notes.text.startswith("Table 1: the order is another <here>. (notebook 13 · aviary")
    figures = {figure.figcaption.text.split(".")[0]: figure for figure in soup.find_all("figure")}
    assert figures["Birds & concepts"].img["src"].startswith("data:image/png;base64,iVBOR")
    assert "(notebook 62" in soup.find(id="yardsticks").find_next("figure").figcaption.text


@pytest.mark.notebooks
def test_it_stands_alone(made):
    text, printed, folder = made
    soup = BeautifulSoup(text, "html.parser")
    assert not soup.find_all(["script", "link", "iframe", "object"])
    assert all(tag["src"].startswith("data:") for tag in soup.find_all(src=True))
    assert all(
        tag["href"].startswith("#") and soup.find(id=tag["href"][1:]) for tag in soup.find_all(href=True)
    )
    assert "http://" not in text and "https://" not in text and str(folder) not in text
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["report.html"]
    assert "results/report.html" in printed and str(folder) not in printed


@pytest.mark.notebooks
def test_an_empty_folder_gives_a_sentence(tmp_path):
    text, printed = execute(tmp_path / "none")
    assert "Nothing recorded yet: run `make run`" in printed
    assert "Nothing recorded yet: run make run" in BeautifulSoup(text, "html.parser").text
    assert "39.2" in text  # the papers' tables are there, as not run yet


# the chrome


@pytest.mark.parametrize(
    "value, metric, text",
    [
        (0.1234, "CEM", "0.1"),
        (0.1234, "CGIM2", "0.12"),
        (0.1234, "IoU", "0.123"),
        (0.1234, "speed", "0.123"),
        (-0.01, "CEM", "0.0"),
        (float("nan"), "", "–"),
        (12345.6, "", "12,346"),
        (-3.0, "", "−3"),
        (0.00012345, "", "0.000123"),
    ],
)
def test_digits_follow_the_metric(value, metric, text):
    assert number_tables.format_number(value, metric) == text


def test_units_and_keys_in_words():
    assert number_tables.with_unit("CGIM1") == "CGIM1 (cosine)"
    assert number_tables.with_unit("speed") == "speed"
    labels = {
        "theta*u": "θ·û",
        "has_bill_shape::dagger": "bill shape: dagger",
        "001.Black_footed_Albatross": "Black footed Albatross",
        "cbm_joint": "cbm_joint",
    }
    assert {name: number_tables.key_label(name) for name in labels} == labels


def test_runs_come_by_what_they_are_of_and_never_by_what_they_found(tmp_path):
    """Each later kind is newer, and decides where the one before it does not."""
    kept, here = tmp_path / "real_runs", tmp_path / "results"
    preset = yaml.safe_load((FOLDER / "presets" / "13.paper.yaml").read_text())
    undecided, decided = Interval(50.0, 10.0, 90.0, 9, 9.0), Interval(50.0, 48.0, 52.0, 9, 9.0)

    def made(folder, on, found, **changed):
        run = recorded(folder, "13", {})
        run.parameters.update(changed)
        run.record(existence(1.0), "alignment", 1, on, "m")
        run.verdict(HALF, found, on, "m")
        run.finish()

    made(kept, "CUB_200_2011", undecided, **preset)
    made(kept, "CUB_200_2011_half", undecided, draws=2)
    made(kept, "aviary", undecided, draws=9)
    made(here, "aviary", undecided)
    made(here, "aviary", decided, seed=4)
    made(here, "aviary", decided, seed=5)
    found = findings.read_findings([kept, here])
    kinds = [findings.KINDS_OF_RUNS[entry["kind"]] for entry in found.runs]
    assert kinds == ["paper", "real", "long", "default", "other", "other"]
    assert [entry["parameters"]["seed"] for entry in found.runs[-3:]] == [0, 5, 4]  # the newest first
    assert [entry["settings"] for entry in found.runs[-3:]] == ["", "seed = 5", "seed = 4"]
    assert [entry["verdicts"][0]["outcome"] for entry in found.runs] == ["too few cases"] * 4 + ["holds"] * 2
    assert findings.read_findings([kept, here], leave_out="13").runs == []


def test_cases_and_chance_are_columns_only_where_they_differ():
    rows = pd.DataFrame(
        {
            "metric": ["CEM"] * 2,
            "value": [50.0, 60.0],
            "low": float("nan"),
            "high": float("nan"),
            "cases": [10.0, 10.0],
            "chance": [20.0, 30.0],
        }
    )
    columns = {"value": ["50.0", "60.0"], "chance": ["20.0", "30.0"]}
    assert number_tables.source_columns(rows) == (columns, "10 cases")
    same = rows.assign(cases=[10.0, 12.0], chance=20.0, metric="found (%)")
    columns = {"value": ["50", "60"], "cases": ["10", "12"]}
    assert number_tables.source_columns(same) == (columns, "chance 20 %")
    assert number_tables.source_columns(same, narrow=True)[1] == "10 to 12 cases, chance 20 %"
    _, line = number_tables.source_columns(same.assign(metric=["found (%)", "speed"]))
    assert line == "chance 20"
    bounds = rows.assign(low=[40.0, float("nan")], high=[55.0, float("nan")])
    assert number_tables.source_columns(bounds)[0]["interval"] == ["[40.0, 55.0]", "–"]
    voids = number_tables.source_columns(bounds.assign(void=["void: fails a control", None]))[0]
    assert [text.endswith(" void") for text in voids["value"]] == [True, False] and "void" not in voids


def test_a_table_writes_shared_names_once_and_marks_the_papers_column():
    names = pd.DataFrame({"basis": ["theta", "theta", "u"], "metric": ["CEM", "CLM", "CEM"]})
    numbers = {"value": ["1", "2", "3"], "interval": ["[0, 2]", "–", "<"]}
    printed, made = {"value": ["4", "5", "6"]}, Source("13-a", "aviary", "cbm")
    # the source says whose a column is, whatever its heading
    blocks = [Block("", PAPER, "<b>printed</b>", printed), Block("", made, "<b>paper birds</b>", numbers)]
    soup = BeautifulSoup(number_tables.table_html(names, blocks, "%"), "html.parser")
    heads = [[cell.text for cell in row.find_all("th")] for row in soup.thead.find_all("tr")]
    assert heads == [["basis", "metric", "printed", "paper birds"], ["%", "%", "interval"]]
    rows = [[cell.text for cell in row.find_all("td")] for row in soup.tbody.find_all("tr")]
    assert rows[0] == ["θ", "CEM (%)", "4", "1", "[0, 2]"]
    assert rows[1] == ["", "CLM (%)", "5", "2", "–"]
    assert rows[2] == ["û", "CEM (%)", "6", "3", "<"]
    assert [cell.text for cell in soup.find_all("td", class_="paper")] == ["4", "5", "6"]
    several = [Block(metric, made, "a", {"value": ["1", "2", "3"]}) for metric in ("CEM", "CLM")]
    soup = BeautifulSoup(number_tables.table_html(names, several, "%"), "html.parser")
    first = soup.thead.find("tr").find_all("th")
    assert [cell.text for cell in first] == ["basis", "metric", "CEM (%)", "CLM (%)"]
    assert first[0]["rowspan"] == "3"


def test_a_failed_run_is_marked():
    runs = pd.DataFrame(
        {"notebook": ["11", "<12>"], "seconds": ["3", ""], "state": ["recorded", "failed: x"]}
    )
    soup = BeautifulSoup(run_tables.runs_html(runs), "html.parser")
    assert [cell.text for cell in soup.find_all("td", class_="failed")] == ["failed: x"]
    assert [cell.text for cell in soup.find_all("td", class_="n")] == ["3", ""]
    assert soup.find_all("tr")[2].td.text == "<12>"


def test_a_page_that_would_load_something_is_refused():
    for html in (
        "<script>1</script>",
        "<img alt='' src='https://a.b/c.png'>",
        "<link href='a.css'>",
        "<style>a { background: url(b.png) }</style>",
    ):
        with pytest.raises(ValueError, match="stand alone"):
            page_cells.page([page_cells.html_cell(html)], "t")
    assert re.search(
        r"<img alt=\"\" src=\"data:image/png;base64,AA\"",
        page_cells.page([page_cells.html_cell("<img alt='' src='data:image/png;base64,AA'>")], "t"),
    )


def test_writing_is_whole_or_an_error(tmp_path, monkeypatch):
    page_cells.write_page(tmp_path / "a.html", "one")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(FolderError, match="No space left on device.: make room"):
        page_cells.write_page(tmp_path / "a.html", "two")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["one"]
