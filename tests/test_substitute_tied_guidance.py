"""The schedule of the tie, and schedulers of diffusers that tie before their step."""

import inspect

import diffusers
import pytest
import torch

from xaihelpers.kernels.tie import tie
from xaihelpers.substitute import ALL_TIED, UNTIED, SubstituteError, tie_by, tied_scheduler, tied_share


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


def tied_places(rule, predictions, eta, *masks):
    """Where both of a pair are equal after a tie, (P, …); there they are the mean, elsewhere their own."""
    tied = tie_by(rule, predictions, 0.5, eta, *masks)
    own, guide = tied.chunk(2)
    same, mean = own == guide, predictions.unflatten(0, (2, -1)).mean(0)
    assert torch.allclose(own[same], mean[same])
    both = torch.cat([same, same])
    assert torch.equal(tied[~both], predictions[~both])
    return same


PREDICTIONS = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("rule", ["tied anywhere", "tied at whole places", "most different first"])
@pytest.mark.parametrize("eta", [0.0, 0.25, 1.0])
def test_other_places_are_as_many(rule, eta):
    """Drawn places are all pairs' the same ones, and others in another step."""
    by_tie, other = tie(PREDICTIONS, eta).flatten(1).chunk(2)
    same = tied_places(rule, PREDICTIONS, eta)
    assert torch.equal(same.flatten(1).sum(1), (by_tie == other).sum(1))
    if eta == 0.25 and rule != "most different first":
        assert torch.equal(*same)
        again, later = (tie_by(rule, PREDICTIONS, t, eta) for t in (0.5, 0.4))
        assert torch.equal(again, tie_by(rule, PREDICTIONS, 0.5, eta)) and not torch.equal(again, later)
    if eta == 0.25 and rule == "tied at whole places":
        assert torch.equal(same, same[:, :1].expand_as(same)) and same[0, 0].sum() == 16
    if eta == 0.25 and rule == "most different first":
        distance = (PREDICTIONS[:2] - PREDICTIONS[2:]).abs()
        assert distance[0][same[0]].min() > distance[0][~same[0]].max()


def test_own_places():
    """Once less than all is tied, the places that a mask names; in Flux's packed latents the same ones."""
    masks = torch.zeros(2, 64, 64)
    masks[0, :, :24], masks[1, 8:16, 40:48] = 1, 1
    same = tied_places("own places", PREDICTIONS, 0.7, masks)
    wanted = torch.zeros(2, 8, 8, dtype=torch.bool)
    wanted[0, :, :3], wanted[1, 1, 5] = True, True
    assert torch.equal(same, wanted[:, None].expand_as(same))
    packed = diffusers.FluxPipeline._pack_latents(PREDICTIONS, 4, 3, 8, 8)
    tied = tie_by("own places", PREDICTIONS, 0.5, 0.7, masks)
    of_packed = tie_by("own places", packed, 0.5, 0.7, masks)
    assert torch.equal(of_packed, diffusers.FluxPipeline._pack_latents(tied, 4, 3, 8, 8))
    with pytest.raises(SubstituteError, match="no rule 'anywhere'"):
        tie_by("anywhere", PREDICTIONS, 0.5, 0.7)
    for eta in (0.0, 1.0):
        assert torch.equal(tie_by("own places", PREDICTIONS, 0.5, eta, masks), tie(PREDICTIONS, eta))
