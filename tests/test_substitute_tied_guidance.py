"""The schedule of the tie, and schedulers of diffusers that tie before their step."""

import inspect

import diffusers
import pytest
import torch

from xaihelpers.substitute import SubstituteError, tied_scheduler, tied_share


@pytest.mark.parametrize(
    "scheduler",
    [
        diffusers.FlowMatchEulerDiscreteScheduler,
        diffusers.DDIMScheduler,
        diffusers.DPMSolverMultistepScheduler,
        diffusers.EulerDiscreteScheduler,
    ],
)
def test_schedulers_tie_before_their_step(scheduler):
    times, original = [], scheduler()
    tied = tied_scheduler(original, lambda t: times.append(t) or 1.0)
    torch.manual_seed(1)
    predictions, sample = torch.randn(4, 3, 4, 4), torch.randn(2, 3, 4, 4).repeat(2, 1, 1, 1)
    mean = predictions.unflatten(0, (2, 2)).mean(0).repeat(2, 1, 1, 1)
    for each in (original, tied):
        each.set_timesteps(5)
        if hasattr(each, "scale_model_input"):
            each.scale_model_input(sample, each.timesteps[0])
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


def test_what_is_no_scheduler_of_noise():
    for scheduler in (diffusers.AmusedScheduler(mask_token_id=3), object()):
        message = f"{type(scheduler).__name__} cannot be tied: its step must take"
        with pytest.raises(SubstituteError, match=message):
            tied_scheduler(scheduler, tied_share)


def test_predictions_that_cannot_be_tied():
    classes = tied_scheduler(diffusers.VQDiffusionScheduler(num_vec_classes=5), tied_share)
    with pytest.raises(SubstituteError, match="VQDiffusionScheduler cannot be tied: it predicts"):
        classes.step(torch.zeros(2, 4, 4, dtype=torch.long), 1, torch.zeros(2, 4, dtype=torch.long))
    tied = tied_scheduler(diffusers.DDIMScheduler(), tied_share)
    tied.set_timesteps(2)
    with pytest.raises(SubstituteError, match="the batch has 3 images: pairs are tied"):
        tied.step(torch.zeros(3, 4), tied.timesteps[0], torch.zeros(3, 4))
    with pytest.raises(SubstituteError, match="holds NaN or infinite values: run the pipeline in"):
        tied.step(torch.full((2, 4), torch.nan), tied.timesteps[0], torch.zeros(2, 4))


def stepped(rule, eta, predictions, sample, scheduler=None, number=2):
    """The time and the predictions after a rule, at the `number`-th of four steps."""
    seen, scheduler = [], scheduler or diffusers.FlowMatchEulerDiscreteScheduler()
    tied = tied_scheduler(scheduler, lambda t: eta, watch=lambda *step: seen.append(step), rule=rule)
    tied.set_timesteps(4)
    tied.step(predictions, tied.timesteps[number], sample)
    t, _, _, _, combined = seen[0]
    return t, combined


def test_prompts_swapped_and_guidance_weighted_by_hand():
    predictions, sample = torch.tensor([[1.0, 2.0], [3.0, -2.0]]), torch.zeros(2, 2)
    _, both = stepped("swapped", 0.25, predictions, sample)
    assert torch.equal(both, torch.tensor([[1.5, 1.0], [1.5, 1.0]]))
    assert torch.equal(stepped("swapped", 1.0, predictions, sample)[1], predictions[[1, 1]])
    assert torch.equal(stepped("swapped", 0.0, predictions, sample)[1], predictions[[0, 0]])
    _, both = stepped("weighted", 2.0, predictions, sample)
    assert torch.equal(both, torch.tensor([[-3.0, 10.0], [-3.0, 10.0]]))


def test_the_noise_of_velocities_tied_by_hand():
    """Two numbers a pair: the first differ by 1 in their noise, the second by 3, so half of them is tied."""
    sample = torch.tensor([[0.0, 1.0], [0.5, 0.0]])
    t, _ = stepped("tied noise", 0.0, torch.zeros(2, 2), sample)
    noise = torch.tensor([[1.0, 2.0], [2.0, 5.0]])
    velocity = (noise - sample) / (1 - t)
    _, tied = stepped("tied noise", 0.5, velocity, sample)
    # the percentile lies between the two distances
    assert torch.allclose(sample + (1 - t) * tied, torch.tensor([[1.5, 2.0], [1.5, 5.0]]))
    assert torch.equal(tied[:, 1], velocity[:, 1])
    assert torch.equal(stepped("tied noise", 0.0, velocity, sample)[1], velocity)
    predictions, sample = torch.randn(2, 5), torch.randn(2, 5)
    both = [
        stepped(rule, 0.6, predictions, sample, diffusers.DDIMScheduler())[1]
        for rule in ("tied", "tied noise")
    ]
    assert torch.equal(*both)
    with pytest.raises(SubstituteError, match="of the type v_prediction, neither noise nor a velocity"):
        tied_scheduler(diffusers.DDIMScheduler(prediction_type="v_prediction"), tied_share, rule="tied noise")
    with pytest.raises(SubstituteError, match="rule must be one of tied, tied noise, swapped, weighted, not"):
        tied_scheduler(diffusers.DDIMScheduler(), tied_share, rule="untied")
