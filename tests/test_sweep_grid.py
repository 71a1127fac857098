"""Grids: how they are written, what they expand to, and what is wrong in them before anything starts."""

import json

import pytest
from tiny_sweeps import PARAMETERS, write_notebook

from xaihelpers import run as driver
from xaihelpers.parameters import check_parameters
from xaihelpers.records import Run
from xaihelpers.sweep.command import take_part
from xaihelpers.sweep.grid import Grid, GridError, expand
from xaihelpers.sweep.grid_files import command_grids, parse_values, read_grids
from xaihelpers.sweep.local import gpu_shares
from xaihelpers.sweep.plan import executed_copy, failed_copy, make_plan


@pytest.fixture
def folder(tmp_path):
    write_notebook(tmp_path / "notebooks")
    (tmp_path / "notebooks" / "11_tiny.paper.yaml").write_text("a: 7\nseed: 3\nresults: elsewhere\n")
    return tmp_path


def points(folder, *arguments, **given):
    grids = command_grids(["11"], *arguments, notebooks=folder / "notebooks", **given)
    return expand(grids, folder / "results", folder / "notebooks")


def changes(found):
    return [point.changed for point in found]


@pytest.mark.parametrize(
    "text, kind, values",
    [
        ("0.1,1e-3", "float", [0.1, 0.001]),
        ("1,2", "int", [1, 2]),
        ("0..3,7", "int", [0, 1, 2, 3, 7]),
        ("1,2", "str", ["1", "2"]),
        ("", "str", [""]),
        ("'',x", "str", ["", "x"]),
        ("true,False", "bool", [True, False]),
        ("0.1,1", "list[float]", [[0.1], [1.0]]),
        ("[0.1,1],[]", "list[float]", [[0.1, 1.0], []]),
        ("[]", "list[str]", [[]]),
        ('has_crown_color::red,"a, b"', "str", ["has_crown_color::red", "a, b"]),
        ("/where/it is,server:m", "str", ["/where/it is", "server:m"]),
    ],
)
def test_values_are_read_by_the_type_that_is_declared(text, kind, values):
    assert parse_values(text, kind) == values


@pytest.mark.parametrize(
    "text, kind, message",
    [
        ("x", "float", "'x' is no float"),
        ("1.5", "int", "'1.5' is no int"),
        ("3..1", "int", "the range 3..1 is empty"),
        ("[1,2]", "int", "a list is no int"),
        ("yes", "bool", "'yes' is no bool"),
        ("[a", "str", "cannot read"),
        ("", "list[str]", r"an empty list is written \[\]"),
    ],
)
def test_values_of_a_wrong_type_are_named(text, kind, message):
    with pytest.raises(GridError, match=message):
        parse_values(text, kind, "-p name")


def test_lists_are_combined_and_drawn(folder):
    found = points(folder, ["a=1,2", "names=[p,q],r"], draws=2)
    assert changes(found)[:3] == [
        {"names": ["p", "q"]},
        {"seed": 1, "names": ["p", "q"]},
        {"names": ["r"]},
    ]
    assert len(found) == 8 and len({point.name for point in found}) == 8
    assert found[-1].swept == ("a", "names", "seed") and found[-1].parameters["a"] == 2.0
    assert found[-1].title == "11_tiny, a = 2.0, names = ['r'], seed = 1"


def test_a_preset_is_the_base_and_assignments_win(folder):
    for name in (
        "paper",
        "11.paper.yaml",
        "11_tiny.paper.yaml",
        str(folder / "notebooks/11_tiny.paper.yaml"),
    ):
        assert changes(points(folder, ["seed=0,4"], [name])) == [{"a": 7.0}, {"a": 7.0, "seed": 4}]


def test_a_file_of_grids(folder):
    file = folder / "both.yaml"
    file.write_text(
        """
- notebook: 11
  preset: paper
  fixed: {mark: m}
  grid: {a: [1, 2]}
  zip: {names: [[p], q], seed: 5..6}
- {notebook: 11_tiny, draws: 2}
"""
    )
    found = expand(read_grids(file, folder / "notebooks"), folder / "results", folder / "notebooks")
    assert [tuple(point.parameters.values())[:4] for point in found] == [
        (5, 1.0, ["p"], "m"),
        (6, 1.0, ["q"], "m"),
        (5, 2.0, ["p"], "m"),
        (6, 2.0, ["q"], "m"),
        (0, 1.0, ["x"], ""),
        (1, 1.0, ["x"], ""),
    ]


def test_a_point_is_the_run_that_the_notebook_would_record(folder, tmp_path):
    """1 and 1.0 are one point, and its folder is the one that `records` writes."""
    (point,) = points(folder, ["a=1,1.0,1e0"])
    namespace = {"In": ["", PARAMETERS, "# Parameters\na = 1\n"]}
    exec(PARAMETERS, namespace)
    run = Run("11", check_parameters(namespace | {"a": 1}), None, point.results)
    assert run.run_folder == point.folder and point.changed == {}


@pytest.mark.parametrize(
    "entry, message",
    [
        ({"grid": {"b": [1]}}, "no parameter 'b'"),
        ({"grid": {"nam": [1]}}, "did you mean 'names'"),
        ({"grid": {"seed": [1, "x"]}}, "'seed' must be int"),
        ({"fixed": {"names": "x"}}, "'names' must be list"),
        ({"grid": {"seed": 3}}, "'seed' needs a list of one value or more"),
        ({"zip": {"seed": [1, 2], "a": [1]}}, "equally long, and are not: seed 2, a 1"),
        ({"fixed": {"a": 1}, "grid": {"a": [1]}}, "'a' is given twice, as fixed and as varied"),
        ({"grid": {"a": [1]}, "zip": {"a": [1]}}, "'a' is given twice, in grid and in zip"),
        ({"draws": 2, "grid": {"seed": [1, 2]}}, "draws are seeds"),
        ({"grid": {"results": ["r", "s"]}}, "name the folder by --results"),
    ],
)
def test_what_is_wrong_in_a_grid_is_named(folder, entry, message):
    with pytest.raises(GridError, match=message):
        expand([Grid("11", **entry)], folder / "results", folder / "notebooks")


def test_all_wrong_grids_are_named_at_once(folder):
    wrong = [Grid("11", grid={"b": [1]}), Grid("12"), Grid("11"), Grid("11", grid={"seed": ["x"]})]
    with pytest.raises(GridError) as error:
        expand(wrong, folder / "results", folder / "notebooks")
    lines = str(error.value).splitlines()
    assert len(lines) == 3 and "No notebook 12" in lines[1] and "must be int" in lines[2]


def test_draws_of_a_notebook_without_a_seed(folder):
    write_notebook(folder / "notebooks", parameters='a: float = 1.0  # a\nresults: str = "results"  # r')
    with pytest.raises(GridError, match="draws need a parameter 'seed', which this notebook does not have"):
        points(folder, draws=3)


@pytest.mark.parametrize(
    "text, message",
    [
        ("notebook: 11\ngrit: {a: [1]}", "unknown key 'grit'"),
        ("a: 1", "with the key notebook"),
        ("notebook: 11\ndraws: many", "'draws' is a number of seeds, not 'many'"),
        ("notebook: 11\ngrid: [1]", "'grid' must hold"),
        ("notebook: 11\npreset: papre", "beside it there are: 11_tiny.paper.yaml"),
        ("notebook: [", "is no YAML"),
        ("[]", "holds no grid"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(folder, text, message):
    file = folder / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(GridError, match=message):
        read_grids(file, folder / "notebooks")


def test_parts_share_the_points_out():
    parts = [take_part(list("abcdefg"), f"{i}/3") for i in (1, 2, 3)]
    assert parts == [list("adg"), list("be"), list("cf")] and take_part(["a"], None) == ["a"]
    for wrong in ("0/3", "4/3", "3", "a/b"):
        with pytest.raises(GridError, match="write i/n, with i from 1 to n"):
            take_part(["a"], wrong)


def test_a_plan_knows_what_is_done_by_this_code_and_what_failed(folder):
    found = points(folder, ["a=1,2,3,4"])
    key = make_plan(found).keys[found[0].notebook]
    for point, made_by in zip(found, (key, "older code", key), strict=False):
        point.folder.mkdir(parents=True)
        (point.folder / "run.json").write_text(json.dumps({"key": made_by}))
    executed_copy(found[2]).parent.mkdir()
    failed_copy(found[2]).write_text("{}")  # a cell failed after the results were recorded
    plan = make_plan(found)
    assert (plan.done, plan.failed, plan.fresh) == ([found[0]], [found[2]], [found[1], found[3]])
    assert make_plan(found, force=True).done == []


@pytest.mark.parametrize(
    "gpus, workers, per_job, shares",
    [
        ([], 2, 0, ["", ""]),
        (["0", "1", "2", "3"], 2, 0, ["0,2", "1,3"]),
        (["0", "1"], 4, 0, ["0", "1", "0", "1"]),
        (["0", "1", "2"], 4, 1, ["0", "1", "2"]),
        (["0", "1", "2", "3"], 4, 2, ["0,1", "2,3"]),
        (["0", "1"], 3, 0.5, ["0", "1", "0"]),
    ],
)
def test_gpus_are_shared_out(gpus, workers, per_job, shares):
    assert gpu_shares(gpus, workers, per_job) == shares


def test_more_gpus_than_there_are():
    with pytest.raises(ValueError, match="Each job is to have 2 GPUs, but there are 1"):
        gpu_shares(["0"], 4, 2)


def test_the_plan_is_printed_and_nothing_is_run(folder, capsys):
    place = ["--notebooks", str(folder / "notebooks"), "--results", str(folder / "results")]
    assert driver.main(["11", "-p", "a=1,2", "--part", "2/2", "--plan", *place]) == 0
    said = capsys.readouterr().out
    assert "a = 2.0" in said and "a = 1.0" not in said and "1 point: 0 done, 1 to run" in said
    assert driver.main(["11", "-p", "b=1", *place]) == 2
    assert "This notebook has no parameter 'b'" in capsys.readouterr().err
    assert driver.main(["-p", "a=1", *place]) == 2 and "Name the notebooks" in capsys.readouterr().err
    assert not (folder / "results").exists()
