"""Perturbation curves of classifiers and a segmenter, worked out by hand, and bad input."""

import numpy as np
import pytest
import torch
from torch import nn

from xaihelpers.saliency.perturbation import perturb


class Bright(nn.Module):
    """Two classes; the second one's logit is the sum of the left column of red."""

    def forward(self, x):
        return torch.stack([torch.zeros(len(x)), x[:, 0, :, 0].sum(1)], 1)


class Pixels(nn.Module):
    """A segmenter: class 1 where red is positive."""

    def forward(self, x):
        return {"out": torch.stack([torch.zeros_like(x[:, 0]), x[:, 0]], 1)}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_deletion_by_hand():
    image = torch.zeros(1, 3, 2, 2)
    image[:, 0, :, 0] = torch.tensor([3.0, 1.0])
    maps = torch.tensor([[[1.0, 0.1], [0.5, 0.0]]])  # in the order 3, 1, then nothing of note
    curves = perturb(Bright(), image, maps, torch.tensor([1]), steps=4)
    p = sigmoid(np.array([4.0, 1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(curves.deletion[0], p, rtol=1e-5)
    np.testing.assert_allclose(curves.aopc, [np.mean(p[0] - p)], rtol=1e-4)
    np.testing.assert_allclose(curves.deletion_auc, [np.sum((p[1:] + p[:-1]) / 2) / 4], rtol=1e-5)
    masked = sigmoid(3.0 * 1.0 + 1.0 * 0.5)
    np.testing.assert_allclose(curves.masked, [masked], rtol=1e-5)
    np.testing.assert_allclose(curves.average_drop, [(p[0] - masked) / p[0]], rtol=1e-4)
    assert curves.insertion.shape == (1, 5) and curves.insertion[0, -1] == curves.deletion[0, 0]


def test_insertion_begins_blurred_and_ends_whole():
    images = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    maps = torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(1))
    classes = torch.tensor([0, 1, 1])
    together = perturb(Bright(), images, maps, classes, steps=5, batch_size=4)
    alone = [perturb(Bright(), images[[i]], maps[[i]], classes[[i]], steps=5) for i in range(3)]
    for field in ("deletion", "insertion", "masked"):  # whatever else is in the batch
        torch.testing.assert_close(
            getattr(together, field), torch.cat([getattr(curves, field) for curves in alone])
        )


def test_a_segmenter_is_asked_about_the_pixels_it_had():
    image = torch.full((1, 3, 4, 4), -1.0)
    image[:, 0, :2] = 2.0
    # one value everywhere: row-major order, the upper half first
    curves = perturb(Pixels(), image, torch.ones(1, 1, 1), torch.tensor([1]), steps=2)
    np.testing.assert_allclose(curves.deletion[0], [sigmoid(2.0), 0.5, 0.5], rtol=1e-5)


def test_a_good_map_beats_its_reverse():
    image = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    good = torch.zeros(4, 8, 8)
    good[:, :, 0] = 1
    best, worst = (perturb(Bright(), image, maps, torch.ones(4), steps=8) for maps in (good, 1 - good))
    assert (best.deletion_auc < worst.deletion_auc).all()
    assert (best.aopc > worst.aopc).all()
    assert (best.average_drop < worst.average_drop).all()


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="2 images need as many maps and classes, got 1 and 2"):
        perturb(Bright(), torch.zeros(2, 3, 4, 4), torch.zeros(1, 2, 2), torch.zeros(2))
    with pytest.raises(ValueError, match="insertion_from must be one of blur, zeros, not 'grey'"):
        one = torch.zeros(1, 3, 4, 4), torch.zeros(1, 2, 2), torch.zeros(1)
        perturb(Bright(), *one, insertion_from="grey")


def test_the_least_relevant_first_by_hand():
    """Pixels that say 3 and 1, of maps 1 and .5: in ascending order they go last."""
    image = torch.zeros(1, 3, 2, 2)
    image[:, 0, :, 0] = torch.tensor([3.0, 1.0])
    maps = torch.tensor([[[1.0, 0.1], [0.5, 0.0]]])
    curves = perturb(Bright(), image, maps, torch.tensor([1]), steps=4, least_relevant_first=True)
    p = sigmoid(np.array([4.0, 4.0, 4.0, 3.0, 0.0]))
    np.testing.assert_allclose(curves.deletion[0], p, rtol=1e-5)
    np.testing.assert_allclose(curves.aopc, [np.mean(p[0] - p)], rtol=1e-4)


def test_insertion_into_zeros_by_hand():
    image = torch.zeros(1, 3, 2, 2)
    image[:, 0, :, 0] = torch.tensor([3.0, 1.0])
    maps = torch.tensor([[[1.0, 0.1], [0.5, 0.0]]])
    curves = perturb(Bright(), image, maps, torch.tensor([1]), steps=4, insertion_from="zeros")
    p = sigmoid(np.array([0.0, 3.0, 4.0, 4.0, 4.0]))
    np.testing.assert_allclose(curves.insertion[0], p, rtol=1e-5)


def test_insertion_into_zeros_is_deletion_backwards():
    images = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    maps = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(1))
    asked = Bright(), images, maps, torch.tensor([0, 1, 1])
    usual = perturb(*asked, steps=4, insertion_from="zeros")
    turned = perturb(*asked, steps=4, insertion_from="zeros", least_relevant_first=True)
    torch.testing.assert_close(turned.deletion.flip(1), usual.insertion)
    torch.testing.assert_close(turned.insertion.flip(1), usual.deletion)
    assert not torch.allclose(turned.deletion, usual.deletion)
