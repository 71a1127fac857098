"""Leakage and impurity, against values worked out by hand and scikit-learn's counts."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score, roc_auc_score

from xaihelpers.scores import leakage


def columns(*lists):
    return torch.tensor(lists, dtype=torch.float32).T


def test_information_is_that_of_sklearn_less_its_bias():
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 3, 200), rng.integers(0, 2, 200)
    parts = [torch.nn.functional.one_hot(torch.from_numpy(x)).double()[None] for x in (one, other)]
    expected = mutual_info_score(one, other) - 2 * 1 / (2 * 200)
    assert leakage._information(*parts).item() == pytest.approx(expected, abs=1e-9)


def test_ctl_of_the_class_itself_and_of_the_concept_itself():
    """Four classes of 50: a concept tells one of two bits, a value that holds the class tells both."""
    labels = torch.arange(4).repeat_interleave(50)
    present = columns((labels >= 2).tolist())
    honest = leakage.concept_task_leakage(present, present, labels)
    assert honest.item() == pytest.approx(0, abs=0.02)
    assert leakage.concept_task_leakage(torch.zeros(200, 1), present, labels).item() == 0  # never below
    leaking = leakage.concept_task_leakage(columns(labels.tolist()), present, labels)
    # ln 4 − 9/400 of the value, ln 2 − 3/400 of the concept, by H(y) = ln 4 + 3/400
    expected = (math.log(4) - 9 / 400 - (math.log(2) - 3 / 400)) / (math.log(4) + 3 / 400)
    assert leaking.item() == pytest.approx(expected, abs=1e-9)


def test_icl_of_values_that_repeat_each_other():
    """Two independent concepts whose values are one: they share all, the concepts nothing."""
    one, other = torch.arange(400) % 2, (torch.arange(400) // 2) % 2
    present = columns(one.tolist(), other.tolist())
    same = columns(one.tolist(), one.tolist())
    found = leakage.inter_concept_leakage(same, present)
    assert found[0, 0] == found[1, 1] == 0
    entropy = math.log(2) + 1 / 800
    # the concepts' own term is −1/800, of counts that are exactly independent
    assert found[0, 1].item() == pytest.approx((math.log(2) - 1 / 800 + 1 / 800) / entropy, abs=1e-6)
    assert leakage.inter_concept_leakage(present, present).abs().max() < 1e-12


def test_auc_matrix_is_that_of_sklearn_either_way_round():
    rng = np.random.default_rng(1)
    values, present = rng.normal(size=(60, 3)), rng.random((60, 2)) < 0.4
    found = leakage.auc_matrix(torch.from_numpy(values), torch.from_numpy(present).float())
    for i in range(3):
        for j in range(2):
            area = roc_auc_score(present[:, j], values[:, i])
            assert found[i, j].item() == pytest.approx(max(area, 1 - area))


def test_impurity_of_the_truth_is_zero_and_of_swapped_names_as_by_hand():
    """Independent concepts tell each other at ½; with names swapped, 1 and ½ change places."""
    one, other = torch.arange(400) % 2, (torch.arange(400) // 2) % 2
    present = columns(one.tolist(), other.tolist())
    assert leakage.oracle_impurity(present, present) == 0
    # four entries that differ by ½ each: 2/2 · √(4 · ¼) = 1
    assert leakage.oracle_impurity(present.flip(1), present) == pytest.approx(1.0)
    assert math.isnan(leakage.oracle_impurity(present[:, :1], present[:, :1]))


def test_niche_impurity_is_one_half_of_pure_values_and_more_of_what_is_spread_over_many():
    generator = torch.Generator().manual_seed(0)
    present = (torch.rand(600, 4, generator=generator) < 0.5).float()
    blurred = present + 0.01 * torch.randn(present.shape, generator=generator)
    pure = leakage.niche_impurity(blurred[300:], present[300:], blurred[:300], present[:300])
    assert pure == pytest.approx(0.5, abs=0.05)
    # each value holds a quarter of each concept: the niche is all at β < ½, and nothing above it
    signs = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    mixed = blurred @ signs
    leaky = leakage.niche_impurity(mixed[300:], present[300:], mixed[:300], present[:300])
    assert leaky == pytest.approx((0.5 + 0.5 + 0.75 + 1) / 4, abs=0.05)
