"""Sweeps in processes of this machine: what is run, what not again, what is lost when something fails."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import papermill
import pytest
from filelock import FileLock
from tiny_sweeps import lines, make_plan_of, names, recorded, write_notebook

from xaihelpers import run as driver
from xaihelpers.paths import FolderError
from xaihelpers.sweep import drive
from xaihelpers.sweep.drive import run_points
from xaihelpers.sweep.job import lock_file, run_job
from xaihelpers.sweep.launch import FAILED, HELD, Job, Outcome

FAIL = "if mark == 'bad' and not (folder / 'mended').exists():\n    raise ValueError('it is bad')"


class InProcess:
    """An executor of two machines that runs each job here, when it is waited for."""

    n_slots = 2

    def __init__(self):
        self.waiting, self.placed = [], []

    def start(self, job, environment, avoid):
        node = next((name for name in ("first", "second") if name not in avoid), "second")
        self.placed.append(node)
        self.waiting.append((job, node))

    def wait(self, seconds):
        job, node = self.waiting.pop(0)
        return [(job, run_job(job)._replace(node=node))]

    def stop(self):
        self.waiting = []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A notebook whose execution takes no time, since papermill only records what it is given."""
    write_notebook(tmp_path / "notebooks")
    results = tmp_path / "results"
    results.mkdir()

    def execute(notebook, output, parameters, **settings):
        (point,) = [p for p in make_plan_of(tmp_path, a=[1, 2, 3]).to_run if p.changed == parameters]
        with (results / "made.txt").open("a") as log:
            log.write(f"{point.name} \n")
        point.folder.mkdir()
        key = make_plan_of(tmp_path, a=[1]).keys[point.notebook]
        (point.folder / "run.json").write_text(json.dumps({"key": key}))
        with open(output, "w") as file:
            file.write(point.notebook.read_text())

    monkeypatch.setattr(papermill, "execute_notebook", execute)
    monkeypatch.setattr(drive, "PAUSE", 0.01)
    return tmp_path


def a_job(plan) -> Job:
    (plan.to_run[0].results / ".locks").mkdir(exist_ok=True)
    return drive._job(plan.to_run[0], plan, "", False)


def test_a_point_is_run_once_whoever_asks(folder):
    plan = make_plan_of(folder, a=[1, 2, 3])
    assert [end.outcome.state for end in run_points(plan, InProcess())] == ["done"] * 3
    assert [end.outcome.state for end in run_points(plan, InProcess())] == ["found"] * 3  # an older plan
    assert make_plan_of(folder, a=[1, 2, 3]).to_run == []
    assert len(names(folder / "results/made.txt")) == 3
    assert not list((folder / "results/.locks").glob("sweep-*"))


def test_what_another_process_runs_is_waited_for(folder):
    job = a_job(make_plan_of(folder, a=[1]))
    lock = FileLock(lock_file(folder / "results", job.name))
    lock.acquire()
    assert run_job(job).state == HELD

    said = []

    def say(line, ended):
        said.append(line)
        if "another process runs it" in line:
            lock.release()

    (end,) = run_points(make_plan_of(folder, a=[1]), InProcess(), say=say)
    assert end.outcome.state == "done" and any("waiting for that" in line for line in said)


def test_the_lock_of_a_dead_process_blocks_nobody(folder):
    job = a_job(make_plan_of(folder, a=[1]))
    hold = "import sys, time; from filelock import FileLock; l = FileLock(sys.argv[1]); l.acquire()"
    command = [sys.executable, "-c", f"{hold}; print('held', flush=True); time.sleep(60)"]
    holder = subprocess.Popen(
        [*command, lock_file(folder / "results", job.name)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n" and run_job(job).state == HELD
    holder.kill()
    holder.communicate()
    assert run_job(job).state == "done"


def test_a_machine_without_room_is_avoided(folder, monkeypatch):
    """A full disk on one of two machines: its jobs go to the other, and no more are sent there."""
    whole, executor = papermill.execute_notebook, InProcess()
    full = iter([True, False, False, False])

    def execute(*arguments, **settings):
        if next(full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "scratch")
        whole(*arguments, **settings)

    monkeypatch.setattr(papermill, "execute_notebook", execute)
    said = []
    ended = run_points(make_plan_of(folder, a=[1, 2, 3]), executor, say=lambda line, ended: said.append(line))
    assert [end.outcome.state for end in ended] == ["done"] * 3
    assert any("LOST, No space left on device: scratch; tried again" in line for line in said)
    assert executor.placed == ["first", "first", "second", "second"]
    assert len(names(folder / "results/made.txt")) == 3


def test_a_full_folder_of_results_ends_the_sweep(folder, monkeypatch):
    """What is done stays done, and nothing more is started."""
    whole, room = papermill.execute_notebook, iter([True, False])

    def execute(*arguments, **settings):
        if not next(room):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "results")
        whole(*arguments, **settings)

    monkeypatch.setattr(papermill, "execute_notebook", execute)
    monkeypatch.setattr(drive, "_fault", lambda results: FolderError("Cannot write: make room"))
    executor = InProcess()
    executor.n_slots = 1
    with pytest.raises(FolderError, match="make room"):
        run_points(make_plan_of(folder, a=[1, 2, 3]), executor)
    assert len(executor.placed) == 2 and len(make_plan_of(folder, a=[1, 2, 3]).done) == 1


def test_lost_jobs_are_tried_so_often_and_failed_ones_once(folder, monkeypatch):
    tried = []
    outcomes = {
        "lost": Outcome("lost", "its process was ended by SIGKILL"),
        "failed": Outcome(FAILED, "in cell [2]"),
    }
    for state, times in (("lost", 3), ("failed", 1)):
        tried.clear()
        monkeypatch.setitem(
            globals(), "run_job", lambda job, state=state: tried.append(job) or outcomes[state]
        )
        (end,) = run_points(make_plan_of(folder, a=[1]), InProcess(), retries=2)
        assert end.outcome.state == state and len(tried) == times


def test_a_machine_that_does_not_share_the_folder_says_so(folder):
    outcome = run_job(a_job(make_plan_of(folder, a=[1]))._replace(witness=".locks/of-nobody"))
    assert outcome.state == "lost" and "must lie in a folder that all machines share" in outcome.reason


@pytest.mark.notebooks
def test_a_grid_on_two_workers(tmp_path, capsys):
    """Done is skipped, failed is tried again and reported, a larger grid runs only what is new."""
    write_notebook(tmp_path / "notebooks", FAIL)
    results = tmp_path / "results"

    def sweep(*arguments):
        place = ["--notebooks", str(tmp_path / "notebooks"), "--results", str(results)]
        code = driver.main(["11", *arguments, "--jobs", "2", *place])
        return code, capsys.readouterr().out

    code, said = sweep("-p", "mark='',bad")
    assert code == 1 and "1 points done, 0 were done before, 1 failed." in said
    assert said.count("ValueError: it is bad") == 2 and "kept as far as it came" in said
    assert "failed  " in sweep("-p", "mark='',bad", "--plan")[1]
    (results / "mended").touch()
    code, said = sweep("-p", "mark='',bad,new")
    assert code == 0 and "3 points: 1 done, 2 to run, 1 of them failed before" in said
    assert len(names(results / "made.txt")) == 3 == len(recorded(results))
    assert {words[2] for words in lines(results / "made.txt")} <= {"1", "2"}  # threads, shared out
    assert not list((results / "notebooks").glob("*.failed.ipynb"))
    assert sweep("-p", "mark='',bad,new") == (
        0,
        "3 points: 3 done, 0 to run\n0 points done, 3 were done before, 0 failed.\n",
    )


@pytest.mark.notebooks
def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    """The driver dies by signal 9; its jobs end by themselves, and a second driver waits for them."""
    write_notebook(tmp_path / "notebooks", "time.sleep(2)")
    results = tmp_path / "results"
    command = [sys.executable, "-m", "xaihelpers.run", "11", "-p", "a=1,2", "--jobs", "1"]
    command += ["--notebooks", str(tmp_path / "notebooks"), "--results", str(results)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not names(results / "begun.txt"):
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert second.returncode == 0 and "0 failed" in second.stdout
    assert sorted(recorded(results).values()) == [1.0, 2.0]
    assert len(names(results / "made.txt")) == 2 == len(names(results / "begun.txt"))
