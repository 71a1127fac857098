"""Tied Diffusion Guidance as a scheduler: any diffusers scheduler, whose step ties the pairs of its batch.

Every pipeline hands its *guided* prediction to `scheduler.step`, so nothing else of the pipeline has to be
changed. A pair's predictions become their mean at a share of their numbers, and stay their own elsewhere.
Which numbers these are, a rule says:

    tied                   those that differ least (equations 3, 5 and 6 of sub)
    most different first   those that differ most
    tied anywhere          drawn at random in each step, the same for all pairs
    tied at whole places   the same, all channels of a place together
    own places             once the share is below 1: those of the places that a mask names, and no others
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F

from xaihelpers.kernels.tie import tie
from xaihelpers.substitute.pairs import SubstituteError

NAMED_FROM = 0.1  # share of a place that a mask covers
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
    scheduler,
    share: Callable[[float], float],
    rule: str = "tied",
    steps: list[TrajectoryStep] | None = None,
    masks: torch.Tensor | None = None,
):
    """A scheduler of the same class and configuration whose step first ties the pairs of its batch.

    The batch holds the references first, then their guides in the same order.

    share: eta as a function of t in [0, 1] (1 is noise; for flow matching t is sigma).
    rule, masks: of `tie_by`. steps: a list that every step is appended to.
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
            tied = tie_by(rule, model_output, t, eta, masks)
            if steps is not None:
                sample = kwargs["sample"] if "sample" in kwargs else args[0]
                steps.append(TrajectoryStep(t, eta, sample, model_output, tied))
            return original_step(self, tied, timestep, *args, **kwargs)

    Tied.__name__ = Tied.__qualname__ = f"Tied{kind.__name__}"
    return Tied.from_config(scheduler.config)


def tie_by(
    rule: str, prediction: torch.Tensor, t: float, eta: float, masks: torch.Tensor | None = None
) -> torch.Tensor:
    """Predictions (2P, …) of pairs, tied at a share eta of their numbers; t seeds what is drawn.

    rule: of the module's list. masks: (P, h, w) of 0 to 1 for "own places", of any resolution; a place is
    named from `NAMED_FROM` on.
    Raises SubstituteError for another rule.
    """
    if rule == "tied" or eta in (0, 1):
        return tie(prediction, eta)
    pairs = prediction.flatten(1).unflatten(0, (2, -1))  # (2, P, n)
    n, generator = pairs.shape[2], torch.Generator().manual_seed(round(1e6 * t))
    if rule == "own places":
        covered = F.adaptive_avg_pool2d(masks.float(), _side(prediction))
        chosen = _of_places(covered >= NAMED_FROM, prediction)
    else:
        if rule == "tied anywhere":
            order = torch.randperm(n, generator=generator).argsort()[None]
        elif rule == "tied at whole places":
            order = _of_places(torch.rand(1, *_side(prediction), generator=generator), prediction)
        elif rule == "most different first":
            order = -(pairs[0].float() - pairs[1].float()).abs()
        else:
            raise SubstituteError(f"there is no rule {rule!r} of where a pair is tied: see tied_guidance")
        first = order.argsort(dim=1, stable=True)[:, : int(eta * (n - 1)) + 1]
        chosen = torch.zeros(order.shape, dtype=torch.bool, device=order.device).scatter(1, first, True)
    mean = pairs.float().mean(0).to(pairs.dtype)
    return torch.where(chosen.to(pairs.device), mean, pairs).reshape(prediction.shape)


def _side(prediction: torch.Tensor) -> tuple[int, int]:
    """Height and width of the latents of a prediction, packed (2P, places / 4, 4 channels) or not."""
    if prediction.ndim != 3:
        return tuple(prediction.shape[2:])
    side = 2 * math.isqrt(prediction.shape[1])
    return side, side


def _of_places(values: torch.Tensor, prediction: torch.Tensor) -> torch.Tensor:
    """Values (P, h, w) of places for all numbers of a prediction, (P, n)."""
    if prediction.ndim != 3:
        return values[:, None].expand(-1, prediction.shape[1], -1, -1).flatten(1)
    fours = values.unflatten(2, (-1, 2)).unflatten(1, (-1, 2)).transpose(2, 3)  # Flux packs squares of four
    fours = fours.flatten(3).flatten(1, 2)[:, :, None]  # (P, places / 4, 1, 4)
    return fours.expand(-1, -1, prediction.shape[2] // 4, -1).flatten(1)
