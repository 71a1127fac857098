"""Tied Diffusion Guidance as a scheduler: any diffusers scheduler, whose step ties the pairs of its batch.

Every pipeline hands its *guided* prediction to `scheduler.step`, so nothing else of the pipeline has to be
changed. By the rule "tied" a pair's predictions become their mean where they differ least, and stay their own
elsewhere (equations 3, 5 and 6 of sub). By the rule "tied anywhere", its control, they become it at as many
places drawn at random in each step.
"""

import functools
import inspect
from collections.abc import Callable

import torch

from xaihelpers.kernels.tie import tie
from xaihelpers.substitute.pair_prompts import SubstituteError

RULES = ("tied", "tied anywhere")
# k, t_min and t_max of eta by which nothing is ever tied, and everything always
UNTIED, ALL_TIED = (1.0, 2.0, 2.0), (1.0, -1.0, -1.0)


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
    backend: str = "auto",
    watch: Callable | None = None,
    rule: str = "tied",
):
    """A scheduler of the same class and configuration whose step first ties the pairs of its batch.

    The batch holds the references first, then their guides in the same order.

    scheduler: of diffusers.
    share: eta as a function of t in [0, 1] (1 is noise; for flow matching t is sigma).
    backend: of `kernels.tie.tie`.
    watch: called in every step with t, eta, the sample, the predictions and the tied predictions.
    rule: one of `RULES`, which the module describes.
    Raises SubstituteError: a scheduler whose step does not take a prediction, a timestep and a sample, or
        without num_train_timesteps; an unknown rule. Its step raises SubstituteError: an odd batch,
        predictions that are no noise or not finite.
    """
    kind = type(scheduler)
    original_step = getattr(kind, "step", None)
    arguments = list(inspect.signature(original_step).parameters)[1:4] if original_step else []
    config = getattr(scheduler, "config", {})
    if arguments != ["model_output", "timestep", "sample"] or "num_train_timesteps" not in config:
        raise SubstituteError(
            f"{kind.__name__} cannot be tied: its step must take model_output, timestep and sample, and its "
            "config have num_train_timesteps. Give the pipeline another scheduler, as "
            "FlowMatchEulerDiscreteScheduler or DDIMScheduler."
        )
    if rule not in RULES:
        raise SubstituteError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")

    class Tied(kind):
        @functools.wraps(original_step)  # pipelines look at its arguments
        def step(self, model_output, timestep, *args, **kwargs):
            t = float(timestep) / self.config.num_train_timesteps
            if not model_output.is_floating_point() or not -1e-6 <= t <= 1 + 1e-6:
                raise SubstituteError(
                    f"{kind.__name__} cannot be tied: it predicts {model_output.dtype} at timestep "
                    f"{float(timestep)}, not noise at one of {self.config.num_train_timesteps}"
                )
            if len(model_output) % 2:
                raise SubstituteError(
                    f"the batch has {len(model_output)} images: pairs are tied, references in its first "
                    "half and their guides in its second"
                )
            if not model_output.isfinite().all():
                raise SubstituteError(
                    f"the prediction at t = {t:.3f} holds NaN or infinite values: run the pipeline in "
                    "bfloat16 or float32"
                )
            eta = share(t)
            sample = kwargs["sample"] if "sample" in kwargs else args[0]
            tied = tie(model_output, eta, backend) if rule == "tied" else tie_anywhere(model_output, t, eta)
            if watch:
                watch(t, eta, sample, model_output, tied)
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
