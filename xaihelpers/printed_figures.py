"""The claims on their own printed numbers, as a picture: every reading, in units of the smallest effect."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from xaihelpers import claims, plots
from xaihelpers.scores.intervals import Interval

HEX = "#0072b2 #cc79a7 #d55e00 #8f97a3 #e69f00".split()
COLORS = dict(zip((*claims.OWN_TABLE, claims.READING), HEX, strict=True))
TICKS = [-10, -2, -1, 0, 1, 2, 10, 100]


def readings_figure(
    verdicts: pd.DataFrame, several: dict[str, list[Interval]], ledger: dict[str, claims.Claim]
) -> plt.Figure:
    """A line for each claim that has a reading; the axis is linear to 2 and logarithmic further out.

    verdicts, several: as of `printed_readings.own_tables`. ledger: as of `claims.load_claims`.
    """
    drawn = verdicts[verdicts.claim.map(several).map(len) > 0]
    fig, ax = plt.subplots(figsize=(8, 0.185 * len(drawn)), layout="constrained")
    for y, (name, verdict) in enumerate(zip(drawn.claim, drawn.verdict, strict=True)):
        claim, color = ledger[name], COLORS[verdict]
        for one in several[name]:
            effects = (np.array(one[:3]) - claim.reference) / claim.smallest
            value, *ends = -effects if claim.direction == "below" else effects
            face = "w" if claim.direction == "within" else color
            ax.plot(ends, [y, y], color=color, lw=1.5, alpha=0.6)
            ax.plot(value, y, "o", ms=5, color=color, mfc=face)
    for verdict, color in COLORS.items():
        ax.plot([], [], "o", color=color, label=verdict)
    ax.plot([], [], "o", color="0.4", mfc="w", label="white: “within”, holds between −1 and 1")
    plots.chance_line(ax, 0, "reference", vertical=True)
    ax.axvline(1, color="0.6", lw=1, label="smallest effect that matters")
    ax.set_xscale("symlog", linthresh=2)
    ax.set_xticks(TICKS, [str(tick).replace("-", "−") for tick in TICKS])
    ax.set_yticks(range(len(drawn)), drawn.claim, fontsize=9)
    ax.set(xlabel="effect in the claimed direction, in smallest effects", ylim=(len(drawn), -1))
    fig.legend(loc="outside upper center", ncols=2, fontsize=9)
    return fig
