"""A Python file that the user named: run once, its function called, its errors shown with file and line."""

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from xaihelpers.paths import find

_loaded: dict[tuple[Path, str], ModuleType] = {}


class OwnModelError(ValueError):
    """A user's file or what its function returned; the message names the file, the place and the remedy."""


def is_python_file(name: str | Path) -> bool:
    """Whether a name is that of a Python file, whether or not it exists."""
    return Path(name).suffix == ".py"


def load_function(file: str | Path, name: str) -> Callable:
    """The function `name` of a Python file, which is run once for each of its contents.

    An exception inside it is raised as OwnModelError with the file and the line where it happened.

    Raises OwnModelError: no such file, an exception while it is run, no function of that name.
    """
    place = find(file, Path()) or Path(file).resolve()
    if not is_python_file(place) or not place.is_file():
        raise OwnModelError(
            f"{file}: there is no such Python file (looked for {place}). It would be run, so it is taken "
            "from the path that is given and never looked for under XAI_DATA: give its path"
        )
    module = _module(file, place)
    function = getattr(module, name, None)
    if not callable(function):
        found = [
            one for one, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
        ]
        raise OwnModelError(
            f"{file} has no function {name} (it defines {', '.join(found) or 'nothing'}): write "
            f"def {name}(...) in it, at the top level"
        )

    def called(*arguments):
        with _blamed(file, place, name):
            return function(*arguments)

    return called


def file_hash(file: str | Path) -> str:
    """The first 16 digits of the sha256 of a file. Raises OwnModelError where it cannot be read."""
    try:
        return hashlib.sha256((find(file, Path()) or Path(file)).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise OwnModelError(f"{file}: cannot be read ({error.strerror})") from error


def _module(file: str | Path, place: Path) -> ModuleType:
    """The file as a module, run once for each of its contents."""
    key = place, file_hash(place)
    if key not in _loaded:
        name = f"own_model_{place.stem}_{key[1]}"
        module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, place))
        sys.modules[name] = module  # for classes that are pickled or inspected
        try:
            with _blamed(file, place, "<module>"):
                module.__spec__.loader.exec_module(module)
        except OwnModelError:
            del sys.modules[name]
            raise
        _loaded[key] = module
    return _loaded[key]


@contextmanager
def _blamed(file: str | Path, place: Path, name: str) -> Iterator[None]:
    """Run a user's code, its folder on Python's path; its exceptions name its file and line."""
    folder = str(place.parent)
    sys.path.insert(0, folder)
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(place)]
        where = name
        if isinstance(error, SyntaxError) and error.filename == str(place):
            where = f"line {error.lineno}"
        elif frames:
            where = f"line {frames[-1].lineno}, in {frames[-1].name}"
        line = f": {frames[-1].line}" if frames and frames[-1].line else ""
        raise OwnModelError(f"{file}, {where}{line}\n{type(error).__name__}: {error}") from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
