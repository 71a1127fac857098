"""All that runs have recorded, what each table is about, and which notebooks have not been run."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pandas as pd
import yaml

from xaihelpers import datasets, paths, records
from xaihelpers.parameters import NOT_IDENTITY, declared_parameters

# in the order in which they come in tables and in the ledger: the paper's own data and size, other real data,
# drawn data at a larger size, kept with the project, the defaults, and whatever else was tried
KINDS_OF_RUNS = ("paper", "real", "long", "default", "other")


@dataclass(frozen=True)
class Findings:
    """The runs of some results folders; made by `read_findings`."""

    # as of `records.read_runs`, with "changed" (parameters that differ from the notebook's defaults),
    # "settings" (the same in words, without data and backbone), "on" (data and model) and "kind", which
    # they are in the order of; those of one kind begin with the newest
    runs: list[dict]
    recorded: pd.DataFrame  # as of `records.read_records`
    notebooks: dict[str, Path]  # number -> file


def read_findings(folders: Sequence[Path], leave_out: str = "") -> Findings:
    """Read the results folders, first those kept with the project, last that of this machine.

    leave_out: the number of a notebook whose runs do not count.
    """
    runs, tables = [], []
    for folder in folders:
        kept = {"kept": folder != folders[-1]}
        runs += [run | kept for run in records.read_runs(folder) if run["notebook"] != leave_out]
        tables.append(records.read_records(folder))
    recorded = pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)
    notebooks = {}
    for path in sorted((paths.PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        if path.name[:2] != leave_out:
            notebooks[path.name[:2]] = path
    for entry in runs:
        entry["changed"] = _changed_parameters(entry, notebooks.get(entry["notebook"]))
        others = {name: value for name, value in entry["changed"].items() if name not in ("data", "backbone")}
        entry["settings"] = _spelled(others)
        entry["on"] = "no numbers recorded"
        if entry["data"]:
            entry["on"] = " and ".join(entry["data"]) + " · " + " and ".join(entry["model"])
        entry["kind"] = KINDS_OF_RUNS.index(_kind(entry))
    runs = sorted(runs, key=lambda entry: entry["started"], reverse=True)
    return Findings(sorted(runs, key=lambda entry: entry["kind"]), recorded, notebooks)


def is_drawn(data: str) -> bool:
    """Whether data, in the words of a run, are one of the drawn worlds or made from one."""
    return any(name in data for name in (*datasets.DRAWN, "counterfactual"))


def _kind(entry: dict) -> str:
    """One of KINDS_OF_RUNS, by data and parameters of a run, never by what it found."""
    preset = paths.PROJECT / "notebooks" / "presets" / f"{entry['notebook']}.paper.yaml"
    if preset.is_file():
        wanted = yaml.safe_load(preset.read_text()).items()
        wanted = {name: value for name, value in wanted if name not in NOT_IDENTITY}
        if wanted and wanted.items() <= entry["parameters"].items():
            return "paper"
    if entry["data"] and not any(map(is_drawn, entry["data"])):
        return "real"
    if entry["kept"]:
        return "long"
    return "other" if entry["changed"] else "default"


def where(entry: dict) -> str:
    """A run in words: its notebook, data, model and settings."""
    parts = [f"notebook {entry['notebook']}", entry["on"], entry["settings"]]
    return " · ".join(part for part in parts if part)


def title_of(found: Findings, number: str) -> str:
    """Number and title of a notebook; the number alone if there is no such notebook."""
    if number not in found.notebooks:
        return number
    cells = nbformat.read(found.notebooks[number], as_version=4).cells
    return f"{number} · " + re.sub(r"^#\s*\d*\s*·?\s*", "", cells[0].source.splitlines()[0])


def overview(found: Findings, results: Path) -> pd.DataFrame:
    """What was run, a row of texts for each run, and a row for each notebook that was not, or failed.

    results: the folder beside whose runs `make run` keeps the executed notebooks.
    """
    lines = []
    for entry in sorted(found.runs, key=lambda entry: entry["notebook"]):
        versions = [f"{name} {version}" for name, version in entry["versions"].items()]
        lines.append(
            {
                "notebook": title_of(found, entry["notebook"]),
                "data": ", ".join(entry["data"]),
                "model": ", ".join(entry["model"]),
                "parameters that differ from the defaults": _spelled(entry["changed"]) or "none",
                "device": entry["device"],
                "versions": ", ".join(versions),
                "started (UTC)": entry["started"][:16].replace("T", " "),
                "seconds": f"{entry['seconds']:,.0f}",
                "state": "recorded" if entry["data"] else "ran; it has no numbers",
            }
        )
    have_run = {entry["notebook"] for entry in found.runs}
    for number, path in found.notebooks.items():
        text = _state(path, results)
        if number not in have_run:
            lines.append({"notebook": title_of(found, number), "state": text})
        elif text.startswith("failed"):
            text += "; all that is shown of it is from earlier runs"
            lines.append({"notebook": title_of(found, number), "state": text})
    return pd.DataFrame(lines).fillna("")


def _changed_parameters(entry: dict, notebook: Path | None) -> dict:
    """What differs from the notebook's defaults; of a path only the last part."""
    defaults = {}
    if notebook is not None:
        cells = nbformat.read(notebook, as_version=4).cells
        source = next(cell.source for cell in cells if cell.cell_type == "code")
        defaults = {name: value for name, (_, value) in declared_parameters(source).items()}
    changed = {}
    for name, value in entry["parameters"].items():
        if name in ("results", "device") or value == defaults.get(name):
            continue
        if isinstance(value, str) and "/" in value:
            value = os.path.basename(value.rstrip("/"))
        changed[name] = value
    return changed


def _spelled(parameters: dict) -> str:
    texts = {name: "none" if value == "" else value for name, value in parameters.items()}
    return ", ".join(f"{name} = {value}" for name, value in texts.items())


def _state(path: Path, results: Path) -> str:
    """What became of a notebook that `make run` executed, if it did."""
    executed = results / "notebooks" / path.name
    failed = executed.with_suffix(".failed.ipynb")
    if not failed.exists():
        return "ran; it records nothing" if executed.exists() else "not run yet"
    for cell in json.loads(failed.read_text())["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                return f"failed: {output['ename']}: {output['evalue'][:160]}"
    return "failed: it stopped before its end"
