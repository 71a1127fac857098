"""An image network with its own preprocessing: every classifier, segmenter and backbone is one."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import nn
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as transforms

from xaihelpers.datasets.dataset import Dataset
from xaihelpers.devices import resolve_device
from xaihelpers.models.layers import find_layer, logits_of
from xaihelpers.models.networks import IMAGENET
from xaihelpers.models.weights import ModelError


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageNetwork:
    """A classifier or segmenter in evaluation mode, with its preprocessing."""

    name: str
    model: nn.Module
    # where feature maps are taken: "forward_features" (timm), a submodule's output, or "submodule:input"
    layer: str
    # new length of the short side, or (height, width), in pixels; 0 leaves images as they are
    resize: int | tuple[int, int]
    crop: int  # side of the centred square that the network sees, in pixels
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    n_classes: int  # of its own head
    identity: str  # name, sha256 of the weights, preprocessing and layer: what its outputs depend on

    def cropped(self, image: Image.Image) -> Image.Image:
        """An RGB image resized and centrally cropped, (crop, crop) pixels."""
        if not self.resize:
            return transforms.center_crop(image, [self.crop])  # black where the image is smaller
        size = [self.resize] if isinstance(self.resize, int) else list(self.resize)
        resized = transforms.resize(image, size, InterpolationMode(self.interpolation))
        return transforms.center_crop(resized, [self.crop])

    def normalised(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pixels (..., 3, H, W) uint8 as the network takes them, float32 on the same device."""
        mean = torch.tensor(self.mean, device=pixels.device).view(3, 1, 1)
        std = torch.tensor(self.std, device=pixels.device).view(3, 1, 1)
        return pixels.float().div(255).sub_(mean).div_(std)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        """The network's input for one RGB image, (3, crop, crop) float32."""
        return self.normalised(torch.from_numpy(np.array(self.cropped(image))).permute(2, 0, 1))


def as_target(
    name: str,
    model: nn.Module,
    size: int,
    identity: str,
    device: str | torch.device = "cpu",
    like: ImageNetwork | None = None,
    **preprocessing,
) -> ImageNetwork:
    """An `ImageNetwork` of any classifier or segmenter, in evaluation mode and on `device`.

    model: (N, 3, size, size) float32 -> logits (N, K) or (N, K, H, W); it is changed in place: its parameters
        no longer require gradients.
    size: side of its square inputs in pixels. identity: what its outputs depend on, for caches.
    like: another network whose preprocessing it shares; without one, the fields given as `preprocessing`
        (resize, crop, interpolation, mean, std), by default ImageNet's mean and standard deviation at `size`.
    Raises ModelError: no such device, outputs that are no logits, no layer over space.
    """
    device = resolve_device(device, ModelError)
    model = model.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)
    blank = torch.zeros(1, 3, size, size, device=device)
    fields = {"resize": size, "crop": size, "interpolation": "bilinear", **IMAGENET} | preprocessing
    if like is not None:
        fields |= {key: getattr(like, key) for key in ("resize", "interpolation", "mean", "std")}
    return ImageNetwork(
        name=name,
        model=model,
        layer=find_layer(model, blank),
        n_classes=logits_of(model(blank)).shape[1],
        identity=identity,
        **fields,
    )


def crop_masks(network: ImageNetwork, data: Dataset, rows: Iterable[int]) -> torch.Tensor | None:
    """Part numbers of images as the network crops them, (n, crop, crop) uint8, 0 for the background.

    rows: n positions in `data.images`, counted from 0.
    Returns None for data sets without part masks.
    Raises DatasetError where the mask of an image is missing.
    """
    if data.mask_names is None:
        return None
    nearest = dataclasses.replace(network, interpolation="nearest")
    masks = [nearest.cropped(Image.fromarray(data.part_mask(int(row)))) for row in rows]
    return torch.stack([torch.from_numpy(np.array(mask)) for mask in masks])
