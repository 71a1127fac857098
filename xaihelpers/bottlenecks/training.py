"""What the networks of the trained bottlenecks share: the loop, their inputs, and networks that start at pixels."""
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import nn
from tqdm.auto import tqdm

from .outputs import check_names


def train(layers: Iterable[torch.Tensor], trunk: nn.Module | None, loss: Callable[[torch.Tensor], torch.Tensor], n: int, epochs: int, batch_size: int,
          learning_rate: float, weight_decay: float, generator: torch.Generator, what: str) -> None:
    """AdamW over n examples with a rate that falls along a cosine, a tenth of it for the `trunk`, which has learnt before.

    `loss` of a batch's rows (B,) is a number. Raises ValueError if it is not finite.
    """
    parameters = [{"params": list(layers)}] + ([{"params": list(trunk.parameters()), "lr": learning_rate / 10}] if trunk is not None else [])
    batch_size = min(batch_size, n)
    steps = epochs * (n // batch_size)
    optimiser = torch.optim.AdamW(parameters, learning_rate, weight_decay=weight_decay, foreach=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(steps, 1))
    value = torch.zeros(())
    for epoch in tqdm(range(epochs), desc=what, leave=False, delay=2):
        for rows in torch.randperm(n, generator=generator)[:n // batch_size * batch_size].split(batch_size):
            optimiser.zero_grad()
            value = loss(rows)
            value.backward()
            optimiser.step()
            schedule.step()
        if not value.isfinite():
            raise ValueError(f"{what}: the loss is {value.item()} after epoch {epoch + 1}: lower learning_rate, or look for extreme values in the inputs")


def check_inputs(inputs: torch.Tensor, present: torch.Tensor, labels: torch.Tensor, concepts: list[str], classes: list[str], trunk: nn.Module | None) -> None:
    """Raises ValueError where inputs, concept labels in [0, 1], class labels and names do not fit together."""
    check_names(concepts)
    n = len(inputs)
    if present.shape != (n, len(concepts)) or labels.shape != (n,):
        raise ValueError(f"{n} inputs and {len(concepts)} concepts need present {(n, len(concepts))} and labels {(n,)}, "
                         f"not {tuple(present.shape)} and {tuple(labels.shape)}")
    if len(bad := (~((present >= 0) & (present <= 1))).nonzero()):
        row, concept = bad[0].tolist()
        value = present[row, concept].item()
        raise ValueError(f"concept labels must be in [0, 1], but row {row}, {concepts[concept]!r} is {value:.3g} ({len(bad)} such in all)")
    if labels.min() < 0 or labels.max() >= len(classes):
        raise ValueError(f"labels run from {int(labels.min())} to {int(labels.max())}, but there are {len(classes)} classes")
    if (trunk is not None) != (inputs.dtype == torch.uint8):
        raise ValueError(f"inputs {tuple(inputs.shape)} {inputs.dtype}: give pixels (N, 3, H, W) uint8 together with a trunk, "
                         "or features (N, d) float without one")
    if trunk is None and len(bad := (~inputs.isfinite()).any(1).nonzero()):
        raise ValueError(f"features of {len(bad)} images are NaN or infinite, the first in row {int(bad[0])}")


def layer(shape: tuple[int, ...], fan_in: int, generator: torch.Generator, device) -> torch.Tensor:
    """Weights of a layer that is to be trained, uniform within ±1/√fan_in as torch's own layers start, the same on every device."""
    return ((2 * torch.rand(shape, generator=generator) - 1) / fan_in**0.5).to(device).requires_grad_()


def pixel_features(trunk: nn.Module, pixels: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
    """Features (B, d) of pixels (B, 3, H, W) uint8, in mixed precision on CUDA; with a `generator` for training, each image mirrored or not."""
    device = next(trunk.parameters()).device
    if generator is not None:
        mirrored = torch.rand(len(pixels), generator=generator) < 0.5
        pixels = torch.where(mirrored[:, None, None, None].to(pixels.device), pixels.flip(3), pixels)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        return trunk(pixels.to(device)).float()


@torch.no_grad()
def encode(trunks: list[nn.Module], inputs: torch.Tensor, batch_size: int = 64) -> torch.Tensor:
    """What the layers after the trunks take: features (N, d) of one trunk, (N, L, d) of a trunk per concept; inputs that are features already stay so."""
    if inputs.dtype != torch.uint8:
        return inputs
    if not trunks:
        raise ValueError(f"inputs {tuple(inputs.shape)} are pixels, but this model was trained on features (N, d): embed the images with its backbone first")
    features = [torch.cat([pixel_features(trunk.eval(), batch) for batch in inputs.split(batch_size)]) for trunk in trunks]
    return features[0] if len(trunks) == 1 else torch.stack(features, 1)


def frozen(trunk: nn.Module) -> nn.Module:
    """The trained trunk, for use."""
    return trunk.eval().requires_grad_(False)


def concept_loss(logits: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Mean binary cross-entropy over images and concepts, of logits and labels in [0, 1], both (B, L)."""
    return F.binary_cross_entropy_with_logits(logits, present)
