"""What docs/YOUR_OWN.md shows is run, in a folder outside the project; the grids of docs/SCALE.md are read.

Commands of notebooks run as cells in this process, at small sizes, with the parameters that the command sets.
"""

import argparse
import json
import re
import runpy
import shlex
import shutil
import sys
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import yaml
from faulty_server import Faulty, said
from notebook_nets import BASE, PATHS, code_cells, run_cells
from PIL import Image
from safetensors.torch import save_file
from torchvision.models import squeezenet1_0

from xaihelpers import datasets
from xaihelpers.grids import asked_entries, points_of
from xaihelpers.outputs import read_outputs
from xaihelpers.parameters import declared_parameters
from xaihelpers.paths import PROJECT
from xaihelpers.run import make_parser

pytestmark = pytest.mark.filterwarnings("ignore:.* found in sys.modules after import:RuntimeWarning")
OWN, SCALE = [(PROJECT / "docs" / name).read_text() for name in ("YOUR_OWN.md", "SCALE.md")]
# sizes of a notebook's runs, and where its records name what was brought
RUNS = {
    "13": ({}, "model", "my_model"),
    "14": ({}, "model", "my_model"),
    "22": ({"seed": 0, "n_images": 12, "second_scorer": "", "n_fits": 1}, "bottleneck", "outputs"),
    "31": ({"n_cases": 6}, "model", "python:my_model.py"),
    "33": ({"n_cases": 4}, "model", "server:my-model"),
    "41": (
        {"methods": ["gradcam"], "n_images": 12, "n_trained": 48, "n_random": 1},
        "method",
        "my_attention",
    ),
    "43": ({"n_images": 4, "n_fits": 1}, "of", "my_attention"),
}


def blocks(page, language):
    """The fenced blocks of a page in a language; "" for those of commands."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page, re.S | re.M)
    return [block for name, block in found if name == language]


def commands(page, beginning):
    """The commands of a page that begin so, without comments."""
    lines = [line.partition(" #")[0] for block in blocks(page, "") for line in block.splitlines()]
    found = [line for line in lines if re.match(beginning, line)]
    assert found, beginning
    return found


PAPERMILL = {}  # number of a notebook -> its commands
for line in commands(OWN, r".*papermill"):
    PAPERMILL.setdefault(re.search(r"notebooks/(\d\d)_", line)[1], []).append(line)


def run_python(command, *more):
    """Run a command of Python in this process."""
    _, *words = shlex.split(command.replace("$XAI", str(PROJECT)))
    start = runpy.run_path
    if words[0] == "-m":
        start, words = runpy.run_module, words[1:]
    with patch.object(sys, "argv", [*words, *more]):
        try:
            start(words[0], run_name="__main__")
        except SystemExit as end:
            assert not end.code, command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the page's files, what they write, and what it calls a user's."""
    folder, birds = tmp_path_factory.mktemp("outside"), datasets.load("aviary")
    for source in blocks(OWN, "python"):
        (folder / re.match(r"# (\w+\.py)", source)[1]).write_text(source)
    for row in birds.images[birds.images.label < 6].groupby(["label", "train"]).head(4).itertuples():
        place = folder / "my_pictures" / ("train" if row.train else "test") / birds.class_names[row.label]
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(row.path, place)
    save_file(squeezenet1_0(num_classes=1000).state_dict(), folder / "my_weights.safetensors")
    red = [Image.new("RGB", (8, 8), "red")]
    datasets.write_sub(folder / "sub_exact", red, *2 * [["has_breast_color::red"], ["Cardinal"]])
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.syspath_prepend(folder)
        for command in commands(OWN, r"python (-m xaihelpers.own_model|\w+\.py)"):
            run_python(command)
        (command,) = commands(OWN, r"python \$XAI/recipes/backbone.py")
        run_python(command, "--epochs", "1", "--size", "64", "--final-epochs", "0")
    assert len(read_outputs(folder / "outputs.safetensors").image_ids) > 400
    assert len(read_outputs(folder / "by_hand.safetensors").image_ids) == 24
    return folder


def test_every_parameter_of_the_table_is_its_notebook_s():
    rows = re.findall(r"((?:`\w+`(?:, )?)+) \((\d\d(?:, \d\d)*)\)", OWN)
    assert len(rows) > 20
    for names, numbers in rows:
        for number in numbers.split(", "):
            declared = declared_parameters(code_cells(PATHS[number])[0].source)
            assert set(re.findall(r"\w+", names)) <= declared.keys(), f"{names} of {number}"


@pytest.mark.notebooks
@pytest.mark.parametrize("number", PAPERMILL)
def test_a_notebook_takes_what_is_brought(number, folder, monkeypatch):
    """As the commands stand there; a server of a test answers where one is asked."""
    monkeypatch.chdir(folder)
    server = Faulty(lambda body, times: (200, {}, said("A")))
    monkeypatch.setenv("OPENAI_BASE_URL", server.address)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("XAI_MODEL_LABEL", str(folder))  # so that nobody has asked it before
    parser = argparse.ArgumentParser()
    parser.add_argument("-y", type=yaml.safe_load, default={})
    parser.add_argument("-p", nargs=2, action="append", default=[])
    sizes, column, name = RUNS[number]
    for place, command in enumerate(PAPERMILL[number]):
        _, _, options = command.partition(" out.ipynb ")
        given = parser.parse_args(shlex.split(options))
        given = BASE[number] | sizes | given.y | dict(given.p)
        records = run_cells(number, given, folder / "results" / f"{number} {place}")
        assert records[column].str.contains(name, regex=False).any(), command
    server.shutdown()
    server.server_close()
    assert number != "33" or server.bodies


@pytest.fixture
def of_float64(folder):
    """A file of aviary's test images in NumPy's own float64, and the function that it is of."""
    birds = datasets.load("aviary", attributes="class")
    test = ~birds.train.numpy()
    model = runpy.run_path(str(folder / "my_model.py"))
    said = model["outputs_of"]([datasets.load_image(path) for path in birds.images.path[test]])
    said["contributions"] = said["values"] * said["class_weights"].T[said["logits"].argmax(1)]
    ids = [name for name, is_test in zip(birds.image_ids, test, strict=True) if is_test]
    names = {"image_ids": ids} | {name: said.pop(name) for name in ("concepts", "classes")}
    assert said["values"].dtype == np.float64
    header = {name: json.dumps(held) for name, held in names.items()}
    said = {name: np.ascontiguousarray(array) for name, array in said.items()}
    safetensors.numpy.save_file(said, folder / "my_model.safetensors", header)
    return "my_model.safetensors", "my_model.py"


@pytest.mark.notebooks
def test_a_function_and_its_file_give_the_same_numbers(of_float64, folder, monkeypatch):
    monkeypatch.chdir(folder)
    given = BASE["13"] | {"data": "aviary", "n_fits": 1}
    found = []
    for name in of_float64:
        results = folder / "results" / f"13 of {name}"
        found.append(run_cells("13", given | {"model": name}, results))
    numbers = ["value", "low", "high", "cases", "chance"]
    keys = ["table", "row", "metric"]
    one, other = (records.set_index(keys)[numbers].astype(float).sort_index() for records in found)
    assert len(one) > 10 and one.notna().any(axis=None)
    pd.testing.assert_frame_equal(one, other, rtol=1e-5, atol=1e-6)


def test_a_function_and_its_file_have_the_same_card(of_float64, folder, monkeypatch):
    """But for the yardsticks of probes, which only a function can be asked about."""
    monkeypatch.chdir(folder)
    found = []
    for name in of_float64:
        run_python(f"python -m xaihelpers.scorecard {name} --pairs=0 --out card_of_{name[-2:]}")
        (table,) = (folder / f"card_of_{name[-2:]}").glob("*.csv")
        found.append(pd.read_csv(table).select_dtypes("number"))
    assert len(found[0]) > 5
    pd.testing.assert_frame_equal(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.notebooks
def test_the_commands_that_score(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for name, smaller, shown, written in (
        ("scores.sub", [], "S+", "numbers.csv"),
        ("scorecard", ["--pairs=4"], "my_model on aviary", "my_page/*.html"),
    ):
        (command,) = commands(OWN, f"python -m xaihelpers.{name}")
        run_python(command, *smaller)
        assert shown in capsys.readouterr().out and list(folder.glob(written))


def test_the_grids(tmp_path, monkeypatch):
    """Each command of the page on larger runs asks for points that there are."""
    (grid,) = blocks(SCALE, "yaml")
    (tmp_path / "grid.yaml").write_text(grid)
    shutil.copy(PROJECT / "papers.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in commands(SCALE, "python -m xaihelpers.run"):
        options = make_parser().parse_args(shlex.split(command)[3:])
        for entry in asked_entries(options):
            assert points_of(entry, options.notebooks, tmp_path), command
