"""Masking by attention: a map is upsampled, turned into a mask and multiplied with an image, in one pass.

    A_p(c, y, x) = I_r(c, y, x) * M_p(y, x),   r = rows[p]                  (autoxplain, equation 2)
    M_p(y, x) = 1 / (1 + exp(alpha (beta - v)))                             (autoxplain, equation 1)
             or v                                   (alpha None: the masks of Score-CAM and RISE)
    v = map p, upsampled bilinearly to H x W, at (y, x)

    I        images   (B, C, H, W)  uint8 or floating point
    v        maps     (P, h, w)     low resolution
    A        masked   (P, C, H, W)  the images' dtype
    r        rows     (P,)          which image a map belongs to

Why a kernel: step by step, the upsampled map and the mask are written and read again: 16 H W bytes besides
the 2 C H W e of the images, of e bytes a number. Score-CAM multiplies one image with 512 maps: 100 MB of
masks at 224 x 224, which nobody needs to see. Fused, a program reads its pixels once, computes v from four
cells of a map that fits into the cache, and writes the product.
"""

import torch
import torch.nn.functional as F

from xaihelpers.kernels.dispatch import choose_backend, tl, triton


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


def mask_images_reference(images, maps, rows=None, alpha=25.0, beta=0.4):
    """`mask_images` step by step; same arguments, returns and errors."""
    rows = _check(images, maps, rows)
    masks = attention_mask(upsample_maps(maps, images.shape[2:]), alpha, beta)  # (P, H, W)
    masked = images[rows].float() * masks[:, None]
    return (masked if images.is_floating_point() else masked.round()).to(images.dtype)


if triton is not None:

    @triton.jit
    def _cells(pixel, cells, full):
        """The two cells between which a pixel of an upsampled axis lies, and the second one's weight."""
        scale = cells / full  # float32; a size of 1 is a constant of the compiler, without `.to`
        source = tl.maximum((pixel.to(tl.float32) + 0.5) * scale - 0.5, 0.0)
        low = tl.minimum(source.to(tl.int32), cells - 1)
        return low, tl.minimum(low + 1, cells - 1), source - low.to(tl.float32)

    @triton.jit
    def _mask_kernel(
        images, maps, masked, rows, corners, alpha, beta, h, w, F1, F2, H, W, sb, sc, sy, sx, tp, tc, ty, tx,
        C: tl.constexpr, SIGMOID: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """One program: a block of pixels of one masked image, all its channels."""
        p = tl.program_id(0).to(tl.int64)
        pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = pixel < H * W
        y, x = pixel // W, pixel % W
        top, bottom, t = _cells(y + tl.load(corners + 2 * p), h, F1)
        left, right, s = _cells(x + tl.load(corners + 2 * p + 1), w, F2)
        cell = maps + p * h * w
        a = tl.load(cell + top * w + left, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(cell + top * w + right, mask=inside, other=0.0).to(tl.float32)
        c = tl.load(cell + bottom * w + left, mask=inside, other=0.0).to(tl.float32)
        d = tl.load(cell + bottom * w + right, mask=inside, other=0.0).to(tl.float32)
        value = (1 - t) * ((1 - s) * a + s * b) + t * ((1 - s) * c + s * d)
        if SIGMOID:
            value = 1 / (1 + tl.exp(alpha * (beta - value)))
        image = images + tl.load(rows + p) * sb + y.to(tl.int64) * sy + x.to(tl.int64) * sx
        out = masked + p * tp + y.to(tl.int64) * ty + x.to(tl.int64) * tx
        for channel in range(C):
            product = tl.load(image + channel * sc, mask=inside, other=0).to(tl.float32) * value
            if ROUND:  # to the nearest whole number, halves to the even one, as torch does
                low = tl.floor(product)
                odd = low - 2 * tl.floor(low / 2)
                product = low + ((product - low > 0.5) | ((product - low == 0.5) & (odd == 1))).to(tl.float32)
            tl.store(out + channel * tc, product.to(masked.dtype.element_ty), mask=inside)


def _mask_triton(images, maps, rows, alpha, beta, masked=None):
    """Launch the kernel; `masked`, (P, C, H, W) in any layout, may be given, and is overwritten."""
    rows = _check(images, maps, rows)
    corners = torch.zeros(len(maps), 2, dtype=torch.int64, device=images.device)  # whole maps: nothing is cut
    _, C, H, W = images.shape
    P, h, w = maps.shape
    BLOCK = 1024
    if masked is None:
        masked = torch.empty((P, C, H, W), dtype=images.dtype, device=images.device)
        if images.is_contiguous(memory_format=torch.channels_last):
            masked = masked.contiguous(memory_format=torch.channels_last)
    sizes = h, w, H, W, H, W, *images.stride(), *masked.stride()
    constants = {"C": C, "SIGMOID": alpha is not None, "ROUND": not images.is_floating_point()}
    if masked.numel():
        tensors = images, maps.contiguous(), masked, rows, corners
        with torch.cuda.device_of(images):
            _mask_kernel[(P, triton.cdiv(H * W, BLOCK))](
                *tensors, alpha or 0.0, beta, *sizes, **constants, BLOCK=BLOCK
            )
    return masked


def _check(images, maps, rows):
    """Raise ValueError on bad arguments; else rows (P,) int64."""
    if images.ndim != 4 or not (images.is_floating_point() or images.dtype == torch.uint8):
        raise ValueError(
            f"images must be (B, C, H, W), uint8 or floating point, got {images.dtype} {tuple(images.shape)}"
        )
    rows = torch.arange(len(images)) if rows is None else torch.as_tensor(rows)
    rows = rows.to(images.device, torch.int64)
    if len(rows) != len(maps) or not ((rows >= 0) & (rows < len(images))).all():
        raise ValueError(f"{len(maps)} maps for {len(images)} images: rows must say to which each belongs")
    return rows


@torch.no_grad()
def mask_images(images, maps, rows=None, alpha=25.0, beta=0.4, backend="auto"):
    """Images through their attention maps: what lies under a low attention is black.

    images: (B, C, H, W), uint8 (rounded to whole numbers) or floating point.
    maps: (P, h, w) in [0, 1], of any resolution.
    rows: (P,), which image each map belongs to; None for one map an image.
    alpha, beta: of equation 1; alpha None multiplies with the map itself.
    backend: "auto" (Triton for images on a GPU, else torch), "torch" or "triton".
    Returns (P, C, H, W) in the images' dtype.
    Raises ValueError naming the argument; RuntimeError if a backend cannot run.
    """
    launch = mask_images_reference if choose_backend(backend, images) == "torch" else _mask_triton
    return launch(images, maps, rows, alpha, beta)
