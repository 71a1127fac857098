"""What a notebook run was given and what it found: checked parameters in, tidy rows and figures out.

A run lies in `<results>/<notebook>-<hash of its parameters>/`: `results.csv` (one row per number), `run.json`
and its figures. The folder appears whole or not at all.
"""

import io
import itertools
import json
import logging
import os
import platform
import random
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm

import xaihelpers
from xaihelpers import plots, spending
from xaihelpers.claims import ASKED, NEED_AN_ANSWER, VERSION, Verdict, decide, load_claims, spoken
from xaihelpers.datasets import DRAWN
from xaihelpers.devices import describe_device, resolve_device
from xaihelpers.parameters import ParameterError, check_parameters, parameters_hash
from xaihelpers.paths import CODE_KEY, FolderError, ensure_writable, find, results_home
from xaihelpers.scores.intervals import Interval

log = logging.getLogger(__name__)
NUMBERS = ["value", "low", "high", "cases", "effective", "chance"]
TEXTS = ["paper", "table", "row", "metric", "data", "model"]
MARK = "void"  # why a number decides nothing, as of `yardsticks.judge_card.void`; no key of its row
COLUMNS = [*TEXTS[:4], *NUMBERS, *TEXTS[4:], MARK]
REMEDY = "make room or permit writing there, or name another folder by the parameter results"


@dataclass
class Run:
    """One run of a notebook; made by `start`."""

    notebook: str
    parameters: dict
    device: torch.device
    folder: Path  # all results; this run's own part of it is `run_folder`
    notes: list = field(default_factory=list)  # what `note` kept
    started: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    _rows: list = field(default_factory=list)
    _figures: dict = field(default_factory=dict)  # name -> (PNG bytes, caption)
    _verdicts: dict = field(default_factory=dict)  # (claim, data, model) -> what `verdict` kept

    @property
    def run_folder(self) -> Path:
        return self.folder / f"{self.notebook}-{parameters_hash(self.parameters)}"

    def record(
        self, rows: list[dict] | pd.DataFrame, paper: str, table: str | int, data: str, model: str
    ) -> pd.DataFrame:
        """Collect numbers for the report, and return them as tidy rows.

        rows: one per number, with `metric` and `value` and, where they exist, the interval `low`, `high`, the
            number of `cases` and the `chance` level; every further key (`concepts`, `lambda`, ...) says which
            row of the paper's table it is, unless it is NaN. A NaN value is kept. `void` says why a number
            decides nothing. A row recorded again, as when a cell is run twice, replaces the earlier one.
        paper, table: what the rows stand beside in the report, e.g. "alignment", 3.
        data, model: in words, what they were measured on.

        Raises ValueError for a row without metric or value, and for two rows that nothing tells apart.
        """
        rows = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
        source = {"paper": paper, "table": str(table), "data": data, "model": model}
        tidy = [_tidy({**source, **row}) for row in rows]
        keys = [_key(row) for row in tidy]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"Two rows are both {twice}: add a key that tells them apart.")
        self._rows = [row for row in self._rows if _key(row) not in keys] + tidy
        return _frame(tidy)

    def figure(self, fig: "matplotlib.figure.Figure", name: str, caption: str) -> None:  # noqa: F821
        """Keep a figure, as PNG of 110 dpi at most, and the caption above it, here and in the report.

        Its layout is then fixed: shown afterwards, it is not laid out again.
        """
        png = io.BytesIO()
        fig.savefig(png, format="png", dpi=min(fig.dpi, 110), bbox_inches="tight")
        fig.set_layout_engine("none")
        self._figures[name] = png.getvalue(), caption
        log.info("%s", caption)

    def note(self, text: str) -> None:
        """Show a line on what did not reproduce here, and why, and keep it for the report."""
        log.info("Note: %s", text)
        if text not in self.notes:
            self.notes.append(text)

    def verdict(
        self,
        claim: str,
        measured: Interval,
        data: str,
        model: str,
        needs: str | None = None,
        figure: str = "",
        level: tuple[str, int, float] = ("", 0, 0),
        **asked,
    ) -> Verdict:
        """Decide a claim of a paper by the rule of `claims`, show the verdict, and keep it for the ledger.

        claim: its id in data/papers/claims.csv; KeyError for an unknown one.
        measured: the claim's quantity with its interval, in its unit, on data and model, in words.
        needs: as of `claims.decide`; a claim about people, a model or a generator has to say, by "", that
            one answered. figure: name of the figure that shows it. level: as of `claims.decide`.
        asked: readings, rivals, refuters, controls, rewritten and room by name, as of `claims.decide`.
        Raises ValueError for a verdict that was not asked all that its claim is to be asked.
        """
        about = load_claims()[claim]
        if needs is None and about.about in NEED_AN_ANSWER:
            raise ValueError(f"{claim} is about {about.about}: say by needs= who answered")
        asked = {kind: {} for kind in ASKED} | asked
        if not needs:
            to_beat = asked["rivals"] | asked.get("refuters", {})
            about.require_asked(**{kind: asked[kind] for kind in ASKED} | {"rivals": to_beat})
        verdict = decide(about, measured, needs=needs or "", level=level, **asked)
        controls = asked["controls"].items()
        asked["controls"] = {name: None if passed is None else bool(passed) for name, passed in controls}
        made = {"outcome": verdict.outcome, "needed": verdict.needed, "rule": VERSION, **asked}
        where = {"data": data, "model": model, "figure": figure}
        self._verdicts[claim, data, model] = {"claim": claim, **measured._asdict(), **made, **where}
        quantity = spoken(measured, about.unit)
        if asked.get("rewritten"):
            values = [other.value for other in asked["rewritten"].values()]
            quantity += f" as fitted, {min(values):.3g} to {max(values):.3g} in other writings"
        said = about.paper, about.section, about.claim, quantity, about.smallest, verdict
        log.info("Claim (%s, %s): %s\n  %s, least effect %g: %s", *said)
        return verdict

    def finish(self, tables: dict[str | int, pd.DataFrame] | None = None, **about) -> None:
        """Write the run into its folder, over an earlier one with the same parameters, and say where.

        tables: number or name of a table -> its rows, recorded before; where they have columns `data` or
            `model`, each part under its own. about: paper, data and model, as of `record`.
        Raises FolderError, after logging the rows, if the folder is full or read-only.
        """
        for table, found in (tables or {}).items():
            found = pd.DataFrame(found)
            own = [name for name in ("data", "model") if name in found]
            for key, part in found.groupby(own, sort=False) if own else [((), found)]:
                of_part = about | dict(zip(own, key, strict=True))
                of_part["data"] = Path(of_part["data"]).name
                self.record(part.drop(columns=own), table=table, **of_part)
        rows = _frame(self._rows)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{self.notebook}-", dir=self.folder) as place:
                new, old = Path(place) / "new", Path(place) / "old"
                new.mkdir()
                self._write(new, rows)
                if self.run_folder.exists():  # os.replace takes only empty targets
                    os.replace(self.run_folder, old)
                os.replace(new, self.run_folder)
        except OSError as error:
            log.warning("%s", rows.to_string(na_rep="nan"))  # so that the numbers are not lost
            raise FolderError(
                f"Could not write the results to {self.folder} ({error.strerror}): {REMEDY}; run this cell "
                "again; the rows are shown above."
            ) from error
        log.info("%d rows recorded in %s", len(rows), self.run_folder.name)

    def _write(self, folder: Path, rows: pd.DataFrame) -> None:
        rows.to_csv(folder / "results.csv", index=False, na_rep="nan")
        figures = []
        for name, (png, caption) in self._figures.items():
            (folder / f"{name}.png").write_bytes(png)
            figures.append({"file": f"{name}.png", "caption": caption})
        versions = {"torch": torch.__version__.split("+")[0], "xaihelpers": xaihelpers.__version__}
        about = {
            "notebook": self.notebook,
            "parameters": self.parameters,
            "key": json.loads(os.environ.get(CODE_KEY) or "{}"),  # of the code, where the launcher knows it
            "data": sorted(rows["data"].unique()),
            "drawn": drawn_data(self.parameters.get("data", [])),
            "model": sorted(rows["model"].unique()),
            "versions": {"python": platform.python_version(), **versions},
            "device": describe_device(self.device),
            "started": self.started.isoformat(),
            "seconds": round((datetime.now(timezone.utc) - self.started).total_seconds(), 1),
            "bill": {"asked": spending.account().rows()},
            "figures": figures,
            "notes": self.notes,
            "verdicts": list(self._verdicts.values()),
        }
        (folder / "run.json").write_text(json.dumps(about, indent=1) + "\n")


def start(notebook: str, namespace: dict) -> Run:
    """Begin a run: check the parameters, seed every generator, choose the device, try the results folder.

    All figures from here on have one look (`plots.style`).

    notebook: its number, e.g. "11". namespace: its `globals()`, with the parameters `seed`, `device` ("auto",
        "cpu", "cuda" or "cuda:1"), `results`, `spend_at_most` and `prices` as far as they are there.
    Raises ParameterError (unknown name, wrong type, no such device), FolderError (results cannot be
        written), and TextFileError (prices that cannot be read).
    """
    notes: list[str] = []
    _show_log(notes)
    plots.style()
    parameters = check_parameters(namespace)
    seed = parameters.get("seed", 0)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    device = resolve_device(parameters.get("device", "auto"), ParameterError)
    folder = ensure_writable(results_home(parameters.get("results", "results")), REMEDY)
    spending.begin(parameters.get("spend_at_most", 0.0), parameters.get("prices", ""))
    return Run(notebook, parameters, device, folder, notes)


def _show_log(notes: list[str]) -> None:
    """Print what the helpers log, and keep in `notes`, once each, what has `extra={"note": True}`."""
    log, handler = logging.getLogger("xaihelpers"), logging.Handler()

    def emit(record: logging.LogRecord) -> None:
        text = handler.format(record)
        tqdm.write(text)  # beside progress bars
        if getattr(record, "note", False) and text not in notes:
            notes.append(text)

    handler.emit = emit
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False  # some libraries give the root logger a handler of its own


def read_runs(*folders: Path) -> list[dict]:
    """The `run.json` of every run in results folders, oldest first, with its own folder under "folder".

    A run that lies in several of them counts once, as in the last.
    """
    runs = {}
    for path in itertools.chain(*(folder.glob("[!.]*/run.json") for folder in folders)):
        try:
            runs[path.parent.name] = json.loads(path.read_text()) | {"folder": path.parent}
        except ValueError:
            log.warning("%s is damaged and was left out; delete its folder and run the notebook again.", path)
    return sorted(runs.values(), key=lambda run: (run["started"], run["folder"]))


def read_records(*folders: Path) -> pd.DataFrame:
    """All rows of `read_runs`, as recorded, with the columns `notebook`, `run` and `parameters` (JSON)."""
    missing = dict.fromkeys([*NUMBERS, MARK], ["nan"])  # other texts that look like missing values stay
    how = {"dtype": dict.fromkeys(TEXTS, str), "keep_default_na": False, "na_values": missing}
    tables = [pd.DataFrame(columns=[*COLUMNS, "notebook", "run", "parameters"])]
    for run in read_runs(*folders):
        rows = pd.read_csv(run["folder"] / "results.csv", **how)
        origin = {"notebook": run["notebook"], "run": run["folder"].name}
        tables.append(rows.assign(**origin, parameters=json.dumps(run["parameters"])))
    return pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)


def drawn_data(data: str | list[str]) -> list[str]:
    """Those of a run's data, by name or path, beside which the settings of a drawn world lie."""
    names = [data] if isinstance(data, str) else data
    return [name for name in names if any(find(name, holding=f"{world}.json") for world in DRAWN)]


def _tidy(row: dict) -> dict:
    row = {key: value.item() if hasattr(value, "item") else value for key, value in row.items()}
    if not {"metric", "value"} <= row.keys():
        raise ValueError(f"A recorded row needs 'metric' and 'value'; this one has only {', '.join(row)}.")
    numbers = {name: float("nan") if row.get(name) is None else float(row[name]) for name in NUMBERS}
    keys = {name: value for name, value in row.items() if name not in COLUMNS and not pd.isna(value)}
    compact = ", ".join(f"{name}={value}" for name, value in keys.items())
    return {**row, **numbers, "table": str(row["table"]), "row": compact}


def _key(row: dict) -> tuple:
    return tuple(row[name] for name in TEXTS)


def _frame(rows: list[dict]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    keys = [name for name in frame.columns if name not in COLUMNS]
    marked = MARK in frame and frame[MARK].fillna("").ne("").any()
    last = COLUMNS[3:] if marked else [name for name in COLUMNS[3:] if name != MARK]
    return frame.reindex(columns=[*COLUMNS[:3], *keys, *last])
