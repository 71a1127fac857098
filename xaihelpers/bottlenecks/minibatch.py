"""What the networks of the trained bottlenecks share: the training loop, layers, networks from pixels."""

from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.transforms import ColorJitter, RandomResizedCrop
from torchvision.transforms import functional as transforms
from tqdm.auto import tqdm

from xaihelpers.bottlenecks.training_state import restore_state, save_state

RECIPES = ("adamw", "koh")


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
    recipe: str = "adamw",
    checkpoint: Path | None = None,
) -> None:
    """Minimise a loss over examples; in place.

    layers: tensors to train. trunk: a network that has learnt before.
    loss: rows of a batch (B,) -> a number.
    generator: draws the batches, on the CPU.
    what: what the progress bar and errors call the model.
    recipe: "adamw" with a learning rate that falls along a cosine, a tenth of it for the trunk; "koh",
        stochastic gradient descent with momentum 0.9 and one learning rate for all, as Koh et al. 2020 train.
    checkpoint: a file that keeps the state after each epoch, from which a run that was killed goes on.

    Raises ValueError for another recipe and if the loss is not finite.
    """
    if recipe not in RECIPES:
        raise ValueError(f"recipe must be one of {', '.join(RECIPES)}, not {recipe!r}")
    layers = list(layers)
    parameters = [{"params": layers}]
    if trunk is not None:
        rate = learning_rate if recipe == "koh" else learning_rate / 10
        parameters.append({"params": list(trunk.parameters()), "lr": rate})
    batch_size = min(batch_size, n_examples)
    n_batches = n_examples // batch_size
    n_steps = max(epochs * n_batches, 1)
    if recipe == "koh":
        optimiser = torch.optim.SGD(parameters, learning_rate, momentum=0.9, weight_decay=weight_decay)
        schedule = torch.optim.lr_scheduler.ConstantLR(optimiser, factor=1.0, total_iters=n_steps)
    else:
        optimiser = torch.optim.AdamW(parameters, learning_rate, weight_decay=weight_decay, foreach=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, n_steps)
    parts = {"optimiser": optimiser, "schedule": schedule} | ({"trunk": trunk} if trunk is not None else {})
    first = restore_state(checkpoint, layers, parts, generator) if checkpoint else 0
    value = torch.zeros(())
    for epoch in tqdm(range(first, epochs), desc=what, leave=False, delay=2):
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
        if checkpoint:
            save_state(checkpoint, epoch + 1, layers, parts, generator)


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
    trunk: nn.Module,
    pixels: torch.Tensor,
    generator: torch.Generator | None = None,
    recipe: str = "adamw",
) -> torch.Tensor:
    """Features (B, d) float32 of pixels (B, 3, H, W) uint8, on the trunk's device; bfloat16 inside on CUDA.

    generator: for training; each image is mirrored with probability 1/2, and by the recipe "koh" its colours
        and its section are changed as well (`koh_augmented`).
    """
    device = next(trunk.parameters()).device
    if generator is not None:
        if recipe == "koh":
            pixels = torch.stack([koh_augmented(image, generator) for image in pixels])
        mirrored = torch.rand(len(pixels), generator=generator) < 0.5
        pixels = torch.where(mirrored[:, None, None, None].to(pixels.device), pixels.flip(3), pixels)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        return trunk(pixels.to(device)).float()


def koh_augmented(image: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """An image as Koh et al. 2020 change it in training, but for the mirroring: (3, H, W) uint8 of its size.

    Brightness by up to 32/255 and saturation by up to a half, then a random section of at least 8 % of the
    area, enlarged to the whole.
    """
    seed = int(torch.randint(2**31, (1,), generator=generator))
    with torch.random.fork_rng(devices=[]):  # torchvision draws from torch's own generator
        torch.manual_seed(seed)
        changed = ColorJitter(brightness=32 / 255, saturation=0.5)(image)
        top, left, height, width = RandomResizedCrop.get_params(changed, (0.08, 1.0), (3 / 4, 4 / 3))
    return transforms.resized_crop(changed, top, left, height, width, list(image.shape[1:]), antialias=True)


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


def concept_loss(
    logits: torch.Tensor, present: torch.Tensor, weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Mean binary cross-entropy over images and concepts, of logits and labels in [0, 1], both (B, L).

    weights: (L,), of the presence of each concept, see `rarity`.
    """
    return F.binary_cross_entropy_with_logits(logits, present, pos_weight=weights)


def rarity(present: torch.Tensor, recipe: str) -> torch.Tensor | None:
    """How much the presence of each concept weighs in the loss, (L,): as absent over present, by Koh et al.

    present: (N, L) in [0, 1]. None by the recipe "adamw".
    """
    if recipe != "koh":
        return None
    shares = present.mean(0).clamp(1 / len(present), 1 - 1 / len(present))
    return (1 - shares) / shares
