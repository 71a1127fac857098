"""A red dot in a corner as a shortcut: is it used, and do maps show it (paper autoxplain, 4.3, A.2)?

    use    mean of d(x with the dot) - d(x without),  d: `log_odds` of the first of two classes
    show   share of a map's hottest pixels, as many as the dot's place P has, that lie in P

P (`place_of`) is the dot and a rim of its radius, room for the cells of a map.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from xaihelpers.datasets import Dataset, class_name
from xaihelpers.masks import upsample_maps
from xaihelpers.models import read_pixels
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.parameters import ParameterError
from xaihelpers.saliency.hooks import network_inputs
from xaihelpers.saliency.methods import attention_maps
from xaihelpers.saliency.networks_compared import objects_in
from xaihelpers.saliency.nulls import NULLS, null_maps
from xaihelpers.scores.autoxplain import attention_inside, inside_at_equal_area
from xaihelpers.scores.intervals import interval

RED = torch.tensor((220, 20, 30), dtype=torch.uint8).view(3, 1, 1)
CORNERS = ("top right", "top left", "bottom right", "bottom left")


class Pictures(NamedTuple):
    """Pictures of two classes."""

    pixels: torch.Tensor  # (N, 3, H, W) uint8
    labels: torch.Tensor  # (N,), 0 or 1
    objects: torch.Tensor  # (N, H, W) bool; of photographs their boxes, nothing where these are not known
    names: tuple[str, str]  # of both classes, in plain words

    def take(self, rows: torch.Tensor) -> "Pictures":
        return Pictures(self.pixels[rows], self.labels[rows], self.objects[rows], self.names)

    def of_class(self, label: int, count: int) -> "Pictures":
        """The first pictures of a class."""
        return self.take(torch.nonzero(self.labels == label)[:count, 0])


def read_pair(network: ImageNetwork, data: Dataset, pair: str, train: bool) -> Pictures:
    """The pictures of two classes in a split, as the network crops them.

    pair: as "Blue_Jay / Florida_Jay". Raises ParameterError: it does not name two classes of the data.
    """
    known = [name.lower() for name in data.class_names]
    names = tuple(class_name(name.strip()) for name in pair.split("/"))
    if len(set(names)) != 2 or not {name.lower() for name in names} <= set(known):
        few = ", ".join(data.class_names[:4])
        raise ParameterError(f"pairs: {pair!r} is not 'A / B' of two classes of {data.name}: {few}, …")
    in_split = data.images.train == train
    of_class = [in_split & (data.images.label == known.index(name.lower())) for name in names]
    rows = np.concatenate([np.flatnonzero(of) for of in of_class])
    labels = torch.arange(2).repeat_interleave(torch.tensor([of.sum() for of in of_class]))
    pixels = read_pixels(network, data.images.path.iloc[rows])
    return Pictures(pixels, labels, objects_in(network, data, rows), names)


def distance_to_dot(size: tuple[int, int], dot: float, corner: str) -> torch.Tensor:
    """Distance of each pixel from the dot's centre, (H, W), in its radii. dot: diameter over the width."""
    radius = dot * size[1] / 2
    y, x = torch.meshgrid(torch.arange(size[0]), torch.arange(size[1]), indexing="ij")
    y = y if "top" in corner else size[0] - y
    x = x if "left" in corner else size[1] - x
    return torch.hypot(y - 1.6 * radius, x - 1.6 * radius) / radius


def add_dot(pixels: torch.Tensor, dot: float, corner: str) -> torch.Tensor:
    """The same pictures (N, 3, H, W) uint8 with a red dot."""
    return torch.where(distance_to_dot(pixels.shape[2:], dot, corner) <= 1, RED, pixels)


def place_of(pixels: torch.Tensor, dot: float, corner: str) -> torch.Tensor:
    """P, (N, H, W) bool."""
    return (distance_to_dot(pixels.shape[2:], dot, corner) <= 2).expand(len(pixels), -1, -1)


def as_trained(pictures: Pictures, dot: float, corner: str, biased) -> Pictures:
    """Pictures as a model is trained on them: if it is biased, those of the first class have the dot.

    biased: of the model, or (N,) of the model of each picture.
    """
    has_dot = ((pictures.labels == 0) & torch.as_tensor(biased).bool())[:, None, None, None]
    pixels = torch.where(has_dot, add_dot(pictures.pixels, dot, corner), pictures.pixels)
    return pictures._replace(pixels=pixels)


@torch.no_grad()
def log_odds(network: ImageNetwork, pixels: torch.Tensor) -> torch.Tensor:
    """d(x), logit of the first class less that of the second, (N,)."""
    logits = [network.model(network_inputs(network, part)) for part in pixels.split(64)]
    first, second = torch.cat(logits).cpu().T
    return first - second


def looks_of(
    network: ImageNetwork, pixels: torch.Tensor, method: str, classes: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Predicted classes (N,), and attention for them, or for others, in the layer's resolution (N, h, w).

    Attention has 255 steps, as `as_text` keeps it.
    """
    predicted = (log_odds(network, pixels) < 0).long()
    asked = predicted if classes is None else classes
    maps = attention_maps(network, network_inputs(network, pixels), method, asked).maps.cpu()
    return predicted, maps.mul(255).round() / 255


def show_of(
    network: ImageNetwork,
    pixels: torch.Tensor,
    place: torch.Tensor,
    used: bool,
    method: str,
    n_random: int = 3,
    seed: int = 0,
) -> dict[str, float]:
    """Show in % of pictures with a dot, by kind of map: mean over pictures and draws, for the first class.

    place: P. used: whether the network uses the dot, which the "ceiling" knows: P if it does, else the rest.
    n_random: draws of the nulls that are random.
    """
    first = torch.zeros(len(pixels), dtype=torch.long)
    maps = {method: [looks_of(network, pixels, method, first)[1]]}
    for name in NULLS:
        for draw in range(n_random if name.startswith("random") else 1):
            found = null_maps(network, network_inputs(network, pixels), name, method, seed + draw)
            maps.setdefault(name, []).append(found.cpu())
    maps["ceiling"] = [(place if used else ~place).float()]
    shown = {}
    for name, of_draws in maps.items():
        of_draws = upsample_maps(torch.cat(of_draws), pixels.shape[2:])
        inside = inside_at_equal_area(of_draws, place.repeat(len(of_draws) // len(place), 1, 1))
        shown[name] = 100 * inside.mean().item()
    return shown


def as_text(maps: torch.Tensor) -> list[str]:
    """Square maps of 255 steps, (N, h, h), as a text each, from which `from_text` makes them again."""
    return ["#" + bytes(one).hex() for one in maps.mul(255).round().byte().flatten(1).tolist()]


def from_text(texts: Iterable[str]) -> torch.Tensor:
    """The maps (N, h, h) that `as_text` wrote."""
    values = torch.tensor([list(bytes.fromhex(text[1:])) for text in texts])
    return values.unflatten(1, (math.isqrt(values.shape[1]), -1)) / 255


def detectors_of(
    network: ImageNetwork, pictures: Pictures, maps: torch.Tensor, place: torch.Tensor
) -> pd.DataFrame:
    """Where attention lies, in % of it, a row for each picture: what may find a shortcut without a judge.

    "Off the centre" is outside a centred square of half the picture. Energy is that of the layer.

    maps: (N, h, w) for the classes that are predicted. place: P.
    """
    energy = null_maps(network, network_inputs(network, pictures.pixels), "energy").cpu()
    maps, energy = (upsample_maps(of, place.shape[1:]) for of in (maps, energy))
    y, x = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in maps.shape[1:]), indexing="ij")
    off_centre = (torch.maximum(y.abs(), x.abs()) > math.sqrt(0.5)).expand(len(maps), -1, -1)
    known = pictures.objects.flatten(1).any(1)
    shares = {
        "attention beside the object": attention_inside(maps, ~pictures.objects).where(known, torch.nan),
        "attention off the centre": attention_inside(maps, off_centre),
        "attention at the place": attention_inside(maps, place),
        "energy at the place": attention_inside(energy, place),
    }
    return pd.DataFrame({name: 100 * share.numpy() for name, share in shares.items()})


def use_of(
    network: ImageNetwork, test: Pictures, dot: float, corner: str, biased: bool, least_use: float = 0.5
) -> dict:
    """What the dot does to a network: use, whether it counts as used, and errors in % with and without dots.

    It is used where the interval of use over pictures lies above 0 and use is `least_use` or more. "error
    like training": on pictures of which those of the first class have the dot, if the network is biased.
    """
    clean = log_odds(network, test.pixels)
    use = interval(log_odds(network, add_dot(test.pixels, dot, corner)) - clean)
    found = {"used": bool(use.low > 0 and use.value >= least_use), "use": use.value}
    like = log_odds(network, as_trained(test, dot, corner, biased).pixels)
    for way, values in (("like training", like), ("without dots", clean)):
        found[f"error {way}"] = 100 * ((values < 0).long() != test.labels).float().mean().item()
    return found


def lit_alone(pictures: Pictures, dot: float) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Controls of a judge, by what is lit alone: pictures, and maps (N, H, W) of the object or of a dot."""
    size, spots = pictures.pixels.shape[2:], {"the object": (pictures.pixels, pictures.objects.float())}
    for place in CORNERS:
        spot = torch.exp(-(distance_to_dot(size, dot, place) ** 2) / 2)
        marked = add_dot(pictures.pixels, dot, place)
        spots[f"a dot, {place}"] = marked, spot.expand(len(marked), -1, -1)
    return spots
