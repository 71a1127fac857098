"""People's slow mode: a chain of concepts read stage by stage, a choice among five after each stage.

Paper fse, section 4: what a model does after it has described a picture, people do with the same words. Each
choice is one row in a file of ratings and stays as it was first made; picture and truth come after the last.
"""

import hashlib
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import traitlets
from matplotlib.figure import Figure

from xaihelpers import rating
from xaihelpers.plots import PALETTE, chance_line, to_picture
from xaihelpers.scores import intervals
from xaihelpers.widgets.board import Board, as_png
from xaihelpers.widgets.controls import press

LETTERS = "ABCDE"
FILE = "slow_mode.sqlite"


@dataclass(frozen=True)
class Case:
    """A described picture: its id, stage -> text in their order, five options, the place of the true one."""

    id: str
    stages: Mapping[str, str]
    options: Sequence[str]
    position: int
    picture: object  # as `plots.to_picture` takes it

    def item(self, t: int) -> str:
        """The name of the choice after t stages, in the file; another where words or options are others."""
        words = repr((list(self.stages.items()), list(self.options)))
        return f"{self.id}, {hashlib.sha256(words.encode()).hexdigest()[:8]}, t = {t}"


class SlowMode(Board):
    """A board on which a person reads cases and chooses.

    cases: all with as many stages. study: name of the answers in the file.
    curves: columns who, t, value, low, high: CRI in % of others over the stages, drawn beside the people's.
    rater: by default the environment variable XAI_RATER, or "anonymous"; each has an order of their own.
    file: of ratings, as `rating.ratings_file` takes it.
    Raises RatingError: for an invalid name, and for a file that is no file of ratings.
    """

    asks = traitlets.Bool(True).tag(sync=True)

    def __init__(
        self, cases: Sequence[Case], curves: pd.DataFrame, study: str, rater: str = "", file: str = FILE
    ):
        self.study, self.file, self.curves = study, rating.ratings_file(file), curves
        self.rater = rater.strip() or os.environ.get("XAI_RATER", "").strip() or "anonymous"
        self.cases, self.T = list(cases), len(cases[0].stages)
        random.Random(f"{study}/{self.rater}").shuffle(self.cases)
        self._uncovered = None  # a case whose picture is shown
        self._drawn = None, b""  # what the figure shows, and the figure
        presses = {letter: self._chooser(letter) for letter in LETTERS} | {"next": self._go_on}
        title = "Read what was said of a picture, stage by stage, and choose after each stage."
        super().__init__(title, [], {}, self._show, presses)

    def answers(self) -> pd.DataFrame:
        """The choices of all raters about these cases: rater, case, t, right (100 or 0)."""
        kept = rating.committed(self.file, self.study)
        place_of = {case.item(t): (case.id, t) for case in self.cases for t in range(1, self.T + 1)}
        kept = kept[kept["item"].isin(place_of)]
        places = [place_of[item] for item in kept["item"]]
        table = pd.DataFrame(places, columns=["case", "t"], index=kept.index)
        return table.assign(rater=kept.rater, answer=kept.answer, right=100.0 * kept.rating.astype(float))

    def cri(self) -> pd.DataFrame:
        """The people's CRI by t, of cases that somebody has read to their end: t, value, low, high, cases."""
        answers = self.answers()
        n_read = answers.groupby(["rater", "case"]).t.transform("size")
        rows = []
        for t, part in answers[n_read == self.T].groupby("t"):
            found = intervals.interval(part.right, clusters=part.case, bounds=intervals.PERCENT)
            rows.append({"t": t, **found._asdict()})
        return pd.DataFrame(rows, columns=["t", *intervals.Interval._fields])

    def _place(self) -> tuple[Case | None, int]:
        """The case and the stage that the rater has not answered yet; None at the end."""
        done = set(
            self.answers().query("rater == @self.rater")[["case", "t"]].itertuples(index=False, name=None)
        )
        for case in self.cases:
            for t in range(1, self.T + 1):
                if (case.id, t) not in done:
                    return case, t
        return None, 0

    def _chooser(self, letter: str) -> Callable[[dict], None]:
        """What a letter's button does: store the choice, and uncover the picture after the last stage."""

        def choose(values: dict) -> None:
            case, t = self._place()
            place, seconds = LETTERS.index(letter), time.monotonic() - self._shown_at
            choice = [case.item(t), case.options[place], float(place == case.position)]
            rating.commit(self.file, self.study, self.rater, *choice, position=t, seconds=round(seconds, 2))
            self._uncovered = case if t == self.T else None

        return choose

    def _go_on(self, values: dict) -> None:
        self._uncovered = None

    def _show(self, values: dict) -> tuple[bytes, str]:
        """What the board shows now; sets the buttons, too."""
        self._shown_at = time.monotonic()
        case, t = (self._uncovered, 0) if self._uncovered else self._place()
        if self._uncovered:
            self.controls, text = [press("next", "go on", "n")], self._truth(case)
        elif case:
            options = zip(LETTERS, case.options, strict=True)
            self.controls = [press(letter, option, letter.lower()) for letter, option in options]
            text = self._question(case, t)
        else:
            self.controls, text = [], f"{self.rater} has read all {len(self.cases)} cases."
        return self._picture(), text

    def _question(self, case: Case, t: int) -> str:
        """The first t stages of a chain, and where the person stands."""
        stages = [f"{stage}: {text}" for stage, text in list(case.stages.items())[:t]]
        where = f"Case {self.cases.index(case) + 1} of {len(self.cases)}, stage {t} of {self.T}"
        return "\n".join([f"{where}, read by {self.rater}.", *stages, "Which of the five is it?"])

    def _truth(self, case: Case) -> str:
        """What the picture shows, and what was chosen stage by stage."""
        answers = self.answers().query("rater == @self.rater and case == @case.id").sort_values("t")
        marks = ["✓" if right else "✗" for right in answers.right]
        chosen = ", ".join(f"{answer} {mark}" for answer, mark in zip(answers.answer, marks, strict=True))
        return f"It is: {case.options[case.position]}.\nYou chose, stage by stage: {chosen}."

    def _picture(self) -> bytes:
        """The figure, drawn anew where it shows something else than before."""
        people = self.cri()
        key = self._uncovered and self._uncovered.id, people.to_json()
        if key != self._drawn[0]:
            self._drawn = key, as_png(self._figure(people))
        return self._drawn[1]

    def _figure(self, people: pd.DataFrame) -> Figure:
        """The people's CRI beside the curves of others; with the picture, where it is uncovered."""
        fig = Figure(figsize=(6.4, 3.0), layout="constrained")
        picture, ax = fig.subplots(1, 2, width_ratios=[1, 1.6])
        picture.axis("off")
        if self._uncovered:
            picture.imshow(to_picture(self._uncovered.picture))
        elif self.controls:
            picture.text(0.5, 0.5, "the picture comes\nafter the last stage", ha="center", va="center")
        for n, (who, line) in enumerate(self.curves.groupby("who", sort=False)):
            _draw_curve(ax, line, 0.06 * (n + 1), label=who, color=PALETTE[n + 1], ls="--", lw=1)
        if len(people):
            who = self.answers().rater.nunique()
            label = f"people, {people.cases.max()} readings (raters: {who})"
            _draw_curve(ax, people, 0, label=label, color="black", marker="o", lw=1.8)
        chance_line(ax, 100 / len(LETTERS))
        ax.set(xlabel="stages read, t", ylabel="CRI (%)", ylim=(0, 103), xticks=range(self.T + 1))
        fig.legend(
            *ax.get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=10, frameon=False
        )
        return fig


def _draw_curve(ax, line: pd.DataFrame, shift: float, **look) -> None:
    """A curve over t with its intervals, a little aside so that no bar hides another."""
    line = line.sort_values("t")
    bars = [(line.value - line.low).fillna(0).clip(lower=0), (line.high - line.value).fillna(0).clip(lower=0)]
    ax.errorbar(line.t + shift, line.value, bars, capsize=2, elinewidth=0.8, **look)
