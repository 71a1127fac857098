"""The report: the paper's numbers beside the run's, on whose data, with chance and notes, in one file."""

import json
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest
import torch
from bs4 import BeautifulSoup

from xaihelpers import claims
from xaihelpers.parameters import declared_parameters
from xaihelpers.paths import FolderError
from xaihelpers.records import COLUMNS, Run, paper_table
from xaihelpers.report import findings, joined_rows, number_tables, page_cells, printed_tables, run_tables
from xaihelpers.report.number_tables import PAPER, Block, Source
from xaihelpers.scores import Interval

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def defaults(number):
    """The parameters of a notebook at its defaults."""
    path = next(FOLDER.glob(f"{number}_*.ipynb"))
    source = next(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    return {name: value for name, (_, value) in declared_parameters(source).items()}


def recorded(folder, number, rows, data="aviary", model="aviary_resnet", heading=("", ""), **changed):
    """A run as a notebook makes it, not yet written.

    rows: {(paper, table): list of rows}. heading: title and caption of these tables.
    """
    run = Run(number, {**defaults(number), **changed}, torch.device("cpu"), folder)
    title, caption = heading
    for (paper, table), part in rows.items():
        run.record(part, paper, table, data, model, title=title, caption=caption)
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


def accuracies(value):
    grid = [(n, c, v) for v in ("as published", "margin") for n in (50, 100) for c in (0.001, 1.0)]
    rows = [
        {
            "samples": n,
            "lambda": c,
            "values": v,
            "classifier": "post-hoc CBM",
            "metric": "accuracy",
            "value": value + i,
            "low": value,
            "high": value + 9,
            "cases": 1040,
            "chance": 2.5,
        }
        for i, (n, c, v) in enumerate(grid)
    ]
    return [
        *rows,
        {
            "classifier": "black box",
            "head": "own",
            "metric": "accuracy",
            "value": 91.2,
            "low": 90.0,
            "high": 92.5,
            "cases": 1040,
            "chance": 2.5,
        },
    ]


def importances(keys, shift=0.0):
    return [
        {**key, "metric": f"CGIM{i}", "value": (k % 19) / 20 - 0.3 + shift, "chance": 0.11}
        for i in (1, 2, 3)
        for k, key in enumerate(keys)
    ]


def draw(run, name, caption):
    """A figure of a run."""
    fig, ax = plt.subplots(figsize=(5, 3))
    ax.plot([0, 1])
    run.figure(fig, name, caption)
    plt.close(fig)


def fill(folder):
    """A results folder with runs at the defaults, another seed, real birds, and one that failed."""
    run = recorded(folder, "13", {("alignment", 1): existence(61.7)}, heading=("Old title", "Old."))
    run.note("Table 1: the order is another <here>.")
    draw(run, "figure", "Birds & concepts.")
    half = "alignment-product-half-absent"
    about = {"data": "aviary", "model": "aviary_resnet", "figure": "figure"}
    run.verdict(half, Interval(47.0, 41.0, 53.0, 960, 260.0), controls={"one <value>": False}, **about)
    fall = Interval(-3.0, -9.0, 3.0, 960, 100.0)
    run.verdict("alignment-product-falls-with-l", fall, controls={"sees": True}, **about)
    run.finish()
    heading = ("Do the concepts exist?", "Of the most important concepts, how many are <there>?")
    run = recorded(folder, "13", {("alignment", 1): existence(41.3)}, heading=heading, seed=5)
    about["figure"] = ""
    run.verdict(half, Interval(48.0, 45.0, 51.0, 960, 260.0), controls={"one <value>": True}, **about)
    run.finish()
    real = {"data": "CUB_200_2011", "model": "squeezenet1_1", "backbone": "squeezenet1_1"}
    real["weights"] = "/some/where/file.pth"
    run = recorded(folder, "13", {("alignment", 1): existence(33.3)}, **real)
    about |= {"data": "CUB_200_2011", "model": "squeezenet1_1"}
    run.verdict(half, Interval(71.0, 68.0, 74.0, 900, 900.0), controls={"sees": True}, **about)
    run.finish()
    recorded(folder, "11", {("alignment", 3): accuracies(70.3)}).finish()
    concepts = [{"attribute": name} for name in ("has_bill_shape::dagger", "has_eye_color::black")]
    classes = [{"class_name": name} for name in ("001.Black_footed_Albatross", "070.Great_Tit")]
    mean = [
        {"over": "mean over classes", "share below 0": 0.25 + i / 8, "metric": f"CGIM{i}", "value": 0.5}
        for i in (1, 2, 3)
    ]
    rows = {
        ("alignment", 6): importances(concepts),
        ("alignment", 7): importances(classes),
        ("alignment", "6-8"): mean,
        ("collection", "steps and costs"): [{"metric": "seconds", "value": 3.0}],
    }
    recorded(folder, "12", rows).finish()
    printed = {"claim": half, "verdict": claims.UNDOCUMENTED, "why": "5,794 test birds", "metric": "%"}
    printed |= {"value": 50.7, "low": 49.4, "high": 52.0, "cases": 5794}
    recorded(folder, "63", {("alignment", "own table"): [printed]}, "printed tables", "as printed").finish()
    # keys that the report could take for its own
    told = [{"source": "seed", "block": "first", "metric": "AUC", "value": 0.5}]
    run = recorded(folder, "62", {("collection", "told"): told})
    draw(run, "yardsticks", "Yardsticks and faults.")
    run.finish()
    recorded(folder, "81", {("collection", "world"): [{"metric": "images", "value": 40.0}]}).finish()
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
    targets = {link["href"].removeprefix("#") for link in ledger.find_all("a")}
    assert "alignment-table-1" in targets and all(page.find(id=target) for target in targets)
    for row in ledger.find_all("tr"):
        cells = [cell.get_text(" ") for cell in row.find_all("td")]
        rows[cells[0].split("section")[0].strip() if cells else ""] = cells[1:]
    half = rows[
        "The concept that contributes most to a prediction is absent from the picture about half of the time."
    ]
    paper, own, drawn_number, drawn, real_number, real = half
    assert "50.7" in paper
    assert own.startswith("depends on undocumented code") and "50.7 [49.4, 52]; 5,794 test birds" in own
    # the first run was blind, the second was not, and the third is on real birds
    assert drawn_number.strip().startswith("48.0 [45.0, 51.0]") and "holds" in drawn
    assert real_number.strip().startswith("71.0 [68.0, 74.0]") and "fails" in real
    falls = rows[
        "The longer the list of most important concepts, the smaller the share of it that is in the picture."
    ]
    assert falls[1] == "not decided"  # its own table was not asked
    assert "−3.00 [−9.00, 3.00]" in falls[2] and "cannot be told" in falls[3]
    assert f"own table: 1 of {len(claims.load_claims())} claims have a verdict" in printed
    assert "holds 1, fails 0, cannot be told 1, instrument blind 0" in printed
    assert "holds 0, fails 1, cannot be told 0, instrument blind 0" in printed


@pytest.mark.notebooks
def test_paper_and_runs_stand_beside_each_other(made):
    rows, heads = table_of(made[0], 1)
    assert len(rows) == 18
    assert rows[0][:4] == ["entire test set", "θ", "1", "39.2"]
    assert rows[0][4:7] == ["61.7", "[58.7, 64.7]", "24.6"]
    assert rows[0][7:10] == ["41.3", "[38.3, 44.3]", "24.6"]
    assert rows[0][10:] == ["33.3", "[30.3, 36.3]", "24.6"]
    sources = [head for head in heads if head.startswith(("paper", "this run"))]
    cases = "|963 to 1,040 cases"  # a column of their own where there are fewer runs
    assert sources == [
        "paper|CUB-200-2011|ResNet-18",
        f"this run|aviary|aviary_resnet{cases}",
        f"this run|aviary|aviary_resnet|seed = 5{cases}",
        f"this run|CUB_200_2011|squeezenet1_1|weights = file.pth{cases}",
    ]
    assert "CEM (%)" in heads


@pytest.mark.notebooks
def test_the_papers_own_choice_stands_beside_the_paper(made):
    rows, heads = table_of(made[0], 3)
    assert [row[:6] for row in rows[:2]] == [
        ["post-hoc CBM", "50", "0.001", "as published", "", "26.7"],
        ["", "100", "0.001", "as published", "", "52.2"],
    ]
    black_box = next(row for row in rows if row[0] == "black box")
    assert black_box == ["black box", "", "", "", "own", "75.4", "91.2", "[90.0, 92.5]"]
    margin = [row for row in rows if row[3] == "margin"]
    assert len(margin) == 4
    assert all(row[5] == "–" for row in margin)
    not_run = next(row for row in rows if row[1:3] == ["50", "0.01"])
    assert not_run[5:] == ["34.1", "–", "–"]
    assert "this run|aviary|aviary_resnet|1,040 cases, chance 2.5 %" in heads  # the same in all rows, so once


@pytest.mark.notebooks
def test_long_tables_are_joined_by_number_and_by_name(made):
    rows, heads = table_of(made[0], 6)
    assert rows[0][:3] == ["bill shape: dagger", "0.54", "−0.30"]
    assert next(row for row in rows if row[0] == "eye color: black")[1:3] == ["−0.63", "−0.25"]
    # as many as the paper prints
    assert len(rows) == 114
    assert "Duck-like shape (printed as 82)" in [row[0] for row in rows]
    metrics = [head for head in heads if head.startswith("CGIM")]
    assert metrics == ["CGIM1 (cosine)", "CGIM2 (cosine)", "CGIM3 (cosine)"]
    rows, _ = table_of(made[0], 7)
    assert rows[0][:3] == ["Black footed Albatross", "0.24", "−0.30"]
    assert rows[-1][:3] == ["Great Tit", "–", "−0.25"]
    assert "102 printed by the paper, 2 measured here, 1 of them both (shown first)" in made[0]
    rows, heads = table_of(made[0], "6-8")
    assert [row[:2] for row in rows[3:5]] == [["mean over classes", "CGIM1 (cosine)"], ["", "CGIM2 (cosine)"]]
    # a number beside, not a key
    assert rows[4][3:] == ["0.50", "0.5"]
    assert heads[-2:] == ["value", "share below 0"]


@pytest.mark.notebooks
def test_titles_and_captions_are_those_of_the_newest_run_that_gives_one(made):
    first = heading_of(made[0], "alignment-table-1")
    assert first.text == "Table 1 · Do the concepts exist?"
    assert first.find_next("p").text == "Of the most important concepts, how many are <there>?"
    assert "Old title" not in made[0]
    # recorded without a title, or only printed: a plain heading
    assert heading_of(made[0], "alignment-table-3").text == "Table 3"
    assert heading_of(made[0], "alignment-table-6-8").text == "Table 6 to 8"
    assert heading_of(made[0], "autoxplain-table-2").text == "Table 2"
    assert heading_of(made[0], "autoxplain-table-text").text == "Text"
    assert heading_of(made[0], "collection-table-steps-and-costs").text == "Steps and costs"
    links = BeautifulSoup(made[0], "html.parser").find_all("a", href="#alignment-table-1")
    assert first.text in [link.text for link in links]  # in the contents


@pytest.mark.notebooks
def test_what_was_not_run_is_said(made):
    soup = BeautifulSoup(made[0], "html.parser")
    assert "Not run yet" in soup.find(id="alignment-table-2").find_next(class_="quiet").text
    assert "Tables 4, 5 of the paper are definitions" in soup.text
    runs = soup.find(id="runs").find_next("table")
    state = {row.find("td").text[:2]: row.find_all("td")[-1].text for row in runs.tbody.find_all("tr")}
    assert state["91"] == "failed: ValueError: no such bird"
    assert state["13"] == "recorded"
    section = soup.find(id="autoxplain")  # its printed tables are here, if not its runs
    assert "Automated Explain Vision Model" in section.text
    assert "Nothing was run yet" in soup.find(id="autoxplain-notes").find_next("p").text


@pytest.mark.notebooks
def test_notes_and_figures(made):
    soup = BeautifulSoup(made[0], "html.parser")
    notes = next(h for h in soup.find_all("h3") if h.text.startswith("What did not reproduce")).find_next(
        "ul"
    )
    assert notes.text.startswith(
        "Table 1: the order is another <here>. (notebook 13 · aviary · aviary_resnet"
    )
    figures = {figure.figcaption.text.split(".")[0]: figure for figure in soup.find_all("figure")}
    figure = figures["Birds & concepts"]
    assert figure.img["src"].startswith("data:image/png;base64,iVBOR")
    assert figure.figcaption.text.startswith("Birds & concepts. (notebook 13")


@pytest.mark.notebooks
def test_the_second_page_is_about_the_yardsticks(made):
    soup = BeautifulSoup(made[0], "html.parser")
    places = [heading["id"] for heading in soup.find_all("h2") if heading.get("id")]
    assert places[:3] == ["ledger", "yardsticks", "runs"]
    figure = soup.find(id="yardsticks").find_next("figure")
    assert figure.img["src"].startswith("data:image/png;base64,iVBOR")
    assert "(notebook 62" in figure.figcaption.text


@pytest.mark.notebooks
def test_keys_of_any_name_are_shown(made):
    rows, heads = table_of(made[0], "told", "collection")
    assert heads[:2] == ["source", "block"] and rows == [["seed", "first", "0.5"]]


@pytest.mark.notebooks
def test_it_stands_alone(made):
    text, printed, folder = made
    soup = BeautifulSoup(text, "html.parser")
    assert not soup.find_all(["script", "link", "iframe", "object"])
    assert all(tag["src"].startswith("data:") for tag in soup.find_all(src=True))
    assert all(
        tag["href"].startswith("#") and soup.find(id=tag["href"][1:]) for tag in soup.find_all(href=True)
    )
    assert "http://" not in text
    assert "https://" not in text
    assert str(folder) not in text
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    assert files == ["report.html", "sweep_13.csv"]  # 13 was run with two values of a parameter
    assert "results/report.html" in printed
    assert str(folder) not in printed


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


@pytest.mark.parametrize(
    "key, text",
    [(50.0, "50"), ("0.001", "0.001"), (1, "1"), (" theta ", "theta"), (float("nan"), ""), ("", "")],
)
def test_a_key_has_one_spelling(key, text):
    assert printed_tables.key_text(key) == text


def test_printed_and_recorded_rows_meet_by_their_keys():
    numbers = {"metric": "CEM", "value": 60.0, "low": 57.0, "high": 63.0, "chance": 25.0}
    first = {"images": "entire test set", "basis": "theta", "l": 1.0}  # as a column with gaps is read
    further = {**first, "basis": "energy"}  # the paper has no such row
    rows = pd.DataFrame([{**first, **numbers}, {**further, **numbers, "value": 70.0}])
    about = {"paper": "alignment", "table": "1", "run": "13-a", "data": "aviary", "model": "cbm"}
    recorded = rows.reindex(columns=[*COLUMNS, "images", "basis", "l"]).assign(**about)
    names, found = joined_rows.beside(recorded, "alignment", "1")
    assert len(names) == 19 and list(names.columns) == ["images", "basis", "l"]
    ours = found["CEM", Source("13-a", "aviary", "cbm")].value
    theirs = found["CEM", PAPER].value
    assert (theirs.iloc[0], ours.iloc[0]) == (39.2, 60.0)
    assert names.iloc[-1].tolist() == ["entire test set", "energy", "1"]
    assert pd.isna(theirs.iloc[-1]) and ours.iloc[-1] == 70.0
    assert joined_rows.has_number(names, found, of_paper=True).sum() == 18
    assert joined_rows.has_number(names, found, of_paper=False).sum() == 2


def test_a_key_that_the_paper_does_not_vary_stands_beside_its_own_choice():
    keys = {"samples": 50, "lambda": 0.001, "classifier": "post-hoc CBM"}
    rows = [
        {**keys, "values": name, "metric": "accuracy", "value": 70.0} for name in ("margin", "as published")
    ]
    about = {"paper": "alignment", "table": "3", "run": "11-a", "data": "aviary", "model": "cbm"}
    recorded = pd.DataFrame(rows).reindex(columns=[*COLUMNS, *keys, "values"]).assign(**about)
    names, found = joined_rows.beside(recorded, "alignment", "3")
    theirs = found[next(source for source in found if source[1] == PAPER)].value.set_axis(names["values"])
    assert theirs["as published"] == 26.7 and pd.isna(theirs["margin"])


def test_runs_at_the_defaults_come_first_and_then_the_newest(tmp_path):
    for seed in (4, 0, 5):
        recorded(
            tmp_path, "81", {("collection", "world"): [{"metric": "n", "value": 1.0}]}, seed=seed
        ).finish()
    found = findings.read_findings([tmp_path])
    assert [entry["changed"] for entry in found.runs] == [{}, {"seed": 5}, {"seed": 4}]
    assert [entry["settings"] for entry in found.runs] == ["", "seed = 5", "seed = 4"]
    assert findings.read_findings([tmp_path], leave_out="81").runs == []


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
