"""The state of a training between two epochs, on disk, so that a run that was killed goes on where it was."""

import io
import pickle
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from xaihelpers.paths import set_aside, write_whole

# what a file that is cut off or of another training gives
DAMAGE = (RuntimeError, EOFError, OSError, KeyError, ValueError, TypeError, pickle.UnpicklingError)


def save_state(
    file: Path,
    epoch: int,
    layers: Sequence[torch.Tensor],
    parts: dict[str, nn.Module | torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler],
    generator: torch.Generator,
) -> None:
    """Keep what a training is after `epoch` epochs, in place of an earlier state, whole or not at all.

    layers: the tensors trained beside `parts`, all that has a state_dict: trunk, optimiser, schedule.
    Raises OSError: no room, not allowed.
    """
    state = {name: part.state_dict() for name, part in parts.items()}
    state |= {"epoch": epoch, "layers": [layer.detach() for layer in layers]}
    state["generator"] = generator.get_state()
    content = io.BytesIO()
    torch.save(state, content)
    write_whole(file, content.getvalue())


def restore_state(file: Path, layers: Sequence[torch.Tensor], parts: dict, generator: torch.Generator) -> int:
    """Set a training to the state that `save_state` kept; returns its epochs, 0 where there is none.

    A file that is damaged or of other layers is set aside.
    """
    if not file.exists():
        return 0
    try:
        state = torch.load(file, weights_only=True, map_location="cpu")  # a full GPU is no damage
        kept = state["layers"]
        if [layer.shape for layer in kept] != [layer.shape for layer in layers]:
            raise ValueError("it is of other layers")
        for name, part in parts.items():
            part.load_state_dict(state[name])
        generator.set_state(state["generator"])
        epoch = int(state["epoch"])
    except DAMAGE as error:
        set_aside(file, str(error).partition("\n")[0] or type(error).__name__)
        return 0
    with torch.no_grad():
        for layer, values in zip(layers, kept, strict=True):
            layer.copy_(values)
    return epoch
