"""The look of figures and tables that notebooks share: style, grids of images, chance lines, tables."""

import io
import re
import textwrap
from collections.abc import Callable, Sequence

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from pandas.io.formats.style import Styler
from PIL import Image

from xaihelpers.datasets import as_seen

PALETTE = sns.color_palette("colorblind")


def style() -> None:
    """Set the look of all figures: ticks, a colour-blind-safe palette, 110 dpi, constrained layout."""
    look = {"figure.dpi": 110, "figure.constrained_layout.use": True, "legend.frameon": False}
    look |= {"axes.spines.top": False, "axes.spines.right": False}
    sns.set_theme(style="ticks", palette="colorblind", font_scale=0.92, rc=look)


def to_picture(image) -> np.ndarray:
    """An image for `imshow`, (H, W, 3) uint8.

    image: a PIL image, an array (H, W, 3) or a tensor (3, H, W); uint8, or float in [0, 1].
    """
    if isinstance(image, torch.Tensor):
        image = image.detach().cpu().movedim(0, -1)
    array = np.asarray(as_seen(image) if isinstance(image, Image.Image) else image)
    if array.dtype == np.uint8:
        return array
    return (array.clip(0, 1) * 255).round().astype(np.uint8)


def wrapped_lines(text: str, width: int, indent: str = "") -> str:
    """A text whose lines of more than `width` characters are wrapped, what follows indented."""
    return "\n".join(textwrap.fill(line, width, subsequent_indent=indent) for line in text.splitlines())


def shared_legend(fig: plt.Figure, columns: int = 3) -> None:
    """One legend of all panels below a figure; a label that several have stands there once."""
    handles = {}
    for ax in fig.axes:
        handles |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    fig.legend(handles.values(), handles, loc="outside lower center", ncols=columns)


def image_grid(
    images: Sequence, titles: Sequence[str] = (), columns: int = 6, width: float = 9.0, fontsize: float = 8
) -> plt.Figure:
    """Images, as `to_picture` takes them, in a grid without axes, each with its title, if there are any.

    width: of the figure, in inches. Titles wider than an image are wrapped.
    """
    n_rows = -(-len(images) // columns)
    letter = 0.55 * fontsize  # mean width, in points
    n_letters = max(1, int(72 * width / columns / letter))
    titles = [wrapped_lines(title, n_letters) for title in titles]
    n_lines = max((title.count("\n") + 1.4 for title in titles), default=0)
    size = (width, n_rows * (width / columns + n_lines * fontsize / 72))
    fig, axes = plt.subplots(n_rows, columns, figsize=size, squeeze=False, layout="constrained")
    for ax in axes.flat:
        ax.axis("off")
    for ax, image in zip(axes.flat, images, strict=False):  # the last row may have axes to spare
        ax.imshow(to_picture(image))
    for ax, title in zip(fig.axes[: len(images)], titles, strict=bool(titles)):
        ax.set_title(title, fontsize=fontsize, loc="left")
    return fig


def chance_line(ax: plt.Axes, level: float, label: str = "chance", vertical: bool = False) -> None:
    """Draw a dashed grey line at the chance level."""
    draw = ax.axvline if vertical else ax.axhline
    draw(level, ls="--", lw=1, color="0.45", label=label, zorder=0)


def level_line(ax: plt.Axes, measured, vertical: bool = False, **look) -> None:
    """Draw a measured level as a line with its 95 % interval as a band behind it.

    measured: with `value`, `low` and `high`; without an interval (NaN) there is no band.
    look: of the line, as of `axhline`; the band has its color.
    """
    line = ax.axvline if vertical else ax.axhline
    band = ax.axvspan if vertical else ax.axhspan
    drawn = line(measured.value, **look)
    if measured.low < measured.high:
        band(measured.low, measured.high, color=drawn.get_color(), alpha=0.1, lw=0, zorder=0)


def dot_rows(
    ax: plt.Axes,
    rows: pd.DataFrame,
    names: Sequence[str],
    draws: Sequence | None = None,
    color=PALETTE[0],
    label: str = "this run",
    shift: float = 0.0,
) -> None:
    """Numbers with their intervals, a line each from the top; the paper's as crosses, draws as small dots.

    rows: with `value`, `low` and `high`, and perhaps `paper` and `chance`. names: of the lines.
    draws: for each line the values of its draws. color, label: of this run.
    shift: how far below its line it stands, for several calls on one axis.
    """
    places = np.arange(len(rows)) + shift
    for y, values in zip(places, draws or [], strict=draws is not None):
        spread = np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else [0.0]
        ax.plot(values, y + np.asarray(spread), ".", color="0.6", ms=4, zorder=1)
    ax.hlines(places, rows.low, rows.high, color=color, lw=2)
    ax.plot(rows.value, places, "o", color=color, ms=5, label=label)
    for column, marker, shade, size in (("paper", "X", PALETTE[1], 7), ("chance", "|", "0.3", 14)):
        if column in rows:
            ax.plot(rows[column], places, marker, color=shade, ms=size, ls="", label=column)
    ax.set_yticks(range(len(rows)), list(names))
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)


def line_rows(
    ax: plt.Axes, rows: pd.DataFrame, x: str, by: str, colors: dict[str, object], dotted: Sequence[str] = ()
) -> None:
    """Numbers with their intervals over a column of numbers, a line for each name; the paper's as crosses.

    rows: with `value`, `low`, `high`, x, by, and perhaps `paper`.
    colors: of the names in column by, in the order of the legend. dotted: names of dotted lines.
    """
    for name, color in colors.items():
        line = rows[rows[by] == name]
        look = {"color": color, "ls": ":" if name in dotted else "-", "label": name}
        bars = [line.value - line.low, line.high - line.value]
        ax.errorbar(line[x], line.value, bars, marker="o", ms=4, capsize=2, **look)
        if "paper" in rows:
            ax.plot(line[x], line.paper, "X", color=color, ms=8)


def case_studies(
    images: Sequence, texts: Sequence[str], columns: int = 3, width: float = 10, wrap: int = 46, fontsize=7
) -> plt.Figure:
    """Images in a grid as of `image_grid`, each over a text whose lines are wrapped at `wrap` characters."""
    wrapped = [wrapped_lines(text, wrap, indent="  ") for text in texts]
    n_lines = max(text.count("\n") + 1 for text in wrapped)
    text_height = n_lines * fontsize * 1.35 / 72
    image_height = width / columns * 0.55
    n_rows = -(-len(images) // columns)
    look = {"height_ratios": [image_height, text_height] * n_rows, "layout": "constrained"}
    size = (width, n_rows * (image_height + text_height))
    fig, axes = plt.subplots(2 * n_rows, columns, figsize=size, squeeze=False, **look)
    for ax in axes.flat:
        ax.axis("off")
    for n, (image, text) in enumerate(zip(images, wrapped, strict=True)):
        row, column = divmod(n, columns)
        axes[2 * row, column].imshow(to_picture(image))
        below = axes[2 * row + 1, column]
        below.text(0, 1, text, va="top", fontsize=fontsize, transform=below.transAxes)
    return fig


class _CompactStyler(Styler):
    """A table without the names of its cells, which would make a notebook several times as large."""

    def _repr_html_(self) -> str:
        html = re.sub(r' class="(?:data|col_heading|blank)[^"]*" ?', "", super()._repr_html_())
        return re.sub(r"\n\s+", "\n", html)


def table(frame: pd.DataFrame, caption: str, precision: int = 1, small: bool = False) -> Styler:
    """A table to be displayed: no index, `precision` digits, a dash for NaN; `small` for wide tables."""
    styler = _CompactStyler(frame, cell_ids=False).hide(axis="index").set_caption(caption)
    if small:
        styler.set_table_styles([{"selector": "td, th", "props": "padding: 1px 6px; font-size: 85%"}])
    return styler.format(precision=precision, na_rep="–")


def results_table(
    rows: pd.DataFrame, keys: list[str], caption: str, digits: int = 1, more: Sequence[str] = ()
) -> Styler:
    """Recorded numbers as a table to be displayed: keys, paper, real, this run, interval, and the rest.

    rows: with `value`, `low` and `high`, and perhaps `paper`, `sd`, `cases`, `effective`, `chance`,
        `invalid`. Effective cases stand where some differ from the cases.
    keys: the columns that tell the rows apart. more: further columns, shown before `cases`.
    """
    values = [_number(value, digits) for value in rows.value]
    intervals = [_interval(low, high, digits) for low, high in zip(rows.low, rows.high, strict=True)]
    view = rows.assign(**{"this run": values, "interval": intervals})
    if "effective" in view and (view.effective / view.cases - 1).abs().max() > 0.05:
        view["effective cases"] = [_number(value, 0) for value in view.effective]
    real = [name for name in view if name.startswith("real: ")]
    optional = ["paper", *real, "this run", "interval", "sd", *more]
    optional += ["cases", "effective cases", "chance", "invalid"]
    columns = [*keys, *(name for name in optional if name in view and name not in keys)]
    return table(view[columns], caption, digits)


def interval_table(
    frame: pd.DataFrame, index: list[str], columns: str = "metric", digits: int = 1, narrow: float = 1.0
) -> pd.DataFrame:
    """Long rows as a wide table of texts: "58.3 [52, 64]" or, with a chance level, "58.3 [52, 64] chance 25".

    frame: with `value`, `low` and `high`, and perhaps `chance`. NaN bounds and chance are left out, a NaN
        value is a dash. Bounds less than `narrow` apart have as many digits as the value, others none.
    index: the columns that tell the lines apart. columns: the column whose values become columns, both in
        the order in which they come.
    """
    numbers = frame.reindex(columns=["value", "low", "high", "chance"])
    if "chance" in index:
        numbers["chance"] = np.nan
    texts = [_value_with_interval(*row, digits, narrow) for row in numbers.itertuples(index=False)]
    wide = frame[index].assign(column=frame[columns], text=texts)
    wide = wide.pivot(index=index, columns="column", values="text")
    lines = frame.set_index(index).index.unique()
    wide = wide.reindex(lines).reindex(columns=frame[columns].unique())
    return wide.rename_axis(columns=None).reset_index()


def _number(value: float, digits: int) -> str:
    return "–" if pd.isna(value) else f"{value:.{digits}f}"


def _interval(low: float, high: float, digits: int) -> str:
    return "–" if pd.isna(low) else f"[{low:.{digits}f}, {high:.{digits}f}]"


def _value_with_interval(
    value: float, low: float, high: float, chance: float, digits: int, narrow: float
) -> str:
    texts = [_number(value, digits)]
    if not pd.isna([value, low]).any():
        texts.append(_interval(low, high, digits if high - low < narrow else 0))
    if not pd.isna([value, chance]).any():
        texts.append(f"chance {chance:.0f}")
    return " ".join(texts)


def board(draw: Callable[..., plt.Figure], **controls: ipywidgets.ValueWidget) -> ipywidgets.VBox:
    """Show `draw` of the controls' values, and return the controls with a picture that follows them.

    draw: takes the values by their names. What it raises later is logged by Jupyter, and the picture stays.
    """
    picture = ipywidgets.Image(layout={"align_self": "flex-start"})  # as large as it is
    box = ipywidgets.VBox([*controls.values()])

    def follow(change=None):
        figure = draw(**{name: control.value for name, control in controls.items()})
        if change:
            figure.savefig(png := io.BytesIO(), format="png", bbox_inches="tight")
            plt.close(figure)
            picture.value, box.children = png.getvalue(), [*controls.values(), picture]

    follow()
    plt.show()
    for control in controls.values():
        control.observe(follow, "value")
    return box
