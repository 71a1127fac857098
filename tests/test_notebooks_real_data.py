"""Net b on photographs: notebooks with real data and an ImageNet network, skipped where there are none."""

import json

import pytest
import yaml
from notebook_nets import BASE, PATHS, run_cells, values

from xaihelpers import datasets


@pytest.mark.notebooks
@pytest.mark.parametrize("number", ["11", "12", "13"])
def test_real_birds(number, real_data, tmp_path):
    """The same notebooks on photographs, by an ImageNet network.

    Labels are by class where the images have none. It is slow: there are thousands of photographs.
    """
    birds, weights = real_data("CUB_200_2011_full50"), real_data("weights/squeezenet1_0_imagenet.safetensors")
    some = tmp_path / "some_birds"
    few_classes(birds, some, 6)
    given = {"data": str(some), "backbone": "squeezenet1_0", "weights": str(weights)}
    given |= {"train_labels": "class", "draws": 2, "n_samples": [30] if number == "11" else 30}
    if number != "12":
        given["test_labels"] = "class"
    records = run_cells(number, given, tmp_path)
    assert set(records.data) == {"some_birds"} and records.value.notna().any()
    assert records.model.str.startswith("squeezenet1_0").all()


@pytest.mark.notebooks
def test_the_page_of_real_birds(real_data, tmp_path):
    """Notebook 61 on six species: a permutation is told, and no page claims the truth of a renderer."""
    birds, weights = real_data("CUB_200_2011_full50"), real_data("weights/squeezenet1_0_imagenet.safetensors")
    some = tmp_path / "some_birds"
    few_classes(birds, some, 6)
    preset = yaml.safe_load(PATHS["61"].with_suffix(".cub50.yaml").read_text())
    given = preset | {"data": str(some), "weights": str(weights), "models": ["phcbm"], "mapped": []}
    given |= {"planted": ["permuted names"], "n_unlabelled": 20}
    records = run_cells("61", given, tmp_path / "results", rendered=False)
    card = records[(records.table == "scorecard") & (records.metric == "value")]
    assert set(card.truth) == {"labelled", "unlabelled"} and set(card.data) == {"some_birds"}
    t = card[card.yardstick == "T"].set_index("model").value
    assert t["squeezenet1_0, honest"] > 95 > 80 > t["squeezenet1_0, permuted names"]


@pytest.mark.notebooks
@pytest.mark.parametrize(
    "number, table, metric, chance",
    [("31", "contradictions", "contradiction rate", 80), ("32", "figure3", "CRI", 20)],
)
def test_real_photographs(number, table, metric, chance, real_data, tmp_path):
    """Flowers and objects, which the shipped annotator has never seen: what is measured is chance.

    The sets of candidates are balanced, so that they give nothing away.
    """
    flowers, things, weights = (
        str(real_data(name))
        for name in ("images/flowers5", "images/cifar10", "weights/squeezenet1_0_imagenet.safetensors")
    )
    given = {"data": [flowers, things], "backbone": "squeezenet1_0", "weights": weights, "n_cases": 60}
    records = run_cells(
        number, given | ({"general": [things], "n_seeds": 1} if number == "32" else {}), tmp_path
    )
    assert {"flowers5", "cifar10"} <= set(records.data)
    found = records[(records.table == table) & (records.metric == metric) & (records.sets == "balanced")]
    assert len(found) >= 4 and abs(found.value.mean() - chance) < 10


@pytest.mark.notebooks
def test_what_cub_s_sets_give_away(real_data, tmp_path):
    """The blind ladder needs CUB's annotations alone: names, attributes, and a dictionary made of these."""
    birds = str(real_data("CUB_200_2011"))
    records = run_cells("31", {"guessed": [birds]}, tmp_path)
    ladder = records[(records.table == "blind ladder") & (records.data == "CUB_200_2011")]
    right = ladder.set_index(["sets", "guesser"]).value
    by_attributes = "most like the others, by class attributes"
    assert right["paper's", "knows the dictionary"] > 70 and right["paper's", by_attributes] > 25
    assert right["paper's", "least wanted"] > 30
    balanced = right["balanced"]
    assert len(balanced) >= 4 and (abs(balanced - 20) < 6).all()


@pytest.mark.notebooks
def test_a_benchmark_of_photographs(real_data, tmp_path):
    """Photographs in the published SUB's layout are read and scored, beside models trained on real birds.

    Their labels are made up.
    """

    real, weights = real_data("CUB_200_2011_full50"), real_data("weights/squeezenet1_0_imagenet.safetensors")
    few_classes(real, tmp_path / "some_birds", 6)
    world = datasets.load(tmp_path / "some_birds", attributes="class")
    names, attributes = world.classes.name.tolist(), ["has_wing_color--grey", "has_crown_color--grey"]
    images = world.images.groupby("label").head(4)
    datasets.write_sub(
        tmp_path / "photographs",
        images.path.tolist(),
        [attributes[i % 2] for i in range(len(images))],
        [names[label] for label in images.label],
        attributes,
        names,
    )
    given = {
        "data": str(tmp_path / "some_birds"),
        "labels": ["class"],
        "label_kinds": ["hard"],
        "models": ["cbm_independent", "cem"],
        "draws": 2,
        "backbone": "squeezenet1_0",
        "weights": str(weights),
        "benchmark": str(tmp_path / "photographs"),
    }
    records = run_cells("53", given, tmp_path / "results")
    assert values(records, table="1", metric="T").between(70, 100).all()
    assert set(records[(records.table == "2") & (records.metric == "S+")]["clip"]) == {
        "aviary_clip",
        "random",
    }


@pytest.mark.notebooks
def test_attention_on_photographs(real_data, tmp_path):
    """The maps of ImageNet's network on cats and dogs are made and measured.

    The shipped judge has never seen such things, so its scores are only counted.
    """
    images, weights = (
        real_data("images/cats_dogs.csv"),
        real_data("weights/squeezenet1_0_imagenet.safetensors"),
    )
    (tmp_path / "labels.json").write_text(json.dumps({"cat": ["281-285"], "dog": ["151-268"]}))
    given = {"data": str(images), "networks": ["squeezenet1_0"], "weights": [str(weights)]}
    for number, more in (
        ("42", BASE["42"] | {"ratings": str(tmp_path / "ratings.sqlite")}),
        ("43", {"n_images": 40, "same_as": [str(tmp_path / "labels.json")]}),
    ):
        records = run_cells(number, more | given, tmp_path / "results")
    correct = (
        values(records, table="3", metric="CH").iloc[0] + values(records, table="3", metric="CL").iloc[0]
    )
    assert (
        50 < correct <= 100 and not (records.metric == "Pearson correlation").any()
    )  # 123 of 1000 classes are right; there is nothing to correlate with
    assert values(records, table="measures that ask the model", metric="AOPC (points)").iloc[0] > 20


@pytest.mark.notebooks
def test_biased_models_of_photographs(real_data, tmp_path):
    """A pretrained network that is fine-tuned on forty cats and forty dogs learns them better than chance.

    It is fine-tuned a second time with a red dot on the cats.
    """
    images, weights = (
        real_data("images/cats_dogs.csv"),
        real_data("weights/squeezenet1_0_imagenet.safetensors"),
    )
    given = {
        "data": str(images),
        "classes": ["cat", "dog"],
        "backbone": "squeezenet1_0",
        "start": str(weights),
        "n_train": 40,
        "n_models": 2,
        "n_judged": 4,
        "epochs": 5,
        "n_dose": 0,
        "methods": ["gradcam", "eigencam"],
    }
    records = run_cells("44", given, tmp_path / "results")
    found = records[records.table == "biased models"].pivot(index="of", columns="metric", values="value")
    assert list(found.index) == ["biased", "normal"] and (found["accuracy like training (%)"] > 65).all()
    assert set(records[records.table == "use"].shortcut) == {"dot"}  # no masks, no background


def few_classes(birds, folder, count):
    """The first classes of a data set in CUB's format as a data set of its own: tables cut, images linked."""
    images = [line.split() for line in (birds / "image_class_labels.txt").read_text().splitlines()]
    keep = {image for image, label in images if int(label) <= count}
    (folder / "parts").mkdir(parents=True)
    for name in ("images", "attributes", "classes.txt", "parts/parts.txt"):
        (folder / name).symlink_to(birds / name)
    for name in (
        "images.txt",
        "image_class_labels.txt",
        "train_test_split.txt",
        "bounding_boxes.txt",
        "parts/part_locs.txt",
    ):
        lines = (birds / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(line for line in lines if line.split()[0] in keep))
