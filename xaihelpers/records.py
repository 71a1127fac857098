"""What a notebook run was given and what it found: checked parameters in, tidy rows and figures out.

A run lies in `<results>/<notebook>-<hash of its parameters>/`: `results.csv` (one row per number), `run.json`
(parameters, versions of libraries and of what draws the worlds, the bill of its answers and memory, captions,
notes) and its figures. The folder appears whole or not at all.
"""

import importlib.metadata
import io
import json
import logging
import os
import platform
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm

from xaihelpers import sharing, spending
from xaihelpers.claims import Verdict, decide, load_claims, spoken
from xaihelpers.devices import resolve_device
from xaihelpers.parameters import ParameterError, check_parameters, parameters_hash
from xaihelpers.paths import CODE_KEY, PROJECT, FolderError, ensure_writable, results_home
from xaihelpers.scores.intervals import Interval
from xaihelpers.timing import describe_device
from xaihelpers.worlds import aviary, everyday

log = logging.getLogger(__name__)
NUMBERS = ["value", "low", "high", "cases", "effective", "chance"]
TEXTS = ["paper", "table", "row", "metric", "data", "model"]
MARK = "void"  # why a number decides nothing, as of `scores.judge_card.void`; no key of its row
COLUMNS = [*TEXTS[:4], *NUMBERS, *TEXTS[4:], MARK]


@dataclass
class Run:
    """One run of a notebook; made by `start`."""

    notebook: str
    parameters: dict
    device: torch.device
    folder: Path  # all results; this run's own part of it is `run_folder`
    notes: list = field(default_factory=list)  # what `note` kept
    started: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    _clock: float = field(default_factory=time.perf_counter)
    _rows: list = field(default_factory=list)
    _figures: dict = field(default_factory=dict)  # name -> (PNG bytes, caption)
    _tables: dict = field(default_factory=dict)  # (paper, table) -> {"title": …, "caption": …}
    _verdicts: dict = field(default_factory=dict)  # (claim, data, model) -> what `verdict` kept

    @property
    def run_folder(self) -> Path:
        return self.folder / f"{self.notebook}-{parameters_hash(self.parameters)}"

    def record(
        self,
        rows: list[dict] | pd.DataFrame,
        paper: str,
        table: str | int,
        data: str,
        model: str,
        title: str = "",
        caption: str = "",
    ) -> pd.DataFrame:
        """Collect numbers for the report, and return them as tidy rows.

        rows: one per number, with `metric` and `value` and, where they exist, the interval `low`, `high`, the
            number of `cases` and the `chance` level; every further key (`concepts`, `lambda`, ...) says which
            row of the paper's table it is. A NaN value is kept. `void` says why a number decides nothing.
        paper, table: what the rows stand beside in the report, e.g. "alignment", 3.
        data, model: in words, what they were measured on.
        title, caption: what the report writes above this table; one call for each table needs them.

        A row recorded again, as when a cell is run twice, replaces the earlier one.

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
        if title:
            self._tables[paper, str(table)] = {"title": title, "caption": caption}
        return _frame(tidy)

    def record_each(
        self,
        frame: pd.DataFrame,
        keys: list[str],
        metric: str,
        model_name: Callable[[str, str], str] = lambda model, data: model,
        **where,
    ) -> None:
        """Record a table whose columns `data` and `model` name several of both, each part under its own.

        keys: the columns that tell rows apart.
        model_name: (model, data) -> the model in words.
        where: paper, table, title and caption, as of `record`.
        """
        for (model, data), part in frame.groupby(["model", "data"], sort=False):
            rows = part.reindex(columns=[*keys, *NUMBERS]).assign(metric=metric)
            self.record(rows, data=Path(data).name, model=model_name(model, data), **where)

    def figure(self, fig: "matplotlib.figure.Figure", name: str, caption: str) -> None:  # noqa: F821
        """Keep a figure, as PNG of 100 dpi at most, with the caption that the report shows under it.

        Its layout is then fixed: shown afterwards, it is not laid out again.
        """
        png = io.BytesIO()
        fig.savefig(png, format="png", dpi=min(fig.dpi, 100), bbox_inches="tight")
        fig.set_layout_engine("none")
        self._figures[name] = png.getvalue(), caption

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
        controls: dict[str, bool] | None = None,
        figure: str = "",
    ) -> Verdict:
        """Decide a claim of a paper by the rule of `claims`, show the verdict, and keep it for the ledger.

        claim: its id in data/papers/claims.csv.
        measured: the claim's quantity with its interval, in its unit.
        data, model: in words, what it was measured on.
        controls: name of a control of the instrument -> whether it was passed.
        figure: name of the figure that shows it.

        Raises ValueError for an unknown claim.
        """
        claims = load_claims()
        if claim not in claims:
            raise ValueError(f"There is no claim {claim!r} in data/papers/claims.csv.")
        about = claims[claim]
        controls = {name: bool(passed) for name, passed in (controls or {}).items()}
        verdict = decide(about, measured, controls)
        self._verdicts[claim, data, model] = {
            "claim": claim,
            **measured._asdict(),
            "outcome": verdict.outcome,
            "needed": verdict.needed,
            "controls": controls,
            "data": data,
            "model": model,
            "figure": figure,
        }
        quantity = spoken(measured, about.unit)
        log.info("Claim (%s, %s): %s\n  %s: %s", about.paper, about.section, about.claim, quantity, verdict)
        return verdict

    def rows(self) -> pd.DataFrame:
        """All rows recorded so far."""
        return _frame(self._rows)

    def finish(self) -> pd.DataFrame:
        """Write the run into its folder, over an earlier one with the same parameters; returns its rows.

        Raises FolderError, after logging the rows, if the folder is full or read-only.
        """
        rows = self.rows()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=f".{self.notebook}-", dir=self.folder))
            part.chmod(0o755)  # mkdtemp's is for its owner alone
            try:
                self._write(part, rows)
                _replace_folder(part, self.run_folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        except OSError as error:
            log.warning("%s", rows.to_string(na_rep="nan"))  # so that the numbers are not lost
            raise FolderError(
                f"Could not write the results to {self.folder} ({error.strerror}): make room or permit "
                "writing there and run this cell again, or name another folder by the parameter results; the "
                "rows are shown above."
            ) from error
        return rows

    def _write(self, folder: Path, rows: pd.DataFrame) -> None:
        rows.to_csv(folder / "results.csv", index=False, na_rep="nan")
        for name, (png, _) in self._figures.items():
            (folder / f"{name}.png").write_bytes(png)
        about = {
            "notebook": self.notebook,
            "parameters": self.parameters,
            "key": os.environ.get(CODE_KEY, ""),  # of the code, where the launcher knows it
            "data": sorted(rows["data"].unique()),
            "model": sorted(rows["model"].unique()),
            "versions": {"python": platform.python_version()}
            | {name: _version(name) for name in ("torch", "xaihelpers")},
            # of what draws the worlds, whether or not this run is about one
            "renderers": {
                "aviary": aviary.renderer_version(),
                "everyday": everyday.renderer_version(),
            },
            "device": describe_device(self.device),
            "started": self.started.isoformat(),
            "seconds": round(time.perf_counter() - self._clock, 1),
            "bill": _bill(self.device),
            "tables": [
                {"paper": paper, "table": table, **heading}
                for (paper, table), heading in self._tables.items()
            ],
            "figures": [
                {"file": f"{name}.png", "caption": caption} for name, (_, caption) in self._figures.items()
            ],
            "notes": self.notes,
            "verdicts": list(self._verdicts.values()),
        }
        (folder / "run.json").write_text(json.dumps(about, indent=1) + "\n")


def start(notebook: str, namespace: dict) -> Run:
    """Begin a run: check the parameters, seed every generator, choose the device, try the results folder.

    It uses the notebook's parameters `seed`, `device` ("auto", "cpu", "cuda" or "cuda:1") and `results`; by
    default they are 0, "auto" and "results".

    notebook: its number, e.g. "11". namespace: its `globals()`.
    Raises ParameterError (unknown name, wrong type, no such device) and FolderError (results cannot be
        written).
    """
    _show_log()
    parameters = check_parameters(namespace)
    seed = parameters.get("seed", 0)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    device = resolve_device(parameters.get("device", "auto"), ParameterError)
    folder = ensure_writable(
        results_home(parameters.get("results", "results")),
        "make room or permit writing there, or name another folder by the parameter results",
    )
    run = Run(notebook, parameters, device, folder)
    spending.begin(0.0, name=run.run_folder.name)  # nothing is spent unless the notebook says so
    try:
        sharing.begin(parameters.get("shard", 0), parameters.get("shards", 1))
    except ValueError as error:
        raise ParameterError(str(error)) from error
    return run


class _PrintHandler(logging.Handler):
    """Prints each message of the helpers as one line of the notebook's output."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record))


def _show_log() -> None:
    """Show what the helpers log in the running notebook; elsewhere they log nothing but warnings."""
    log = logging.getLogger("xaihelpers")
    if not any(isinstance(handler, _PrintHandler) for handler in log.handlers):
        log.addHandler(_PrintHandler())
        log.setLevel(logging.INFO)
        log.propagate = False  # some libraries give the root logger a handler of its own


def read_runs(folder: Path) -> list[dict]:
    """The `run.json` of every run in a results folder, oldest first, with its own folder under "folder".

    Of runs that differ in nothing but their `shard` the newest counts, which has what all of them made.
    """
    runs = []
    for path in sorted(folder.glob("[!.]*/run.json")):
        try:
            runs.append(json.loads(path.read_text()) | {"folder": path.parent})
        except ValueError:
            log.warning("%s is damaged and was left out; delete its folder and run the notebook again.", path)
    newest = {}
    for run in sorted(runs, key=lambda run: run["started"]):
        parameters = dict(run.get("parameters", {}))
        shard = parameters.pop("shard", None)
        newest[run["folder"] if shard is None else (run["notebook"], parameters_hash(parameters))] = run
    return sorted(newest.values(), key=lambda run: run["started"])


def read_records(folder: Path) -> pd.DataFrame:
    """All rows of all runs in a results folder, newest last.

    They are as recorded, with the further columns `notebook`, `run` and `parameters` (JSON).
    """
    tables = []
    for run in read_runs(folder):
        rows = _read_csv(run["folder"] / "results.csv")
        origin = {
            "notebook": run["notebook"],
            "run": run["folder"].name,
            "parameters": json.dumps(run["parameters"]),
        }
        tables.append(rows.assign(**origin))
    tables = [table for table in tables if len(table)]
    return (
        pd.concat(tables, ignore_index=True)
        if tables
        else pd.DataFrame(columns=[*COLUMNS, "notebook", "run", "parameters"])
    )


def paper_table(paper: str, table: int | str) -> pd.DataFrame:
    """What a paper prints, as tidy rows.

    table: the number of a table, or the name of the file that holds numbers of the text or of a figure.
    Raises FolderError if the project does not hold it.
    """
    name = f"table{table}" if str(table).isdigit() else table
    path = PROJECT / "data" / "papers" / f"{paper}_{name}.csv"
    if not path.is_file():
        held = ", ".join(sorted(p.stem for p in path.parent.glob("*.csv"))) or "none"
        raise FolderError(f"There is no {path.name} in data/papers; the tables held are: {held}.")
    return pd.read_csv(path)


def _bill(device: torch.device) -> dict:
    """What the run asked by now, by model, and the most memory that it held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024  # of what the system counts in
    peak = {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
    if device.type == "cuda":
        peak["GPU memory"] = torch.cuda.max_memory_allocated(device)
    return {"asked": spending.account().rows(), "peak": peak}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _tidy(row: dict) -> dict:
    row = {key: value.item() if hasattr(value, "item") else value for key, value in row.items()}
    for name in ("metric", "value"):
        if name not in row:
            raise ValueError(f"A recorded row needs {name!r}; this one has only {', '.join(row)}.")
    numbers = {name: float("nan") if row.get(name) is None else float(row[name]) for name in NUMBERS}
    keys = {name: value for name, value in row.items() if name not in COLUMNS}
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


def _read_csv(path: Path) -> pd.DataFrame:
    missing = dict.fromkeys(NUMBERS, ["nan"])
    return pd.read_csv(path, dtype=dict.fromkeys(TEXTS, str), keep_default_na=False, na_values=missing)


def _replace_folder(new: Path, target: Path) -> None:
    """Put a finished folder in the place of an older one (os.replace takes only empty targets)."""
    old = new.with_name(new.name + ".old")
    if target.exists():
        os.replace(target, old)
    os.replace(new, target)
    shutil.rmtree(old, ignore_errors=True)
