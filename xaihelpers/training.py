"""One stage of training the small models that ship.

AdamW, a warm-up and a cosine schedule, and a checkpoint from which a killed run goes on.
"""

import io
import logging
import math
import pickle
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch.optim.lr_scheduler import LambdaLR
from tqdm.auto import tqdm

from xaihelpers import paths

log = logging.getLogger(__name__)

WARM_UP = 100  # steps, or a tenth of a short stage
KEEP_EVERY = 100  # steps from one checkpoint to the next
SLOW = 0.4  # of the learning rate
LOWEST = 0.02  # learning rate at the end, as a share of the peak


def train(
    stage: str,
    steps: int,
    modules: torch.nn.Module,
    loss_of: Callable[[], torch.Tensor],
    history: list,
    peak: float = 1e-3,
    folder: str | Path = "",
    parameters: Iterable[torch.nn.Parameter] | None = None,
    slow: torch.nn.Module | None = None,
    mixed: bool = True,
) -> float:
    """Train for `steps` steps of `loss_of()`; returns their seconds, with those of an earlier, killed run.

    stage: its name, that of its progress bar and of its checkpoint.
    modules: all that the stage changes; a checkpoint holds it.
    loss_of: draws a batch and gives its loss, a scalar.
    history: gets a row [stage, step, loss] for each step; steps count on over the stages.
    peak: highest learning rate.
    folder: where <stage>.checkpoint lies, written every hundred steps; "" keeps none. A damaged one is set
        aside, and the stage begins anew.
    parameters: those trained, by default all of `modules` that require a gradient.
    slow: a part of `modules` that is trained at `SLOW` times the rate, as one that knows much already.
    mixed: whether a GPU computes in bfloat16.

    Raises ValueError where a loss is not finite.
    """
    parameters = modules.parameters() if parameters is None else parameters
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    device = parameters[0].device
    of_slow = set(slow.parameters()) if slow is not None else set()
    groups = [{"params": [one for one in parameters if one not in of_slow], "lr": peak}]
    if of_slow:
        groups.append({"params": [one for one in parameters if one in of_slow], "lr": SLOW * peak})
    optimiser = torch.optim.AdamW(groups, weight_decay=0.05, betas=(0.9, 0.98))
    middle, warm_up = (1 + LOWEST) / 2, min(WARM_UP, max(1, steps // 10))

    def factor(step: int) -> float:
        """A linear warm-up times a cosine from 1 to LOWEST."""
        cosine = math.cos(math.pi * min(step / max(steps, 1), 1))
        return min(1, (step + 1) / warm_up) * (middle + (1 - middle) * cosine)

    schedule = LambdaLR(optimiser, factor)
    checkpoint = Path(folder) / f"{stage}.checkpoint" if str(folder) else None
    parts = {"optimiser": optimiser, "schedule": schedule, "modules": modules}
    first, seconds = 0, 0.0
    if checkpoint and (state := read_checkpoint(checkpoint)):
        for name, part in parts.items():
            part.load_state_dict(state[name])
        first, seconds, history[:] = state["step"], state["seconds"], state["history"]
        log.info("%s: %d of %d steps are in %s; delete it to begin anew", stage, first, steps, checkpoint)
    modules.train()
    for step in tqdm(range(first, steps), desc=stage, disable=first >= steps):
        start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=mixed and device.type == "cuda"):
            loss = loss_of()
        if not torch.isfinite(loss):
            raise ValueError(f"the loss of {stage} is {loss.item()} at step {step + 1}: lower the rate")
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
        seconds += time.perf_counter() - start
        history.append([stage, len(history) + 1, loss.item()])
        if checkpoint and (step + 1 == steps or (step + 1) % KEEP_EVERY == 0):
            state = {name: part.state_dict() for name, part in parts.items()}
            state |= {"step": step + 1, "seconds": seconds, "history": history}
            save_checkpoint(state, checkpoint)
    modules.eval()
    return seconds


def read_checkpoint(file: Path) -> dict | None:
    """What `save_checkpoint` wrote, on the CPU; None for none, and for a damaged one, which is set aside."""
    if not file.exists():
        return None
    try:
        return torch.load(file, weights_only=True, map_location="cpu")
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        paths.set_aside(file, str(error).partition(". ")[0] or type(error).__name__)
        return None


def save_checkpoint(state: dict, file: Path) -> None:
    """Write what `read_checkpoint` reads, whole or not at all. Raises OSError: no room, not allowed."""
    content = io.BytesIO()
    torch.save(state, content)
    paths.write_whole(file, content.getvalue())


def group_loss(logits: torch.Tensor, wanted: torch.Tensor, groups: Iterable[slice]) -> torch.Tensor:
    """Mean cross-entropy of attributes, one softmax per group, over the groups of which something is visible.

    Where several values of a group are visible, each should have an equal share of the probability.

    logits: (B, A or more). wanted: (B, A), 1 where an attribute is visible, else 0.
    groups: the columns of each group.
    """
    losses, visible = [], []
    for group in groups:
        targets = wanted[:, group]
        log_probabilities = logits[:, group].log_softmax(1)
        losses.append(-(log_probabilities * targets).sum(1) / targets.sum(1).clamp(min=1))
        visible.append(targets.any(1))
    return torch.stack(losses).sum() / sum(shown.sum() for shown in visible)
