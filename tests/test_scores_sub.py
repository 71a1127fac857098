"""S+, S-, T and recall by hand, for a perfect and a blind model, and at the published size."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from xaihelpers import datasets
from xaihelpers.scores import sub
from xaihelpers.worlds import aviary

NAMES = [
    "has_crown_color::red",
    "has_crown_color::blue",
    "has_crown_color::grey",
    "has_size::large",
    "has_size::small",
]
# (L, K): class 0 has a red and blue crown, class 1 a grey one; both are large
CLASSES = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 1], [0, 0]])


def test_by_hand():
    targets = ["has_crown_color--grey", "has_crown_color::red", "has_size::small"]
    removed = sub.removed_attributes(targets, [0, 1, 1], CLASSES, NAMES)
    assert removed.int().tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]
    assert sub.removed_attributes(targets, [0, 1, 1], CLASSES, NAMES, first=True).int().tolist() == [
        [1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
    ]
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


def test_accuracy_on_real_images():
    predicted = torch.tensor([[1, 0, 1, 1, 0]], dtype=torch.bool)
    truth = torch.tensor([[1, 1, 1, 1, 0]])
    assert sub.concept_accuracy(predicted, truth, NAMES).tolist() == pytest.approx([0.8])
    among = ["has_crown_color--blue", "has_size--large"]
    assert sub.concept_accuracy(predicted, truth, NAMES, among).tolist() == [0.5]
    with pytest.raises(datasets.DatasetError, match="one vocabulary"):
        sub.concept_accuracy(predicted, truth, NAMES, ["red crown"])


def test_recall_counts_what_is_there():
    """Three of four true concepts are predicted, one of two asked for; NaN for a bird without any."""
    predicted = torch.tensor([[1, 0, 1, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    truth = torch.tensor([[1, 1, 1, 1, 0], [0, 0, 0, 0, 0]])
    recall = sub.concept_recall(predicted, truth, NAMES)
    assert recall[0] == 0.75 and recall[1].isnan()
    assert sub.concept_recall(predicted[:1], truth[:1], NAMES, [NAMES[0], NAMES[1]]).tolist() == [0.5]


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_a_perfect_and_a_blind_model(seed):
    rng = np.random.default_rng(seed)
    names = aviary.ATTRIBUTES
    labels, classes = rng.integers(4, size=20), torch.from_numpy(rng.random((312, 4)) < 0.2)
    targets = [str(rng.choice(names)) for _ in labels]
    removed = sub.removed_attributes(targets, labels, classes, names)
    truth = classes.T[labels] & ~removed
    truth[np.arange(20), sub.columns_of(targets, names)] = True
    perfect = sub.substitution_scores(truth, targets, removed, names)
    assert perfect.s_plus.eq(1).all()
    assert perfect.s_minus[removed.any(1)].eq(1).all()
    assert perfect.s_minus[~removed.any(1)].isnan().all()
    memory = classes.T[labels]  # names the class and recites
    recited = sub.substitution_scores(memory, targets, removed, names)
    assert recited.s_minus[removed.any(1)].eq(0).all()
    assert torch.equal(recited.s_plus.bool(), memory[np.arange(20), sub.columns_of(targets, names)])


def test_scoring_the_published_size_does_the_same_as_image_by_image():
    rng = torch.Generator().manual_seed(0)
    names, n = aviary.ATTRIBUTES, 38_400
    similarities = torch.randn(n, 312, generator=rng)
    labels = torch.randint(33, (n,), generator=rng)
    classes = torch.rand(312, 33, generator=rng) < 0.2
    targets = [names[j] for j in torch.randint(312, (n,), generator=rng)]
    predicted = sub.group_argmax(similarities, names)
    removed = sub.removed_attributes(targets, labels, classes, names)
    result = sub.substitution_scores(predicted, targets, removed, names)
    groups = sub.groups_of(names)
    for i in range(0, n, 4801):
        group = np.flatnonzero(groups == targets[i].split("::")[0])
        best = group[int(similarities[i, group].argmax())]
        gone = [j for j in group if classes[j, labels[i]] and names[j] != targets[i]]
        assert result.s_plus[i] == float(names[best] == targets[i])
        if gone:
            assert result.s_minus[i] == pytest.approx(np.mean([j != best for j in gone]))
        else:
            assert result.s_minus[i].isnan()
