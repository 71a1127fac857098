"""Tied Diffusion Guidance as a scheduler: any diffusers scheduler, whose step first ties the predictions of the pairs in its batch.

Every pipeline hands its *guided* prediction to `scheduler.step`, so nothing else of it has to change or be known.
"""
import functools
import inspect

from ..kernels.tying import tie
from .prompts import SubstituteError


def tied_share(t: float, t_min: float = 0.2, t_max: float = 0.9, k: float = 10.0) -> float:
    """eta(t), the share of elements that is tied at time t in [0, 1], 1 being noise (equation 4 of sub)."""
    if t > t_max:
        return 1.0
    return ((t - t_min) / (t_max - t_min)) ** k if t >= t_min and t_max > t_min else 0.0


def tied_scheduler(scheduler, share, backend: str = "auto", watch=None):
    """A scheduler of the same class and settings whose step ties the pairs of its batch: references in the first half, their guides in the second.

    scheduler: of diffusers, with the settings to keep. share: eta as a function of t in [0, 1] (1 is noise; for flow matching t is sigma). backend: of `kernels.tying.tie`.
    watch: called in every step with t, eta, the sample, the predictions and the tied predictions.
    Raises SubstituteError: no scheduler whose step takes a prediction, a timestep and a sample, or one without noise levels; in its step: an odd batch, a prediction that is not finite.
    """
    kind = type(scheduler)
    own_step = getattr(kind, "step", None)
    takes = list(inspect.signature(own_step).parameters)[1:4] if own_step else []
    if takes != ["model_output", "timestep", "sample"] or "num_train_timesteps" not in getattr(scheduler, "config", {}):
        raise SubstituteError(f"{kind.__name__} cannot be tied: its step must take model_output, timestep and sample, and its config have num_train_timesteps. Give the pipeline another "
                              "scheduler, as FlowMatchEulerDiscreteScheduler or DDIMScheduler.")

    class Tied(kind):
        @functools.wraps(own_step)  # pipelines look at its arguments
        def step(self, model_output, timestep, *args, **kwargs):
            t = float(timestep) / self.config.num_train_timesteps
            if not model_output.is_floating_point() or not -1e-6 <= t <= 1 + 1e-6:
                raise SubstituteError(f"{kind.__name__} cannot be tied: it predicts {model_output.dtype} at timestep {float(timestep)}, not noise at one of {self.config.num_train_timesteps}")
            if len(model_output) % 2:
                raise SubstituteError(f"the batch has {len(model_output)} images: pairs are tied, references in its first half and their guides in its second")
            if not model_output.isfinite().all():
                raise SubstituteError(f"the prediction at t = {t:.3f} holds NaN or infinite values: run the pipeline in bfloat16 or float32")
            tied = tie(model_output, eta := share(t), backend)
            if watch:
                watch(t, eta, kwargs["sample"] if "sample" in kwargs else args[0], model_output, tied)
            return own_step(self, tied, timestep, *args, **kwargs)

    Tied.__name__ = Tied.__qualname__ = f"Tied{kind.__name__}"
    return Tied.from_config(scheduler.config)
