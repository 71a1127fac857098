"""The plane of S- and S+ (sub, Tables 1 and 2), with what the paper prints and what others found.

The dashed line is S+ = 100 - S-: what a model reaches that cannot tell the new attribute from the removed,
and only claims more or less.
"""

import matplotlib.pyplot as plt

from xaihelpers.plots import PALETTE
from xaihelpers.tables import paper_table

AXES = ["S-", "S+"]
PRINTED = "0.2"
# bottleneck -> where its name stands beside its printed mark, in points
NAMED = {
    "cbm_independent": (-4, 8, "right"),
    "cbm": (9, -4, "left"),
    "cem": (9, 4, "left"),
    "cbm_per_concept": (-8, -9, "right"),
}


def draw_plane(ax: plt.Axes) -> None:
    """Draw the line, the printed rows as hollow marks, and arrows from two of them to what others found."""
    ax.plot([0, 100], [100, 0], "--", color="0.6", lw=1, zorder=0)
    ax.text(33, 70.5, "moving a threshold", rotation=-36, color="0.4", ha="center", va="center")
    keys = ["bottleneck", "labels", "label_kind"]
    models = paper_table("sub", 1).fillna("").pivot(index=keys, columns="metric", values="value")[AXES]
    clips = paper_table("sub", 2).pivot(index="clip", columns="metric", values="value")[AXES]
    people = models.loc[("people", "", "")]
    hollow = {"mfc": "none", "mec": PRINTED, "ls": ""}
    ax.plot(*models.drop(index=["people", "random"], level=0).to_numpy().T, "o", ms=8, **hollow)
    ax.plot(*clips.drop(index=["people", "random"]).to_numpy().T, "D", ms=6, **hollow)
    ax.plot(*people, "^", ms=9, **hollow)
    name_mark(ax, "people, printed", people, (-10, -14, "right"), PRINTED)
    ax.text(78, 35.5, "printed CLIPs", color=PRINTED, ha="center", fontsize=9)
    for name, place in NAMED.items():
        name_mark(ax, name, models.loc[(name, "class", "hard")], place, PRINTED)
    found = paper_table("sub", "table1_replicated").pivot(
        index=keys, columns="metric", values=["value", "sd"]
    )
    for key, row in found.iterrows():
        look = {"arrowstyle": "->", "color": PALETTE[1]}
        ax.annotate("", row["value"][AXES], models.loc[key], arrowprops=look)
        ax.errorbar(*row["value"][AXES], *row["sd"][AXES[::-1]], fmt=".", color=PALETTE[1], lw=1)
    ax.text(41, 29, "as others\nfound them", color=PALETTE[1], ha="right", fontsize=9)
    ax.set(xlabel="S−: the removed attribute left out (%)", ylabel="S+: the new attribute claimed (%)")
    ax.set(xlim=(-4, 104), ylim=(-6, 105))


def name_mark(ax: plt.Axes, words: str, at, place: tuple[float, float, str], color) -> None:
    """Write words beside a mark. at: its x and y. place: dx, dy in points, and the side aligned."""
    style = {"textcoords": "offset points", "fontsize": 9, "color": color, "ha": place[2]}
    ax.annotate(words, tuple(at), place[:2], **style)


def draw_measured(ax: plt.Axes, x, y, shape: str, color) -> None:
    """A mark with both intervals. x, y: with `value`, `low` and `high`."""
    ax.plot([x.low, x.high], [y.value, y.value], color=color, lw=1)
    ax.plot([x.value, x.value], [y.low, y.high], color=color, lw=1)
    ax.plot(x.value, y.value, shape, color=color, ms=6)
