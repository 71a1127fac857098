"""What notebooks 11 to 13 found on the aviary, so that it is noticed if it no longer holds."""

import pytest
import torch

from xaihelpers import scores
from xaihelpers.bottlenecks import concept_dataset
from xaihelpers.bottlenecks.draws import fit_draws
from xaihelpers.scores import alignment

pytestmark = pytest.mark.xdist_group("findings of alignment")


@pytest.fixture(scope="module")
def birds():
    return concept_dataset.load_concept_dataset(clip="")


@pytest.fixture(scope="module")
def fits(birds):
    return fit_draws("phcbm", birds, 8, seed=0)


def existence(fits, basis="product"):
    """CEM at l = 1 in % of every draw and test image, (draws, N)."""
    found = []
    for fit in fits:
        ranked = alignment.concept_importance(fit.outputs, basis, fit.centre)
        found.append(100 * alignment.concept_existence(ranked, fit.present, 1))
    return torch.stack(found)


def test_the_interval_of_cem_covers_fresh_seeds(birds, fits):
    """An interval over the images of a single draw did not: seven of eight draws lay outside it."""
    measured = scores.over_draws(existence(fits), bounds=scores.PERCENT)
    fresh = existence(fit_draws("phcbm", birds, 10, seed=1000)).mean(1)  # (10,)
    assert measured.low < fresh.mean() < measured.high
    single = scores.over_draws(existence(fits[:1]), bounds=scores.PERCENT)
    outside = (fresh < single.low) | (fresh > single.high)
    assert outside.sum() >= 5


def test_published_metrics_move_where_no_prediction_does(fits):
    fit = fits[0]
    outputs = fit.outputs
    truth_of_class = torch.rand(outputs.class_weights.shape, generator=torch.Generator().manual_seed(0))
    gauge, zero = outputs.class_weights.std(1), -outputs.values.std(0)
    written = [
        alignment.reparameterised(outputs, gauge=gauge),
        alignment.reparameterised(outputs, gauge=-gauge),
        alignment.reparameterised(outputs, zero),
    ]
    labels = outputs.predictions
    cem, cgim = [], []
    for other, moved in zip(written, (0, 0, zero), strict=True):
        assert torch.equal(other.predictions, outputs.predictions)
        logits = other.values @ other.class_weights
        same = logits - logits.mean(1, keepdim=True) - (outputs.values @ outputs.class_weights)
        same = same + (outputs.values @ outputs.class_weights).mean(1, keepdim=True)
        assert same.std(0).max() < 1e-2  # but for a constant of each class, the bias
        cem.append(existence([fit._replace(outputs=other, centre=fit.centre - moved)]).mean())
        cgim.append(alignment.cgim(other, labels, truth_of_class)["concept"][0].nanmean())
        contrast = existence([fit._replace(outputs=other, centre=fit.centre - moved)], "contrast")
        assert abs(contrast.mean() - existence([fit], "contrast").mean()) < 0.5
    assert max(cem) - min(cem) > 20 and max(cgim) - min(cgim) > 0.3
