"""What notebooks 12 to 14 rest on: intervals that cover fresh seeds, and numbers that a writing moves."""

import pytest
import torch

from xaihelpers import scores
from xaihelpers.bottlenecks import concept_dataset
from xaihelpers.bottlenecks.fits import fit_several
from xaihelpers.scores import alignment

pytestmark = pytest.mark.xdist_group("findings of alignment")


@pytest.fixture(scope="module")
def runs():
    """Six runs of three draws each."""
    birds = concept_dataset.load_concept_dataset(clip="")
    return [fit_several("phcbm", birds, 3, seed) for seed in range(6)]


def test_the_interval_of_cem_covers_fresh_seeds(runs):
    """It holds the mean of all draws; one over the images of a single draw misses most of the others."""
    found = []  # CEM at l = 1 in % of every draw and test image, (6, 3, N)
    for fit in sum(runs, []):
        ranked = alignment.concept_importance(fit.outputs, "product", fit.centre)
        found.append(100 * alignment.concept_existence(ranked, fit.present, 1))
    found = torch.stack(found).unflatten(0, (6, 3))
    measured = [scores.over_draws(of_run, bounds=scores.PERCENT) for of_run in found]
    assert sum(one.low < found.mean() < one.high for one in measured) >= 5  # 95 % of them
    single, means = scores.over_draws(found[0, :1], bounds=scores.PERCENT), found.mean(2).flatten()
    outside = (means < single.low) | (means > single.high)
    assert outside.sum() > len(means) / 2


def test_published_metrics_move_where_no_prediction_does(runs):
    """In other writings CEM by the product and CGIM are other numbers, CEM by the contrast is the same."""
    fit = runs[0][0]
    truth = torch.rand(fit.outputs.class_weights.shape, generator=torch.Generator().manual_seed(0))
    moved = []
    for other in alignment.writings(fit).values():
        ranked = [alignment.View([other]).importance(basis)[0] for basis in ("product", "contrast")]
        found = [100 * alignment.concept_existence(one, fit.present, 1).mean() for one in ranked]
        cgim = alignment.cgim(other.outputs, fit.outputs.predictions, truth)
        moved.append([*found, cgim["concept"][0].nanmean()])
    by_product, by_contrast, cgim = torch.tensor(moved).T
    assert by_product.max() - by_product.min() > 20 and cgim.max() - cgim.min() > 0.3
    assert by_contrast.max() - by_contrast.min() < 0.5
