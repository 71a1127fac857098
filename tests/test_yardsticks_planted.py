"""Planted bottlenecks, maps and annotators: what each fault changes, and what it leaves."""

import numpy as np
import pytest
import torch

from xaihelpers.yardsticks import planted_annotators, planted_models
from xaihelpers.yardsticks.known_lists import known_lists
from xaihelpers.yardsticks.planted_maps import Regions, evidence, plant_maps
from xaihelpers.yardsticks.planted_models import FAULTS, LEAK, Scenes, plant, rewritten, ridge_head

CONCEPTS = [f"concept {j}" for j in range(8)]
CLASSES = ["a", "b", "c", "d"]
PARTS = [("crown",), ("crown",), ("wing",), ("wing",), ("tail",), ("tail",), (), ()]


@pytest.fixture(scope="module")
def scenes():
    """Birds of four classes: a concept is present as the class has it, in nine images of ten."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(4).repeat(100)
    usual = (torch.rand(4, 8, generator=generator) < 0.5).float()
    usual[:2, 0], usual[2:, 0] = 0, 1  # no concept is constant over classes
    odd = (torch.rand(400, 8, generator=generator) < 0.1).float()
    present = (usual[labels] - odd).abs()
    features = torch.nn.functional.one_hot(labels, 4) + 0.3 * torch.randn(400, 4, generator=generator)
    return Scenes(present, labels, features)


def planted_with(fault, dose, scenes, noise=0.0, seed=0):
    return plant(fault, dose, scenes, CONCEPTS, CLASSES, PARTS, noise=noise, seed=seed)


def read(fault, dose, scenes):
    return planted_with(fault, dose, scenes).values(scenes, 3)


def test_without_a_dose_every_fault_is_honest(scenes):
    honest = planted_with(FAULTS[0], 0.0, scenes).explain(scenes)
    assert torch.equal(honest.values, scenes.present) and honest.accuracy(scenes.labels) > 0.8
    for fault in FAULTS:
        outputs = planted_with(fault, 0.0, scenes).explain(scenes)
        assert torch.equal(outputs.values, scenes.present), fault
        assert torch.allclose(outputs.logits, honest.logits), fault
        assert torch.allclose(outputs.contributions, honest.contributions), fault
        one, again = (planted_with(fault, 0.5, scenes).explain(scenes, 1) for _ in range(2))
        assert torch.equal(one.values, again.values) and torch.equal(one.logits, again.logits), fault


def test_permuted_names_move_half_of_the_columns(scenes):
    values = read("permuted names", 0.5, scenes)
    moved = (values != scenes.present).any(0)
    assert moved.sum() == 4
    errors = plant("leak", 0.0, scenes, CONCEPTS, CLASSES, PARTS, noise=0.0, errors=0.1).values(scenes, 3)
    assert (errors != scenes.present).float().mean() == pytest.approx(0.1, abs=0.02)
    found = sorted(tuple(column) for column in values.T.tolist())
    assert found == sorted(tuple(column) for column in scenes.present.T.tolist())


def test_reciting_says_what_the_class_usually_has(scenes):
    values = read("recited", 1.0, scenes)
    for label in range(4):
        mine = scenes.labels == label
        assert (values[mine] == (scenes.present[mine].mean(0) >= 0.5).float()).all()
    half = (read("recited", 0.5, scenes) == values).all(1).float().mean()
    untouched = (scenes.present == values).all(1).float().mean()
    assert half == pytest.approx(0.5 + 0.5 * untouched, abs=0.1)


def test_a_leak_stays_on_its_side_of_one_half(scenes):
    values = read("leak", 1.0, scenes)
    assert ((values > 0.5) == (scenes.present > 0.5)).all()
    assert ((values - scenes.present).abs() - LEAK).abs().max() < 1e-6


def test_another_part_lends_its_companion_and_whole_birds_are_left_alone(scenes):
    values = read("another part", 1.0, scenes)
    assert torch.equal(values[:, 6:], scenes.present[:, 6:])
    for j in range(6):
        same = [i for i in range(8) if torch.equal(values[:, j], scenes.present[:, i])]
        assert same and all(not set(PARTS[i]) & set(PARTS[j]) and PARTS[i] for i in same)
    with pytest.raises(ValueError, match="two parts or more"):
        plant("another part", 0.5, scenes, CONCEPTS, CLASSES, [("crown",)] * 8)


def test_inverted_noisy_and_irrelevant(scenes):
    assert torch.equal(read("inverted", 1.0, scenes), 1 - scenes.present)
    tossed = (read("noisy labels", 1.0, scenes) != scenes.present).float().mean()
    assert tossed == pytest.approx(0.5, abs=0.05)
    words = read("irrelevant words", 1.0, scenes)
    assert torch.allclose(words.mean(0), scenes.present.mean(0), atol=1e-4)
    assert torch.allclose(words.std(0), scenes.present.std(0), atol=1e-4)


def test_other_reasons_leave_values_and_decisions(scenes):
    honest, lying = (planted_with("other reasons", dose, scenes) for dose in (0.0, 1.0))
    one, other = (model.explain(scenes) for model in (honest, lying))
    assert torch.equal(one.values, other.values) and torch.equal(one.logits, other.logits)
    assert (one.class_weights != other.class_weights).any(1).all()
    rows = lambda weights: sorted(map(tuple, weights.tolist()))  # noqa: E731
    assert rows(one.class_weights) == rows(other.class_weights)


def test_a_side_channel_decides_alone_at_the_full_dose(scenes):
    model = planted_with("side channel", 1.0, scenes)
    wrong = model.logits(1 - scenes.present, scenes).argmax(1)
    assert torch.equal(wrong, model.explain(scenes).predictions)
    assert (wrong == scenes.labels).float().mean() > 0.9


def test_a_random_model_knows_nothing_of_the_image(scenes):
    model = plant(planted_models.RANDOM_MODEL, 1.0, scenes, CONCEPTS, CLASSES, PARTS)
    other = scenes._replace(present=1 - scenes.present)
    assert torch.equal(model.values(scenes, 7), model.values(other, 7))
    assert abs(model.explain(scenes, 7).accuracy(scenes.labels) - 0.25) < 0.1


def test_a_covered_part_reads_absent_and_the_next_one_does_not(scenes):
    model = planted_with("leak", 0.0, scenes)
    own, other = (planted_models.covered_values(model, scenes, PARTS, shift) for shift in (0, 1))
    assert (own[:, :6] == 0).all() and torch.equal(own[:, 6:], scenes.present[:, 6:])
    assert torch.equal(other, scenes.present)


@pytest.mark.parametrize("fault", ["side channel", "other reasons"])
def test_rewriting_changes_no_prediction(fault, scenes):
    generator = torch.Generator().manual_seed(5)
    model = planted_with(fault, 0.5, scenes, noise=0.1)
    scale, zero, gauge = torch.rand(8, generator=generator) + 0.5, *torch.randn(2, 8, generator=generator)
    other = rewritten(model, scale, zero, gauge)
    one, two = model.explain(scenes, 2), other.explain(scenes, 2)
    difference = two.logits - one.logits
    assert torch.allclose(difference, difference[:, :1].expand_as(difference), atol=1e-4)
    assert torch.allclose((two.values - other.low) / (other.high - other.low), one.values, atol=1e-5)
    called = [part.values > part.thresholds for part in (one, two)]
    assert (called[0] == called[1]).float().mean() > 0.999  # but for rounding


def test_ridge_head_is_the_closed_form(scenes):
    weights, bias = ridge_head(scenes.present, scenes.labels, 4, penalty=1e-6)
    design = torch.cat([scenes.present, torch.ones(400, 1)], 1).double()
    targets = torch.nn.functional.one_hot(scenes.labels, 4).double()
    expected = torch.linalg.lstsq(design, targets).solution
    assert torch.allclose(torch.cat([weights, bias[None]]).double(), expected, atol=1e-4)


@pytest.fixture(scope="module")
def regions():
    """Four squares that do not touch, the same in every picture."""
    found = []
    for top, left, side in ((8, 8, 12), (36, 8, 12), (8, 36, 12), (40, 40, 6)):
        region = torch.zeros(6, 56, 56, dtype=torch.bool)
        region[:, top : top + side, left : left + side] = True
        found.append(region)
    return Regions(*found)


def test_planted_maps_read_what_they_say(regions):
    for fault, read in (
        ("reads another part", "other"),
        ("reads the background", "background"),
        ("reads a dot", "dot"),
        ("hides a dot", "dot"),
        ("map of another part", "own"),
    ):
        for dose, region in ((0.0, "own"), (1.0, read)):
            inputs = plant_maps(fault, dose, regions).inputs
            assert torch.equal(inputs[:, 0], evidence(getattr(regions, region))), (fault, dose)
    with pytest.raises(ValueError, match="region 0 has no pixel"):
        evidence(torch.zeros(2, 4, 4, dtype=torch.bool))


COLORS = [f"has_{part}_color::{color}" for part in ("crown", "wing") for color in ("red", "blue", "white")]
PRESENT = np.array([[1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0]], bool)
OF = np.array([0, 0, 1, 1])
USUAL = np.array([[1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1]], bool)


def said_with(fault, dose, seed=0):
    return planted_annotators.planted_statements(fault, dose, PRESENT, COLORS, OF, USUAL, seed)


def test_annotators_without_a_dose_and_with_the_full_one():
    for fault in planted_annotators.ANNOTATOR_FAULTS:
        assert (said_with(fault, 0.0) == PRESENT).all()
    assert (said_with("recites the class", 0.5, seed=3) != PRESENT).any(1).sum() <= 2  # half of the images
    invented = said_with("invents", 1.0)
    assert not (invented & PRESENT).any() and (invented.sum(1) == 2).all()
    assert (said_with("recites the class", 1.0) == USUAL[OF]).all()
    ignored = said_with("ignores the image", 1.0)
    for row, label in enumerate(OF):
        others = PRESENT[label != OF]
        assert any((ignored[row] == other).all() for other in others)
    assert (said_with("names the class", 1.0) == PRESENT).all()


def test_a_name_stands_in_the_chain_of_the_share_of_images():
    chains = planted_annotators.planted_chains(
        "names the class", 0.5, PRESENT, COLORS, ["Blue Jay"] * 2 + ["Ovenbird"] * 2
    )
    named = ["Blue Jay" in chain["Superclass"] or "Ovenbird" in chain["Superclass"] for chain in chains]
    assert sum(named) == 2
    plain = planted_annotators.planted_chains("invents", 0.5, PRESENT, COLORS, ["Blue Jay"] * 4)
    assert "blue wings" in plain[0]["DetailedFeatures"] and "Blue Jay" not in str(plain)


def test_a_reader_takes_the_option_that_is_named_alone():
    scores = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    chains = [{"a": "a bird, a Blue Jay"}, {"a": "a bird"}, {"a": "an Ovenbird or a Blue Jay"}]
    found = planted_annotators.take_named_option(scores, chains, [["Ovenbird", "Blue Jay"]] * 3)
    assert found.tolist() == [[0, 1], [0.9, 0.1], [0.9, 0.1]] and scores[0, 0] == 0.9


def test_what_cannot_be_planted(scenes, regions):
    def models(fault, dose):
        return planted_with(fault, dose, scenes)

    def maps(fault, dose):
        return plant_maps(fault, dose, regions)

    for plants, fault in ((models, "leak"), (maps, "reads a dot"), (said_with, "invents")):
        with pytest.raises(ValueError, match="no fault 'sleeps'"):
            plants("sleeps", 0.5)
        for dose in (-0.1, 1.5):
            with pytest.raises(ValueError, match="between 0, honest, and 1"):
                plants(fault, dose)
    with pytest.raises(ValueError, match="all images are of one class"):
        planted_annotators.planted_statements("ignores the image", 0.5, PRESENT, COLORS, OF * 0, USUAL)


def test_lists_of_known_worth_by_hand():
    """Eight concepts, the first commonest; true of the picture are all even ones and the last."""
    present = torch.tensor([[1.0, 0, 1, 0, 1, 0, 1, 1]])
    common = torch.linspace(0.9, 0.2, 8)
    liked = torch.tensor([[0.0, 9, 0, 8, 0, 7, 0, 0]])
    lists = known_lists(present, common, usual=present.flip(1), liked=liked, draws=2, seed=1)
    assert lists["five rarest true"].tolist() == [[[7, 6, 4, 2, 0]]]
    assert lists["five commonest true"].tolist() == [[[0, 2, 4, 6, 7]]]
    assert lists["three rare, two liked"].tolist() == [[[7, 6, 4, 1, 3]]]
    assert lists["constant"].tolist() == [[[0, 1, 2, 3, 4]]]
    assert lists["parrot"].tolist() == [[[1, 3, 5, 0, 2]]]
    assert lists["species, usual"].tolist() == [[[0, 1, 3, 5, 7]]]
    shares = {name: present[0][each].sum(-1).flatten().tolist() for name, each in lists.items()}
    assert shares["five true, drawn"] == [5, 5] and shares["three rare, two false"] == [3, 3]
    assert shares["five false"] == [2, 2]  # three are all that there are
