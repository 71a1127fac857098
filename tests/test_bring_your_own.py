"""The README's "Bring your own model": its file and its commands, run in a folder outside the project.

Commands of notebooks run as cells in this process, at small sizes, with the parameters that the command sets.
"""

import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml
from notebook_nets import BASE, run_cells

from xaihelpers import scorecard
from xaihelpers.outputs import read_outputs
from xaihelpers.paths import PROJECT
from xaihelpers.scorecard import __main__ as scorecard_command
from xaihelpers.scores.sub import __main__ as sub_command

SECTION = (PROJECT / "README.md").read_text().split("## Bring your own model")[1].split("\n## ")[0]
(_, SOURCE), (_, BLOCK) = re.findall(r"^```(\w*)\n(.*?)^```", SECTION, re.S | re.M)
COMMANDS = [line for line in BLOCK.splitlines() if line and not line.startswith("#")]
# sizes of these runs, where those of the other tests are larger than need be
SMALLER = {
    "22": {"n_images": 12, "second_scorer": "", "draws": 1},
    "23": {"n_items": 20, "calibration": 5, "raters": 2},
    "24": {"n_images": 12, "second_scorer": "", "n_examples": 1},
    "25": {"n_universes": 2, "n_images": 6, "scorers": ["aviary_clip"]},
    "31": {"n_cases": 6},
    "33": {"n_cases": 4},
    "41": {"methods": ["gradcam", "eigencam"], "n_trained": 48, "draws": 1, "shares": [1.0]},
    "42": {"n_images": 4, "draws": 1, "other_alphas": [], "other_betas": [], "code_prompt": ""},
    "43": {"n_images": 4, "draws": 1},
    "44": {
        "n_models": 2,
        "epochs": 2,
        "strengths": [],
        "n_dose": 0,
        "n_control": 0,
        "draws": 1,
        "shortcuts": ["dot"],
        "methods": ["gradcam"],
    },
    "53": {"n_rendered": 12, "draws": 1, "models": ["cbm_independent"], "portrait_size": 0, "clips": []},
    "61": {"n_pairs": 4, "n_covered": 2, "n_unlabelled": 20, "planted": ["permuted names"]},
}


def in_column(name, row):
    return lambda records: row in set(records[name].dropna())


# what tells that the model is in the records
SEEN = {
    "11": in_column("classifier", "outputs"),
    "12": lambda records: records.model.str.endswith(", outputs").all(),
    "13": lambda records: records.model.str.endswith(", my_model").all(),
    "22": in_column("bottleneck", "outputs"),
    "23": in_column("with", "outputs"),
    "24": lambda records: records.model.str.contains("outputs").any(),
    "25": in_column("bottleneck", "outputs"),
    "31": lambda records: records.model.str.contains("python:my_model.py").any(),
    "33": lambda records: records.model.str.contains("answers.jsonl").any(),
    "41": in_column("method", "my_model, own"),
    "42": lambda records: records.model.str.contains("my_model").any(),
    "43": in_column("of", "my_model"),
    "44": in_column("model of your own", "my_model"),
    "53": in_column("bottleneck", "my_model"),
    "61": lambda records: records.model.str.endswith(", my_model").any(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the README's file, in which its first command has been run."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "my_model.py").write_text(SOURCE)
    first = shlex.split(COMMANDS[0])
    assert first[:4] == ["python", "-m", "xaihelpers.own_model", "my_model.py"]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    command = [sys.executable, *first[1:]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def number_of(command):
    found = re.search(r"\$NOTEBOOKS/(\d\d)_\w+\.ipynb", command)
    return found[1] if found else ""


def given_by(command):
    """The parameters that a papermill command sets."""
    _, _, _, *options = shlex.split(command)
    given = {}
    while options:
        kind, value, *options = options
        if kind == "-y":
            given |= yaml.safe_load(value)
        else:
            assert kind == "-p", command
            given[value], *options = options
    return given


def grouped(commands):
    """Commands as parameters of a test, those of one notebook for one process."""
    found = []
    for command in commands:
        mark = pytest.mark.xdist_group(f"notebook {number_of(command)}")
        found.append(pytest.param(command, marks=mark, id=command.removeprefix("papermill $NOTEBOOKS/")[:40]))
    return found


def test_the_first_command_has_written_the_outputs(folder):
    outputs = read_outputs(folder / "outputs.safetensors")
    assert outputs.concepts == ["red breast", "green back", "blue breast"] and len(outputs.image_ids) > 400


def test_every_door_has_its_command():
    assert {number_of(command) for command in COMMANDS} - {""} == set(SEEN)
    doors = ("own_model my_model.py", "scorecard my_model.py", "scores.sub my_model.py", "record:", "replay:")
    assert all(any(door in command for command in COMMANDS) for door in doors)


@pytest.mark.notebooks
@pytest.mark.parametrize("command", grouped(line for line in COMMANDS if number_of(line)))
def test_the_notebook_takes_the_model(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XAI_RESULTS", str(folder / "results"))
    number = number_of(command)
    given = BASE.get(number, {}) | SMALLER.get(number, {}) | given_by(command)
    results = folder / "results" / f"{number} {COMMANDS.index(command)}"
    for name, value in given.items():
        if isinstance(value, list) and value and str(value[0]).startswith(("record:", "replay:")):
            given[name] = [value[0].replace("answers.jsonl", f"{folder}/answers.jsonl")]
    records = run_cells(number, given, results, rendered=False)
    assert SEEN[number](records), command


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 61")
def test_the_page_of_the_model(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (command,) = [line for line in COMMANDS if "scorecard my_model" in line]
    _, _, module, *arguments = shlex.split(command)
    assert module == scorecard.__name__
    assert scorecard_command.main([*arguments, "--pairs", "4", "--covered", "2"]) == 0
    assert "my_model on aviary" in capsys.readouterr().out and list((folder / "my_page").glob("*.html"))


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 53")
def test_the_model_on_substituted_birds(folder, monkeypatch, capsys):
    """On the birds that notebook 53 has written in these tests."""
    monkeypatch.chdir(folder)
    (command,) = [line for line in COMMANDS if "scores.sub" in line]
    _, _, module, *arguments = shlex.split(command.replace("sub_exact", "sub_exact_of_tests"))
    assert module == "xaihelpers.scores.sub" and sub_command.main(arguments) == 0
    assert "my_model.py" in capsys.readouterr().out
