"""S+, S- and T by hand; and anybody's predictions: read, matched with a benchmark, scored and printed.

Images 0 to 2 are a Cardinal given a black crown, a Blue Jay given white wings and a Mallard given a yellow
eye. By the labels of the classes a red crown goes; blue and black wings; a black eye. Red crowns, blue wings
and yellow eyes are none of the 112 concepts.
"""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from xaihelpers import datasets
from xaihelpers.datasets import DatasetError, write_sub
from xaihelpers.outputs import ConceptOutputs, save_outputs
from xaihelpers.scores import sub
from xaihelpers.scores.sub import __main__ as command

FILES = Path(__file__).with_name("predictions")
SEEING, BLIND, BEFORE = (str(FILES / f"{name}.csv") for name in ("seeing", "blind", "seeing_before"))
TARGETS = ["has_crown_color::black", "has_wing_color::white", "has_eye_color::yellow"]
BIRDS = ["Cardinal", "Blue Jay", "Mallard"]
THIRD, RED = 100 / 3, "has_crown_color::red"


def write_benchmark(folder, **more):
    """The benchmark that the files are of."""
    images = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "green")]
    write_sub(folder, images, TARGETS, BIRDS, TARGETS, BIRDS, **more)
    return str(folder)


@pytest.fixture(scope="module")
def world():
    return datasets.load("aviary", attributes="class")


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    return write_benchmark(tmp_path_factory.mktemp("benchmark") / "three")


@pytest.fixture(scope="module")
def images(benchmark, world):
    return sub.benchmark_images(datasets.load(benchmark), world)


@pytest.fixture(scope="module")
def held(images):
    return sub.read_predictions(SEEING, images.id)


def judged(world, images, **more):
    held = sub.read_predictions(SEEING, images.id)
    return sub.judge_predictions(images, world, held.concepts, held.values[None], **more)


def values_of(rows):
    return rows.set_index(["scoring", "metric"]).value.to_dict()


def test_scores_worked_out_by_hand(world, images, held):
    """Seen: crown and wings. Gone: the red crown, and of the wings the blue; black ones are still claimed."""
    result = judged(world, images)
    assert values_of(result.rows) == pytest.approx(
        {
            ("authors'", "S+"): 100,  # of two images: the eye is none of the 112
            ("authors'", "S-"): 0,  # of one: only the black wings are among the 112
            ("corrected", "S+"): 2 * THIRD,
            ("corrected", "S-"): 50,  # 1, 1/2, 0
            ("corrected", "both"): THIRD,
            ("corrected", "AUC"): 100,  # among birds whose group was left as it was
        }
    )
    rows = sub.breakdown(result.scores["corrected"], images, ["attribute", "bird"])
    found = rows[rows.metric == "S-"].set_index("bird").value.to_dict()
    assert found == {"Cardinal": 100, "Blue Jay": 50, "Mallard": 0}
    one = rows[(rows.metric == "S+") & (rows.bird == "Cardinal")].iloc[0]
    assert (one.attribute, one.cases, one.high) == (TARGETS[0], 1, 100) and one.low == pytest.approx(2.5)
    about = held.values[None], images, result.removed, held.concepts
    rows = sub.threshold_curve(*about, thresholds=[0, 0.25, 0.5, 1])
    curve = rows.pivot(index="threshold", columns="metric", values="value")
    assert curve["S+"].tolist() == pytest.approx([100, 100, 2 * THIRD, 0])
    assert curve["S-"].tolist() == pytest.approx([0, THIRD, 50, 100])
    assert curve["both"].tolist() == pytest.approx([0, THIRD, THIRD, 0])


def test_scores_with_the_birds_before(world, images):
    """The crown was called black before; a yellow eye is less probable before in two birds of three."""
    before = sub.read_predictions(BEFORE, images.id).values[None]
    rows = judged(world, images, before=before).rows
    found, coin = values_of(rows), rows.set_index(["scoring", "metric"]).chance
    assert found["corrected", "false alarms"] == found["corrected", "gain"] == pytest.approx(THIRD)
    assert found["corrected", "AUC"] == pytest.approx(100 * (1 + 1 + 2 / 3) / 3)
    assert rows.cases.tolist() == [2, 1, 3, 3, 3, 3, 3, 3]
    assert coin["corrected", "S+"] == 50
    assert coin["corrected", "both"] == pytest.approx(100 * (2 / 4 + 1 / 8) / 3)


def test_two_models_image_by_image(world, images):
    blind = sub.read_predictions(BLIND, images.id)
    nothing = sub.judge_predictions(images, world, blind.concepts, blind.values[None])
    pair = {"seeing": judged(world, images).scores["corrected"], "blind": nothing.scores["corrected"]}
    rows = sub.differences(pair, images).set_index("metric")
    assert rows.value[["S+", "S-", "both"]].tolist() == pytest.approx([-2 * THIRD, 50, -THIRD])
    assert set(rows.model) == {"blind"} and set(rows.less) == {"seeing"}


def test_another_threshold_and_the_greatest_of_a_group(world, images):
    low = values_of(judged(world, images, threshold=0.25).rows)
    assert low["corrected", "S+"] == 100 and low["corrected", "S-"] == pytest.approx(THIRD)  # 1, 0, 0
    group = judged(world, images, rule="group").rows
    found = values_of(group)
    assert found["corrected", "S+"] == pytest.approx(THIRD)  # the black wings are likelier than the white
    assert found["corrected", "both"] == pytest.approx(THIRD)
    levels = group.set_index(["scoring", "metric"]).chance
    assert levels["corrected", "S+"] == pytest.approx(100 * (1 / 4 + 1 / 4 + 1 / 3) / 3)
    with pytest.raises(DatasetError, match="rule must be one of threshold, group, not 'most'"):
        judged(world, images, rule="most")


def test_the_benchmark_may_say_what_is_gone(world, tmp_path):
    """Where the picture keeps its black wings, only blue counts; the class's label is the authors' still."""
    gone = [["has_crown_color::red"], ["has_wing_color--blue"], []]
    folder = write_benchmark(tmp_path / "exact", removed=gone)
    images = sub.benchmark_images(datasets.load(folder), world)
    assert images.removed.tolist() == [["has_crown_color::red"], ["has_wing_color::blue"], []]
    result = judged(world, images)
    found = result.rows.set_index(["scoring", "metric"])
    assert found.value["corrected", "S-"] == 100 and found.cases["corrected", "S-"] == 2
    assert found.value["corrected", "both"] == 100 and found.value["authors'", "S-"] == 0


def test_recall_is_weighed_as_the_benchmark_weighs():
    """Two images ask for red, one for blue: recall 1/2 of red and 1 of blue makes 2/3."""
    names = ["has_crown_color::red", "has_crown_color::blue", "has_crown_color::grey"]
    images = pd.DataFrame(
        {"attribute": [names[0], names[0], names[1]], "bird": list("abc"), "label": [0, 1, 2]}
    )
    truth = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1]])
    predicted = torch.tensor([[[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0]]], dtype=torch.bool)
    recall = sub.standardised_recall(predicted, truth, [0, 1, 2, 3], images, names)
    assert recall.value == pytest.approx(200 / 3)
    s_plus = np.array([[100.0, 0.0, 0.0]])
    gap = sub.recall_gap(s_plus, images, predicted, truth, [0, 1, 2, 3], names)
    assert gap.value == pytest.approx(100 / 3 - 200 / 3) and gap.low < gap.value < gap.high
    # blue on no real image: only red is compared, seen in one half by nature and in one half after the change
    truth[:, 1] = 0
    assert sub.recall_gap(s_plus, images, predicted, truth, [0, 1, 2, 3], names).value == pytest.approx(0)
    values, others = torch.tensor([[0.5]]), torch.tensor([[0.5], [0.2], [0.9], [0.1]])
    absent = torch.tensor([[True], [True], [True], [False]])
    rank = sub.rank_above_absent(values, [RED], others, absent, [RED])
    assert rank.tolist() == [0.5]  # above one, level with one, below one


def predictions(folder, change, name="own.csv"):
    """A changed copy of the predictions."""
    table, file = change(pd.read_csv(SEEING, dtype={"image id": str})), folder / name
    table.to_csv(file, index=False) if name.endswith("csv") else table.to_parquet(file)
    return file


def test_any_order_and_any_names(tmp_path):
    """Shuffled rows, other names of columns, plain names of attributes, parquet: the same predictions."""
    ids = ["a.png", "b.png", "c.png"]

    def change(table):
        table["image"] = table.pop("image id").map(dict(zip("012", ids, strict=True)))
        table["attribute"] = table.attribute.map(datasets.plain_name)
        return table.rename(columns={"attribute": "concept"}).sample(frac=1, random_state=0)

    known = sub.read_predictions(SEEING, ids)
    own = sub.read_predictions(predictions(tmp_path, change, "own.parquet"), ids)
    assert own.concepts == known.concepts and torch.equal(own.values, known.values)
    assert known.concepts[0] == "has_wing_color::blue"  # in CUB's order
    with pytest.raises(DatasetError, match="its 3 images are called by their rows, and the data have 2"):
        sub.read_predictions(SEEING, ids[:2])
    # some of them, in another order
    some = sub.read_predictions(SEEING, ids, known.concepts[::-2])
    assert some.concepts == known.concepts[::-2] and torch.equal(some.values, known.values.flip(1)[:, ::2])
    fewer = predictions(tmp_path, lambda table: table[table.attribute != "has_crown_color::black"])
    message = (
        f"{fewer}: 1 of the {len(known.concepts)} attributes wanted are not in it, the first has_crown_color"
    )
    with pytest.raises(DatasetError, match=message):
        sub.read_predictions(fewer, ids, known.concepts)


WRONG = [
    (lambda t: t[t["image id"] != "2"], "1 of the 3 images have no predictions, the first '2'"),
    (lambda t: t.assign(**{"image id": "x" + t["image id"]}), "3 of the 3 images have no predictions.*'a'"),
    (lambda t: t.iloc[:0], "own.csv has no row"),
    (lambda t: t.rename(columns={"probability": "p"}), "there is no column probability"),
    (lambda t: t.assign(probability=t.probability * 2), "is 1.8 .*a probability from 0 to 1 is wanted"),
    (lambda t: t.assign(probability=np.nan), "line 2: probability is '', not a number"),
    (lambda t: t.replace(RED, "has_crown_color::rad"), "did you mean 'has_crown_color::red'"),
    (lambda t: pd.concat([t, t.iloc[:1]]), "has_crown_color::black of image '0' has 2 rows"),
    (lambda t: t.iloc[1:], "has_crown_color::black of image '0' has no row|of image '1' has"),
]


@pytest.mark.parametrize("change, message", WRONG, ids=[message[:30] for _, message in WRONG])
def test_a_file_that_is_wrong_is_named(change, message, tmp_path):
    file = predictions(tmp_path, change)
    with pytest.raises(ValueError, match=message) as caught:
        sub.read_predictions(file, ["a", "b", "c"])
    assert str(file) in str(caught.value)


def test_no_file_and_another_kind_of_file(tmp_path):
    for name in ("own.txt", "own.parquet", "own.safetensors"):
        (tmp_path / name).write_bytes(b"no such thing")
    for name, message in (
        ("nowhere.csv", "there is no such file of predictions"),
        ("own.txt", r"read from .csv, .parquet, .safetensors, not '.txt'"),
        ("own.parquet", "own.parquet"),
        ("own.safetensors", "own.safetensors"),
    ):
        with pytest.raises(ValueError, match=message):
            sub.read_predictions(tmp_path / name, ["a"])
    (tmp_path / "mine.py").write_text("def attributes_of(images): pass")
    with pytest.raises(DatasetError, match="mine.py: a Python file is asked about images"):
        sub.read_predictions(tmp_path / "mine.py", ["a"])


def test_outputs_of_a_bottleneck(tmp_path):
    """Concepts by their plain names; what is no attribute is left out; the model's threshold is one half."""
    values = torch.tensor([[0.3, 0.9, 0.5], [0.1, 0.2, 0.5]])
    names, limits = ["red crown", "black crown", "a look of its own"], torch.tensor([0.2, 0.5, 0.5])
    about = torch.zeros(2, 3), None, torch.zeros(2, 1), names, ["bird"], ["b.png", "a.png"]
    file = save_outputs(ConceptOutputs(values, *about, thresholds=limits), tmp_path / "own.safetensors")
    held = sub.read_predictions(file, ["a.png", "b.png"])
    assert held.concepts == ["has_crown_color::black", "has_crown_color::red"]
    assert held.values.flatten().tolist() == pytest.approx([0.2, 0.25, 0.9, 0.5625])


def test_concepts_of_outputs_are_matched_as_everywhere(images, world, tmp_path, caplog):
    """Crown, wings and eye of three images, two of them seen: S+ is 67, and not 100 over the first two."""
    spelt = ["Black Crown", "has_wing_color--white", " yellow_eyes"]
    for more, said in (([], ""), (["teapot", "kettle"], "2 of 5 concepts .*'teapot': left out")):
        caplog.clear()
        names = spelt + more
        values = torch.eye(3, len(names)) * torch.tensor([[0.9], [0.9], [0.4]])
        about = values.clone(), None, torch.zeros(3, 1), names, ["bird"], images.id.tolist()
        file = save_outputs(ConceptOutputs(values, *about), tmp_path / "own.safetensors")
        held = sub.read_predictions(file, images.id)
        rows = sub.judge_predictions(images, world, held.concepts, held.values[None]).rows
        found = rows[(rows.scoring == "corrected") & (rows.metric == "S+")].iloc[0]
        assert found.value == pytest.approx(2 * THIRD) and found.cases == 3
        assert bool(said) == ("left out" in caplog.text) and re.search(said, caplog.text)


def test_what_is_given_is_not_merged_nor_clipped(tmp_path):
    """Names of one attribute, columns of one meaning, thresholds of no probability; a text is no number."""
    values = torch.rand(2, 2)

    for names, thresholds, message in (
        (["red breast", "blue breast"], [0.5, 1.2], "the threshold of 'blue breast' is not within 0 and 1"),
        (["red breast", "a red breast"], [0.5, 0.5], "has_breast_color::red is written in several ways"),
    ):
        about = values, None, torch.zeros(2, 1), names, ["bird"], ["a", "b"]
        outputs = ConceptOutputs(values, *about, thresholds=torch.tensor(thresholds))
        with pytest.raises(DatasetError, match=message):
            sub.read_predictions(save_outputs(outputs, tmp_path / "own.safetensors"), ["a", "b"])
    head, file = "image,attribute,", tmp_path / "own.csv"
    for text, message in (
        (f"{head}value,score\na,red breast,1,0", "value and score may each be its probability"),
        (f"{head}value\na,red breast,4/5", "line 2: value is '4/5', not a number"),
        (f"{head}value\na,red breast,,", "line 2: 4 values under 3 columns"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            sub.read_predictions(file, ["a"])
    # a byte order mark, blanks, any line ending, composed for decomposed; "None" is a name
    rows = " Mo\u0308we , Red Breast , 0.25 \r\nNone,Red Breast,1\r\n"
    file.write_text(f"{head}probability\r\n{rows}", "utf-8-sig", newline="")
    assert sub.read_predictions(file, ["None", "M\u00f6we"]).values.tolist() == [[1.0], [0.25]]


def test_the_command_compares_and_measures_on_real_birds(world, benchmark, tmp_path, capsys):
    """A model that knows the class by heart has a recall and a T of 100 on real birds."""
    concepts = sub.read_predictions(SEEING, list("012")).concepts
    by_heart = datasets.concept_labels(world, concepts, "class")[~world.train]
    table = pd.DataFrame(by_heart.numpy(), columns=concepts).rename_axis("image").reset_index()
    file = str(tmp_path / "real.parquet")
    table.astype({"image": str}).melt("image", None, "attribute", "probability").to_parquet(file)
    given = [SEEING, BLIND, "--benchmark", benchmark, "--test", file, file, "--csv", f"{tmp_path}/out.csv"]
    assert command.main([*given, "--before", BEFORE, BLIND]) == 0
    printed = capsys.readouterr().out
    assert "has_eye_color::yellow" in printed and "-66.7" in printed
    table = pd.read_csv(tmp_path / "out.csv")
    assert set(table.by) == {"all", "attribute", "pair", "threshold", "difference"}
    found = table[(table.by == "all") & (table.model == SEEING)].set_index("metric").value
    assert found["recall"] == found["T"] == 100 and "false alarms" in found
    less = table[table.by == "difference"].set_index("metric").value
    assert less["S+"] == pytest.approx(-2 * THIRD)


def test_the_command_says_what_is_wrong(capsys):
    for arguments, message in (
        (["--benchmark", "no_such_benchmark"], "Notebook 53 writes exact substitutions into sub_exact"),
        ([BLIND, "--before", BEFORE], "--before has 1 files for 2 models"),
    ):
        assert command.main([SEEING, *arguments]) == 2
        assert message in capsys.readouterr().err


NAMES = [f"has_crown_color::{color}" for color in ("red", "blue", "grey")] + [
    "has_size::large",
    "has_size::small",
]
# (L, K): class 0 has a red and blue crown, class 1 a grey one; both are large
CLASSES = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 1], [0, 0]])


def test_by_hand():
    targets = ["has_crown_color--grey", "has_crown_color::red", "has_size::small"]
    removed = sub.removed_attributes(targets, [0, 1, 1], CLASSES, NAMES)
    assert removed.int().tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]
    first = sub.removed_attributes(targets, [0, 1, 1], CLASSES, NAMES, first=True)
    assert first.int().tolist() == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]
    predicted = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]], dtype=torch.bool)
    result = sub.substitution_scores(predicted, targets, removed, NAMES)
    assert result.s_plus.tolist() == [1, 0, 1] and result.s_minus.tolist() == [0.5, 0, 1]
    chance = sub.chance_scores(targets, removed, NAMES)
    assert chance.s_plus.tolist() == pytest.approx([1 / 4, 1 / 4, 1 / 3])
    assert chance.s_minus.tolist() == pytest.approx([3 / 4, 3 / 4, 2 / 3])


def test_what_does_not_count():
    targets = ["has_crown_color::red", "has_eye_color::red"]
    removed = sub.removed_attributes(targets, [0, 0], torch.tensor([[1], [0], [0], [0], [0]]), NAMES)
    result = sub.substitution_scores(torch.ones(2, 5, dtype=torch.bool), targets, removed, NAMES)
    assert result.s_plus[0] == 1 and math.isnan(result.s_plus[1])  # the second is none of the model's
    assert result.s_minus.isnan().all()  # nothing was removed: the class has red itself; and an unknown group
    assert sub.chance_scores(targets, removed, NAMES).s_plus.isnan().tolist() == [False, True]
    with pytest.raises(datasets.DatasetError, match="none of the 1 substituted attributes.*one vocabulary"):
        sub.substitution_scores(torch.ones(1, 5, dtype=torch.bool), ["red crown"], removed[:1], NAMES)


def test_group_argmax():
    chosen = sub.group_argmax(torch.tensor([[0.1, 0.3, 0.2, 0.9, 0.9], [0.5, 0.1, 0.1, 0.0, 0.4]]), NAMES)
    assert chosen.int().tolist() == [[0, 1, 0, 1, 0], [1, 0, 0, 0, 1]]


def test_accuracy_and_recall_on_real_images():
    predicted = torch.tensor([[1, 0, 1, 1, 0]], dtype=torch.bool)
    truth = torch.tensor([[1, 1, 1, 1, 0]])
    assert sub.concept_accuracy(predicted, truth, NAMES).tolist() == pytest.approx([0.8])
    among = ["has_crown_color--blue", "has_size--large"]
    assert sub.concept_accuracy(predicted, truth, NAMES, among).tolist() == [0.5]
    with pytest.raises(datasets.DatasetError, match="one vocabulary"):
        sub.concept_accuracy(predicted, truth, NAMES, ["red crown"])
    # three of four true concepts are predicted, one of two asked for; NaN for a bird without any
    predicted = torch.tensor([[1, 0, 1, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    truth = torch.tensor([[1, 1, 1, 1, 0], [0, 0, 0, 0, 0]])
    recall = sub.concept_recall(predicted, truth, NAMES)
    assert recall[0] == 0.75 and recall[1].isnan()
    assert sub.concept_recall(predicted[:1], truth[:1], NAMES, [NAMES[0], NAMES[1]]).tolist() == [0.5]
