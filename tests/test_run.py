"""The driver of `make run`, on small notebooks written here."""

import os
import signal
import subprocess
import sys
import time

import nbformat
import pytest

from xaihelpers import run as driver

pytestmark = pytest.mark.notebooks

START = """import os
from pathlib import Path

results = Path(os.environ["XAI_RESULTS"])"""
RECORD = """(results / "{id}-run").mkdir(exist_ok=True)
(results / "{id}-run" / "run.json").write_text(os.environ["OMP_NUM_THREADS"])"""


def write(folder, name, *cells, needs=None):
    """A notebook NN_slug that executes `cells` and leaves, as its run.json, the number of its threads."""
    parameters = nbformat.v4.new_code_cell("seed: int = 3  # s", metadata={"tags": ["parameters"]})
    others = [nbformat.v4.new_code_cell(source) for source in (START, *cells, RECORD.format(id=name[:2]))]
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    if needs is not None:
        metadata["xaihelpers"] = {"needs": needs}
    nbformat.write(
        nbformat.v4.new_notebook(cells=[parameters, *others], metadata=metadata), folder / f"{name}.ipynb"
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def run(folder, *arguments):
    return driver.main(
        [*arguments, "--notebooks", str(folder / "notebooks"), "--results", str(folder / "results")]
    )


def finished(folder):
    """Names of the executed notebooks, in the order in which they ended."""
    return [
        path.stem for path in sorted((folder / "results/notebooks").glob("*.ipynb"), key=os.path.getmtime)
    ]


def test_what_a_notebook_needs_is_part_of_its_key(folder, capsys):
    """A change of the notebook whose results another reads makes both run again; one of 00 does not."""
    notebooks = folder / "notebooks"
    write(notebooks, "00_first")
    write(notebooks, "11_source", needs=["00"])
    write(notebooks, "12_reader", needs=["00", "11"])
    assert run(folder) == 0
    capsys.readouterr()
    write(notebooks, "11_source", "changed = True", needs=["00"])
    assert run(folder) == 0
    said = capsys.readouterr().out
    assert "00_first: up to date" in said and "11_source: done" in said and "12_reader: done" in said
    write(notebooks, "00_first", "changed = True")
    assert run(folder) == 0
    said = capsys.readouterr().out
    assert "00_first: done" in said and said.count("up to date") == 2


def test_order_skipping_and_failure(folder, capsys):
    notebooks = folder / "notebooks"
    write(notebooks, "00_first")
    write(notebooks, "12_second", "from time import sleep; sleep(1)", needs=["00", "11"])
    write(notebooks, "11_middle", needs=["00"])
    write(notebooks, "13_broken", "1 / 0", needs=["00"])
    write(notebooks, "99_report", "(results / 'report.html').write_text('<p>report</p>')")

    assert run(folder, "--jobs", "2") == 1
    said = capsys.readouterr().out
    order = finished(folder)
    assert (
        order[0] == "00_first"
        and order[-1] == "99_report"
        and order.index("11_middle") < order.index("12_second")
    )
    assert (
        "13_broken: FAILED" in said and "ZeroDivisionError: division by zero" in said and "Failed: 13" in said
    )
    assert "13_broken.failed" in order and "13_broken" not in order
    assert f"file://{folder}/results/report.html" in said
    assert not list((folder / "results/notebooks").glob(".*"))

    write(notebooks, "13_broken", needs=["00"])
    assert run(folder, "--jobs", "2") == 0  # only what failed, and the report on it
    said = capsys.readouterr().out
    assert said.count("up to date") == 3 and "13_broken: done" in said and "99_report: done" in said
    assert "13_broken" in finished(folder) and "13_broken.failed" not in finished(folder)

    start = time.monotonic()
    assert run(folder) == 0
    assert capsys.readouterr().out.count("up to date") == 5 and time.monotonic() - start < 5

    next((folder / "results").glob("11-*/run.json")).unlink()  # a lost result is made again
    assert run(folder, "11") == 0 and "11_middle: done" in capsys.readouterr().out
    write(notebooks, "00_first", "changed = True")
    assert run(folder, "00") == 0
    said = capsys.readouterr().out
    assert "00_first: done" in said and "of an earlier run" in said
    assert run(folder, "00", "--force") == 0 and "00_first: done" in capsys.readouterr().out


def test_cores_are_shared(folder, monkeypatch):
    monkeypatch.setattr(driver, "_cores", lambda: 2)
    for name in ("00_a", "11_b", "12_c"):
        write(folder / "notebooks", name)
    assert run(folder, "--jobs", "2") == 0
    threads = {path.parent.name: path.read_text() for path in (folder / "results").glob("*/run.json")}
    assert threads == {"00-run": "2", "11-run": "1", "12-run": "1"}  # nothing can run beside 00


def test_in_place_leaves_clean_notebooks(folder):
    bar = "import sys\nprint(' 50%|###   | 1/2 [00:01<00:01,  1.00it/s]', file=sys.stderr)"
    write(folder / "notebooks", "00_first", bar, "print('seen')")
    assert run(folder, "--inplace") == 0
    made = nbformat.read(folder / "notebooks/00_first.ipynb", as_version=4)
    assert (
        set(made.metadata) == {"kernelspec", "language_info"} and made.metadata.kernelspec.name == "python3"
    )
    assert [cell.metadata for cell in made.cells] == [{"tags": ["parameters"]}, {}, {}, {}, {}]
    assert [cell.execution_count for cell in made.cells] == [1, 2, 3, 4, 5]
    assert made.cells[2].outputs == [] and made.cells[3].outputs[0].text == "seen\n"
    assert [path.name for path in (folder / "notebooks").iterdir()] == ["00_first.ipynb"]


def test_in_place_failure_leaves_the_notebook_alone(folder):
    write(folder / "notebooks", "00_first", "1 / 0")
    before = (folder / "notebooks/00_first.ipynb").read_text()
    assert run(folder, "--inplace") == 1
    assert (folder / "notebooks/00_first.ipynb").read_text() == before


def test_what_cannot_be_run_is_said(folder, capsys):
    assert run(folder) == 2 and "there are: none" in capsys.readouterr().err
    write(folder / "notebooks", "00_first")
    assert run(folder, "00", "77") == 2 and "No notebook 77" in capsys.readouterr().err
    write(folder / "notebooks", "11_a", needs=["12"])
    write(folder / "notebooks", "12_b", needs=["11"])
    assert run(folder, "11", "12") == 2 and "11 12 wait for each other" in capsys.readouterr().err
    (folder / "file").write_text("")
    assert driver.main(["--results", str(folder / "file/results")]) == 2
    assert "Cannot write in" in capsys.readouterr().err


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_broken(folder, end):
    write(
        folder / "notebooks",
        "00_slow",
        f"open({str(folder / 'reached')!r}, 'w').close()\nfrom time import sleep; sleep(120)",
    )
    command = [
        sys.executable,
        "-m",
        "xaihelpers.run",
        "--notebooks",
        str(folder / "notebooks"),
        "--results",
        str(folder / "results"),
    ]
    # What runs in a shell's background inherits an ignored SIGINT; a terminal's Ctrl-C meets the default.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heard)
    while not (folder / "reached").exists():
        assert process.poll() is None
        time.sleep(0.1)
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 2 and "Another run is writing" in second.stderr
    process.send_signal(end)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Interrupted" in errors
    assert list((folder / "results/notebooks").iterdir()) == []
