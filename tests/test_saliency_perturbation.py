"""Perturbation curves, worked out by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from xaihelpers.saliency.perturbation import perturb


class Bright(nn.Module):
    """Two classes; the second one's logit is the sum of the left column of red."""

    def forward(self, x):
        return torch.stack([torch.zeros(len(x)), x[:, 0, :, 0].sum(1)], 1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_deletion_and_insertion_by_hand():
    """Two pixels that say 3 and 1, in maps of 1 and .5; nothing of note elsewhere."""
    image = torch.zeros(1, 3, 2, 2)
    image[:, 0, :, 0] = torch.tensor([3.0, 1.0])
    asked = Bright(), image, torch.tensor([[[1.0, 0.1], [0.5, 0.0]]]), torch.tensor([1])
    curves = perturb(*asked, steps=4)
    p = sigmoid(np.array([4.0, 1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(curves.deletion[0], p, rtol=1e-5)
    np.testing.assert_allclose(curves.aopc, [np.mean(p[0] - p)], rtol=1e-4)
    np.testing.assert_allclose(curves.deletion_auc, [np.sum((p[1:] + p[:-1]) / 2) / 4], rtol=1e-5)
    masked = sigmoid(3.0 * 1.0 + 1.0 * 0.5)
    np.testing.assert_allclose(curves.masked, [masked], rtol=1e-5)
    np.testing.assert_allclose(curves.average_drop, [(p[0] - masked) / p[0]], rtol=1e-4)
    assert curves.insertion.shape == (1, 5) and curves.insertion[0, -1] == curves.deletion[0, 0]
    blurred = curves.insertion[0, 0]
    assert sigmoid(0) < blurred < p[0]
    curves = perturb(*asked, steps=4, least_relevant_first=True)
    p = sigmoid(np.array([4.0, 4.0, 4.0, 3.0, 0.0]))
    np.testing.assert_allclose(curves.deletion[0], p, rtol=1e-5)
    np.testing.assert_allclose(curves.aopc, [np.mean(p[0] - p)], rtol=1e-4)
    curves = perturb(*asked, steps=4, insertion_from="zeros")
    np.testing.assert_allclose(curves.insertion[0], sigmoid(np.array([0.0, 3.0, 4.0, 4.0, 4.0])), rtol=1e-5)

    with pytest.raises(ValueError, match="blur or zeros, not 'grey'"):
        perturb(*asked, insertion_from="grey")
