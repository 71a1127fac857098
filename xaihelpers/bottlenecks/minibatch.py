"""What the networks of the trained bottlenecks share: the training loop, layers, networks from pixels."""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import nn
from tqdm.auto import tqdm


def train(
    layers: Iterable[torch.Tensor],
    trunk: nn.Module | None,
    loss: Callable[[torch.Tensor], torch.Tensor],
    n_examples: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    generator: torch.Generator,
    what: str,
) -> None:
    """AdamW over examples, with a learning rate that falls along a cosine; in place.

    layers: tensors to train. trunk: a network that has learnt before, trained at a tenth of the
        `learning_rate`.
    loss: rows of a batch (B,) -> a number.
    generator: draws the batches, on the CPU.
    what: what the progress bar and errors call the model.

    Raises ValueError if the loss is not finite.
    """
    parameters = [{"params": list(layers)}]
    if trunk is not None:
        parameters.append({"params": list(trunk.parameters()), "lr": learning_rate / 10})
    batch_size = min(batch_size, n_examples)
    n_batches = n_examples // batch_size
    optimiser = torch.optim.AdamW(parameters, learning_rate, weight_decay=weight_decay, foreach=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(epochs * n_batches, 1))
    value = torch.zeros(())
    for epoch in tqdm(range(epochs), desc=what, leave=False, delay=2):
        order = torch.randperm(n_examples, generator=generator)[: n_batches * batch_size]
        for rows in order.split(batch_size):
            optimiser.zero_grad()
            value = loss(rows)
            value.backward()
            optimiser.step()
            schedule.step()
        if not value.isfinite():
            raise ValueError(
                f"{what}: the loss is {value.item()} after epoch {epoch + 1}: lower learning_rate, or look "
                "for extreme values in the inputs"
            )


def layer(shape: tuple[int, ...], fan_in: int, generator: torch.Generator, device) -> torch.Tensor:
    """Weights of a layer to be trained, uniform within ±1/√fan_in as in torch, alike on every device."""
    return ((2 * torch.rand(shape, generator=generator) - 1) / fan_in**0.5).to(device).requires_grad_()


def feature_statistics(
    inputs: torch.Tensor, trunk: nn.Module | None, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of the features, two tensors (d,) on `device`.

    inputs: features (N, d); or, with a `trunk`, pixels, for which the two are 0 and 1, because the features
        change while the trunk learns.
    """
    if trunk is None:
        return inputs.mean(0).to(device), inputs.std(0).clamp(min=1e-6).to(device)
    with torch.no_grad():
        width = trunk.eval()(inputs[:2].to(device)).shape[1]
    return torch.zeros(width, device=device), torch.ones(width, device=device)


def pixel_features(
    trunk: nn.Module, pixels: torch.Tensor, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Features (B, d) float32 of pixels (B, 3, H, W) uint8, on the trunk's device; bfloat16 inside on CUDA.

    generator: for training; each image is mirrored with probability 1/2.
    """
    device = next(trunk.parameters()).device
    if generator is not None:
        mirrored = torch.rand(len(pixels), generator=generator) < 0.5
        pixels = torch.where(mirrored[:, None, None, None].to(pixels.device), pixels.flip(3), pixels)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        return trunk(pixels.to(device)).float()


@torch.no_grad()
def encode(trunks: list[nn.Module], inputs: torch.Tensor, batch_size: int = 64) -> torch.Tensor:
    """What the layers after the trunks take: features (N, d) of one trunk, (N, L, d) of a trunk per concept.

    inputs: pixels (N, 3, H, W) uint8; anything else is features already, and stays as it is.

    Raises ValueError for pixels where there is no trunk.
    """
    if inputs.dtype != torch.uint8:
        return inputs
    if not trunks:
        raise ValueError(
            f"inputs {tuple(inputs.shape)} are pixels, but this model was trained on features (N, d): embed "
            "the images with its backbone first"
        )
    features = []
    for trunk in trunks:
        trunk.eval()
        features.append(torch.cat([pixel_features(trunk, batch) for batch in inputs.split(batch_size)]))
    return features[0] if len(trunks) == 1 else torch.stack(features, 1)


def frozen(trunk: nn.Module) -> nn.Module:
    """The trained trunk, for use."""
    return trunk.eval().requires_grad_(False)


def concept_loss(logits: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Mean binary cross-entropy over images and concepts, of logits and labels in [0, 1], both (B, L)."""
    return F.binary_cross_entropy_with_logits(logits, present)
