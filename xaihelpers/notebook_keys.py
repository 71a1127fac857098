"""What the results of a notebook depend on, those of the notebooks that it reads included, as one hash."""

import hashlib
import json
from pathlib import Path

from xaihelpers.dependencies import notebook_key

DEFAULT_NEEDS = {"00": [], "99": ["*"]}  # all others: 00, which draws the built-in world


def run_key(notebook: Path, results: Path) -> str:
    """A hash of what the results of a notebook depend on beside its parameters.

    That is `notebook_key` of this notebook and of those it needs; for 99, all records in `results`.
    """
    digest = hashlib.sha256(notebook_key(notebook).encode())
    for path in sorted(_needed(notebook) - {notebook}):
        digest.update(notebook_key(path).encode())
    if notebook.name[:2] == "99":
        records = [path for path in results.glob("[!.]*/*.*") if path.name in ("run.json", "results.csv")]
        for path in sorted(path for path in records if path.parent.name[:2] != "99"):
            digest.update(f"{path.parent.name}/{path.name}".encode() + path.read_bytes())
    return digest.hexdigest()


def declared_needs(notebook: Path) -> list[str]:
    """The numbers of the notebooks that must have run before this one; ["*"] means all others."""
    metadata = json.loads(notebook.read_text())["metadata"]
    return metadata.get("xaihelpers", {}).get("needs", DEFAULT_NEEDS.get(notebook.name[:2], ["00"]))


def _needed(notebook: Path) -> set[Path]:
    """The notebooks whose results one reads, directly or through others; 00 only draws the world."""
    found, waiting = set(), [notebook]
    while waiting:
        one = waiting.pop()
        found.add(one)
        for i in set(declared_needs(one)) - {"00", "*"}:
            waiting += [other for other in notebook.parent.glob(f"{i}_*.ipynb") if other not in found]
    return found
