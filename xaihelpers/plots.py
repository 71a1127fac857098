"""Chrome of figures and tables that several notebooks share: one look, grids of pictures, lines at chance, tables with a caption."""
import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from pandas.io.formats.style import Styler

PALETTE = sns.color_palette("colorblind")


def style() -> None:
    """The look of all figures: seaborn's ticks, a colour-blind-safe palette, 90 dpi."""
    sns.set_theme(context="notebook", style="ticks", palette="colorblind", font_scale=0.85, rc={"figure.dpi": 90, "axes.spines.top": False,
                                                                                                "axes.spines.right": False})


def picture(image) -> np.ndarray:
    """A picture for `imshow`, (H, W, 3) uint8, from a PIL image, an array (H, W, 3) or a tensor (3, H, W), bytes or in [0, 1]."""
    array = np.asarray(image.detach().cpu().movedim(0, -1) if isinstance(image, torch.Tensor) else image)
    return array if array.dtype == np.uint8 else (array.clip(0, 1) * 255).round().astype(np.uint8)


def image_grid(images, titles=None, columns: int = 6, width: float = 9.0, fontsize: float = 8) -> plt.Figure:
    """Pictures in a grid without axes, `columns` to a row, each with its title; returns the figure."""
    rows = -(-len(images) // columns)
    line = 0 if titles is None else (max(title.count("\n") for title in titles) + 1.4) * fontsize / 72
    fig, axes = plt.subplots(rows, columns, figsize=(width, rows * (width / columns + line)), squeeze=False, layout="constrained")
    for ax in axes.flat:
        ax.axis("off")
    for ax, image, title in zip(axes.flat, images, titles or [""] * len(images)):
        ax.imshow(picture(image))
        ax.set_title(title, fontsize=fontsize, loc="left")
    return fig


def chance(ax: plt.Axes, level: float, label: str = "chance", vertical: bool = False) -> None:
    """A dashed grey line at the chance level."""
    (ax.axvline if vertical else ax.axhline)(level, ls="--", lw=1, color="0.45", label=label, zorder=0)


def case_studies(images, texts, columns: int = 3, width: float = 10.0, wrap: int = 46, fontsize: float = 7) -> plt.Figure:
    """Pictures, each with a text under it (its lines kept, long ones wrapped), `columns` to a row; returns the figure."""
    wrapped = ["\n".join(textwrap.fill(line, wrap, subsequent_indent="  ") for line in text.splitlines()) for text in texts]
    lines = max(text.count("\n") + 1 for text in wrapped)
    rows, side = -(-len(images) // columns), width / columns * 0.55
    fig, axes = plt.subplots(2 * rows, columns, figsize=(width, rows * (side + lines * fontsize * 1.35 / 72)), squeeze=False, layout="constrained",
                             gridspec_kw={"height_ratios": [side, lines * fontsize * 1.35 / 72] * rows})
    for ax in axes.flat:
        ax.axis("off")
    for n, (image, text) in enumerate(zip(images, wrapped, strict=True)):
        row, column = divmod(n, columns)
        axes[2 * row, column].imshow(picture(image))
        axes[2 * row + 1, column].text(0, 1, text, va="top", fontsize=fontsize, transform=axes[2 * row + 1, column].transAxes)
    return fig


def table(frame: pd.DataFrame, caption: str, precision: int = 1, small: bool = False) -> Styler:
    """A table to be displayed: no index, a dash for what is not there; `small` for wide ones. Without cell ids, which would make a notebook three times as large."""
    styler = Styler(frame, cell_ids=False).hide(axis="index").format(precision=precision, na_rep="–").set_caption(caption)
    return styler.set_table_styles([{"selector": "td, th", "props": "padding: 1px 6px; font-size: 85%"}]) if small else styler


def interval_table(frame: pd.DataFrame, index: list[str], columns: str = "metric", digits: int = 1) -> pd.DataFrame:
    """Long rows with `value`, `low` and `high` as a wide table, a cell "58.3 [52, 64]" for each line of `index` and each of `columns`, in the order in which they come; no bounds where they are NaN,
    bounds as precise as the value where they are less than 1 apart.
    A `chance` stands behind them, where there is one: "58.3 [52, 64] chance 25"."""
    def cell(value, low, high, chance):
        if value != value:
            return "–"
        finer = digits if high - low < 1 else 0
        return f"{value:.{digits}f}" + f" [{low:.{finer}f}, {high:.{finer}f}]" * (low == low) + f" chance {chance:.0f}" * (chance == chance)

    bounds = frame.reindex(columns=["low", "high", *({"chance"} - set(index))])
    text = [cell(*numbers) for numbers in zip(frame.value, bounds.low, bounds.high, bounds.get("chance", bounds.low * np.nan))]
    lines = pd.MultiIndex.from_frame(frame[index].drop_duplicates())
    wide = frame[index].assign(column=frame[columns], text=text).pivot(index=index, columns="column", values="text")
    return wide.reindex(lines if len(index) > 1 else lines.get_level_values(0)).reindex(columns=frame[columns].unique()).rename_axis(columns=None).reset_index()
