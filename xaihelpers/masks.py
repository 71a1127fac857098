"""Masking by attention: a map is upsampled, turned into a mask and multiplied with an image.

A_p(c, y, x) = I_r(c, y, x) * M_p(y, x),   r = rows[p]                  (autoxplain, equation 2)
M_p(y, x) = 1 / (1 + exp(alpha (beta - v)))                             (autoxplain, equation 1)
         or v                                   (alpha None: the masks of Score-CAM and RISE)
v = map p, upsampled bilinearly to H x W, at (y, x)

I        images   (B, C, H, W)  uint8 or floating point
v        maps     (P, h, w)     low resolution
A        masked   (P, C, H, W)  the images' dtype
r        rows     (P,)          which image a map belongs to
"""

import torch
import torch.nn.functional as F


def upsample_maps(maps, size, corners=None, full=None):
    """Maps upsampled bilinearly (half-pixel centres) to `full`, and cut to `size`; (P, H, W) float32.

    maps: (P, h, w). size: H, W.
    corners: (P, 2), top and left of what is cut from each (RISE). full: F1, F2, by default `size`.
    """
    whole = F.interpolate(maps.float()[:, None], tuple(full or size), mode="bilinear", align_corners=False)
    whole = whole[:, 0]  # (P, F1, F2)
    if corners is None:
        return whole
    y = corners[:, :1] + torch.arange(size[0], device=maps.device)  # (P, H)
    x = corners[:, 1:] + torch.arange(size[1], device=maps.device)  # (P, W)
    return whole[torch.arange(len(maps), device=maps.device)[:, None, None], y[:, :, None], x[:, None, :]]


def attention_mask(values, alpha=25.0, beta=0.4):
    """Equation 1: attention (...) in [0, 1] -> mask (...); alpha None gives the attention itself."""
    return values if alpha is None else torch.sigmoid(alpha * (values - beta))


@torch.no_grad()
def mask_images(images, maps, rows=None, alpha=25.0, beta=0.4):
    """Images through their attention maps: what lies under a low attention is black.

    images: (B, C, H, W), uint8 (rounded to whole numbers) or floating point.
    maps: (P, h, w) in [0, 1], of any resolution.
    rows: (P,), which image each map belongs to; None for one map an image.
    alpha, beta: of equation 1; alpha None multiplies with the map itself.
    Returns (P, C, H, W) in the images' dtype.
    Raises ValueError for images of another kind, and for rows that do not fit.
    """
    if images.ndim != 4 or not (images.is_floating_point() or images.dtype == torch.uint8):
        raise ValueError(
            f"images must be (B, C, H, W), uint8 or floating point, got {images.dtype} {tuple(images.shape)}"
        )
    rows = torch.arange(len(images)) if rows is None else torch.as_tensor(rows)
    rows = rows.to(images.device, torch.int64)
    if len(rows) != len(maps) or not ((rows >= 0) & (rows < len(images))).all():
        raise ValueError(f"{len(maps)} maps for {len(images)} images: rows must say to which each belongs")
    masks = attention_mask(upsample_maps(maps, images.shape[2:]), alpha, beta)  # (P, H, W)
    masked = images[rows].float() * masks[:, None]
    return (masked if images.is_floating_point() else masked.round()).to(images.dtype)
