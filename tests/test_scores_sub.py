"""S+, S-, T and recall by hand, for a perfect and a blind model, and at the published size."""

import math

import pytest
import torch

from xaihelpers import datasets
from xaihelpers.scores import sub

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
