"""The schedule of the tie, and schedulers of diffusers that tie before their step."""

import inspect

import diffusers
import pytest
import torch

from xaihelpers.kernels.tie import tie
from xaihelpers.substitute import (
    ALL_TIED,
    UNTIED,
    SubstituteError,
    tie_anywhere,
    tied_scheduler,
    tied_share,
)


@pytest.mark.parametrize("scheduler", [diffusers.FlowMatchEulerDiscreteScheduler, diffusers.DDIMScheduler])
def test_schedulers_tie_before_their_step(scheduler):
    times, original = [], scheduler()
    tied = tied_scheduler(original, lambda t: times.append(t) or 1.0)
    torch.manual_seed(1)
    predictions, sample = torch.randn(4, 3, 4, 4), torch.randn(2, 3, 4, 4).repeat(2, 1, 1, 1)
    mean = predictions.unflatten(0, (2, 2)).mean(0).repeat(2, 1, 1, 1)
    for each in (original, tied):
        each.set_timesteps(5)
    after = tied.step(predictions, tied.timesteps[0], sample).prev_sample
    wanted = original.step(mean, original.timesteps[0], sample).prev_sample
    assert torch.allclose(after, wanted, atol=1e-6) and isinstance(tied, scheduler)
    assert inspect.signature(tied.step) == inspect.signature(original.step)
    assert times == [pytest.approx(float(original.timesteps[0]) / 1000)]


def test_schedule_by_hand():
    assert tied_share(0.95) == tied_share(0.91) == tied_share(0.9) == 1
    assert tied_share(0.1) == tied_share(0.2) == 0
    assert tied_share(0.55) == pytest.approx(0.5**10) and tied_share(0.4, 0.2, 0.6, 1.0) == pytest.approx(0.5)
    assert tied_share(0.59, t_max=0.6) == pytest.approx((0.39 / 0.4) ** 10)
    for (k, t_min, t_max), share in ((UNTIED, 0), (ALL_TIED, 1)):
        assert {tied_share(t, t_min, t_max, k) for t in (0.0, 0.5, 1.0)} == {share}


def test_what_cannot_be_tied():
    with pytest.raises(SubstituteError, match="AmusedScheduler cannot be tied: its step must take"):
        tied_scheduler(diffusers.AmusedScheduler(mask_token_id=3), tied_share)
    tied = tied_scheduler(diffusers.DDIMScheduler(), tied_share)
    tied.set_timesteps(2)
    with pytest.raises(SubstituteError, match="DDIMScheduler cannot be tied.*NaN or infinite values"):
        tied.step(torch.full((2, 4), torch.nan), tied.timesteps[0], torch.zeros(2, 4))


def test_tied_anywhere():
    """As many places as by the tie, all pairs' the same ones, others in another step; the rest untouched."""
    predictions = torch.randn(4, 3, 50, generator=torch.Generator().manual_seed(0))
    for eta in (0.0, 0.3, 1.0):
        tied = tie_anywhere(predictions, 0.5, eta)
        own, guide = tied.flatten(1).chunk(2)
        by_tie, other = tie(predictions, eta).flatten(1).chunk(2)
        same = own == guide
        assert torch.equal(same.sum(1), (by_tie == other).sum(1)) and torch.equal(*same)
        mean = (predictions[:2] + predictions[2:]).flatten(1) / 2
        assert torch.allclose(own[same], mean[same])
        untied = predictions.flatten(1)[:2]
        assert torch.equal(own[~same], untied[~same])
    assert torch.equal(tie_anywhere(predictions, 0.5, 0.3), tie_anywhere(predictions, 0.5, 0.3))
    assert not torch.equal(tie_anywhere(predictions, 0.5, 0.3), tie_anywhere(predictions, 0.4, 0.3))
