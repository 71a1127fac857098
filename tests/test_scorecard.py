"""The scorecard: hand-worked readings, every kind of truth, files made elsewhere, and each error."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file

from xaihelpers import scorecard
from xaihelpers.datasets import DatasetError
from xaihelpers.outputs import ConceptOutputs, save_outputs
from xaihelpers.scorecard import __main__ as command
from xaihelpers.scorecard.reading import share
from xaihelpers.scores import interval

CONCEPTS = ["has_crown_color::red", "has_wing_color::blue", "has_belly_color::white"]
PARTS = ["crown", "left wing", "right wing", "belly"]  # the crown to the right, all else to the left
CLASSES = 6


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    """A labelled data set in CUB's format: 6 classes of 8 images, 4 of them for training, 3 attributes."""
    root = tmp_path_factory.mktemp("data") / "birds"
    (root / "attributes").mkdir(parents=True)
    (root / "parts").mkdir()
    rng = np.random.default_rng(0)
    names = [f"{n // 8 + 1:03d}.Bird_{n // 8}/{n:02d}.png" for n in range(CLASSES * 8)]
    labelled = []
    for n, name in enumerate(names):
        file = root / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (20, 20, 3), dtype=np.uint8)).save(file)
        for j in range(3):  # the last image of a class differs from the others
            present = (n // 8 >> j & 1) ^ (n % 8 == 7)
            labelled.append(f"{n + 1} {j + 1} {int(present)} 4 1.0")
    percent = [" ".join(str(100 * (k >> j & 1)) for j in range(3)) for k in range(CLASSES)]
    files = {
        "images": [f"{n + 1} {name}" for n, name in enumerate(names)],
        "classes": [f"{k + 1} {k + 1:03d}.Bird_{k}" for k in range(CLASSES)],
        "image_class_labels": [f"{n + 1} {n // 8 + 1}" for n in range(len(names))],
        "train_test_split": [f"{n + 1} {int(n % 8 < 4)}" for n in range(len(names))],
        "bounding_boxes": [f"{n + 1} 1.0 1.0 18.0 18.0" for n in range(len(names))],
        "parts/parts": [f"{k} {name}" for k, name in enumerate(PARTS, 1)],
        "parts/part_locs": [
            f"{n + 1} {k} {17.5 if k == 1 else 5.0} 7.5 1" for n in range(len(names)) for k in range(1, 5)
        ],
        "attributes/attributes": [f"{j + 1} {name}" for j, name in enumerate(CONCEPTS)],
        "attributes/certainties": ["1 not visible", "2 guessing", "3 probably", "4 definitely"],
        "attributes/class_attribute_labels_continuous": percent,
        "attributes/image_attribute_labels": labelled,
    }
    for name, lines in files.items():
        (root / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return root


@pytest.fixture(scope="module")
def of_birds(birds):
    return scorecard.ground(str(birds))


def outputs_of(ground, rows=None, **more):
    """A model that reads the labels, and decides by the nearest class."""
    world = ground.world
    rows = np.arange(len(world.images)) if rows is None else np.asarray(rows)
    names = more.pop("concepts", CONCEPTS)
    values = ground.present(CONCEPTS, rows)
    theta = 4 * ground.class_truth(CONCEPTS) - 2
    logits = values @ theta
    given = {
        "values": values,
        "contributions": values * theta.T[logits.argmax(1)],
        "class_weights": theta,
        "logits": logits,
        "concepts": names,
        "classes": world.class_names,
        "image_ids": [world.image_ids[row] for row in rows],
        "thresholds": torch.full((3,), 0.5),
    }
    return ConceptOutputs(**given | more)


def test_pseudo_values_are_the_statistic_and_its_jackknife():
    """Of a mean, the pseudo-values of folds of one case are the cases themselves."""
    x = np.array([1.0, 2.0, 4.0, 9.0])
    pseudo = scorecard.pseudo_cases(lambda rows: x[rows].mean(), 4)
    assert np.allclose(sorted(pseudo), x) and np.isclose(pseudo.mean(), 4.0)
    squared = scorecard.pseudo_cases(lambda rows: x[rows].mean() ** 2, 4)
    assert np.isclose(squared.mean(), 16.0)  # centred on the statistic itself
    groups = scorecard.pseudo_cases(lambda rows: x[rows].mean(), 4, groups=np.array(["a", "a", "b", "b"]))
    assert np.allclose(sorted(groups), [1.5, 6.5])
    with pytest.raises(ValueError, match="1 case has no spread"):
        scorecard.pseudo_cases(lambda rows: 0.0, 1)


def test_a_reading_by_hand():
    """The hardest blind rival is the best of them; the lead is paired and turned so that high is good."""
    blind = {"easy": np.zeros(4), "hard": np.array([1, 1, 0, 0])}
    one = share("x", "sub", scorecard.LABELLED, [1, 1, 1, 0], blind)
    assert one.value().value == 75 and one.hardest() == ("hard", 50.0)
    assert one.lead().value == 25 and scorecard.verdict(one.lead()) == scorecard.OPEN
    low = share("x", "fse", scorecard.LABELLED, np.zeros(40), {"coin": np.tile([0, 1], 20)}, low_is_good=True)
    assert low.lead().value == 50 and scorecard.verdict(low.lead()) == scorecard.ABOVE
    assert scorecard.verdict(low._replace(low_is_good=False).lead()) == scorecard.BELOW
    nothing = one._replace(blind={})
    assert nothing.hardest()[0] == "" and scorecard.verdict(nothing.lead()) == scorecard.OPEN
    with pytest.raises(ValueError, match="cannot be paired with"):
        one.over(low)
    same = one.over(one)
    assert same.value == 0 and scorecard.verdict(same) == scorecard.OPEN


def test_one_number_by_hand(of_birds):
    """T of a model that is wrong about one concept of three, in every second image."""
    outputs = outputs_of(of_birds)
    values = outputs.values.clone()
    values[::2, 1] = 1 - values[::2, 1]
    outputs.values = values
    card = scorecard.score(scorecard.gather(outputs, of_birds))
    ((why, give),) = {(one.why, one.give) for one in card.missing if "S+" in one.yardsticks}
    assert "cannot be drawn with one thing changed" in why and "notebook 53" in give
    with pytest.raises(KeyError, match="has no CLM: there are no concept maps; give concept_maps"):
        card.reading("CLM")
    reading = card.reading("T")
    shares = np.tile([200 / 3, 100], CLASSES * 2)
    assert np.allclose(reading.cases, shares, atol=1e-4)
    by_hand = interval(shares, clusters=np.repeat(np.arange(CLASSES), 4), bounds=(0, 100))
    assert np.allclose(reading.value()[:3], by_hand[:3], atol=1e-3)


def test_location_by_hand(of_birds):
    """All maps hot where the crown is: a hit where the most important concept is the crown's, and only there.

    The blob in the centre never hits, and another concept's map is the same.
    """
    outputs = outputs_of(of_birds)
    n = int((~of_birds.world.train).sum())
    maps = torch.zeros(n, 3, 4, 4)
    maps[:, :, 1, 3] = 1.0  # 20 pixels a side: x 15 to 20, y 5 to 10, the crown in the middle
    reading = scorecard.score(scorecard.gather(outputs, of_birds, maps=maps)).reading("CLM")
    evidence = scorecard.gather(outputs, of_birds)
    top = evidence.known.contributions.sort(dim=1, descending=True, stable=True).indices[:, 0]
    assert np.array_equal(np.sort(reading.cases), np.sort(100.0 * (top == 0).numpy()))
    assert (reading.blind["a blob in the centre"] == 0).all()
    assert np.array_equal(reading.blind["another concept's map"], reading.cases)


def test_unlabelled_pictures_say_so_and_what_is_written(birds, of_birds, tmp_path):
    """A folder of pictures: only what needs no label, and the page says that truth is not known."""
    names = []
    for number, file in enumerate(sorted(birds.rglob("*.png"))):
        names.append(f"{number}.png")
        (tmp_path / names[-1]).write_bytes(file.read_bytes())
    ground = scorecard.ground(str(tmp_path))
    assert ground.kind == scorecard.UNLABELLED
    card = scorecard.score(scorecard.gather(outputs_of(of_birds, image_ids=names), ground, "bare"))
    assert {one.truth for one in card.readings} == {"unlabelled"} and card.readings
    missing = {name for one in card.missing for name in one.yardsticks}
    assert {"T", "CGIM1", "CRI", "S+", "accuracy", "CTL", "interventions, random", "ConceptScore"} <= missing
    whole = scorecard.score(scorecard.gather(outputs_of(of_birds), of_birds, "b"))
    written = scorecard.write_card([card, whole], tmp_path / "out")
    page = written["html"].read_text()
    assert "These data have no labels" in page and "Not possible, and what to give" in page
    table = pd.read_csv(written["csv"])
    assert set(table.model) == {"bare", "b"} and {"blind_value", "lead_low", "sees", "fooled_by"} <= set(
        table
    )
    read = json.loads(written["json"].read_text())
    assert [one["model"] for one in read] == ["bare", "b"] and read[1]["kind"] == "labelled"


def test_judgements_and_texts(of_birds, tmp_path):
    """A judge with a control: its average is held against what it gives to wrong maps."""
    outputs = outputs_of(of_birds)
    ids = scorecard.gather(outputs, of_birds).outputs.image_ids
    file = tmp_path / "judged.csv"
    pd.DataFrame({"image": ids, "score": 4.0, "control": 1.0}).to_csv(file, index=False)
    given = {"judgements": str(file), "texts": ["a red crown"] * len(ids)}
    card = scorecard.score(scorecard.gather(outputs, of_birds, **given))
    score = card.reading("judge score")
    assert score.value().value == 4 and dict(score.blind)["a map known to be wrong"].mean() == 1
    assert scorecard.verdict(score.lead()) == scorecard.OPEN  # another image's score is the same
    assert card.reading("wrong map scored low").lead().value == 3
    text = card.reading("BLEU")
    assert np.allclose(text.blind["another image's text"].mean(), text.cases.mean())
    pd.DataFrame({"image": ids, "score": 7.0}).to_csv(file, index=False)
    with pytest.raises(DatasetError, match="score 7 of image .* is outside 0 to 5"):
        scorecard.gather(outputs, of_birds, judgements=str(file))
    pd.DataFrame({"picture": ids}).to_csv(file, index=False)
    with pytest.raises(DatasetError, match="needs the columns image and score, but has picture"):
        scorecard.gather(outputs, of_birds, judgements=str(file))
    with pytest.raises(DatasetError, match=f"1 texts for {len(ids)} test images"):
        scorecard.gather(outputs, of_birds, texts=["one"])
    with pytest.raises(DatasetError, match="no concept maps"):
        scorecard.gather(outputs, of_birds, maps=tmp_path / "nowhere.safetensors")
    with pytest.raises(ValueError, match="no scorecard to draw"):
        scorecard.card_figure([])


def test_maps_and_probes_of_other_images(of_birds, drawn_birds, tmp_path):
    outputs, file = outputs_of(of_birds), tmp_path / "maps.safetensors"
    n = len(scorecard.gather(outputs, of_birds).rows)
    header = {"image_ids": '["x", "y", "z"]', "concepts": json.dumps(CONCEPTS)}
    save_file({"concept_maps": np.ones((3, 3, 2, 2), np.float32)}, file, header)
    with pytest.raises(DatasetError, match=f"{n} of the {n} image ids of the outputs have no map"):
        scorecard.gather(outputs, of_birds, maps=file)
    probes = tmp_path / "probes"
    scorecard.draw_probes(drawn_birds, 1, 1, folder=str(probes))
    assert scorecard.draw_probes(drawn_birds, 1, 1, folder=str(probes)).folder == probes
    with pytest.raises(DatasetError, match="holds probes of other data or settings"):
        scorecard.draw_probes(drawn_birds, 2, 1, folder=str(probes))


def test_names_permuted_lose_truth_and_keep_the_decision(of_birds):
    honest = scorecard.score(scorecard.gather(outputs_of(of_birds), of_birds, "honest"))
    false = outputs_of(of_birds, concepts=[CONCEPTS[1], CONCEPTS[2], CONCEPTS[0]])
    leads = scorecard.leads_over(honest, scorecard.score(scorecard.gather(false, of_birds, "renamed")))
    assert honest.reading("T").value().value == 100 and honest.reading("concept AUC").value().value == 1
    assert scorecard.verdict(leads["T"]) == scorecard.ABOVE
    assert leads["accuracy"].value == 0 and leads["decision kept by 5"].value == 0
    partly = scorecard.gather(outputs_of(of_birds, concepts=[*CONCEPTS[:2], "teapot"]), of_birds)
    assert "1 of 3 concepts have no label in birds, the first 'teapot'" in partly.notes[0]


@pytest.mark.parametrize(
    "changed, message",
    [
        (
            {"image_ids": [f"x{n}.png" for n in range(48)]},
            r"48 of the 48 images are none of birds's, the first 'x0.png'",
        ),
        ({"image_ids": None}, "48 rows without image ids"),
        ({"rows": [0, 1, 2, 3]}, "0 of its 4 images belong to the test images"),
        (
            {"concepts": ["red crwn", "a green hat", "teapot"]},
            "none of its 3 concepts is an attribute of birds, the first 'red c",
        ),
        ({"classes": [f"c{k}" for k in range(CLASSES)]}, "they must be the same, in the same order"),
    ],
)
def test_outputs_that_do_not_fit(of_birds, changed, message):
    with pytest.raises(ValueError, match=message):
        scorecard.gather(outputs_of(of_birds, **changed), of_birds)


def test_the_command_names_what_is_wrong(of_birds, birds, tmp_path, capsys):
    file = str(save_outputs(outputs_of(of_birds), tmp_path / "own.safetensors"))
    data, out = ["--data", str(birds)], ["--out", str(tmp_path / "a")]
    for arguments, message in (
        ([file, "--data", "nowhere", *out], "There is no data set 'nowhere'"),
        ([str(tmp_path / "no.safetensors"), *data], "no outputs of a bottleneck"),
        (data, "name at least one file of outputs"),
        ([file, *data, "--ask", "nosuchmodule:f", *out], "--ask nosuchmodule:f: no such function"),
        ([file, *data, "--scorer", "aviary_clip"], "learnt from drawn birds alone"),
    ):
        assert command.main(arguments) == 2 and message in capsys.readouterr().err
