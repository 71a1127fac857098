"""One stage of training the small models that ship: AdamW, warm-up and a cosine schedule, and a checkpoint from which a killed run goes on."""
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from tqdm.auto import tqdm

WARM_UP, KEEP_EVERY, LOWEST = 100, 100, 0.02  # steps, or a tenth of a short stage; steps; share of the peak at the end


def train(stage: str, steps: int, modules: torch.nn.Module, loss_of: Callable[[], torch.Tensor], history: list, peak: float = 1e-3, folder: str | Path = "",
          parameters: Iterable[torch.nn.Parameter] | None = None, quiet: bool = False) -> float:
    """Train for `steps` steps of `loss_of()`; returns the seconds they took, those of an earlier, killed run included.

    modules: all that the stage changes, which a checkpoint holds. parameters: those trained, by default all of `modules` that require a gradient. history: gets a row [stage, step, loss] a step; steps count on
    over the stages. peak: highest learning rate. folder: where <stage>.checkpoint lies, written every hundred steps; "" keeps none. quiet: no progress bar. On a GPU in mixed precision (bfloat16). Raises ValueError where a loss is not finite.
    """
    parameters = [p for p in (modules.parameters() if parameters is None else parameters) if p.requires_grad]
    device, seconds, first, checkpoint = parameters[0].device, 0.0, 0, Path(folder) / f"{stage}.checkpoint" if str(folder) else None
    optimiser = torch.optim.AdamW(parameters, lr=peak, weight_decay=0.05, betas=(0.9, 0.98))
    rise, warm_up = (1 + LOWEST) / 2, min(WARM_UP, max(1, steps // 10))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda n: min(1, (n + 1) / warm_up) * (rise + (1 - rise) * math.cos(math.pi * min(n / max(steps, 1), 1))))
    if checkpoint and checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True, map_location=device)
        optimiser.load_state_dict(state["optimiser"])
        schedule.load_state_dict(state["schedule"])
        modules.load_state_dict(state["modules"])
        first, seconds, history[:] = state["step"], state["seconds"], state["history"]
        print(f"{stage}: {first} of {steps} steps are in {checkpoint.name}; delete it to begin anew")
    modules.train()
    for step in tqdm(range(first, steps), desc=stage, disable=quiet or first >= steps):
        began = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = loss_of()
        if not torch.isfinite(loss):
            raise ValueError(f"the loss of stage {stage!r} is {loss.item()} at step {step + 1}: lower the learning rate" + (f"; {checkpoint} holds the last good state" if checkpoint else ""))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
        seconds += time.perf_counter() - began
        history.append([stage, len(history) + 1, loss.item()])
        if checkpoint and (step + 1 == steps or (step + 1) % KEEP_EVERY == 0):
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            torch.save({"modules": modules.state_dict(), "optimiser": optimiser.state_dict(), "schedule": schedule.state_dict(), "history": history, "step": step + 1, "seconds": seconds},
                       part := checkpoint.with_suffix(".part"))
            part.replace(checkpoint)
    modules.eval()
    return seconds


def group_loss(logits: torch.Tensor, wanted: torch.Tensor, groups: Iterable[slice]) -> torch.Tensor:
    """Mean cross-entropy of attributes, a softmax for each group, over the groups of which something is to be seen; where several values are, each should have an equal share.

    logits: (B, A or more). wanted: (B, A), 1 where an attribute is to be seen, else 0. groups: the columns of each group.
    """
    of = [(-(logits[:, g].log_softmax(1) * wanted[:, g]).sum(1) / wanted[:, g].sum(1).clamp(min=1), wanted[:, g].any(1)) for g in groups]
    return torch.stack([loss for loss, _ in of]).sum() / sum(seen.sum() for _, seen in of)
