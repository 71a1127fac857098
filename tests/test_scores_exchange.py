"""The exchange among classmates: who looks at the picture is told from who knows the class."""

import numpy as np
import pytest
import torch

from xaihelpers.scores import exchange
from xaihelpers.yardsticks.planted_models import ridge_head

K, PER_CLASS, L = 20, 48, 30
ROWS = torch.arange(40)


def draw_world(seed):
    """Labels (N,), truth (N, L), which images a model is fitted on, and a network's class scores (N, K)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(K).repeat_interleave(PER_CLASS)
    usual = (torch.rand(K, L, generator=generator) < 0.4).float()
    present = (usual[labels] - (torch.rand(len(labels), L, generator=generator) < 0.08).float()).abs()
    train = torch.arange(len(labels)) % 2 == 0
    seen = present @ torch.randn(L, 60, generator=generator)
    seen += 3 * torch.randn(seen.shape, generator=generator)
    return generator, labels, present, train, headed(seen, labels, train)


def headed(values, labels, train):
    """Class scores of the linear head of some values."""
    weights, bias = ridge_head(values[train], labels[train], K)
    return values @ weights + bias


def usual_of(present, labels):
    """What images of a class have, (K, L)."""
    return torch.stack([present[labels == label].mean(0) for label in range(K)])


def rightness(values, present):
    """Share of concepts that are told rightly, by rows of the explanation."""
    called = values > 0.5
    return lambda rows: (called[rows] == (present > 0.5)).double().mean(1)


def ladder_of(values, scores, world, rows=None, keys=None):
    """The ladder of a model's values and class scores on the test images, or some of these."""
    _, labels, present, train, _ = world
    rows = (~train).nonzero()[:, 0] if rows is None else rows
    of_class = usual_of(present[train], labels[train])
    values, scores, labels, present = (part[rows] for part in (values, scores, labels, present))
    drawn = exchange.partners(labels, scores.argmax(1), keys)
    soft = [rightness(some, present) for some in exchange.soft_reciters(scores, of_class)]
    return exchange.ladder(rightness(values, present), drawn, rightness(present, present), soft)


def misread(present, share, generator):
    return (present - (torch.rand(present.shape, generator=generator) < share).float()).abs()


def test_partners_share_label_and_prediction_or_no_class():
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2])
    predictions = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
    drawn = exchange.partners(labels, predictions, shifts=6)
    cells = labels * 3 + predictions
    assert drawn.alone.tolist() == [False] * 3 + [True, False, False, True, True]
    assert (cells[drawn.classmates] == cells).all() and (labels[drawn.others] != labels).all()
    own = torch.arange(8)
    assert ((drawn.classmates == own).all(0) == drawn.alone).all()
    assert (drawn.classmates[:, ~drawn.alone] != own[~drawn.alone]).all()
    # every shift is an exchange: each image gives and gets once
    assert (drawn.classmates.sort(1).values == own).all()
    assert set(drawn.classmates[:, 0].tolist()) == {1, 2}


def test_the_truth_looks_and_misreaders_look_less():
    world = draw_world(0)
    generator, labels, present, train, _ = world
    looks = {}
    for share in (0, 0.05, 0.15, 0.3):
        values = misread(present, share, generator)
        found = ladder_of(values, headed(values, labels, train), world)
        looks[share] = found.look.value
        if share < 0.3:
            assert found.look.low <= 1 - 2 * share + 0.05 and found.look.high >= 1 - 2 * share - 0.05
    assert looks[0] == pytest.approx(1) and found.can_see and found.ahead.low > 0
    assert looks[0] > looks[0.05] > looks[0.15] > looks[0.3] > 0


def test_a_reciter_has_no_picture_part_at_all():
    world = draw_world(1)
    _, labels, present, train, scores = world
    recited = usual_of(present[train], labels[train])[scores.argmax(1)]
    found = ladder_of(recited, scores, world)
    assert found.picture.value == 0 and found.picture.low < 0 < found.picture.high < found.of_class.low
    assert found.ahead.high < 0 < found.room.low
    # in cells of the label alone, who errs leaks
    rows = (~train).nonzero()[:, 0]
    by_label = exchange.ladder(rightness(recited[rows], present[rows]), exchange.partners(labels[rows]))
    assert by_label.picture.low > 0


@pytest.mark.parametrize("liar", ["soft", "noisy", "regressed"])
def test_who_knows_the_class_scores_alone_does_not_lead(liar):
    """In at least 90 of 100 worlds."""
    leads = 0
    for seed in range(100):
        world = draw_world(seed)
        generator, labels, present, train, scores = world
        usual = usual_of(present[train], labels[train])
        if liar == "soft":
            values = list(exchange.soft_reciters(scores, usual))[seed % len(exchange.TEMPERATURES)]
        elif liar == "noisy":
            values = usual[scores.argmax(1)] + 0.3 * torch.randn(present.shape, generator=generator)
        else:  # class scores with doubts between species that are alike, and nothing of the picture
            scores = -torch.cdist(usual, usual)[labels] + torch.randn(scores.shape, generator=generator)
            inputs = torch.cat([scores, torch.ones(len(scores), 1)], 1)
            values = inputs @ torch.linalg.lstsq(inputs[train], present[train]).solution
        leads += ladder_of(values, scores, world).ahead.low > 0
    assert leads <= 10


def test_the_order_of_rows_does_not_matter():
    world = draw_world(2)
    generator, labels, present, train, scores = world
    values = misread(present, 0.15, generator)
    rows = (~train).nonzero()[:, 0]
    shuffled = rows[torch.randperm(len(rows), generator=generator)]
    one, other = (ladder_of(values, scores, world, some, some.tolist()) for some in (rows, shuffled))
    for part in ("picture", "of_class", "ahead", "room", "look"):
        np.testing.assert_allclose(getattr(one, part)[:4], getattr(other, part)[:4], rtol=1e-9)


def test_where_the_truth_is_equal_among_classmates_it_is_not_applicable():
    world = draw_world(3)
    generator, labels, present, train, scores = world
    of_class = usual_of(present, labels).round()[labels]
    values = misread(present, 0.15, generator)
    found = ladder_of(values, scores, (generator, labels, of_class, train, scores))
    assert "those of classes" in found.refused and not found.can_see
    # a sum that an exchange only moves about: the score asks for the class, the explanation names another one
    chosen, cells = torch.rand(len(labels), generator=generator), exchange.partners(labels)
    permuting = exchange.ladder(lambda rows: chosen[rows], cells, lambda rows: chosen[rows])
    assert "those of classes" in permuting.refused


def test_what_an_exchange_cannot_tell_is_said():
    values = torch.rand(40, 5, generator=torch.Generator().manual_seed(0))
    judge = rightness(values, values)
    few = exchange.partners(ROWS // 2, ROWS % 2)
    assert "0 of 40 images have a classmate" in exchange.ladder(judge, few, judge).refused
    of_one_class = exchange.ladder(judge, exchange.partners(0 * ROWS, 0 * ROWS), judge)
    assert np.isnan(of_one_class.of_class.value) and of_one_class.picture.low > 0
