"""A picture masked by attention: steepness, middle and method by sliders, and how much light is left.

Paper autoxplain, equations 1 and 2: M = 1 / (1 + exp(alpha (beta - v))), A = I * M.
"""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure

from xaihelpers.kernels.masking import attention_mask, upsample_maps
from xaihelpers.plots import PALETTE
from xaihelpers.widgets.board import Board
from xaihelpers.widgets.controls import choice, slider


def mask_board(
    pictures: torch.Tensor,
    names: Sequence[str],
    maps: dict[str, torch.Tensor],
    alpha: float,
    beta: float,
    objects: torch.Tensor | None = None,
) -> Board:
    """A board of masked pictures.

    pictures: (n, 3, H, W) uint8. names: of the pictures, n different ones.
    maps: method -> attention (n, h, w) in [0, 1]. alpha, beta: where the sliders begin.
    objects: (n, H, W) bool, the pixels of the object; None where they are not known.
    Raises ValueError: as `Board`.
    """
    names, size = list(names), tuple(pictures.shape[2:])
    large = {method: upsample_maps(of.cpu(), size) for method, of in maps.items()}  # (n, H, W) each
    controls = [
        choice("picture", "picture", names),
        choice("method", "method", list(maps)),
        slider("alpha", "α, steepness", min(1, alpha), max(50, alpha), 1),
        slider("beta", "β, middle", min(0, beta), max(1, beta), 0.05),
    ]

    def draw(values: dict) -> tuple[Figure, str]:
        i = names.index(values["picture"])
        masks = {
            method: attention_mask(of[i], values["alpha"], values["beta"]) for method, of in large.items()
        }
        inside = None if objects is None else objects[i].cpu().bool()
        shares = {method: light_shares(mask, inside) for method, mask in masks.items()}
        whole = pictures[i].permute(1, 2, 0).cpu().numpy()
        masked = (whole * masks[values["method"]][..., None].numpy()).round().astype(np.uint8)
        fig = Figure(figsize=(6.4, 2.6), layout="constrained")
        axes = fig.subplots(1, 3, width_ratios=[1, 1, 1.1])
        for ax, image, title in zip(axes, (whole, masked), ("the picture", values["method"]), strict=False):
            ax.imshow(image)
            ax.set_title(title, fontsize=10)
            ax.axis("off")
        _draw_shares(axes[2], shares, values["method"])
        left, on_object = shares[values["method"]]
        text = (
            f"{values['method']}, α = {values['alpha']:g}, β = {values['beta']:g}: {left:.0f} % of the light"
        )
        text += " is left"
        if inside is not None:
            text += (
                f", {on_object:.0f} % of it on the object, which fills {100 * inside.float().mean():.0f} %"
            )
        return fig, f"{text}."

    title = "Mask a picture by attention: choose method, steepness and middle."
    first = {"picture": names[0], "method": next(iter(maps)), "alpha": alpha, "beta": beta}
    return Board(title, controls, first, draw)


def light_shares(mask: torch.Tensor, inside: torch.Tensor | None) -> tuple[float, float]:
    """How much light a mask (H, W) leaves, and how much of that lies inside, both in %; NaN if unknown."""
    on_object = float("nan") if inside is None else 100 * float(mask[inside].sum() / mask.sum())
    return 100 * float(mask.mean()), on_object


def _draw_shares(ax, shares: dict[str, tuple[float, float]], chosen: str) -> None:
    """A line a method: a dot for the light that is left, a square for the share of it on the object."""
    methods, places = list(shares), np.arange(len(shares))
    left, on_object = np.array(list(shares.values())).T
    ax.plot(left, places, "o", color=PALETTE[0], label="of the light left")
    if not np.isnan(on_object).all():
        ax.plot(on_object, places, "s", color=PALETTE[1], label="of that on the object")
    ax.axhspan(methods.index(chosen) - 0.5, methods.index(chosen) + 0.5, color="0.92", zorder=0)
    ax.set_yticks(places, methods, fontsize=10)
    ax.set(xlim=(-3, 103), ylim=(len(methods) - 0.5, -0.5), xlabel="%")
    ax.legend(fontsize=10, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=1, frameon=False)
