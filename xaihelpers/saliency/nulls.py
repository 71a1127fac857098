"""Maps that know nothing of the class, or nothing at all: what a score of attention is to be held against.

Not in paper autoxplain. A score of location that one of these reaches is no evidence of an explanation.

    centre prior    v = exp(-|x - centre|^2 / 2 s^2), s an eighth of the side; the same for every picture
    random map      uniform noise on 7 x 7 cells, of each picture its own
    energy          v = mean over the maps of A_j^2: where the layer responds, whatever the class
    random weights  the method itself, on the network with all its weights shuffled, for what that predicts

    A   maps of the layer, (N, d, h, w)        v   (N, h, w), then scaled to [0, 1]

Shuffled weights: the sanity check of Adebayo et al. 2018, with the values of each tensor in random order, so
that their scale stays.
"""

import copy
import dataclasses
import math

import torch

from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.saliency.hooks import SaliencyError, activations_and_gradients
from xaihelpers.saliency.methods import attention_maps, scaled_maps

NULLS = ("centre prior", "random map", "energy", "random weights")


def null_maps(
    network: ImageNetwork,
    inputs: torch.Tensor,
    name: str,
    method: str = "gradcam",
    seed: int = 0,
    batch_size: int = 64,
) -> torch.Tensor:
    """Maps of N images that know nothing, (N, h, w) in [0, 1].

    inputs: (N, 3, H, W), normalised, on the network's device. name: one of NULLS.
    method: of "random weights". seed: of the two that are random.
    Raises SaliencyError for an unknown name, and as `attention_maps` does.
    """
    if name == "centre prior":
        maps = centre_map(32, 32).expand(len(inputs), -1, -1)
    elif name == "random map":
        maps = torch.rand(len(inputs), 7, 7, generator=torch.Generator().manual_seed(seed))
    elif name == "energy":
        energy = []
        for part in inputs.split(batch_size):
            _, of_part, _ = activations_and_gradients(network.model, part, network.layer)
            energy.append(of_part.square().mean(1))
        maps = torch.cat(energy)
    elif name == "random weights":
        shuffled = shuffled_weights(network, seed=seed)
        maps = attention_maps(shuffled, inputs, method, batch_size=batch_size, seed=seed).maps
    else:
        raise SaliencyError(f"unknown null {name!r}: there are {', '.join(NULLS)}")
    return scaled_maps(maps.to(inputs.device))[0]


def centre_map(height: int, width: int) -> torch.Tensor:
    """The centre prior, a round patch in the middle, (height, width), not scaled."""
    y, x = ((torch.arange(n) + 0.5) / n - 0.5 for n in (height, width))
    return torch.exp(-(y[:, None] ** 2 + x**2) / (2 * 0.125**2))


@torch.no_grad()
def shuffled_weights(network: ImageNetwork, share: float = 1.0, seed: int = 0) -> ImageNetwork:
    """A copy of a network with the weights of this share of its layers, from the last one back, shuffled.

    A layer is a module with parameters of its own; the values of each of its tensors are put in random order.
    share: from 0, none, to 1, all; of a share between them, at least one.
    """
    model = copy.deepcopy(network.model)
    layers = [module for module in model.modules() if list(module.parameters(recurse=False))]
    generator = torch.Generator().manual_seed(seed)
    for module in layers[len(layers) - math.ceil(share * len(layers)) :]:
        for weights in module.parameters(recurse=False):
            order = torch.randperm(weights.numel(), generator=generator).to(weights.device)
            weights.copy_(weights.flatten()[order].view(weights.shape))
    identity = f"{network.identity} shuffled={share:g} seed={seed}"
    return dataclasses.replace(network, model=model, identity=identity)
