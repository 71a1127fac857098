"""Tied Diffusion Guidance as a scheduler: any diffusers scheduler, whose step ties the pairs of its batch.

Every pipeline hands its *guided* prediction to `scheduler.step`, so nothing else of the pipeline has to be
changed. Rivals of the tie fit into the same place. With e_R and e_G the predictions of a pair and eta the
share at its noise level,

    rule              what the pair's predictions become
    "tied"            the mean where they differ least, their own elsewhere (equations 3, 5 and 6 of sub)
    "tied noise"      the same of the noise that they stand for: x + (1 - t) e where e is a velocity
    "swapped"         both (1 - eta) e_R + eta e_G: where eta is 1 the image follows its second prompt, where
                      it is 0 its first, so a prompt changes on the way
    "weighted"        both e_R + eta (e_R - e_G): guidance away from the second prompt, of any weight eta

By the last two both images of a pair are one.
"""

import functools
import inspect
from collections.abc import Callable

import torch

from xaihelpers.kernels.tie import tie
from xaihelpers.substitute.pair_prompts import SubstituteError

RULES = ("tied", "tied noise", "swapped", "weighted")
TIES = RULES[:2]  # by which the two images of a pair are two
PURE_NOISE = 1e-3  # so near to t = 1 a velocity says nothing of the noise, and both samples are one anyway


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
        without num_train_timesteps; an unknown rule, or "tied noise" where predictions are neither noise nor
        velocities of flow matching. Its step raises SubstituteError: an odd batch, predictions that are no
        noise or not finite.
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
    if rule == "tied noise" and not _is_flow(kind):
        predicts = config.get("prediction_type", "epsilon")
        if predicts != "epsilon":
            raise SubstituteError(
                f"the noise that {kind.__name__} predicts cannot be tied: its predictions are of the type "
                f"{predicts}, neither noise nor a velocity of flow matching; tie the predictions themselves"
            )
        rule = "tied"  # they are the noise

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
            tied = _combined(rule, model_output, sample, t, eta, backend)
            if watch:
                watch(t, eta, sample, model_output, tied)
            return original_step(self, tied, timestep, *args, **kwargs)

    Tied.__name__ = Tied.__qualname__ = f"Tied{kind.__name__}"
    return Tied.from_config(scheduler.config)


def _is_flow(kind: type) -> bool:
    """Whether the predictions of a class of schedulers are velocities of flow matching."""
    return "FlowMatch" in kind.__name__


def _combined(
    rule: str, prediction: torch.Tensor, sample: torch.Tensor, t: float, eta: float, backend: str
) -> torch.Tensor:
    """The predictions (2P, ...) of P pairs by one of `RULES`."""
    if rule == "tied" or (rule == "tied noise" and 1 - t < PURE_NOISE):
        return tie(prediction, eta, backend)
    if rule == "tied noise":
        noise = sample.float() + (1 - t) * prediction.float()
        change = tie(noise, eta, backend) - noise  # exactly 0 where they are not tied
        return (prediction.float() + change / (1 - t)).to(prediction.dtype)
    reference, guide = prediction.chunk(2)
    if rule == "swapped":
        both = torch.lerp(reference, guide, eta)
    else:
        both = reference + eta * (reference - guide)
    return torch.cat([both, both])
