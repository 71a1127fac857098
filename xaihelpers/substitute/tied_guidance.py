"""Tied Diffusion Guidance as a scheduler: any diffusers scheduler, whose step ties the pairs of its batch.

Every pipeline hands its *guided* prediction to `scheduler.step`, so nothing else of the pipeline has to be
changed. By the rule "tied" a pair's predictions become their mean where they differ least, and stay their own
elsewhere (equations 3, 5 and 6 of sub). By the rule "tied anywhere", its control, they become it at as many
places drawn at random in each step.
"""

import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import torch

from xaihelpers.kernels.tie import tie
from xaihelpers.substitute.pairs import SubstituteError

# k, t_min and t_max of eta by which nothing is ever tied, and everything always
UNTIED, ALL_TIED = (1.0, 2.0, 2.0), (1.0, -1.0, -1.0)


class TrajectoryStep(NamedTuple):
    """One denoising step of P tied pairs: its time, eta, and the latents and predictions of 2P images."""

    t: float  # in [0, 1], 1 is noise
    share: float  # eta(t)
    sample: torch.Tensor  # (2P, …), noisy latents before the step
    prediction: torch.Tensor  # (2P, …), guided predictions
    tied: torch.Tensor  # (2P, …), the same, tied


def tied_share(t: float, t_min: float = 0.2, t_max: float = 0.9, k: float = 10.0) -> float:
    """eta(t), the share of the elements tied at time t (equation 4 of sub).

    t: in [0, 1], 1 is pure noise.
    Returns 1 above t_max, 0 below t_min, ((t - t_min) / (t_max - t_min))^k between.
    """
    if t > t_max:
        return 1.0
    if t < t_min or t_max <= t_min:
        return 0.0
    return ((t - t_min) / (t_max - t_min)) ** k


def tied_scheduler(
    scheduler, share: Callable[[float], float], rule: str = "tied", steps: list[TrajectoryStep] | None = None
):
    """A scheduler of the same class and configuration whose step first ties the pairs of its batch.

    The batch holds the references first, then their guides in the same order.

    share: eta as a function of t in [0, 1] (1 is noise; for flow matching t is sigma).
    rule: "tied" or "tied anywhere". steps: a list that every step is appended to.
    Raises SubstituteError: a scheduler of diffusers whose step does not take a prediction, a timestep and a
        sample; its step does for predictions that are no noise or not finite, and ValueError as `tie`.
    """
    kind = type(scheduler)
    original_step = kind.step
    arguments = list(inspect.signature(original_step).parameters)[1:4]
    if arguments != ["model_output", "timestep", "sample"] or "num_train_timesteps" not in scheduler.config:
        raise SubstituteError(
            f"{kind.__name__} cannot be tied: its step must take model_output, timestep and sample, and its "
            "config have num_train_timesteps. Give the pipeline another scheduler, as "
            "FlowMatchEulerDiscreteScheduler or DDIMScheduler."
        )

    class Tied(kind):
        @functools.wraps(original_step)  # pipelines look at its arguments
        def step(self, model_output, timestep, *args, **kwargs):
            t = float(timestep) / self.config.num_train_timesteps
            if not -1e-6 <= t <= 1 + 1e-6 or not model_output.isfinite().all():
                raise SubstituteError(
                    f"{kind.__name__} cannot be tied: at timestep {float(timestep)} of "
                    f"{self.config.num_train_timesteps} it predicts {model_output.dtype} that is no noise or "
                    "holds NaN or infinite values; the latter are fewer in bfloat16 and none in float32"
                )
            eta = share(t)
            tied = tie(model_output, eta) if rule == "tied" else tie_anywhere(model_output, t, eta)
            if steps is not None:
                sample = kwargs["sample"] if "sample" in kwargs else args[0]
                steps.append(TrajectoryStep(t, eta, sample, model_output, tied))
            return original_step(self, tied, timestep, *args, **kwargs)

    Tied.__name__ = Tied.__qualname__ = f"Tied{kind.__name__}"
    return Tied.from_config(scheduler.config)


def tie_anywhere(prediction: torch.Tensor, t: float, eta: float) -> torch.Tensor:
    """Predictions (2P, …) of pairs, tied at as many places as by the tie; which ones hangs on t alone."""
    n = prediction[0].numel()
    count = int(eta * (n - 1)) + 1 if eta > 0 else 0
    places = torch.randperm(n, generator=torch.Generator().manual_seed(round(1e6 * t)))[:count]
    pairs = prediction.flatten(1).unflatten(0, (2, -1)).clone()  # (2, P, n)
    places = places.to(pairs.device)
    pairs[:, :, places] = pairs[:, :, places].float().mean(0).to(pairs.dtype)
    return pairs.reshape(prediction.shape)
