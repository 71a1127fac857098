"""What a notebook's results depend on, and fingerprints of code."""

import importlib.metadata
import json
import shutil

import pytest

from xaihelpers import dependencies, paths
from xaihelpers.dependencies import notebook_key, notebook_source
from xaihelpers.fingerprint import code_hash


def notebook(file, *cells):
    code = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": []} for cell in cells]
    file.write_text(json.dumps({"cells": code, "metadata": {}}))
    return file


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of a few modules in place of the real one, with models, prompts and tables beside it."""
    folder = tmp_path / "xaihelpers"
    (folder / "rooms").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "rooms" / "__init__.py").write_text("from xaihelpers.rooms.door import enter\n")
    (folder / "rooms" / "door.py").write_text(
        "import numpy\nfrom xaihelpers.far import away\n\nenter = 'small_net'\n"
    )
    (folder / "far.py").write_text('"""far"""\n\naway = 1  # a step\n')
    (folder / "report.py").write_text("import pandas\n\npage = 'x'\n")
    for name in ("small_net", "other_net"):
        (tmp_path / "data" / "models" / name).mkdir(parents=True)
        (tmp_path / "data" / "models" / name / "model.bin").write_text(name)
    for name in ("prompts/sub_ask.txt", "papers/alpha_table1.csv"):
        (tmp_path / "data" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_text("1")
    monkeypatch.setattr(dependencies, "PACKAGE", folder)
    monkeypatch.setattr(dependencies, "PROJECT", tmp_path)
    monkeypatch.setattr(dependencies, "models_home", lambda: tmp_path / "data" / "models")

    def forget():
        dependencies._files_of.cache_clear()

    forget()
    yield folder
    forget()


def test_imports_are_followed_through_the_package(package):
    modules, libraries = dependencies.dependencies(
        "import json\nimport torch.nn\nfrom xaihelpers import rooms\n"
    )
    assert {str(path.relative_to(package)) for path in modules} == {
        "__init__.py",
        "rooms/__init__.py",
        "rooms/door.py",
        "far.py",
    }
    assert libraries == {"torch", "numpy"}


def test_the_key_follows_what_counts_and_nothing_else(package, tmp_path):
    file = notebook(tmp_path / "11_a.ipynb", "from xaihelpers.rooms import enter", "ask('sub_ask')")
    key = notebook_key(file)
    same = [
        (package / "far.py", '"""Far away."""\n\n\naway = 1\n'),  # a docstring, a comment, a line break
        (package / "report.py", "page = 'y'\n"),  # a module that is not imported
        (tmp_path / "data/models/other_net/model.bin", "changed"),
        (tmp_path / "data/papers/alpha_table1.csv", "2"),
    ]
    for path, text in same:
        path.write_text(text)
        assert notebook_key(file) == key, path
    for path, text in [
        (package / "far.py", "away = 2\n"),
        (tmp_path / "data/models/small_net/model.bin", "changed"),  # named by a module that is imported
        (tmp_path / "data/prompts/sub_ask.txt", "2"),  # named by the notebook
    ]:
        before = path.read_text()
        path.write_text(text)
        assert notebook_key(file) != key, path
        path.write_text(before)
    assert notebook_key(notebook(file, "from xaihelpers.rooms import enter", "ask('sub_ask', 1)")) != key


def test_the_long_form_of_a_named_model_counts(package, tmp_path):
    weights = tmp_path / "data/models/small_net_long/model.bin"
    weights.parent.mkdir()
    weights.write_text("long")
    file = notebook(tmp_path / "11_a.ipynb", "load('small_net', long=True)")
    key = notebook_key(file)
    weights.write_text("changed")
    assert notebook_key(file) != key


def test_the_measurements_of_devices_count_where_their_folder_is_named(package, tmp_path):
    (package / "measured.py").write_text("from pathlib import Path\n\nfolder = Path('data') / 'devices'\n")
    reads = notebook(tmp_path / "81_a.ipynb", "from xaihelpers import measured")
    other = notebook(tmp_path / "11_a.ipynb", "from xaihelpers import far")
    before = notebook_key(reads), notebook_key(other)
    (tmp_path / "data/devices").mkdir()
    (tmp_path / "data/devices/gpu.csv").write_text("seconds\n1\n")
    assert notebook_key(reads) != before[0] and notebook_key(other) == before[1]


def test_a_file_beside_modules_counts_with_the_module_that_names_it(package):
    (package / "report.css").write_text("")
    (package / "report.py").write_text("style = 'report.css'\n")
    (package / "rooms" / "doors.csv").write_text("")
    (package / "rooms" / "door.py").write_text("table = 'doors.csv'\n")
    (package / "rooms" / "wall.py").write_text("")

    def files(source):
        return {path.name for path in dependencies.dependencies(source)[0]} - {"__init__.py"}

    assert files("from xaihelpers import report") == {"report.py", "report.css"}
    assert files("from xaihelpers import far") == {"far.py"}
    assert files("from xaihelpers.rooms import door") == {"door.py", "doors.csv"}
    (package / "rooms" / "__init__.py").write_text("")
    dependencies._files_of.cache_clear()
    assert files("from xaihelpers.rooms import wall") == {"wall.py"}


def test_what_notebooks_here_read_is_in_their_keys():
    def read(i):
        (path,) = (paths.PROJECT / "notebooks").glob(f"{i}_*.ipynb")
        source = notebook_source(json.loads(path.read_text())["cells"])
        modules, _ = dependencies.dependencies(source)
        return modules | dependencies.named_files(source, modules)

    for i in ("22", "23", "24", "81"):  # which score with the long form
        assert any(file.parent.name == "aviary_clip_long" for file in read(i)), i
    assert "report.css" in {file.name for file in read("99")}
    assert "report.css" not in {file.name for file in read("81")}
    assert {"panel.js", "panel.css"} <= {file.name for file in read("71")}
    assert "cub_concepts.csv" in {file.name for file in read("21")}
    assert "species.csv" in {file.name for file in read("00")}


def test_the_key_follows_the_versions_of_imported_libraries(package, tmp_path, monkeypatch):
    file = notebook(tmp_path / "11_a.ipynb", "import sklearn")
    key, version = notebook_key(file), importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0" if name == "pandas" else version(name)
    )
    assert notebook_key(file) == key
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0" if name == "scikit-learn" else version(name)
    )
    assert notebook_key(file) != key


def test_a_cell_that_is_no_python_is_left_out():
    cells = [
        {"cell_type": "code", "source": ["%matplotlib inline\n"]},
        {"cell_type": "code", "source": ["x = 1"]},
    ]
    assert notebook_source(cells) == "x = 1"


def test_every_library_is_there_and_an_absent_one_is_named(monkeypatch):
    assert dependencies.missing_libraries() == {}
    monkeypatch.setattr(dependencies, "_imports", lambda source: {"no_such_library.part", "json"})
    assert dependencies.missing_libraries() == {"no_such_library": "not installed"}
    assert "No module named" in dependencies.missing_libraries(import_them=True)["no_such_library"]


def test_code_hash(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.csv"
    one.write_text('def f(x):\n    """Doc."""\n    return x + 1\n')
    two.write_text("a,b\n")
    first = code_hash([one, two])
    assert code_hash([two, one]) == first
    one.write_text('def f(x):  # plus one\n    """Other words."""\n\n    return (x + 1)\n')
    assert code_hash([one, two]) == first
    one.write_text("def f(x):\n    return x + 2\n")
    assert code_hash([one, two]) != first
    shutil.copy(two, tmp_path / "three.csv")
    assert code_hash([two]) != code_hash([tmp_path / "three.csv"])
