"""Net b: notebooks through papermill with other parameters: the records are right, and they follow the parameter.

One line of CASES is one run: the notebook's number, parameters, and a function that asserts on `records`, the rows of this
run, and on `defaults`, those of the same notebook with BASE alone. CHANGES names what has to differ from the defaults.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml

from xaihelpers.parameters import declared
from xaihelpers.records import read_records

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
PATHS = {path.name[:2]: path for path in NOTEBOOKS}

# Parameters that keep a notebook's runs short here; also of the run that cases are compared with.
BASE = {
    "11": {"n_samples": [50], "svm_c": [0.1, 1.0], "repeats": 1},
    "12": {"permutations": 20},
    "21": {"models": ["cbm", "lfcbm_unsupervised"], "corrected": [0, 100], "orders": 1},
    "22": {"models": ["cbm", "phcbm"], "n_images": 40, "top_k": [3, 8], "shown": [1, 8]},
    "23": {"models": ["cbm", "phcbm"], "n_items": 40},
    "24": {"n_images": 40, "n_replaced": [1, 3]},
    "81": {"n_images": 20, "n_concepts": 6, "n_files": 20, "repeats": 1, "n_scored": 4, "n_pairs": 100},
    "91": {"epochs": 1, "size": 48},
    "92": {"drawn": 20, "attribute_steps": 2, "caption_steps": 2, "joint_steps": 1, "long_steps": 1, "batch_size": 16},
}


def values(records, **keys):
    """The values of the rows with these keys, by what else tells rows apart."""
    for name, value in keys.items():
        column = records[name] if isinstance(value, str) else pd.to_numeric(records[name], errors="coerce")
        records = records[column == value]
    assert len(records)
    return records.set_index(["row", "metric"]).value


def fewer_examples(records, defaults):
    new, old = values(records, classifier="post-hoc CBM"), values(defaults, classifier="post-hoc CBM")
    assert len(values(records, samples=20)) == len(new) == len(old) == len(values(defaults, samples=50))
    assert (new > 50).all() and (old > 50).all()  # chance is 2.1
    assert values(records, classifier="black box").equals(values(defaults, classifier="black box"))  # it has no examples


def labels_of_classes(records, defaults):
    new, old = values(records, classifier="post-hoc CBM"), values(defaults, classifier="post-hoc CBM")
    assert not new.equals(old) and ((new - old).abs() < 10).all()


def signed_distances(records, defaults):
    first = "mean over concepts"
    new, old = (values(r[r.over == first]) for r in (records, defaults))
    assert abs(new.iloc[0] - old.iloc[0]) < 1e-3  # CGIM1 by concept sees the weights only, and a row's length leaves its cosine as it is
    assert abs(new.iloc[1] - old.iloc[1]) > 0.01  # CGIM2 sees the values, whose zero has moved


def majority_labels(records, defaults):
    new, old = values(records, table="6"), values(defaults, table="6")
    assert new.index.equals(old.index) and 0 < (new - old).abs().max() < 0.5


def hidden_is_a_miss(records, defaults):
    assert values(records, table="1").equals(values(defaults, table="1"))
    new, old = values(records, table="2"), values(defaults, table="2")
    assert (new <= old + 1e-9).all() and (new < old).any()


def whole_image(records, defaults):
    found = records[(records.table == "2")]
    everything = values(found, alpha=12)
    assert (everything == 100).all()  # every pixel lies in a region of twelve twelfths
    assert (values(found, alpha=2) < 100).all() and len(values(found, l=2)) == len(found)


def sparser_heads(records, defaults):
    new, old = (values(r[r.bottleneck == "lfcbm_unsupervised"], table="bottlenecks").droplevel("row") for r in (records, defaults))
    assert new["weights per class"] < old["weights per class"] and new["concepts"] == old["concepts"]
    assert values(records, bottleneck="cbm", metric="concept AUC").equals(values(defaults, bottleneck="cbm", metric="concept AUC"))


def labels_by_class(records, defaults):
    """The same concepts for all images of a class: they tell the classes apart, so correcting all of them leaves no error."""
    assert (values(records, bottleneck="cbm", table="intervention", corrected=100) > 99).all()
    assert values(records, bottleneck="cbm", metric="accuracy", table="bottlenecks").iloc[0] != values(defaults, bottleneck="cbm", metric="accuracy", table="bottlenecks").iloc[0]


def another_omega(records, defaults):
    """ConceptScore carries the weight as a factor; words know nothing of it."""
    for table in ("6", "10"):
        new, old = (values(r, table=table, metric="ConceptScore") for r in (records, defaults))
        assert ((new / old - 1 / 2.5).abs() < 1e-6).all() and len(new) == 10
        assert values(records, table=table, metric="BLEU").equals(values(defaults, table=table, metric="BLEU"))
        mixed, before = (values(r, table=table, metric="Ref-ConceptScore") for r in (records, defaults))
        assert (mixed < before).all()


def plain_clip(records, defaults):
    assert not values(records, table="6", metric="cosine").equals(values(defaults, table="6", metric="cosine"))
    assert values(records, table="6", metric="METEOR").equals(values(defaults, table="6", metric="METEOR"))


def raters_without_noise(records, defaults):
    """Raters who see the truth and have neither noise nor bias give one answer."""
    for metric in ("Krippendorff alpha", "Fleiss kappa"):
        assert values(records, metric=metric).iloc[0] == pytest.approx(1) and values(defaults, metric=metric).iloc[0] < 0.9
    with_truth = [values(r[~r["with"].isin(["people", "LLM"])], score="true share of concepts") for r in (records, defaults)]
    assert with_truth[0].equals(with_truth[1])  # the scores do not depend on raters


def twice_the_weight(records, defaults):
    new, old = (values(r, table="sensitivity", metric="drop of ConceptScore") for r in (records, defaults))
    assert ((new - 2 * old).abs() < 1e-6).all()
    for rows in (records, defaults):
        fall = values(rows, change="wrong for right, any", metric="drop of ConceptScore", m=3).iloc[0]
        assert fall > values(rows, change="wrong for right, any", metric="drop of ConceptScore", m=1).iloc[0] > 0


def another_training(records, defaults):
    new, old = (values(r, clip="trained here") for r in (records, defaults))
    assert not new.equals(old)
    assert values(records, clip="aviary_clip").equals(values(defaults, clip="aviary_clip"))  # the shipped one is measured alike
    assert values(records, clip="aviary_clip", metric="zero-shot species").iloc[0] > 50 > 10 > values(records, clip="trained here", metric="zero-shot species").iloc[0]


def another_seed(records, defaults):
    mine = "aviary_resnet, trained here"
    assert values(records, network=mine).iloc[0] != values(defaults, network=mine).iloc[0]
    assert values(records, network="shipped, measured here").equals(values(defaults, network="shipped, measured here"))
    assert values(records, network="shipped, measured here").iloc[0] > 80


def one_region(records, defaults):
    for rows in (records, defaults):
        assert (values(rows, metric="largest difference (of range)") < 1e-3).all()
    assert "top-k, α = 1" in set(records.path) and "top-k, α = 1, 3, 6" in set(defaults.path) - set(records.path)


# (notebook, parameters, check(records, defaults))
CASES = [
    ("11", {"n_samples": [20]}, fewer_examples),
    ("11", {"labels": "class"}, labels_of_classes),
    ("12", {"margin": True}, signed_distances),
    ("12", {"truth_labels": "hard"}, majority_labels),
    ("13", {"hidden": "miss"}, hidden_is_a_miss),
    ("13", {"first": [2], "alpha": [2, 12]}, whole_image),
    ("21", {"penalty": 0.01}, sparser_heads),
    ("21", {"labels": "class"}, labels_by_class),
    ("22", {"omega": 1.0}, another_omega),
    ("22", {"long": False}, plain_clip),
    ("23", {"noise": 0.0, "bias": 0.0}, raters_without_noise),
    ("24", {"omega": 5.0}, twice_the_weight),
    ("81", {"alpha": [1]}, one_region),
    ("91", {"seed": 1}, another_seed),
    ("92", {"seed": 1}, another_training),
]

# (notebook, parameters, what the error says)
WRONG = [
    ("11", {"data": "nowhere"}, "There is no data set 'nowhere'"),
    ("11", {"backbone": "resnet81"}, "There is no backbone 'resnet81'"),
    ("11", {"n_samples": [5000]}, "no concept has 5000 positive and 5000 negative examples"),
    ("12", {"svm_c": "one"}, "Parameter 'svm_c' must be float"),
    ("13", {"hidden": "skip"}, 'hidden must be "leave out" or "miss"'),
    ("13", {"weights": "no_such_file.safetensors"}, "there is no such weights file"),
    ("21", {"models": ["cbm", "cem2"]}, "models has ['cem2']"),
    ("21", {"models": ["lfcbm"], "similarity": 1.5}, "similarity"),
    ("22", {"top_k": [5, 500]}, "by its 500 most important concepts"),
    ("22", {"long": False, "too_long": "error", "top_k": [15], "shown": [1, 15]}, "more than the 77 tokens"),
    ("22", {"scorer": "aviary_klip"}, "Near: aviary_clip"),
    ("23", {"ratings": "no_such_ratings.csv"}, "cannot be read as a table of ratings"),
    ("24", {"template": 6}, "there is no template 6"),
    ("92", {"clip_weights": "no_such_weights.safetensors"}, "no such file of CLIP weights"),
    ("00", {"show_species": "Cardinel"}, "the nearest is 'Cardinal'"),
    ("00", {"substitutions": ["has_crown_colour::blue"]}, "the nearest of the 312 is 'has_crown_color::blue'"),
]


def papermill(path, folder, parameters):
    """Run a notebook by the plain papermill command, its results going to `folder`."""
    given = folder / "given.yaml"
    given.write_text(yaml.safe_dump({**parameters, "results": str(folder / "results")}))
    command = [sys.executable, "-m", "papermill", str(path), str(folder / path.name), "-f", str(given), "--no-progress-bar"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | {"MPLBACKEND": "agg"})


@pytest.fixture(scope="session")
def run_notebook(tmp_path_factory):
    """A function: (number, parameters) -> the records of that run; each distinct run is made once."""
    done = {}

    def run(number, parameters):
        key = number, json.dumps(parameters, sort_keys=True)
        if key not in done:
            folder = tmp_path_factory.mktemp(f"run_{number}_")
            result = papermill(PATHS[number], folder, parameters)
            assert result.returncode == 0, result.stderr[-4000:]
            done[key] = read_records(folder / "results")
        return done[key]

    return run


@pytest.mark.notebooks
@pytest.mark.parametrize("number, parameters, check", CASES)
def test_records_follow_the_parameters(number, parameters, check, run_notebook):
    base = BASE.get(number, {})
    check(run_notebook(number, base | parameters), run_notebook(number, base))


@pytest.mark.notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_misspelt_parameter_is_an_error(path, tmp_path):
    first = next(cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    name = max(declared(first.source), key=len)
    result = papermill(path, tmp_path, {name + "s": 1})
    assert result.returncode != 0
    assert f"has no parameter '{name}s': did you mean '{name}'?" in result.stderr


@pytest.mark.notebooks
@pytest.mark.parametrize("number, parameters, message", WRONG)
def test_wrong_input_is_named(number, parameters, message, tmp_path):
    result = papermill(PATHS[number], tmp_path, parameters)
    assert result.returncode != 0
    assert message in result.stderr


@pytest.mark.notebooks
def test_a_gpu_demanded_where_there_is_none(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    result = papermill(PATHS["11"], tmp_path, {"device": "cuda"})
    assert result.returncode != 0 and "torch sees no GPU here" in result.stderr


@pytest.mark.notebooks
@pytest.mark.parametrize("number", ["11", "12", "13"])
def test_real_birds(number, real_data, tmp_path):
    """The same notebooks on photographs, by an ImageNet network, labels by class where the images have none (slow: thousands of photographs)."""
    birds, weights = real_data("CUB_200_2011_full50"), real_data("weights/squeezenet1_0_imagenet.safetensors")
    some = tmp_path / "some_birds"
    few_classes(birds, some, 6)
    given = {"data": str(some), "labels": "class", "backbone": "squeezenet1_0", "weights": str(weights)}
    result = papermill(PATHS[number], tmp_path, given | ({"n_samples": [30]} if number == "11" else {"n_samples": 30}))
    assert result.returncode == 0, result.stderr[-4000:]
    records = read_records(tmp_path / "results")
    assert set(records.data) == {"some_birds"} and set(records.model) == {"squeezenet1_0"} and records.value.notna().any()


def few_classes(birds, folder, count):
    """The first classes of a data set in CUB's format as a data set of its own: tables cut, images linked."""
    images = [line.split() for line in (birds / "image_class_labels.txt").read_text().splitlines()]
    keep = {image for image, label in images if int(label) <= count}
    (folder / "parts").mkdir(parents=True)
    for name in ("images", "attributes", "classes.txt", "parts/parts.txt"):
        (folder / name).symlink_to(birds / name)
    for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt", "bounding_boxes.txt", "parts/part_locs.txt"):
        lines = (birds / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(line for line in lines if line.split()[0] in keep))
