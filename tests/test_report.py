"""The report: the paper's numbers beside the run's, on whose data, with chance and notes, in one file that stands alone."""

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

from xaihelpers import report
from xaihelpers.parameters import declared
from xaihelpers.paths import FolderError
from xaihelpers.records import Run, paper_table

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def defaults(number):
    """The parameters of a notebook at its defaults."""
    path = next(FOLDER.glob(f"{number}_*.ipynb"))
    source = next(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    return {name: value for name, (_, value) in declared(source).items()}


def recorded(folder, number, rows, data="aviary", model="aviary_resnet", notes=(), caption="", **changed):
    """Make a run as a notebook would; rows: {(paper, table): list of rows}."""
    run = Run(number, {**defaults(number), **changed}, torch.device("cpu"), folder)
    for (paper, table), part in rows.items():
        run.record(part, paper, table, data, model)
    for note in notes:
        run.note(note)
    if caption:
        fig, ax = plt.subplots(figsize=(5, 3))
        ax.plot([0, 1])
        run.figure(fig, "figure", caption)
        plt.close(fig)
    run.finish()


def existence(value):
    """Rows of Table 1: 18 different values, the first of them `value`."""
    keys = paper_table("alignment", 1)[["images", "basis", "l"]].to_dict("records")
    return [{**key, "metric": "CEM", "value": value + i / 10, "low": value - 3, "high": value + 3, "cases": 1040 if i < 9 else 963, "chance": 24.6 if i < 9 else 24.8}
            for i, key in enumerate(keys)]  # fmt: skip


def accuracies(value):
    grid = [(n, c, v) for v in ("as published", "margin") for n in (50, 100) for c in (0.001, 1.0)]
    rows = [{"samples": n, "lambda": c, "values": v, "classifier": "post-hoc CBM", "metric": "accuracy", "value": value + i, "low": value, "high": value + 9,
             "cases": 1040, "chance": 2.5} for i, (n, c, v) in enumerate(grid)]  # fmt: skip
    return [*rows, {"classifier": "black box", "head": "own", "metric": "accuracy", "value": 91.2, "low": 90.0, "high": 92.5, "cases": 1040, "chance": 2.5}]


def importances(keys, shift=0.0):
    return [{**key, "metric": f"CGIM{i}", "value": (k % 19) / 20 - 0.3 + shift, "chance": 0.11} for i in (1, 2, 3) for k, key in enumerate(keys)]


def fill(folder):
    """A results folder with runs at the defaults, one with another parameter, one on real birds, and one that failed."""
    recorded(folder, "13", {("alignment", 1): existence(61.7)}, notes=["Table 1: the order is another <here>."], caption="Birds & concepts.")
    recorded(folder, "13", {("alignment", 1): existence(41.3)}, seed=5)
    recorded(folder, "13", {("alignment", 1): existence(33.3)}, data="CUB_200_2011", model="squeezenet1_1", backbone="squeezenet1_1", weights="/some/where/file.pth")
    recorded(folder, "11", {("alignment", 3): accuracies(70.3)})
    concepts = [{"attribute": name} for name in ("has_bill_shape::dagger", "has_eye_color::black")]
    classes = [{"class_name": name} for name in ("001.Black_footed_Albatross", "070.Great_Tit")]
    mean = [{"over": "mean over classes", "share below 0": 0.25 + i / 8, "metric": f"CGIM{i}", "value": 0.5} for i in (1, 2, 3)]
    recorded(folder, "12", {("alignment", 6): importances(concepts), ("alignment", 7): importances(classes), ("alignment", "6-8"): mean})
    (folder / "notebooks").mkdir()
    broken = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("error", ename="ValueError", evalue="no such bird")])
    nbformat.write(nbformat.v4.new_notebook(cells=[broken]), folder / "notebooks" / next(FOLDER.glob("91_*.ipynb")).with_suffix(".failed.ipynb").name)


def execute(folder):
    """Run the notebook on a results folder; returns the report as text and all that the notebook printed."""
    out = folder.parent / f"{folder.name}_executed.ipynb"
    command = [sys.executable, "-m", "papermill", str(FOLDER / "99_report.ipynb"), str(out), "--no-progress-bar", "-p", "results", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder.parent)
    assert done.returncode == 0, done.stderr[-4000:]
    cells = json.loads(out.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    return (folder / "report.html").read_text(), "".join("".join(output.get("text", "")) for output in outputs)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "results"
    folder.mkdir()
    fill(folder)
    return *execute(folder), folder


def table_of(text, title):
    """The rows of the table under the heading that begins with `title`, as lists of texts, and its headings."""
    heading = next(h for h in BeautifulSoup(text, "html.parser").find_all("h3") if h.text.startswith(title))
    table = heading.find_next("table")
    rows = [[cell.text for cell in row.find_all("td")] for row in table.tbody.find_all("tr")]
    return rows, [cell.get_text("|") for cell in table.thead.find_all("th")]


@pytest.mark.notebooks
def test_paper_and_runs_stand_beside_each_other(made):
    rows, heads = table_of(made[0], "Table 1 ")
    assert len(rows) == 18
    assert rows[0] == ["entire test set", "θ", "1", "39.2", "61.7", "[58.7, 64.7]", "24.6", "41.3", "[38.3, 44.3]", "24.6", "33.3", "[30.3, 36.3]", "24.6"]
    sources = [head for head in heads if head.startswith(("paper", "this run"))]
    cases = "|963 to 1,040 cases"  # a column of their own where there are fewer runs
    assert sources == ["paper|CUB-200-2011|ResNet-18", f"this run|aviary|aviary_resnet{cases}", f"this run|aviary|aviary_resnet|seed = 5{cases}",
                       f"this run|CUB_200_2011|squeezenet1_1|weights = file.pth{cases}"]  # fmt: skip
    assert "CEM (%)" in heads


@pytest.mark.notebooks
def test_the_papers_own_choice_stands_beside_the_paper(made):
    rows, heads = table_of(made[0], "Table 3 ")
    assert [row[:6] for row in rows[:2]] == [["post-hoc CBM", "50", "0.001", "as published", "", "26.7"], ["", "100", "0.001", "as published", "", "52.2"]]
    black_box = next(row for row in rows if row[0] == "black box")
    assert black_box == ["black box", "", "", "", "own", "75.4", "91.2", "[90.0, 92.5]"]
    margin = [row for row in rows if row[3] == "margin"]
    assert len(margin) == 4 and all(row[5] == "–" for row in margin)
    not_run = next(row for row in rows if row[1:3] == ["50", "0.01"])
    assert not_run[5:] == ["34.1", "–", "–"]
    assert "this run|aviary|aviary_resnet|1,040 cases, chance 2.5 %" in heads  # the same in all rows, so once


@pytest.mark.notebooks
def test_long_tables_are_joined_by_number_and_by_name(made):
    rows, heads = table_of(made[0], "Table 6 ·")
    assert rows[0][:3] == ["bill shape: dagger", "0.54", "−0.30"]
    assert next(row for row in rows if row[0] == "eye color: black")[1:3] == ["−0.63", "−0.25"]
    assert len(rows) == 114 and "Duck-like shape (printed as 82)" in [row[0] for row in rows]  # as many as the paper prints
    assert [head for head in heads if head.startswith("CGIM")] == ["CGIM1 (cosine)", "CGIM2 (cosine)", "CGIM3 (cosine)"]
    rows, _ = table_of(made[0], "Table 7 ")
    assert rows[0][:3] == ["Black footed Albatross", "0.24", "−0.30"]
    assert rows[-1][:3] == ["Great Tit", "–", "−0.25"]
    assert "102 printed by the paper, 2 measured here, 1 of them both (shown first)" in made[0]
    rows, heads = table_of(made[0], "Table 6 to 8")
    assert [row[:2] for row in rows[3:5]] == [["mean over classes", "CGIM1 (cosine)"], ["", "CGIM2 (cosine)"]]
    assert rows[4][3:] == ["0.50", "0.5"] and heads[-2:] == ["value", "share below 0"]  # a number beside, not a key


@pytest.mark.notebooks
def test_what_was_not_run_is_said(made):
    soup = BeautifulSoup(made[0], "html.parser")
    heading = next(h for h in soup.find_all("h3") if h.text.startswith("Table 2 "))
    assert "Not run yet" in heading.find_next(class_="quiet").text
    assert "Tables 4, 5 of the paper are definitions" in soup.text
    runs = soup.find(id="runs").find_next("table")
    state = {row.find("td").text[:2]: row.find_all("td")[-1].text for row in runs.tbody.find_all("tr")}
    assert state["91"] == "failed: ValueError: no such bird" and state["13"] == "recorded"
    section = soup.find(id="autoxplain")  # its printed tables are here, if not its runs
    assert "Automated Explain Vision Model" in section.text and "Nothing was run yet" in soup.find(id="autoxplain-notes").find_next("p").text


@pytest.mark.notebooks
def test_notes_and_figures(made):
    soup = BeautifulSoup(made[0], "html.parser")
    notes = next(h for h in soup.find_all("h3") if h.text.startswith("What did not reproduce")).find_next("ul")
    assert notes.text.startswith("Table 1: the order is another <here>. (notebook 13 · aviary · aviary_resnet")
    (figure,) = soup.find_all("figure")
    assert figure.img["src"].startswith("data:image/png;base64,iVBOR")
    assert figure.figcaption.text.startswith("Birds & concepts. (notebook 13")


@pytest.mark.notebooks
def test_it_stands_alone(made):
    text, printed, folder = made
    soup = BeautifulSoup(text, "html.parser")
    assert not soup.find_all(["script", "link", "iframe", "object"])
    assert all(tag["src"].startswith("data:") for tag in soup.find_all(src=True))
    assert all(tag["href"].startswith("#") and soup.find(id=tag["href"][1:]) for tag in soup.find_all(href=True))
    assert "http://" not in text and "https://" not in text and str(folder) not in text
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == ["report.html"]
    assert "results/report.html" in printed and str(folder) not in printed


@pytest.mark.notebooks
def test_an_empty_folder_gives_a_sentence(tmp_path):
    text, printed = execute(tmp_path / "none")
    assert "Nothing recorded yet: run `make run`" in printed
    assert "Nothing recorded yet: run make run" in BeautifulSoup(text, "html.parser").text
    assert "39.2" in text  # the papers' tables are there, as not run yet


# the chrome


def test_digits_follow_the_metric():
    assert [report.number_text(0.1234, m) for m in ("CEM", "CGIM2", "IoU", "speed")] == ["0.1", "0.12", "0.123", "0.123"]
    assert [report.number_text(v) for v in (float("nan"), 12345.6, -3.0, 0.00012345)] == ["–", "12,346", "−3", "0.000123"]
    assert report.with_unit("CGIM1") == "CGIM1 (cosine)" and report.with_unit("speed") == "speed"


def test_cases_and_chance_are_columns_only_where_they_differ():
    rows = pd.DataFrame({"metric": ["CEM"] * 2, "value": [50.0, 60.0], "low": float("nan"), "high": float("nan"), "cases": [10.0, 10.0], "chance": [20.0, 30.0]})
    assert report.columns_of(rows) == ({"value": ["50.0", "60.0"], "chance": ["20.0", "30.0"]}, "10 cases")


def test_a_page_that_would_load_something_is_refused():
    for html in ("<script>1</script>", "<img alt='' src='https://a.b/c.png'>", "<link href='a.css'>", "<style>a { background: url(b.png) }</style>"):
        with pytest.raises(ValueError, match="stand alone"):
            report.page([report.html_cell(html)], "t")
    assert re.search(r"<img alt=\"\" src=\"data:image/png;base64,AA\"", report.page([report.html_cell("<img alt='' src='data:image/png;base64,AA'>")], "t"))


def test_writing_is_whole_or_an_error(tmp_path, monkeypatch):
    report.write_whole(tmp_path / "a.html", "one")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(FolderError, match="No space left on device.: make room"):
        report.write_whole(tmp_path / "a.html", "two")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["one"]
