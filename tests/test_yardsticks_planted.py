"""Planted bottlenecks, maps, judges and lists: what each fault changes, and what it leaves."""

import numpy as np
import pytest
import torch
from toy_concepts import accuracy

from xaihelpers.outputs import ConceptOutputs
from xaihelpers.yardsticks import planted_maps, planted_models
from xaihelpers.yardsticks.known_lists import known_lists
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


def planted_with(fault, dose, scenes, parts=PARTS, **settings):
    return plant(fault, dose, scenes, CONCEPTS, CLASSES, parts, **{"noise": 0.0} | settings)


def read(fault, dose, scenes):
    return planted_with(fault, dose, scenes).values(scenes, 3)


def test_without_a_dose_every_fault_is_honest(scenes):
    honest = planted_with(FAULTS[0], 0.0, scenes).explain(scenes)
    assert torch.equal(honest.values, scenes.present) and accuracy(honest, scenes.labels) > 0.8
    for fault in FAULTS:
        outputs = planted_with(fault, 0.0, scenes).explain(scenes)
        assert torch.equal(outputs.values, scenes.present), fault
        assert torch.allclose(outputs.logits, honest.logits), fault
        assert torch.allclose(outputs.contributions, honest.contributions), fault
    errors = planted_with("leak", 0.0, scenes, errors=0.1).values(scenes, 3)
    assert (errors != scenes.present).float().mean() == pytest.approx(0.1, abs=0.02)
    with pytest.raises(ValueError, match="no fault 'sleeps'"):
        planted_with("sleeps", 0.5, scenes)


def test_what_each_fault_makes_of_the_values(scenes):
    present = scenes.present
    permuted = read("permuted names", 0.5, scenes)
    assert (permuted != present).any(0).sum() == 4
    assert sorted(map(tuple, permuted.T.tolist())) == sorted(map(tuple, present.T.tolist()))
    recited = read("recited", 1.0, scenes)
    for label in range(4):
        mine = scenes.labels == label
        assert (recited[mine] == (present[mine].mean(0) >= 0.5).float()).all()
    half = (read("recited", 0.5, scenes) == recited).all(1).float().mean()
    untouched = (present == recited).all(1).float().mean()
    assert half == pytest.approx(0.5 + 0.5 * untouched, abs=0.1)
    leaking = read("leak", 1.0, scenes)
    assert ((leaking > 0.5) == (present > 0.5)).all()
    assert ((leaking - present).abs() - LEAK).abs().max() < 1e-6
    assert torch.equal(read("inverted", 1.0, scenes), 1 - present)
    tossed = (read("noisy labels", 1.0, scenes) != present).float().mean()
    assert tossed == pytest.approx(0.5, abs=0.05)
    words = read("irrelevant words", 1.0, scenes)
    assert torch.allclose(words.mean(0), present.mean(0), atol=1e-4)
    assert torch.allclose(words.std(0), present.std(0), atol=1e-4)


def test_another_part_lends_its_companion_and_whole_birds_are_left_alone(scenes):
    values = read("another part", 1.0, scenes)
    assert torch.equal(values[:, 6:], scenes.present[:, 6:])
    for j in range(6):
        same = [i for i in range(8) if torch.equal(values[:, j], scenes.present[:, i])]
        assert same and all(not set(PARTS[i]) & set(PARTS[j]) and PARTS[i] for i in same)
    with pytest.raises(ValueError, match="two parts or more"):
        planted_with("another part", 0.5, scenes, [("crown",)] * 8)


def test_faults_that_leave_the_values(scenes):
    """Other reasons leave the decisions as well; a side channel decides alone at the full dose."""
    one, other = (planted_with("other reasons", dose, scenes).explain(scenes) for dose in (0.0, 1.0))
    assert torch.equal(one.values, other.values) and torch.equal(one.logits, other.logits)
    assert (one.class_weights != other.class_weights).any(1).all()
    rows = [sorted(map(tuple, some.class_weights.tolist())) for some in (one, other)]
    assert rows[0] == rows[1]
    model, upside_down = (
        planted_with("side channel", 1.0, scenes),
        scenes._replace(present=1 - scenes.present),
    )
    decided = model.explain(upside_down).predictions
    assert torch.equal(decided, model.explain(scenes).predictions)
    assert (decided == scenes.labels).float().mean() > 0.9
    random = planted_with(planted_models.RANDOM_MODEL, 1.0, scenes)
    assert torch.equal(random.values(scenes, 7), random.values(upside_down, 7))
    assert abs(accuracy(random.explain(scenes, 7), scenes.labels) - 0.25) < 0.1


@pytest.mark.parametrize("fault", ["side channel", "other reasons"])
def test_rewriting_changes_no_prediction(fault, scenes):
    generator = torch.Generator().manual_seed(5)
    model = planted_with(fault, 0.5, scenes, noise=0.1)
    scale, zero, gauge = torch.rand(8, generator=generator) + 0.5, *torch.randn(2, 8, generator=generator)
    one, two = model.explain(scenes, 2), rewritten(model, scale, zero, gauge).explain(scenes, 2)
    difference = two.logits - one.logits
    assert torch.allclose(difference, difference[:, :1].expand_as(difference), atol=1e-4)
    assert torch.allclose((two.values - zero) / scale, one.values, atol=1e-5)
    called = [part.values > part.thresholds for part in (one, two)]
    assert (called[0] == called[1]).float().mean() > 0.999  # but for rounding


def test_ridge_head_is_the_closed_form(scenes):
    weights, bias = ridge_head(scenes.present, scenes.labels, 4, penalty=1e-6)
    design = torch.cat([scenes.present, torch.ones(400, 1)], 1).double()
    targets = torch.nn.functional.one_hot(scenes.labels, 4).double()
    expected = torch.linalg.lstsq(design, targets).solution
    assert torch.allclose(torch.cat([weights, bias[None]]).double(), expected, atol=1e-4)


@pytest.fixture(scope="module")
def maps():
    """A part on the left, one on the right, and the whole object, in six pictures: (6, 3, 14, 14)."""
    masks = np.zeros((6, 56, 56), np.uint8)
    masks[:, 20:36, 4:20], masks[:, 20:36, 36:52] = 1, 2
    return planted_maps.part_maps(masks, [(1,), (2,), ()]), masks


def evidence(fault, dose, maps, shares=((), ())):
    return planted_maps.planted_evidence(fault, dose, maps, [(1,), (2,), ()], shares)


def test_a_share_of_the_maps_lies_and_honest_ones_are_hottest_on_their_part(maps):
    maps, _ = maps
    assert maps.shape == (6, 3, 14, 14) and (maps.amin((2, 3)) == 0).all() and (maps.amax((2, 3)) == 1).all()
    left, right, whole = (maps[0, column].flatten().argmax().item() % 14 for column in range(3))
    assert left < 5 and right > 8
    assert torch.allclose(maps[0, 2, 7, 3], maps[0, 2, 7, 10])  # both parts alike
    for fault in (*planted_maps.MAP_FAULTS, planted_maps.RANDOM_MAP):
        assert torch.equal(evidence(fault, 0.0, maps)["maps"], maps)
        lies = evidence(fault, 0.5, maps)["maps"] != maps
        assert lies.flatten(1).any(1).sum() == 3, fault
    shifted = evidence("map of another part", 1.0, maps)["maps"]
    assert not (shifted == maps).flatten(2).all(2).any()  # none shows its own
    centre = evidence("map of the centre", 1.0, maps)["maps"]
    assert (centre == centre[0, 0]).all()


def test_judges_are_honest_generous_or_blind(maps):
    """An honest one goes by the map of the decision."""

    def judged(fault, dose, *shares):
        return evidence(fault, dose, maps[0], shares)["judgements"]

    shares = np.array([1.0, 0.5, 0.81, 0.0]), np.array([0.0, 0.1, 0.0, 0.2])
    honest = judged("blind judge", 0.0, *shares)
    assert honest.score.tolist() == [5, 2.5, 4, 0] and honest.control.tolist() == [0, 0.5, 0, 1]
    generous = judged("generous judge", 1.0, *shares)
    assert generous.score.tolist() == [5, 4, 4, 4] and (generous.control == 4).all()
    many = judged("blind judge", 1.0, *np.random.default_rng(0).random((2, 500)))
    assert abs(many.score.mean() - many.control.mean()) < 0.3  # it does not tell the two
    weights = torch.tensor([[1.0, 0], [0, 1], [0, 0]])
    named = {"concepts": ["left", "right", "whole"], "classes": ["a", "b"]}
    values, logits = torch.ones(6, 3), torch.eye(2)[[0, 1] * 3]
    decided = ConceptOutputs(values, values, class_weights=weights, logits=logits, **named)
    own, wrong = planted_maps.shares_on_object(decided, *maps)
    assert own == pytest.approx(0.5, abs=0.01)  # each map shows one of two parts
    assert (wrong < own - 0.2).all()


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
