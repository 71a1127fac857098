"""What the trained bottlenecks share: layers, the training loop, and networks that see pixels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR
from torchvision.transforms import ColorJitter, RandomResizedCrop
from torchvision.transforms import functional as transforms
from tqdm.auto import tqdm

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset
from xaihelpers.training import read_checkpoint, save_checkpoint

RECIPES = ("adamw", "koh")
BATCH_SIZE = 64
CONCEPT_WEIGHT = 5.0  # λ, of the concepts' loss beside that of the classes


@dataclass(kw_only=True)
class ConceptNetwork:
    """What a trained bottleneck of L concepts and K classes has beside its concept layers.

    `mean`, `std` (d,): of the features, which are standardised by them.
    `trunks`: what turns pixels into features, none where these come from a frozen backbone.
    """

    mean: torch.Tensor
    std: torch.Tensor
    class_weights: torch.Tensor
    class_bias: torch.Tensor
    concepts: list[str]
    classes: list[str]
    trunks: list[nn.Module] = field(default_factory=list)
    low, high = 0.0, 1.0  # what a person's "absent" and "present" set a probability to

    @torch.no_grad()
    def encode(self, inputs: torch.Tensor) -> torch.Tensor:
        """Features (N, d) of pixels (N, 3, H, W) uint8; (N, L, d) of a trunk per concept; features stay."""
        if inputs.dtype != torch.uint8:
            return inputs
        features = []
        for trunk in self.trunks:
            batches = [pixel_features(trunk.eval(), batch) for batch in inputs.split(BATCH_SIZE)]
            features.append(torch.cat(batches))
        return features[0] if len(features) == 1 else torch.stack(features, 1)


def layer(shape: tuple[int, ...], fan_in: int, generator: torch.Generator, device) -> torch.Tensor:
    """Weights of a layer to be trained, uniform within ±1/√fan_in as in torch, alike on every device."""
    return ((2 * torch.rand(shape, generator=generator) - 1) / fan_in**0.5).to(device)


def training_set(dataset: ConceptDataset, device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict]:
    """What a network is trained on: inputs, concept labels (N, L) and classes (N,) of the training images.

    Last the fields that all networks have, but for the head, before training. With a trunk the inputs are
    pixels (N, 3, H, W) uint8, and `mean` and `std` 0 and 1, as features change while it learns.
    """
    train = dataset.train
    present, labels = dataset.present[train].float().to(device), dataset.labels[train].to(device)
    fields = {"concepts": list(dataset.concepts), "classes": list(dataset.classes)}
    if dataset.trunk is None:
        inputs = dataset.pooled[train]
        mean, std = inputs.mean(0), inputs.std(0).clamp(min=1e-6)
        fields |= {"mean": mean.to(device), "std": std.to(device)}
        return inputs.to(device), present, labels, fields
    trunk = dataset.trunk().to(device)
    with torch.no_grad():
        width = trunk.eval()(dataset.pixels[:2].to(device)).shape[1]
    fields |= {"mean": torch.zeros(width, device=device), "std": torch.ones(width, device=device)}
    return dataset.pixels[train], present, labels, fields | {"trunks": [trunk]}


def train(
    model: ConceptNetwork,
    names: Sequence[str],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    inputs: torch.Tensor,
    generator: torch.Generator,
    checkpoints: Path | None,
    epochs: int,
    learning_rate: float,
    weight_decay: float = 1e-2,
    recipe: str = "adamw",
) -> None:
    """Minimise a loss over a model's layers and its trunk; in place.

    names: of the layers. loss: features (B, d) and the rows (B,) that they are of -> a number.
    generator: draws the batches, on the CPU.
    checkpoints: a folder for the state after each epoch, from which a run that was killed goes on; or None.
    recipe: "adamw" with a learning rate that falls along a cosine, a tenth of it for the trunk; "koh",
        stochastic gradient descent with momentum 0.9 and one learning rate for all, as Koh et al. 2020 train;
        their augmentation and weights of rare concepts go with it, rate and weight decay are to be given.

    Raises ValueError for another recipe and if the loss is not finite.
    """
    if recipe not in RECIPES:
        raise ValueError(f"recipe must be one of {', '.join(RECIPES)}, not {recipe!r}")
    layers = nn.ParameterDict({name: getattr(model, name) for name in names})
    vars(model).update(layers)
    parameters, learnt, trunk = [{"params": list(layers.values())}], {"layers": layers}, None
    if model.trunks:
        learnt["trunk"] = trunk = model.trunks[0].train().requires_grad_(True)
        rate = learning_rate if recipe == "koh" else learning_rate / 10
        parameters.append({"params": list(trunk.parameters()), "lr": rate})
    batch_size = min(BATCH_SIZE, len(inputs))
    n_batches = len(inputs) // batch_size
    if recipe == "koh":
        optimiser = torch.optim.SGD(parameters, learning_rate, momentum=0.9, weight_decay=weight_decay)
        schedule = ConstantLR(optimiser, factor=1.0)
    else:
        optimiser = torch.optim.AdamW(parameters, learning_rate, weight_decay=weight_decay, foreach=True)
        schedule = CosineAnnealingLR(optimiser, max(epochs * n_batches, 1))
    parts = learnt | {"optimiser": optimiser, "schedule": schedule}
    checkpoint = checkpoints / "layers.checkpoint" if checkpoints else None
    done = 0
    if checkpoint and (state := read_checkpoint(checkpoint)):
        for name in parts.keys() & state.keys():
            parts[name].load_state_dict(state[name])
        generator.set_state(state["generator"])
        done = state["epoch"]
    for epoch in tqdm(range(done + 1, epochs + 1), desc=type(model).__name__, leave=False, delay=2):
        order = torch.randperm(len(inputs), generator=generator)[: n_batches * batch_size]
        for rows in order.split(batch_size):
            optimiser.zero_grad()
            batch = inputs[rows]
            value = loss(pixel_features(trunk, batch, generator, recipe) if trunk else batch, rows)
            value.backward()
            optimiser.step()
            schedule.step()
        if not value.isfinite():
            raise ValueError(f"the loss is {value.item()} after epoch {epoch}: lower learning_rate")
        if checkpoint:
            needed = parts if epoch < epochs else learnt  # what is finished needs no optimiser
            state = {name: part.state_dict() for name, part in needed.items()}
            save_checkpoint(state | {"epoch": epoch, "generator": generator.get_state()}, checkpoint)
    vars(model).update({name: layer.detach() for name, layer in layers.items()})
    if trunk:
        trunk.eval().requires_grad_(False)


def pixel_features(
    trunk: nn.Module, pixels: torch.Tensor, generator: torch.Generator | None = None, recipe: str = "adamw"
) -> torch.Tensor:
    """Features (B, d) float32 of pixels (B, 3, H, W) uint8, on the trunk's device; bfloat16 inside on CUDA.

    generator: for training; each image is mirrored with probability 1/2, and by "koh" first `koh_augmented`.
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
        section = RandomResizedCrop.get_params(changed, (0.08, 1.0), (3 / 4, 4 / 3))
    return transforms.resized_crop(changed, *section, list(image.shape[1:]), antialias=True)


def rarity(present: torch.Tensor, recipe: str) -> torch.Tensor | None:
    """How much the presence of each concept weighs in the loss, (L,): as absent over present, by Koh et al.

    present: (N, L) in [0, 1]. None by the recipe "adamw".
    """
    if recipe != "koh":
        return None
    shares = present.mean(0).clamp(1 / len(present), 1 - 1 / len(present))
    return (1 - shares) / shares
