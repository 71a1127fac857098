"""The runner of `make run`, of grids and of array jobs, on small notebooks written here."""

import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from tiny_notebook import lines, recorded, write_notebook

from xaihelpers import grids
from xaihelpers import run as runner

notebooks = pytest.mark.notebooks
PRESET = "a: 7\nseed: 3\nresults: elsewhere\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notebooks" / "presets").mkdir(parents=True)
    return tmp_path


def run(folder, *arguments):
    place = ["--notebooks", str(folder / "notebooks"), "--results", str(folder / "results")]
    return runner.main([*map(str, arguments), *place])


def asked(folder, *arguments):
    """The changed parameters of each point that a command line asks for."""
    place = ["--notebooks", str(folder / "notebooks")]
    options = runner.make_parser().parse_args([*map(str, arguments), *place])
    entries = grids.asked_entries(options)
    points = [point for entry in entries for point in grids.points_of(entry, options.notebooks, folder)]
    return [point.changed for point in grids.take_part(points, options.part)]


def test_what_a_command_line_asks_for(folder):
    write_notebook(folder / "notebooks")
    (folder / "notebooks/presets/11.paper.yaml").write_text(PRESET)
    assert asked(folder) == [{}]
    assert asked(folder, "11", "-p", "a=1,2", "-p", "mark=x") == [{"mark": "x"}, {"a": 2.0, "mark": "x"}]
    several = asked(folder, "11", "-p", "names=y,[y,z],[]")
    assert several == [{"names": ["y"]}, {"names": ["y", "z"]}, {"names": []}]
    assert asked(folder, "11", "-p", "mark=1") == [{"mark": "1"}]
    assert asked(folder, "11", "-f", "paper", "-p", "seed=4") == [{"a": 7.0, "seed": 4}]
    write_notebook(folder / "notebooks/appendix", name="A1_more")
    (folder / "notebooks/presets/A1.long.yaml").write_text("a: 5\n")
    assert asked(folder, "A1", "-f", "long") == [{"a": 5.0}] and asked(folder) == [{}, {}]
    assert asked(folder, "11", "-f", "paper", "--seeds", 2) == [{"a": 7.0, "seed": 3}, {"a": 7.0, "seed": 4}]
    assert asked(folder, "11", "-p", "a=1,2,3", "--part", "2/2") == [{"a": 2.0}]
    grid = folder / "grid.yaml"
    grid.write_text("[{notebook: 11, preset: paper, fixed: {mark: x}, grid: {a: [1, 2]}}, {notebook: '11'}]")
    assert asked(folder, grid) == [{"seed": 3, "mark": "x"}, {"a": 2.0, "seed": 3, "mark": "x"}, {}]


def test_what_cannot_be_run_is_said_before_anything_runs(folder, capsys, monkeypatch):
    write_notebook(folder / "notebooks")
    (folder / "notebooks/presets/11.paper.yaml").write_text(PRESET)
    (folder / "unknown.yaml").write_text("{notebook: 11, girds: {}}")
    (folder / "twice.yaml").write_text("notebook: 11\nfixed: {}\nfixed: {a: 1}\n")
    (folder / "notebooks/presets/11.twice.yaml").write_text("a: 1\nmark: x\na: 2\n")
    monkeypatch.chdir(folder)
    pytest.importorskip("ray")
    for arguments, message in (
        ("77", "No notebook 77 in .*; there are: 11"),
        ("11 -p sede=1", "11_tiny.ipynb: This notebook has no parameter 'sede': did you mean 'seed'?"),
        ("11 -p a=x", "Parameter 'a' must be float, not str .'x'."),
        ("11 -p a", "-p a: write -p name=value"),
        ("11 -p a=1 -p a=2", "-p a=2: write .* once for each name"),
        ("11 -p results=x", "results and device do not tell runs apart"),
        ("-p a=1", "Name the notebooks that -p"),
        ("11 -f papre", "There is no preset papre of 11_tiny.ipynb; there are: 11.paper.yaml"),
        ("11 --seeds -2", "11_tiny.ipynb: seed has no value: give one or more"),
        ("11 --part 3/2", "--part 3/2: write i/n"),
        ("missing.yaml", "missing.yaml"),
        ("twice.yaml", "twice.yaml: 'fixed' stands twice.*\n.*line 3"),
        ("11 -f twice", "11.twice.yaml: 'a' stands twice.*\n.*line 3"),
        ("unknown.yaml", "the keys notebook, preset, fixed, grid, seeds, not .*girds"),
        ("11 --ray 127.0.0.1:1", "No Ray cluster answers at 127.0.0.1:1 .*refused"),
        ("11 --ray host:port", "No Ray cluster answers at host:port"),
    ):
        assert run(folder, *arguments.split()) == 2, arguments
        assert re.search(message, capsys.readouterr().err)
    assert not lines(folder / "results/begun.txt")


@notebooks
def test_order_skipping_and_failure(folder, capsys):
    place = folder / "notebooks"
    write_notebook(place, name="00_first", needs=[])
    write_notebook(place, "time.sleep(1)", name="12_second", needs=["00", "11"])
    write_notebook(place, name="11_middle")
    write_notebook(place / "appendix", name="A1_more")
    write_notebook(place, "1 / 0", name="13_broken")
    report = "(folder / 'report.html').write_text('<p>report</p>')"
    write_notebook(place, report, name="99_report", needs=["*"])
    assert run(folder, "--jobs", 2) == 1
    said = capsys.readouterr().out
    begun = [words[0][:2] for words in lines(folder / "results/begun.txt")]
    assert begun[0] == "00" and begun[-1] == "99" and begun.index("11") < begun.index("12")
    assert begun.count("13") == 2  # it is tried once more
    assert "ZeroDivisionError: division by zero" in said and "Failed: 13_broken: FAILED" in said
    made = {path.name for path in (folder / "results/notebooks").glob("[!.]*")}
    assert "13_broken.failed.ipynb" in made and "13_broken.ipynb" not in made and "00_first.ipynb" in made
    assert f"file://{folder}/results/report.html" in said

    write_notebook(place, name="13_broken")
    assert run(folder, "--jobs", 2) == 0  # only what failed, and the report, which reads all
    said = capsys.readouterr().out
    assert said.count("up to date") == 4 and "13_broken: done" in said and "99_report: done" in said
    assert not (folder / "results/notebooks/13_broken.failed.ipynb").exists()

    (half,) = (folder / "results").glob("11-*/run.json")
    half.write_text(half.read_text()[:20])  # as if it had been written in part
    write_notebook(place, "changed = True", name="00_first", needs=[])
    assert run(folder, "--plan") == 0
    said = capsys.readouterr().out
    for words in ("notebook changed: 00_first", "never run: 11_middle", "done: 12_second"):
        assert words in said
    assert run(folder, "11", "--force") == 0 and "11_middle: done" in capsys.readouterr().out
    write_notebook(place, name="11_middle", needs=["12"])
    assert run(folder) == 2 and "12" in capsys.readouterr().err  # they wait for each other


@notebooks
def test_a_kernel_that_dies_is_named_and_the_next_run_goes_on(folder, capsys):
    broken = "import os, sys\nprint('last words', file=sys.__stderr__, flush=True)\nos.kill(os.getpid(), 9)"
    write_notebook(folder / "notebooks", broken, name="12_dies")
    write_notebook(folder / "notebooks")
    assert run(folder, "--jobs", 1) == 1
    said = capsys.readouterr().out
    assert "11_tiny: done" in said and "12_dies: FAILED, Kernel died" in said and "last words" not in said
    assert "2 notebooks: 2 left, about" in said and "1 left, about" in said and "none left" in said
    (printed,) = re.findall(r"see (.*\.failed\.txt)", said.split("Failed:")[1])
    assert "last words" in Path(printed).read_text()
    write_notebook(folder / "notebooks", name="12_dies")
    assert run(folder, "--jobs", 1) == 0
    said = capsys.readouterr().out
    assert "11_tiny: up to date" in said and "12_dies: done" in said and not Path(printed).exists()


@notebooks
def test_a_kernel_that_is_killed_while_it_starts_is_begun_again(folder, capsys):
    write_notebook(folder / "notebooks")
    killed = []

    def kill_the_first_kernel():
        while not killed:
            for child in psutil.Process().children():
                if "ipykernel_launcher" in " ".join(child.cmdline()):
                    killed.append(child.kill())
            time.sleep(0.01)

    killer = threading.Thread(target=kill_the_first_kernel)
    killer.start()
    assert run(folder, "--jobs", 1) == 0
    killer.join()
    assert capsys.readouterr().out.count("FAILED") == 0 and len(lines(folder / "results/begun.txt")) == 1


def test_a_folder_that_is_full_or_closed_is_named_and_stops_no_other(folder, capsys, monkeypatch):
    write_notebook(folder / "notebooks")
    write_notebook(folder / "notebooks", name="12_more")

    def no_room(notebook, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(notebook))

    monkeypatch.setattr(runner, "execute_notebook", no_room)
    assert run(folder, "--jobs", 1) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED, [Errno 28] No space left on device") == 2 * 2 + 2
    (folder / "a_file").write_text("")
    assert runner.main(["--notebooks", str(folder / "notebooks"), "--results", str(folder / "a_file")]) == 2
    assert "a_file" in capsys.readouterr().err


@notebooks
def test_in_place_leaves_clean_notebooks_or_the_old_ones(folder):
    (folder / "notebooks/presets").rmdir()
    write_notebook(folder / "notebooks", "print('seen')", name="00_first", needs=[])
    broken = write_notebook(folder / "notebooks", "1 / 0", name="12_broken")
    before = broken.read_text()
    assert run(folder, "--inplace") == 1
    made = nbformat.read(folder / "notebooks/00_first.ipynb", as_version=4)
    assert set(made.metadata) == {"kernelspec", "language_info", "xaihelpers"}
    assert [cell.metadata for cell in made.cells] == [{"tags": ["parameters"]}, {}, {}, {}]
    assert [cell.execution_count for cell in made.cells] == [1, 2, 3, 4]
    assert made.cells[2].outputs[0].text == "seen\n"
    assert len([*(folder / "notebooks").iterdir()]) == 2 and broken.read_text() == before


@notebooks
def test_a_worker_killed_by_signal_9_costs_only_time(folder, capsys):
    write_notebook(folder / "notebooks", "time.sleep(2)")
    begun = folder / "results" / "begun.txt"

    def kill_the_first_worker():
        while not lines(begun):
            time.sleep(0.05)
        psutil.Process(int(lines(begun)[0][1])).kill()

    killer = threading.Thread(target=kill_the_first_worker)
    killer.start()
    assert run(folder, "11", "-p", "a=1,2,3", "--jobs", 2) == 0
    killer.join()
    assert sorted(recorded(folder / "results").values()) == [1.0, 2.0, 3.0]


@notebooks
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_broken(folder, end):
    write_notebook(folder / "notebooks", "time.sleep(600)")
    command = [sys.executable, "-m", "xaihelpers.run", "11", "-p", "a=1,2", "--jobs", "2"]
    command += ["--notebooks", str(folder / "notebooks"), "--results", str(folder / "results")]
    # What runs in a shell's background inherits an ignored SIGINT; a terminal's Ctrl-C meets the default.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heard)
    while len(lines(folder / "results/begun.txt")) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(end)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Interrupted" in errors
    assert not recorded(folder / "results") and not list((folder / "results/notebooks").glob("[!.]*"))
