"""Where in the image a bottleneck's concept values come from: the same model, asked of each place alone.

A bottleneck on pooled features takes f(X) = mean of E(X) over places, so it can be asked of E at one place as
well. Of a linear concept layer this is the concept activation map of paper alignment, eq. 2, up to a factor
and a constant for each concept, which change no rank of a place; other layers (hidden units, concept
embeddings) have no map that adds up to their value.

| symbol | name | shape |
|---|---|---|
| E, last feature maps | `maps` | (N, d, H, W) |
| F, or û of a place | result | (N, L, H, W) |
"""

import torch
from einops import rearrange

from xaihelpers.bottlenecks.posthoc import PosthocCBM
from xaihelpers.kernels import coam

CHUNK = 65536  # places at a time


def local_values(model, maps: torch.Tensor) -> torch.Tensor:
    """Concept values (N, L, H, W) of every place of feature maps (N, d, H, W), on the maps' device.

    model: a bottleneck on pooled features, with `explain`. Of a post-hoc CBM the concept activation maps.

    Raises ValueError for a model that takes pixels, and as its `explain` does.
    Source: paper alignment, eq. 2.
    """
    if getattr(model, "trunks", None):
        raise ValueError("this model takes pixels, not the maps of a frozen backbone: it has no local values")
    if isinstance(model, PosthocCBM):
        return coam.concept_maps(maps, model.bank)
    n_images, _, height, _ = maps.shape
    places = rearrange(maps, "n d h w -> (n h w) d")
    values = torch.cat([model.explain(chunk).values for chunk in places.split(CHUNK)])  # (N H W, L)
    return rearrange(values, "(n h w) l -> n l h w", n=n_images, h=height)
