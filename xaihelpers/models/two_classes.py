"""Networks for two classes, many of them: small ones from scratch, or a backbone of which a part is trained.

| trained | of a backbone |
|---|---|
| all | every weight |
| last block | the last block of its last stage, and what follows |
| head | the linear layer behind the mean over space |

What is not trained is a trunk that all share; its outputs of a picture are computed once. It takes pictures
as they are: only where all is trained are they shifted, by a few pixels and never mirrored, so that what
stands in a corner stays there.
"""

import copy
import dataclasses
import hashlib
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from xaihelpers.models.backbones import new_backbone
from xaihelpers.models.image_network import ImageNetwork, as_target
from xaihelpers.models.weights import ModelError

LARGEST_STEP = {"": 4e-3, "all": 2e-4, "last block": 1e-3, "head": 1e-2}  # "" of the small network
SHIFT = 3  # pixels by which pictures are shifted at most


@dataclass(frozen=True, eq=False, kw_only=True)
class OnTrunk(ImageNetwork):
    """A network whose `model` takes the outputs of a frozen trunk."""

    trunk: nn.Module
    outputs: dict = field(default_factory=dict)  # by picture

    def normalised(self, pixels: torch.Tensor) -> torch.Tensor:
        """What the trained part takes of pictures (N, 3, H, W) uint8, (N, d, h, w)."""
        keys = [hashlib.sha256(picture.cpu().numpy().tobytes()).hexdigest() for picture in pixels]
        missing = [n for n, key in enumerate(keys) if key not in self.outputs]
        for n in missing:
            with torch.no_grad():
                self.outputs[keys[n]] = self.trunk(super().normalised(pixels[n : n + 1]))[0]
        return torch.stack([self.outputs[key] for key in keys])


def small_network() -> nn.Sequential:
    """Four convolutions, a mean over space, a linear layer: (N, 3, H, W) -> (N, 2); maps of a quarter."""
    layers, inside = [], 3
    for width, stride in ((16, 2), (24, 2), (32, 1), (32, 1)):
        layers += [nn.Conv2d(inside, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width)]
        layers.append(nn.ReLU())
        inside = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 2))


def base_network(
    backbone: str = "",
    trained: str = "all",
    start: str = "published",
    side: int = 80,
    layer: str = "",
    device: str | torch.device = "cpu",
) -> ImageNetwork:
    """The network that all of an experiment begin with; `renewed` gives each its own first weights.

    backbone: as of `new_backbone`; "" takes a small network from scratch. trained: of the module docstring.
    side: of the small network's input in pixels. layer: "" takes the last over space.
    Raises ModelError: another `trained`; a backbone that is no plain sequence of modules, of which a part is
        to be trained; and as `new_backbone` does.
    """
    if trained not in (("all", "last block", "head") if backbone else ("all",)):
        raise ModelError(f"trained must be all, or last block or head of a backbone, not {trained!r}")
    if not backbone:
        levels = {"mean": (0.5,) * 3, "std": (0.25,) * 3, "interpolation": "bicubic"}
        return as_target("small", small_network(), side, "", device, layer=layer or "11", **levels)
    whole = new_backbone(backbone, 2, start, device)
    if trained == "all":
        return dataclasses.replace(whole, layer=layer or whole.layer)
    model = whole.model.eval().requires_grad_(False)
    children = list(model.children())
    last = max((n for n, part in enumerate(children) if isinstance(part, nn.Sequential)), default=0)
    stages = [*children[:last], *children[last].children(), *children[last + 1 :]]
    picture = torch.zeros(1, 3, whole.crop, whole.crop, device=device)
    with torch.no_grad():
        made = nn.Sequential(*stages)(picture)
        if made.shape != (1, 2) or not torch.allclose(made, model(picture), atol=1e-3):
            raise ModelError(f"trained: {backbone} is no plain sequence of modules: take all")
    n_trained = 2 if trained == "head" else len(children) - last
    part = nn.Sequential(nn.Identity(), *stages[-n_trained:])  # the last three: maps, their mean, the head
    fields = {f.name: getattr(whole, f.name) for f in dataclasses.fields(whole)}
    fields |= {"model": part, "layer": layer or str(len(part) - 3)}
    return OnTrunk(**fields, trunk=nn.Sequential(*stages[:-n_trained]))


def renewed(base: ImageNetwork, seed: int) -> ImageNetwork:
    """A copy of a network to be trained: the small one with new weights, a backbone with a new head."""
    torch.manual_seed(seed)
    model = copy.deepcopy(base.model)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    parts = model.modules() if base.name == "small" else linear[-1:]
    for part in parts:
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    return dataclasses.replace(base, model=model, identity=f"{base.identity} seed={seed}")


def train(
    network: ImageNetwork,
    pixels: torch.Tensor,
    labels: torch.Tensor,
    trained: str = "",
    epochs: int = 30,
    batch_size: int = 16,
    largest_step: float = 0.0,
    seed: int = 0,
) -> ImageNetwork:
    """The network, trained in place by cross-entropy and AdamW with a one-cycle rate; in evaluation mode.

    pixels: (N, 3, H, W) uint8 on any device. labels: (N,). trained: "" of the small network.
    largest_step: 0 takes `LARGEST_STEP`. seed: of the shifts; the order and the light follow torch's own.
    """
    model = network.model.requires_grad_(True).train()
    device = next(model.parameters()).device
    rng, n_batches = np.random.default_rng(seed), -(-len(labels) // batch_size)
    largest = largest_step or LARGEST_STEP[trained]
    optimiser = torch.optim.AdamW(model.parameters(), lr=largest, weight_decay=0.01)
    steps = epochs * n_batches
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, largest, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).tensor_split(n_batches):
            moved = pixels[batch]
            if not isinstance(network, OnTrunk):
                moved = torch.roll(moved, rng.integers(-SHIFT, SHIFT + 1, 2).tolist(), (2, 3))
            light = 1 + 0.2 * torch.randn(len(batch), 1, 1, 1)
            logits = model(network.normalised(moved.to(device)) * light.to(device))
            loss = functional.cross_entropy(logits, labels[batch].to(device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    model.eval().requires_grad_(False)
    return network
