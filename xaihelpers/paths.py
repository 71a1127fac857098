"""Where things lie: the project, the data folder, shipped weights, caches and results.

What a user names is a name under `XAI_DATA`, or a path: `find` says where it is read from, `where_to_write`
where it is written. No other module decides that.
"""

import logging
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

log = logging.getLogger(__name__)
PROJECT = Path(__file__).resolve().parents[1]  # the checkout: development installs are editable
CODE_KEY = "XAI_CODE_KEY"  # environment variable: the key of a notebook's code, for what it records


class FolderError(OSError):
    """A folder is missing or cannot be written; the message names it and the remedy."""


def data_home() -> Path:
    """The one folder for data sets, caches and results: `XAI_DATA`, or the project's `data/`."""
    return Path(os.environ.get("XAI_DATA") or PROJECT / "data").expanduser().resolve()


def models_home() -> Path:
    """The weights and cards that ship with the project."""
    return PROJECT / "data" / "models"


def answers_home() -> Path:
    """The answers of the shipped annotator that ship with the project."""
    return PROJECT / "data" / "answers"


def cache_home() -> Path:
    """The folder of computed things that may be deleted at any time."""
    return data_home() / "cache"


def results_home(name: str = "results") -> Path:
    """The folder that notebooks record their results in, of a name as of `where_to_write`.

    The default name gives way to the environment variable `XAI_RESULTS`, which sends a whole set of runs
    elsewhere.
    """
    if name == "results" and os.environ.get("XAI_RESULTS"):
        return Path(os.environ["XAI_RESULTS"]).expanduser().resolve()
    return where_to_write(name)


def find(name: str | Path, *within: Path, holding: str = "") -> Path | None:
    """The file or folder to read that a name or a path means, or None if there is none.

    That is `name` in the first of the folders `within`, by default `data_home()`, that holds it, else the
    path `name` itself, in which `~` is expanded. One without the file `holding` in it is passed over. Where
    several hold one of this name, the log says which is read. What begins with a dot is a path alone.
    """
    folders = () if str(name).startswith(".") else within or (data_home(),)
    places = (*[folder / name for folder in folders], Path(name).expanduser())
    there = [place.resolve() for place in places if (place / holding).exists()]
    if len(set(there)) > 1:
        _say_which(str(name), there[0], next(place for place in there if place != there[0]))
    return there[0] if there else None


@cache
def _say_which(name: str, read: Path, passed_over: Path) -> None:
    """Log, once, which of two files of one name is read."""
    told = "%r means %s, and not %s: to read the other, give its path, or move one of them away"
    log.warning(told, name, read, passed_over, extra={"note": True})


def find_model(name: str | Path, holding: str = "") -> Path | None:
    """The file or folder of a model: one that ships, else as of `find`."""
    return find(name, models_home(), data_home(), holding=holding)


def where_to_write(name: str | Path, within: Path | None = None) -> Path:
    """The file or folder to write that a name or a path means, whether or not it is there.

    A bare name lies in the folder `within`, by default `data_home()`; anything with a separator, and what
    begins with `~` or a dot, is a path. `~` is expanded.
    """
    name = str(name)
    is_path = "/" in name or os.sep in name or name.startswith(("~", "."))
    place = Path(name) if is_path else (within or data_home()) / name
    return place.expanduser().resolve()


def write_whole(file: str | Path, content: bytes) -> Path:
    """Put `content` in the place of `file` in one step; an OSError leaves what was there."""
    file = Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as target:
            target.write(content)
        os.chmod(temporary, 0o644)  # mkstemp makes private files
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return file


def ensure_writable(folder: Path, remedy: str) -> Path:
    """Create `folder` and prove that a file can be written in it; else FolderError with the `remedy`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)  # a full disk accepts empty files
    except OSError as error:
        raise FolderError(f"Cannot write in {folder} ({error.strerror}): {remedy}.") from error
    return folder


def set_aside(file: str | Path, reason: object) -> Path | None:
    """Rename a damaged cache file or folder to <name>.damaged, its place, and log it; None if it is gone."""
    file = Path(file)
    aside = file.with_name(f"{file.name}.damaged")
    try:
        if aside.is_dir():
            shutil.rmtree(aside)
        os.replace(file, aside)
    except OSError:
        return None
    log.warning("%s is damaged (%s): set aside as %s, what it held is made anew", file, reason, aside.name)
    return aside
