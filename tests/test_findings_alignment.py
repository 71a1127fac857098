"""What notebooks 12 to 14 rest on: intervals that cover fresh seeds, and numbers that a writing moves."""

import pytest
import torch

from xaihelpers import scores
from xaihelpers.bottlenecks import concept_dataset
from xaihelpers.bottlenecks.draws import fit_draws
from xaihelpers.scores import alignment

pytestmark = pytest.mark.xdist_group("findings of alignment")


@pytest.fixture(scope="module")
def runs():
    """Six runs of three draws each."""
    birds = concept_dataset.load_concept_dataset(clip="")
    return [fit_draws("phcbm", birds, 3, seed) for seed in range(6)]


def existence(fits, basis="product"):
    """CEM at l = 1 in % of every draw and test image, (draws, N)."""
    found = []
    for fit in fits:
        ranked = alignment.concept_importance(fit.outputs, basis, fit.centre)
        found.append(100 * alignment.concept_existence(ranked, fit.present, 1))
    return torch.stack(found)


def test_the_interval_of_cem_covers_fresh_seeds(runs):
    """It holds the mean of all draws; one over the images of a single draw misses most of the others."""
    found = torch.stack([existence(fits) for fits in runs])  # (6, 3, N)
    measured = [scores.over_draws(of_run, bounds=scores.PERCENT) for of_run in found]
    assert sum(one.low < found.mean() < one.high for one in measured) >= 5  # 95 % of them
    single, means = scores.over_draws(found[0, :1], bounds=scores.PERCENT), found.mean(2).flatten()
    outside = (means < single.low) | (means > single.high)
    assert outside.sum() > len(means) / 2


def test_published_metrics_move_where_no_prediction_does(runs):
    """In other writings CEM by the product and CGIM are other numbers, CEM by the contrast is the same."""
    fit = runs[0][0]
    outputs = fit.outputs
    truth = torch.rand(outputs.class_weights.shape, generator=torch.Generator().manual_seed(0))
    by_product, by_contrast, cgim = [], [], []
    for other, centre in alignment.writings(outputs, fit.centre).values():
        written = [fit._replace(outputs=other, centre=centre)]
        by_product.append(existence(written).mean())
        by_contrast.append(existence(written, "contrast").mean())
        cgim.append(alignment.cgim(other, outputs.predictions, truth)["concept"][0].nanmean())
    assert max(by_product) - min(by_product) > 20 and max(cgim) - min(cgim) > 0.3
    assert max(by_contrast) - min(by_contrast) < 0.5
