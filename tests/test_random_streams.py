"""Random draws that recorded numbers rest on: these very values, on every machine and in every version."""

import numpy as np
import torch

from xaihelpers.bottlenecks import concept_samples, fit_head
from xaihelpers.fastslow import draw_cases
from xaihelpers.saliency.methods import rise

LABELS = np.repeat(np.arange(8), 6)
NEAR = np.array([[(k + i) % 8 for i in (1, 2, 3, 4)] for k in range(8)])


def test_draws_of_cases():
    cases = draw_cases(LABELS, 8, 4, NEAR, False, seed=3)
    assert cases.rows.tolist() == [39, 32, 8, 34] and cases.answers.tolist() == [2, 2, 2, 1]
    assert cases.options.tolist() == [[0, 7, 6, 1, 2], [6, 7, 5, 0, 1], [5, 2, 1, 4, 3], [6, 5, 7, 1, 0]]
    cases = draw_cases(LABELS, 8, 4, NEAR, True, seed=3)
    assert cases.rows.tolist() == [3, 38, 19, 1] and cases.answers.tolist() == [2, 0, 0, 4]
    assert cases.options.tolist() == [[7, 6, 0, 2, 1], [6, 4, 0, 7, 5], [3, 5, 2, 1, 4], [7, 4, 5, 6, 0]]
    assert cases.centres.tolist() == [6, 4, 1, 4]
    cases = draw_cases(LABELS, 8, 4, None, False, seed=3)
    assert cases.options.tolist() == [[6, 0, 7, 4, 3], [0, 2, 5, 3, 1], [5, 1, 4, 2, 0], [6, 1, 5, 2, 0]]


def test_examples_of_a_concept():
    present = (torch.arange(60) % 5 < 2).float()[:, None]
    assert concept_samples(present, 4, seed=3).rows.tolist() == [[25, 6, 21, 51, 18, 7, 44, 59]]


def test_masks_of_rise():
    class Corner(torch.nn.Module):
        def forward(self, x):
            return torch.stack([x[:, 0, 0, 0], torch.zeros(len(x))], 1)

    maps, _ = rise(Corner(), torch.ones(1, 3, 4, 4), torch.tensor([0]), n_masks=5, cells=2, seed=3)
    torch.testing.assert_close(maps[0, :, 0], torch.tensor([1.169694, 1.138886, 1.010604, 0.882321]))
    torch.testing.assert_close(maps[0, 0], torch.tensor([1.169694, 1.169694, 1.072219, 0.974745]))


def test_heads_of_one_class_against_the_rest():
    values = torch.tensor([[0.0, 1.0], [1.0, 0.5], [2.0, 2.0], [3.0, 0.0], [4.0, 1.5], [5.0, 3.0]])
    weights, bias = fit_head(values, torch.tensor([0, 0, 1, 1, 2, 2]), 3, solver="one-vs-rest", seed=3)
    expected = torch.tensor([[-4.5368, 0.5085, 4.3544], [-2.2561, -7.5389, 2.2843]])
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-3)
    torch.testing.assert_close(bias, torch.tensor([9.4946, 3.2730, -17.1874]), rtol=0, atol=1e-3)
