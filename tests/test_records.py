"""Parameters, records and paths: what goes in is checked, what comes out is whole."""

import json
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers.claims import VERSION, load_claims
from xaihelpers.parameters import ParameterError, check_parameters, parameters_hash
from xaihelpers.paths import FolderError
from xaihelpers.records import read_records, read_runs, start
from xaihelpers.scores import Interval

CELL = """seed: int = 0  # seed of all generators
device: str = "cpu"  # where
lambdas: list[float] = [0.1, 1.0]  # grid
l1_ratio: float = 0.99  # alpha
results: str = "results"
"""


def namespace_after(*cells: str) -> dict:
    """The globals of a notebook in which these cells have run."""
    namespace = {"In": ["", *cells]}
    for cell in cells:
        exec(cell, namespace)
    return namespace


def started(folder, **given):
    """A run with other parameters."""
    values = {**given, "results": str(folder)}
    injected = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return start("11", namespace_after(CELL, f"# Parameters\n{injected}"))


@pytest.fixture
def run(tmp_path):
    return started(tmp_path)


def test_parameters_given_and_injected():
    values = check_parameters(namespace_after(CELL, "# Parameters\nseed = 3\nlambdas = [1]\n", "import os"))
    assert values == {"seed": 3, "device": "cpu", "lambdas": [1.0], "l1_ratio": 0.99, "results": "results"}
    assert all(type(x) is float for x in values["lambdas"])
    one = parameters_hash(values)
    assert one == parameters_hash(values | {"device": "cuda", "results": "b"}), "where, not what"
    assert one != parameters_hash(values | {"seed": 1})


def test_wrong_parameters_are_named():
    for injected, message in (
        ("sed = 1", "no parameter 'sed': did you mean 'seed'"),
        ("zzz = 1", "it knows seed, device"),
        ("seed = True", "'seed' must be int, not bool"),
        ("l1_ratio = '1e-3'", "1.0e-3"),
        ("lambdas = '[1, 2]'", "-y 'lambdas: "),
        ("lambdas = [1, 'a']", "must be list\\[float\\]"),
    ):
        with pytest.raises(ParameterError, match=message):
            check_parameters(namespace_after(CELL, f"# Parameters\n{injected}\n"))
    with pytest.raises(ParameterError, match="Run the cell tagged 'parameters'"):
        check_parameters(namespace_after("x = 1"))


def test_numbers_off_their_scale_are_named():
    """A count of nothing, unless the comment says what 0 means; a share or a percentage of another scale."""
    cell = """seed: int = 0  # seed
n_cases: int = 0  # l, of each data set; 0: all of 1,000 images
first: list[int] = [1, 3]  # l, of 0.5 to 10 concepts
k: float = 0.5  # how steeply it loosens
accuracy: float = 0.9  # how often it must be right
beta: float = 0.4  # attention that is half lit
corrected: list[int] = [0, 50]  # % that a person corrects
cutoff: float = 85.0  # similarity, 0 to 100
threshold: float = 0.5  # from which probability on
other_thresholds: list[float] = [2.5]  # from which scores on
"""
    for fine in ("n_cases = 0", "k = -1.0", "accuracy = 1", "corrected = [0, 100]", "threshold = 0"):
        check_parameters(namespace_after(cell, f"# Parameters\n{fine}\n"))
    for injected, message in (
        ("seed = -1", "seed is -1: it has to be 0 or more"),
        ("n_cases = -5", "n_cases is -5: it has to be 0 or more .l, of each data set; 0: all of"),
        ("first = [1, 0]", "first is 0: it has to be 1 or more"),
        ("beta = -0.4", "beta is -0.4: it has to be 0 to 1"),
        ("corrected = [50, 250]", "corrected is 250: it has to be 0 to 100, in %"),
        ("cutoff = 0.85", "cutoff is 0.85: it has to be 1 to 100, in %"),
        ("threshold = 50", "threshold is 50: it has to be 0 to 1, a share"),
        ("k = float('nan')", "k is nan: it has to be a number"),
    ):
        with pytest.raises(ParameterError, match=message):
            check_parameters(namespace_after(cell, f"# Parameters\n{injected}\n"))
    without_history = namespace_after(cell) | {"In": [""]}
    assert check_parameters(without_history)["n_cases"] == 0
    with pytest.raises(ParameterError, match="n_cases is -1"):
        check_parameters(without_history | {"n_cases": -1})


def test_cells_run_again_and_out_of_order_and_without_a_history():
    cells = [CELL, "# Parameters\nsed = 1\n", "# Parameters\nseed = 1\n"]  # the injected cell was corrected
    other = CELL.replace("seed: int = 0", "seed: int = 7")
    for seed, ran in ((1, cells), (7, [*cells, other]), (5, [CELL, "seed = 5"]), (0, ["x = 1", CELL])):
        assert check_parameters(namespace_after(*ran))["seed"] == seed
    namespace = namespace_after(CELL) | {"In": [""]}  # as under nbval
    assert check_parameters(namespace) == check_parameters(namespace_after(CELL))
    with pytest.raises(ParameterError, match="'seed' must be int"):
        check_parameters(namespace | {"seed": 1.5})
    assert check_parameters({"seed": "a plain dictionary declares nothing"}) == {}


def test_start_seeds_everything_and_finds_its_device_and_folder(tmp_path, monkeypatch):
    def draw():
        started(tmp_path)
        return random.random(), np.random.rand(), torch.rand(1).item()

    assert draw() == draw()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert started(tmp_path, device="auto").device == torch.device("cpu")
    with pytest.raises(ParameterError, match="must be auto, cpu or cuda"):
        started(tmp_path, device="gpu")
    with pytest.raises(ParameterError, match="sees no GPU here: use auto or cpu"):
        started(tmp_path, device="cuda")
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="Cannot write in .*results .*name another folder"):
        started(tmp_path / "file" / "results")


def row(value, **keys):
    return {**keys, "metric": "accuracy", "value": value}


SOURCE = dict(paper="alignment", table=3, data="d", model="m")


def test_round_trip(run, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setenv("XAI_CODE_KEY", '{"notebook": "n", "package": "p", "data": "d"}')
    rows = [
        {**row(np.float32(0.5), concepts=112, labels="NA"), "low": 0.4, "high": 0.6, "cases": 100},
        {**row(float("nan"), concepts=112, labels="None", penalty=np.nan), "chance": torch.tensor(0.02)},
    ]
    shown = run.record(rows, **SOURCE)
    assert list(shown.row) == ["concepts=112, labels=NA", "concepts=112, labels=None"]
    figure, axes = plt.subplots()
    axes.plot([0, 1])
    with caplog.at_level("INFO", logger="xaihelpers"):
        run.figure(figure, "curve", "A curve.")
    assert caplog.messages == ["A curve."]  # shown above it
    plt.close(figure)
    run.note("Less data.")
    run.note("Less data.")
    for text in ("2 of 5 are left out", "not for the record"):  # by a helper
        logging.getLogger("xaihelpers.helper").warning(text, extra={"note": "left out" in text})
    about = {name: SOURCE[name] for name in ("paper", "data", "model")}
    run.finish({"text": [row(3)]}, **about)

    back = read_records(tmp_path)
    assert list(back.columns[:3]) == ["paper", "table", "row"]
    assert back.labels.tolist()[:2] == ["NA", "None"] and back.row[2] == ""  # texts stay texts
    assert (back.value[0], back.low[0], back.cases[0]) == (0.5, 0.4, 100)
    assert np.isnan(back.value[1]) and back.chance[1] == pytest.approx(0.02)
    assert back.table.tolist() == ["3", "3", "text"] and set(back.notebook) == {"11"}
    assert json.loads(back.parameters[0])["l1_ratio"] == 0.99

    (about,) = read_runs(tmp_path)
    assert about["notes"] == ["Less data.", "2 of 5 are left out"]
    assert about["data"] == ["d"] and about["model"] == ["m"]
    assert about["figures"] == [{"file": "curve.png", "caption": "A curve."}]
    assert about["device"] == "CPU, 1 thread" and "tables" not in about
    assert about["key"] == {"notebook": "n", "package": "p", "data": "d"}
    assert (about["folder"] / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_verdict_is_shown_and_kept(run, tmp_path, caplog):
    """The same claim decided again, as when a cell is run twice, replaces the earlier verdict."""
    claim = load_claims()["alignment-product-half-absent"]
    about = {"data": "aviary", "model": "aviary_resnet", "figure": "table1"}
    about["readings"] = {"another head": None, "by size": None, "by presence alone": None}
    run.verdict(claim.id, Interval(20.0, 10.0, 30.0, 100, 90.0), **about)
    found, otherwise = Interval(52.0, 47.0, 57.0, 100, 90.0), Interval(20.0, 10.0, 30.0, 100, 90.0)
    with caplog.at_level("INFO", logger="xaihelpers"):
        verdict = run.verdict(claim.id, found, controls={"one value": np.True_}, **about)
    assert verdict.outcome == "holds"
    assert claim.claim in caplog.text and "52 [47, 57] %, least effect 10: holds" in caplog.text
    other = "alignment-product-half-absent-gauge-free"
    with caplog.at_level("INFO", logger="xaihelpers"):
        written = {"zero": otherwise, "gauge": found}
        assert run.verdict(other, found, rewritten=written, **about).outcome == "ill-posed"
    assert "52 [47, 57] % as fitted, 20 to 52 in other writings, least effect 10: ill-posed" in caplog.text
    with pytest.raises(ValueError, match="not asked its readings another head, by presence alone, by size"):
        run.verdict(other, found, **about | {"readings": {}})
    with pytest.raises(ValueError, match="is about people: say by needs= who answered"):
        run.verdict("autoxplain-texts-acceptable", found, "aviary", "judge")
    run.finish()
    (about,) = read_runs(tmp_path)
    kept = about["verdicts"]
    assert [v["claim"] for v in kept] == [claim.id, other] and about["key"] == {}
    assert kept[0]["value"] == 52 and kept[0]["controls"] == {"one value": True}
    assert kept[1]["rewritten"] == {"zero": list(otherwise), "gauge": list(found)}
    assert kept[1]["figure"] == "table1" and kept[1]["rule"] == VERSION


def test_recording_again_replaces_and_a_void_mark_is_no_key(run, tmp_path):
    run.record([row(1, k=1), row(2, k=2)], **SOURCE)
    run.record([row(3, k=1)], **SOURCE)
    run.finish()
    run.record([row(4, k=1) | {"void": "void: fails reads the name"}], **SOURCE)
    run.finish()
    kept = read_records(tmp_path)
    assert dict(zip(kept.k, kept.value, strict=True)) == {2: 2, 1: 4}
    assert kept.void.fillna("").tolist() == ["", "void: fails reads the name"]
    with pytest.raises(ValueError, match="needs 'metric' and 'value'"):
        run.record([{"metric": "accuracy"}], **SOURCE)
    with pytest.raises(ValueError, match="tells them apart"):
        run.record([row(1, k=1), row(2, k=1)], **SOURCE)


def test_tables_are_recorded_each_part_under_its_data_and_model(run, tmp_path):
    parts = {"data": ["/some/where/birds", "cars", "cars"], "model": ["a", "a", "b"]}
    frame = pd.DataFrame({**parts, "k": [1, 1, 2], "metric": "accuracy", "value": [10.0, 20.0, 30.0]})
    run.finish({3: frame}, paper="alignment")
    rows = read_records(tmp_path)
    assert rows[["data", "model", "row", "value"]].values.tolist() == [
        ["birds", "a", "k=1", 10.0],
        ["cars", "a", "k=1", 20.0],
        ["cars", "b", "k=2", 30.0],
    ]


def test_newest_run_is_last_and_a_damaged_one_is_named_and_left_out(tmp_path, capsys):
    for seed in (2, 1):
        each = started(tmp_path, seed=seed)
        each.record([row(seed)], **SOURCE)
        each.finish()
    (tmp_path / "12-broken").mkdir()
    (tmp_path / "12-broken" / "run.json").write_text("{")
    assert list(read_records(tmp_path).value) == [2, 1] and "12-broken" in capsys.readouterr().out


def test_a_full_folder_loses_nothing(run, tmp_path, monkeypatch, capsys):
    run.record([row(0.125, k=1)], **SOURCE)
    run.finish()
    run.record([row(0.625, k=1)], **SOURCE)

    with monkeypatch.context() as patched:
        patched.setattr(pd.DataFrame, "to_csv", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(FolderError, match=f"{tmp_path} .No space left on device.: make room .* name"):
            run.finish()
    assert "0.625" in capsys.readouterr().out  # shown
    assert list(read_records(tmp_path).value) == [0.125]  # the earlier run is whole
    run.finish()  # after making room
    assert list(read_records(tmp_path).value) == [0.625]
    assert len(list(tmp_path.iterdir())) == 1


def finish_and_be_killed(run):
    write = Path.write_text

    def killed(path, text):
        write(path, text[: len(text) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    Path.write_text = killed
    run.finish()


def test_a_run_killed_while_it_writes_is_as_it_was_before(run, tmp_path):
    run.record([row(1)], **SOURCE)
    run.finish()
    run.record([row(2)], **SOURCE)
    process = multiprocessing.get_context("fork").Process(target=finish_and_be_killed, args=(run,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL and read_records(tmp_path).value.tolist() == [1]
    half = [path for path in tmp_path.rglob("run.json") if path.parent.parent != tmp_path]
    assert len(half) == 1  # it was killed in the middle, and nobody takes it for a run


@pytest.mark.notebooks
def test_papermill_refuses_what_a_notebook_does_not_know(tmp_path):
    sources = [CELL, "from xaihelpers.records import start\nrun = start('11', globals())"]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata.tags = ["parameters"]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    toy = str(tmp_path / "11_toy.ipynb")
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), toy)
    command = [sys.executable, "-m", "papermill", toy, toy, "--no-progress-bar", "-p", "l1_ration", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no parameter 'l1_ration': did you mean 'l1_ratio'?" in done.stderr
