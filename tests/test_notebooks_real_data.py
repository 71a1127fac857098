"""Notebooks on photographs, with real data and an ImageNet network; skipped where there are none."""

import json

import pytest
import yaml
from notebook_nets import FOLDER, run_cells, values

from xaihelpers.records import read_runs

pytestmark = pytest.mark.notebooks


@pytest.fixture
def weights(real_data):
    return str(real_data("weights/squeezenet1_0_imagenet.safetensors"))


@pytest.fixture
def some_birds(real_data, tmp_path):
    """Six classes of photographs as a data set of their own: tables cut, images linked."""
    birds, few = real_data("CUB_200_2011_full50"), tmp_path / "some_birds"
    images = [line.split() for line in (birds / "image_class_labels.txt").read_text().splitlines()]
    keep = {image for image, label in images if int(label) <= 6}
    (few / "parts").mkdir(parents=True)
    for name in ("images", "attributes", "classes.txt", "parts/parts.txt"):
        (few / name).symlink_to(birds / name)
    names = ["images", "image_class_labels", "train_test_split", "bounding_boxes", "parts/part_locs"]
    for name in names:
        lines = (birds / f"{name}.txt").read_text().splitlines(keepends=True)
        (few / f"{name}.txt").write_text("".join(line for line in lines if line.split()[0] in keep))
    return few


@pytest.mark.parametrize("number", ["11", "12", "13", "14"])
def test_real_birds(number, some_birds, weights, tmp_path):
    """Labels are by class where the images have none."""
    given = {"data": str(some_birds), "backbone": "squeezenet1_0", "weights": weights}
    given |= {"train_labels": "class", "n_fits": 2, "n_samples": [30] if number == "11" else 30}
    if number != "12":
        given["test_labels"] = "class"
    records = run_cells(number, given, tmp_path)
    assert set(records.data) == {"some_birds"} and records.value.notna().any()
    assert records.model.str.startswith("squeezenet1_0").all()


def test_what_needs_a_clip_of_photographs(some_birds, weights, tmp_path):
    """Without one the ledger is told so, and with what command who has one goes on."""
    given = {"data": str(some_birds), "backbone": "squeezenet1_0", "weights": weights, "labels": "class"}
    given |= {"clip": "", "models": ["phcbm"], "n_fits": 2, "corrected": [0, 100]}
    records = run_cells("21", given, tmp_path)
    (run,) = read_runs(tmp_path)
    outcomes = {verdict["claim"]: verdict["outcome"] for verdict in run["verdicts"]}
    assert outcomes["conceptscore-label-free-first"] == "needs a model"
    assert any("xaihelpers.run 22 24 -f paper" in note for note in run["notes"])
    true = values(records, metric="true of the first five").droplevel("metric")
    assert true["bottleneck=linear probe, recites"] > true["bottleneck=random directions"]


def test_the_page_of_real_birds(some_birds, weights, tmp_path):
    """With labels of classes a look is not applicable, and no page claims the truth of a renderer."""
    given = yaml.safe_load((FOLDER / "presets" / "61.cub50.yaml").read_text())
    given |= {"data": str(some_birds), "weights": weights, "models": ["phcbm"]}
    records = run_cells("61", given, tmp_path / "results")
    card = records[records.table == "scorecard"]
    assert set(card.truth) == {"labelled"} and set(card.data) == {"some_birds"}
    assert "classmates have the same truth" in " ".join(card.about)
    planted = records[records.table == "fourteen models"].set_index(["fault", "metric"]).value
    assert planted["misreads 5 %", "value"] > 90 > 86 > planted["misreads 15 %", "value"]
    assert "look" not in planted["misreads 5 %"].index


@pytest.mark.parametrize(
    "number, table, metric, chance",
    [("31", "contradictions", "contradiction rate", 80), ("32", "figure3", "CRI", 20)],
)
def test_real_photographs(number, table, metric, chance, real_data, weights, tmp_path):
    """Flowers and objects that the shipped annotator has never seen: balanced sets leave it at chance."""
    flowers, things = (str(real_data(f"images/{name}")) for name in ("flowers5", "cifar10"))
    given = {"data": [flowers, things], "backbone": "squeezenet1_0", "weights": weights, "n_cases": 60}
    if number == "32":
        given |= {"general": [things], "n_orders": 1, "n_drawn": 24}
    records = run_cells(number, given, tmp_path)
    assert {"flowers5", "cifar10"} <= set(records.data)
    found = records[(records.table == table) & (records.metric == metric) & (records.sets == "balanced")]
    assert len(found) >= 4 and abs(found.value.mean() - chance) < 10


def test_what_cub_s_sets_give_away(real_data, tmp_path):
    """The blind ladder needs CUB's annotations alone: names, attributes, and a dictionary made of these."""
    records = run_cells("31", {"guessed": [str(real_data("CUB_200_2011"))]}, tmp_path)
    ladder = records[(records.table == "blind ladder") & (records.data == "CUB_200_2011")]
    right = ladder.set_index(["sets", "guesser"]).value
    by_attributes = "most like the others, by class attributes"
    assert right["class", "knows the dictionary"] > 70 and right["class", by_attributes] > 25
    assert right["class", "least wanted"] > 30
    assert len(right["balanced"]) >= 4 and (abs(right["balanced"] - 20) < 6).all()


def test_attention_on_photographs(real_data, weights, tmp_path):
    """The maps of ImageNet's network on cats and dogs; the shipped judge's scores are only counted."""
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps({"cat": ["281-285"], "dog": ["151-268"]}))
    given = {"data": str(real_data("images/cats_dogs.csv")), "networks": ["squeezenet1_0"]}
    given |= {
        "weights": [weights],
        "scalar": "own",
        "n_images": 40,
        "same_as": [str(labels)],
    }
    records = run_cells("43", given, tmp_path / "results")
    table = {"table": "3", "metric": "CH"}, {"table": "3", "metric": "CL"}
    assert 50 < sum(values(records, **keys).iloc[0] for keys in table) <= 100
