"""A CLIP's image tower as a classifier: a linear layer on its embeddings of a training split."""

import numpy as np
import torch
from open_clip.transform import PreprocessCfg
from sklearn.linear_model import LogisticRegression
from torch import nn

from xaihelpers.datasets import Dataset
from xaihelpers.models.clip import embed_images, load_clip
from xaihelpers.models.image_network import ImageNetwork, as_target
from xaihelpers.models.weights import ModelError


class _Probe(nn.Module):
    """The image tower of a CLIP with a linear layer on its unit embeddings: (N, 3, H, W) -> (N, K)."""

    def __init__(self, tower: nn.Module, weights: np.ndarray, bias: np.ndarray):
        super().__init__()
        self.tower = tower
        self.head = nn.Linear(weights.shape[1], weights.shape[0])
        self.head.weight.data = torch.tensor(weights, dtype=torch.float32)
        self.head.bias.data = torch.tensor(bias, dtype=torch.float32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(nn.functional.normalize(self.tower(x), dim=-1))


def clip_probe(
    name: str, data: Dataset, weights: str = "", device: str | torch.device = "cpu", layer: str = ""
) -> ImageNetwork:
    """A CLIP's image tower as a classifier of a data set's classes, by logistic regression (scikit-learn).

    name, weights: as `load_clip` takes them. layer: as of `as_target`.
    Raises ModelError: as `load_clip`, an embedding that is not finite, a training split without images of
        every class or with fewer than two classes, a CLIP that sees no square cut from the centre.
    Raises DatasetError: an image that cannot be read.
    """
    train = data.images[data.images.train]
    if train.label.nunique() < max(2, len(data.classes)):
        raise ModelError(
            f"{name}: its linear layer is trained on the training split, but {data.name} has images of "
            f"{train.label.nunique()} of its {len(data.classes)} classes there"
        )
    clip = load_clip(name, weights, device=device)
    seen = PreprocessCfg(**clip.model.visual.preprocess_cfg)
    height, width = seen.input_size[1:]
    if height != width or seen.resize_mode != "shortest":
        raise ModelError(
            f"{name}: it sees pictures of {height} x {width} pixels, resized by {seen.resize_mode!r}, and no "
            "square cut from the centre: name a CLIP that does"
        )
    embeddings = embed_images(clip, train.path.tolist())
    # to its end, so that rounding, as by other threads, does not show
    regression = LogisticRegression(C=100, tol=1e-6, max_iter=3000, random_state=0)
    regression.fit(embeddings.double().numpy(), train.label)
    coefficients, intercepts = regression.coef_, regression.intercept_
    if len(coefficients) == 1:  # of two classes, scikit-learn keeps one row of weights, that of the second
        coefficients = np.concatenate([-coefficients, coefficients]) / 2
        intercepts = np.concatenate([-intercepts, intercepts]) / 2
    probe = _Probe(clip.model.visual, coefficients, intercepts)
    levels = {"interpolation": seen.interpolation, "mean": tuple(seen.mean), "std": tuple(seen.std)}
    identity = f"{clip.identity} probe 0"
    return as_target(name, probe, height, identity, device, layer, data.class_names, **levels)
