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
from notebook_nets import BASE, PATHS, code_cells, run_cells

from xaihelpers import scorecard
from xaihelpers.outputs import read_outputs
from xaihelpers.parameters import complete_parameters, declared_parameters
from xaihelpers.paths import PROJECT
from xaihelpers.scorecard import __main__ as scorecard_command

SECTION = (PROJECT / "README.md").read_text().split("## Bring your own model")[1].split("\n## ")[0]
(_, SOURCE), (_, BLOCK) = re.findall(r"^```(\w*)\n(.*?)^```", SECTION, re.S | re.M)
COMMANDS = [line for line in BLOCK.splitlines() if line and not line.startswith("#")]
# one door of each kind: sizes of its run, and what tells that the model is in the records
DOORS = {
    "13": ({}, lambda records: records.model.str.endswith(", my_model").all()),
    "22": (
        {"seed": 0, "n_images": 12, "second_scorer": "", "draws": 1},
        lambda records: records.bottleneck.eq("outputs").any(),
    ),
    "31": ({"n_cases": 6}, lambda records: records.model.str.contains("python:my_model.py").any()),
    "33": ({"n_cases": 4}, lambda records: records.model.str.contains("answers.jsonl").any()),
    "41": (
        {"methods": ["gradcam"], "n_trained": 48, "draws": 1, "shares": [1.0]},
        lambda records: records.method.eq("my_model, own").any(),
    ),
    "43": ({"n_images": 4, "draws": 1}, lambda records: records["of"].eq("my_model").any()),
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


def test_the_first_command_has_written_the_outputs(folder):
    outputs = read_outputs(folder / "outputs.safetensors")
    assert outputs.concepts == ["red breast", "green back", "blue breast"] and len(outputs.image_ids) > 400


@pytest.mark.parametrize("command", [line for line in COMMANDS if number_of(line)])
def test_the_parameters_of_a_command_are_those_of_its_notebook(command):
    declared = declared_parameters(code_cells(PATHS[number_of(command)])[0].source)
    assert complete_parameters(declared, given_by(command))


@pytest.mark.notebooks
@pytest.mark.parametrize("number", DOORS)
def test_the_notebook_takes_the_model(number, folder, monkeypatch):
    """Recorded answers are replayed after they were recorded, as the commands stand there."""
    monkeypatch.chdir(folder)
    sizes, is_seen = DOORS[number]
    commands = [line for line in COMMANDS if number_of(line) == number]
    assert commands
    for place, command in enumerate(commands):
        given = BASE.get(number, {}) | sizes | given_by(command)
        for name, value in given.items():
            if isinstance(value, list) and value and "answers.jsonl" in str(value[0]):
                given[name] = [value[0].replace("answers.jsonl", f"{folder}/answers.jsonl")]
        records = run_cells(number, given, folder / "results" / f"{number} {place}", rendered=False)
        assert is_seen(records), command


@pytest.mark.notebooks
def test_the_page_of_the_model(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (command,) = [line for line in COMMANDS if "scorecard my_model" in line]
    _, _, module, *arguments = shlex.split(command)
    assert module == scorecard.__name__
    assert scorecard_command.main([*arguments, "--pairs", "4", "--covered", "2"]) == 0
    assert "my_model on aviary" in capsys.readouterr().out and list((folder / "my_page").glob("*.html"))
