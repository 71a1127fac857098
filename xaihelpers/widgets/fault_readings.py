"""A fault and a dose: which yardsticks move, by a table of readings.

A yardstick moves where an honest and a faulty explanation can be told apart by it, see `scores.validity`.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from xaihelpers.plots import PALETTE
from xaihelpers.scores.validity import told_apart
from xaihelpers.widgets.board import Board
from xaihelpers.widgets.controls import choice

FALLS, RISES, STAYS = "falls", "rises", "stays"
LOOK = {FALLS: (PALETTE[0], "s"), RISES: (PALETTE[3], "X"), STAYS: ("0.6", "o")}
FURTHEST = 100.0  # noise floors: what moves further is drawn here


def fault_board(readings: pd.DataFrame, kind_of: dict[str, str], told: float = 0.9, first: str = "") -> Board:
    """A board of faults and doses.

    readings: columns planted (the kind), yardstick, fault, dose, draw, n, score; a row each. Honest rows have
        the fault "honest". Of several n the largest counts.
    kind_of: fault -> its kind, in the order of the menu; faults without readings are left out.
    told: area from which on honest and faulty count as told apart.
    first: the fault of the beginning; the first of the menu where there are no readings of it.
    Raises ValueError: without readings of any fault; as `Board`.
    """
    faults = [fault for fault in kind_of if (readings.fault == fault).any()]
    if not faults:
        raise ValueError("there are no readings of any fault")
    doses = sorted(readings.dose[readings.fault.isin(faults)].unique())
    labels = {f"{dose:g}": dose for dose in doses}
    controls = [choice("fault", "fault", faults), choice("dose", "dose", list(labels))]

    def draw(values: dict) -> tuple[Figure, str]:
        fault, dose = values["fault"], labels[values["dose"]]
        moves = moved(readings[readings.planted == kind_of[fault]], fault, dose, told)
        fig = Figure(figsize=(6.4, 0.23 * len(moves) + 1.1), layout="constrained")
        _draw_moves(fig.subplots(), moves)
        counted = ", ".join(f"{name} {(moves.moves == name).sum()}" for name in LOOK)
        falling = ", ".join(moves.yardstick[moves.moves == FALLS]) or "none"
        text = f"{fault}, dose {values['dose']}: {len(moves)} yardsticks ({counted}). What falls: {falling}."
        rising = moves.yardstick[moves.moves == RISES]
        return fig, text + (f" Praised for it: {', '.join(rising)}." if len(rising) else "")

    title = "Choose a fault and a dose: which yardsticks move?"
    return Board(
        title, controls, {"fault": first if first in faults else faults[0], "dose": list(labels)[-1]}, draw
    )


def moved(readings: pd.DataFrame, fault: str, dose: float, told: float) -> pd.DataFrame:
    """How far each yardstick moves: shift and its spread over draws in noise floors, and whether it moves.

    readings: of one kind, as of `fault_board`. A noise floor is the standard deviation of the honest scores.
    Returns yardstick, shift, low, high (of the draws), moves; from what falls most.
    """
    rows = []
    for yardstick, part in readings.groupby("yardstick", sort=False):
        part = part[part.n == part.n.max()]
        honest = part.score[part.fault == "honest"]
        faulty = part.score[(part.fault == fault) & np.isclose(part.dose, dose)]
        if honest.empty or faulty.empty:
            continue
        area = told_apart(honest, faulty)
        floor = max(float(honest.std()), 1e-12)
        shifts = ((faulty - honest.mean()) / floor).clip(-FURTHEST, FURTHEST)
        moves = FALLS if area >= told else RISES if area <= 1 - told else STAYS
        row = {"yardstick": yardstick, "shift": shifts.mean(), "low": shifts.min(), "high": shifts.max()}
        rows.append(row | {"moves": moves})
    return pd.DataFrame(rows, columns=["yardstick", "shift", "low", "high", "moves"]).sort_values("shift")


def _draw_moves(ax, moves: pd.DataFrame) -> None:
    places = np.arange(len(moves))
    ax.axvspan(-1, 1, color="0.93", zorder=0)
    ax.axvline(0, color="0.5", lw=0.8)
    ax.hlines(places, moves.low, moves.high, color="0.6", lw=1)
    for name, (color, mark) in LOOK.items():
        here = (moves.moves == name).to_numpy()
        ax.plot(moves["shift"][here], places[here], mark, color=color, ls="", ms=6, label=name)
    ax.set_yticks(places, moves.yardstick, fontsize=10)
    ax.set_xscale("symlog", linthresh=2)
    ax.set(xlim=(-1.3 * FURTHEST, 1.3 * FURTHEST), ylim=(len(moves) - 0.5, -0.5))
    ax.set_xlabel("change in noise floors (line: draws; grey: one floor)", fontsize=10)
    ax.legend(fontsize=10, ncols=3, frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0))
