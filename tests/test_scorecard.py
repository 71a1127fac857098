"""The scorecard: hand-worked readings, every kind of truth, files made elsewhere, and each error."""

import json
import re
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from notebook_nets import PATHS
from PIL import Image
from safetensors.numpy import save_file
from torch_concepts.nn import LinearConceptToConcept, LinearEmbeddingToConcept

from xaihelpers import scorecard
from xaihelpers.datasets import (
    Dataset,
    choose_concepts,
    class_concepts,
    concept_labels,
)
from xaihelpers.outputs import ConceptOutputs, read_outputs, save_outputs
from xaihelpers.yardsticks.fault_record import read_worth
from xaihelpers.yardsticks.planted_models import ridge_head
from xaihelpers.yardsticks.reading import Reading, pseudo_cases

CONCEPTS = ["has_crown_color::red", "has_wing_color::blue", "has_belly_color::white"]
PARTS = ["crown", "left wing", "right wing", "belly"]  # the crown to the right, all else to the left
CLASSES = 6


@pytest.fixture(scope="module")
def of_birds(tmp_path_factory):
    """6 classes of 8 images, 4 of them for training, 3 attributes; the last image of a class differs."""
    labels, number = np.arange(CLASSES).repeat(8), np.arange(CLASSES * 8) % 8
    root = tmp_path_factory.mktemp("home") / "birds"
    of_class = np.arange(CLASSES)[:, None] >> np.arange(3) & 1
    paths = [root / "images" / f"{label}" / f"{n}.png" for label, n in zip(labels, number, strict=True)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (20, 20)).save(path)
    attributes = pd.DataFrame({"name": CONCEPTS}, index=[1, 2, 3])
    attributes[["group", "value"]] = attributes.name.str.split("::", expand=True)
    places = torch.full((len(paths), len(PARTS), 2), 5.0)
    places[:, 0] = torch.tensor([17.5, 7.5])
    world = Dataset(
        root,
        pd.DataFrame({"path": paths, "label": labels, "train": number < 4}),
        pd.DataFrame({"name": [f"Bird {k}" for k in range(CLASSES)], "label": range(CLASSES)}),
        attributes=attributes,
        attribute_level="image",
        present=torch.from_numpy((of_class[labels] ^ (number == 7)[:, None]) > 0),
        certainty=torch.full((len(paths), 3), 4, dtype=torch.int8),
        class_attributes=torch.from_numpy(of_class).float(),
        parts=PARTS,
        part_locations=places,
    )
    return scorecard.Ground(world)


def card_of(outputs, ground, **given):
    """The card of these outputs, of whose yardsticks nothing is on record."""
    worth = pd.DataFrame(columns=["planted", "sees", "passes"])
    return scorecard.score(scorecard.Evidence(outputs, ground, **given), worth)


def outputs_of(ground, rows=slice(None), **more):
    """A model that reads the labels, and decides by the nearest class."""
    world = ground.world
    values = more.pop("values", concept_labels(world, CONCEPTS)[rows])
    theta = 4 * class_concepts(world, CONCEPTS) - 2
    logits = more.pop("logits", values @ theta)
    given = {"values": values, "logits": logits, "class_weights": theta, "concepts": CONCEPTS}
    given |= {"contributions": values * theta.T[logits.argmax(1)], "thresholds": torch.full((3,), 0.5)}
    given |= {"classes": world.class_names, "image_ids": world.image_ids[rows]}
    return ConceptOutputs(**given | more)


def test_pseudo_values_are_the_statistic_and_its_jackknife():
    """Of a mean, the pseudo-values of folds of one case are the cases themselves."""
    x = np.array([1.0, 2.0, 4.0, 9.0])
    pseudo = pseudo_cases(lambda rows: x[rows].mean(), 4)
    assert np.allclose(sorted(pseudo), x) and np.isclose(pseudo.mean(), 4.0)
    squared = pseudo_cases(lambda rows: x[rows].mean() ** 2, 4)
    assert np.isclose(squared.mean(), 16.0)  # centred on the statistic itself
    groups = pseudo_cases(lambda rows: x[rows].mean(), 4, groups=np.array(["a", "a", "b", "b"]))
    assert np.allclose(sorted(groups), [1.5, 6.5])
    with pytest.raises(ValueError, match="1 case has no spread"):
        pseudo_cases(lambda rows: 0.0, 1)


def test_a_reading_by_hand():
    """The hardest blind rival is the best of them; the lead is paired and turned so that high is good."""
    about = SimpleNamespace(yardstick="x", unit="%", least=0, most=100, good="high")
    one = Reading([1, 1, 1, 0], {"easy": 0, "hard": np.array([1, 1, 0, 0])}).of(about)
    assert one.value().value == 75 and one.hardest() == ("hard", 50.0)
    assert one.lead().value == 25 and scorecard.verdict(one.lead()) == scorecard.OPEN
    good_if_low = SimpleNamespace(**vars(about) | {"good": "low"})
    low = Reading(np.zeros(40), {"coin": np.tile([0, 1], 20)}).of(good_if_low)
    assert low.lead().value == 50 and scorecard.verdict(low.lead()) == scorecard.ABOVE
    assert scorecard.verdict(low._replace(about=about).lead()) == scorecard.BELOW


def test_location_by_hand(of_birds):
    """All maps hot where the crown is: a hit where the most important concept is the crown's, and only there.

    The blob in the centre never hits, and another concept's map is the same.
    """
    outputs = outputs_of(of_birds)
    maps = torch.zeros(CLASSES * 4, 3, 4, 4)
    maps[:, :, 1, 3] = 1.0  # 20 pixels a side: x 15 to 20, y 5 to 10, the crown in the middle
    card = card_of(outputs, of_birds, maps=maps)
    reading = card.readings["CLM"]
    top = card.evidence.known.contributions.sort(dim=1, descending=True, stable=True).indices[:, 0]
    assert np.array_equal(np.sort(reading.cases), np.sort(100.0 * (top == 0).numpy()))
    assert (reading.blind["a blob in the centre"] == 0).all()
    assert np.array_equal(reading.blind["another concept's map"], reading.cases)


def test_unlabelled_pictures_say_so_and_what_is_written(of_birds, tmp_path):
    """A folder of pictures: only what needs no label, and the page says that truth is not known."""
    names = [f"{number}.png" for number in range(CLASSES * 8)]
    for name in names:
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    ground = scorecard.Ground(str(tmp_path))
    assert ground.kind == "unlabelled"
    card = card_of(outputs_of(of_birds, image_ids=names), ground, name="bare")
    assert not card.readings and card.carried == {"all shown": 1}
    assert any("there are no concept maps; give concept_maps" in line for line in card.not_possible)
    assert {"T", "CGIM1", "CRI", "S+", "accuracy", "CTL", "interventions, uncertainty"} <= set(card.missing)
    whole = card_of(outputs_of(of_birds), of_birds, name="b")
    written = scorecard.write_card([card, whole], tmp_path / "out")
    page, table = written["html"].read_text(), pd.read_csv(written["csv"])
    assert "These data have no labels" in page and "has no concept labels; give data with" in page
    assert "data:image/png;base64," in page and "http" not in page and written["png"].stat().st_size > 9999
    assert set(table.model) == {"bare", "b"} and table.value.notna().any()
    assert {"blind_value", "lead_low", "sees", "passes"} <= set(table)


def test_judgements_texts_and_maps(of_birds, tmp_path, caplog):
    """Files of a judge's scores, of texts and of maps: read as they stand, or refused by line."""
    outputs, file = outputs_of(of_birds), tmp_path / "judged.csv"
    ids = [name for name, train in zip(outputs.image_ids, of_birds.world.train, strict=True) if not train]
    texts, maps = tmp_path / "texts.csv", tmp_path / "maps.safetensors"
    pd.DataFrame({"image": ids, "score": 4.0, "control": 1.0}).to_csv(file, index=False)
    pd.DataFrame({"image": ids, "text": "a red crown"}).to_csv(texts, index=False)
    header = {"image_ids": json.dumps(ids), "concepts": json.dumps(CONCEPTS)}
    save_file({"concept_maps": np.ones((24, 3, 2, 2), np.float32)}, maps, header)
    card = card_of(outputs, of_birds, judgements=file, texts=texts, maps=maps)
    score = card.readings["judge score"]
    assert score.value().value == 4 and score.hardest() == ("a map known to be wrong", 1)
    assert score.lead().value == 3 and "CLM" in card.readings
    alone = card_of(outputs, of_birds, judgements=card.evidence.judgements[["score"]])
    assert scorecard.verdict(alone.readings["judge score"].lead()) == scorecard.OPEN  # beside nothing
    # a mark of a spreadsheet, blanks, empty scores, images that nobody asked for: counted, never guessed
    rows = [f" {name} , {score}" for name, score in zip(ids, ["4", "", "1.5", *"2" * 21], strict=True)]
    file.write_text("\ufeff" + "\r".join(["image,score", *rows[:-1], "another.png,3"]), encoding="utf-8")
    evidence = scorecard.Evidence(outputs, of_birds, judgements=file)
    expected = [4, np.nan, 1.5, *[2] * 20, np.nan]
    assert np.array_equal(evidence.judgements["score"], expected, equal_nan=True)
    assert "1 of its 24 images are not among" in evidence.notes[-1]
    assert "2 of these 24 have no score" in evidence.notes[-1]
    few = "none of 24 scores from 0 to 5 is above 1: if 1 is the highest, give 5 times as much"
    for rows, message in (
        (f"{ids[0]},4\n{ids[0]},1\n", "line 3: image .* stands twice"),
        (f"{ids[0]},7.0\n", "line 2: score is '7.0', not a number from 0 to 5"),
        ("".join(f"{name},0.8\n" for name in ids), few),
    ):
        file.write_text(f"image,score\n{rows}")
        with pytest.raises(ValueError, match=message):
            scorecard.Evidence(outputs, of_birds, judgements=file)
    with pytest.raises(ValueError, match="2 judgements of 24 test images"):
        scorecard.Evidence(outputs, of_birds, judgements=pd.DataFrame({"score": [4, 5]}))
    file.write_text("image,score\n" + "".join(f"{name},{n % 2}\n" for n, name in enumerate(ids)))
    scorecard.Evidence(outputs, of_birds, judgements=file)  # may be of a strict judge
    assert few in caplog.text
    for ids_given, message in (
        (["x.png", *ids[1:]], "1 of the 24 image ids of the outputs have no map"),
        (ids[1:], r"maps are \(24, 3, 2, 2\), of 23 image_ids and 3 concepts"),
    ):
        header["image_ids"] = json.dumps(ids_given)
        save_file({"concept_maps": np.ones((24, 3, 2, 2), np.float32)}, maps, header)
        with pytest.raises(ValueError, match=message):
            scorecard.Evidence(outputs, of_birds, maps=maps)


def test_wrong_names_lose_truth_and_keep_the_decision_and_wrong_ids_are_warned_of(of_birds):
    swapped = card_of(outputs_of(of_birds, concepts=[*CONCEPTS[1:], CONCEPTS[0]]), of_birds)
    honest = card_of(outputs_of(of_birds), of_birds)
    values = [{name: one.value().value for name, one in card.readings.items()} for card in (honest, swapped)]
    assert values[0]["T"] == 100 and values[0]["concept AUC"] == 1
    assert values[1]["T"] < 70 and values[1]["concept AUC"] < 0.7
    assert values[1]["accuracy"] == values[0]["accuracy"]
    partly = scorecard.Evidence(outputs_of(of_birds, concepts=[*CONCEPTS[:2], "teapot"]), of_birds)
    assert "1 of 3 concepts have no label in birds (unknown concept 'teapot'" in partly.notes[0]
    ids = of_birds.world.image_ids
    wrong = card_of(outputs_of(of_birds, image_ids=ids[8:] + ids[:8]), of_birds)
    assert not honest.warnings and "It is not shown that the classes are right" in wrong.warnings[0]
    assert f"WARNING: {wrong.warnings[0]}" in scorecard.printed(wrong)


def test_the_head_of_a_page_says_what_is_of_the_picture_and_who_decides():
    """On the aviary: an honest reader, who recites, rows of classmates, and two that decide otherwise."""
    ground = scorecard.Ground("aviary", n_pairs=0)
    world, names = ground.world, choose_concepts(ground.world)
    truth, train, labels = concept_labels(world, names), world.train, world.labels
    usual = class_concepts(world, names).T[labels]
    generator = torch.Generator().manual_seed(0)
    honest = (truth - (torch.rand(truth.shape, generator=generator) < 0.05).float()).abs()
    weights, bias = ridge_head(honest[train], labels[train], 48)
    noise = torch.randn(len(labels), 48, generator=generator)
    by_class = labels.argsort(stable=True)
    mates = torch.empty_like(by_class)
    mates[by_class] = by_class.view(48, -1).roll(1, 1).flatten()

    def page(values, logits=None, theta=weights, concepts=names):
        logits = values @ theta + bias if logits is None else logits
        given = {"values": values, "contributions": values * theta.T[logits.argmax(1)], "logits": logits}
        given |= {"class_weights": theta, "thresholds": torch.full((len(theta),), 0.5)}
        names_given = {"concepts": concepts, "classes": world.class_names, "image_ids": world.image_ids}
        rest = {"CRI", "interventions, uncertainty", "CTL", "CGIM1"}
        evidence = scorecard.Evidence(ConceptOutputs(**given, **names_given), ground)
        return scorecard.score(evidence, without=rest)

    honest_page = page(honest)
    assert not honest_page.warnings and "3 of 3 tell a picture" in honest_page.head[0]
    assert honest_page.ladders["T"].look.low > 0.8
    assert honest_page.carried == pytest.approx({"all shown": 1, "the labelled": 1})
    recited, shuffled = page(usual), page(honest[mates], (honest @ weights + bias)[mates])
    for liar in (recited, shuffled):
        assert any("NOTHING OF THE PICTURE" in line for line in liar.head)
        assert any("under the ids of classmates" in line for line in liar.warnings)
        assert (liar.table.verdict == scorecard.ABOVE).sum() >= 4  # and yet
    beside = page(honest, honest @ weights + bias + noise)
    columns = torch.cat([honest, honest @ weights + noise], 1)
    impressions = [f"impression {k}" for k in range(48)]
    unlabelled = page(columns, None, torch.cat([0 * weights, torch.eye(48)]), names + impressions)
    assert beside.carried["all shown"] < 0.3 and "made beside them" in beside.warnings[-1]
    assert unlabelled.carried["all shown"] > 0.999 and unlabelled.carried["the labelled"] < 0.1
    assert "the labelled concepts carry" in unlabelled.warnings[-1]


def test_the_page_says_what_its_lines_have_told_before(of_birds, tmp_path):
    """Of T one fault on record is told and one is praised, of accuracy both are praised."""
    record = {"T": (["permuted names"], ["recited"]), "accuracy": ([], ["permuted names", "recited"])}
    worth = pd.DataFrame.from_dict(record, orient="index", columns=["sees", "passes"])
    worth = worth.assign(planted="bottlenecks")
    card = scorecard.score(scorecard.Evidence(outputs_of(of_birds), of_birds), worth)
    page = scorecard.printed(card).splitlines()
    assert [line.split()[-4:] for line in page if line.startswith("T ")] == [["1", "of", "2", "tried"]]
    assert "lies that none of these lines tells: recited" in page
    assert card.untold == ["recited"]
    with pytest.raises(ValueError, match="holds no run of notebook 62"):
        read_worth("birds", tmp_path)


def test_what_does_not_fit_is_named(of_birds, tmp_path, capsys):
    others = {"image_ids": [f"x{n}.png" for n in range(48)]}
    for changed, message in (
        (others, r"48 of the 48 images are none of birds's, the first 'x0.png'"),
        ({"image_ids": None}, "48 rows without image ids"),
        ({"rows": slice(4)}, "0 of its 4 images belong to the test images"),
        ({"concepts": ["red crwn", "a green hat", "teapot"]}, "unknown concept 'red crwn'; did you mean"),
        ({"classes": [f"c{k}" for k in range(CLASSES)]}, "they must be the same, by their names"),
    ):
        with pytest.raises(ValueError, match=message):
            scorecard.Evidence(outputs_of(of_birds, **changed), of_birds)
    scorecard.Evidence(outputs_of(of_birds, rows=slice(6)), of_birds)  # two test images do
    file = str(save_outputs(outputs_of(of_birds), tmp_path / "own.safetensors"))
    Image.new("RGB", (8, 8)).save(tmp_path / "0.png")
    for arguments, message in (
        ([file, "--data", "nowhere"], "There is no data set 'nowhere'"),
        ([str(tmp_path / "no.safetensors"), "--data", str(tmp_path)], "no outputs of a bottleneck"),
        ([file, "--data", str(tmp_path), "--scorer", "aviary_clip"], "learnt from drawn birds alone"),
    ):
        assert scorecard.main([*arguments, "--out", str(tmp_path / "a")]) == 2
        assert message in capsys.readouterr().err


def test_a_model_of_another_library_in_ten_lines(tmp_path, monkeypatch):
    """The first block of notebook 61, word by word, with a bottleneck of PyC."""
    cells = nbformat.read(PATHS["61"], as_version=4).cells
    (text,) = [cell.source for cell in cells if "LinearEmbeddingToConcept" in cell.source]
    block = re.search(r"```python\n(.*?)```", text, re.S)[1]
    given = {"torch": torch, "embeddings": torch.randn(4, 5), "concept_names": ["red", "blue", "striped"]}
    given |= {"class_names": ["a", "b"], "file_names": ["1.png", "2.png", "3.png", "4.png"]}
    given["encoder"] = LinearEmbeddingToConcept(5, 3)
    given["predictor"] = LinearConceptToConcept(3, 2)
    monkeypatch.chdir(tmp_path)
    exec(block, given)
    outputs = read_outputs("pyc.safetensors")
    assert outputs.values.shape == (4, 3) and outputs.image_ids == given["file_names"]
