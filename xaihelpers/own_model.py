"""A model of your own: a Python file with one function, which runs because its path was named.

    outputs_of(images)   -> outputs of a concept bottleneck    notebooks 11-14, 22-25, 53, 61, the scorecard
    answer(requests)     -> answers of a language model        python:FILE wherever one is named (`ask`)

`images` is a list of RGB PIL images as the data set holds them, some at a time. The file is found by the path
that is given, never looked for among data, and its folder is on Python's path while it runs.
`python -m xaihelpers.own_model FILE --out outputs.safetensors` writes outputs for all notebooks to read.
"""

import argparse
import functools
import hashlib
import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import torch
from tqdm.auto import tqdm

from xaihelpers.datasets import Dataset, load, load_image
from xaihelpers.outputs import (
    AXES,
    TOLERANCE,
    ConceptOutputs,
    hold_against_itself,
    outputs_of_fields,
    save_outputs,
)
from xaihelpers.paths import find

log = logging.getLogger(__name__)
BATCH_SIZE = 64  # images that a function is asked about at a time
ASKED_AGAIN = 4  # of the first ones, by themselves
_asked_again = set()  # functions, each of which is asked so once


class OwnModelError(ValueError):
    """A user's file or what its function returned; the message names the file, the place and the remedy."""


def is_python_file(name: str | Path) -> bool:
    """Whether a name is that of a Python file, whether or not it exists."""
    return Path(name).suffix == ".py"


def file_hash(file: str | Path) -> str:
    """The first 16 digits of the sha256 of a file. Raises OSError where it cannot be read."""
    return hashlib.sha256(Path(file).expanduser().read_bytes()).hexdigest()[:16]


def load_function(file: str | Path, name: str) -> Callable:
    """The function `name` of a Python file, which is run once for each of its contents.

    An exception inside it is raised as OwnModelError with the line where it happened.

    Raises OwnModelError: no such file, an exception while it is run, no function of that name.
    """
    place = find(file, Path())
    if not is_python_file(file) or place is None:
        raise OwnModelError(
            f"{file}: there is no such Python file (from {Path.cwd()}). It would be run, so it is taken from "
            "the path that is given and never looked for under XAI_DATA: give its path"
        )
    function = getattr(_run(place, _module, place, file_hash(place)), name, None)
    if not callable(function):
        raise OwnModelError(f"{file} has no function {name}: write def {name}(...) in it, at the top level")
    return functools.partial(_run, place, function)


@functools.lru_cache(maxsize=None)
def _module(place: Path, content: str) -> ModuleType:
    module = ModuleType(f"own_model_{place.stem}_{content}")
    sys.modules[module.__name__] = module  # for classes that are pickled or inspected
    module.__file__ = str(place)
    exec(compile(place.read_bytes(), place, "exec"), vars(module))
    return module


def _run(place: Path, function: Callable, *arguments):
    """Call a user's code, its folder on Python's path."""
    sys.path.insert(0, str(place.parent))
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        where = ""
        for one in traceback.extract_tb(error.__traceback__):
            if one.filename == str(place):
                where = f", line {one.lineno}, in {one.name}: {one.line}"
        raise OwnModelError(f"{place}{where}\n{type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(place.parent))


def outputs_of_file(
    file: str | Path, images: Sequence[str | Path], image_ids: Sequence[str]
) -> ConceptOutputs:
    """The outputs of a user's bottleneck for image files, one row for each, called by the ids given.

    file: with `outputs_of(images)`, which returns ConceptOutputs, or a dict of fields as `outputs_of_fields`
        takes it, for n RGB images, of which `BATCH_SIZE` at a time are opened. What it says of an image has
        to be the same whatever images stand beside it; a model in training mode is told of in the log.
    Raises OwnModelError: as `load_function` and `outputs_of_fields`; something else returned, another number
        of rows, names that change between batches. Raises ValueError as `hold_against_itself`;
        DatasetError for an image that cannot be read.
    """
    function, parts = load_function(file, "outputs_of"), []
    if not len(images):
        raise OwnModelError(f"{file}: there is no image to ask it about")
    starts = range(0, len(images), BATCH_SIZE)
    for start in tqdm(starts, desc=Path(file).stem, disable=len(starts) < 2):
        opened = [load_image(image) for image in images[start : start + BATCH_SIZE]]
        parts.append(_checked(file, function(opened), len(opened)))
        if function.args not in _asked_again:
            _asked_again.add(function.args)
            _ask_again(file, function, opened, parts[0])
        if parts[-1].concepts != parts[0].concepts or parts[-1].classes != parts[0].classes:
            raise OwnModelError(
                f"{file}: outputs_of returned other concepts or classes for image {start} on than for the "
                "first ones: they are the model's, whatever the image"
            )
    whole = {"image_ids": list(image_ids)}
    for name, axes in AXES.items():
        if axes[0] == "images" and getattr(parts[0], name) is not None:
            whole[name] = torch.cat([getattr(part, name) for part in parts])
    outputs = replace(parts[0], **whole)
    hold_against_itself(outputs, str(file))
    return outputs


def _ask_again(file: str | Path, function: Callable, opened: Sequence, together: ConceptOutputs) -> None:
    """Ask about some images by themselves, and log where that gives other numbers than rounding makes."""
    some = opened[: max(1, min(ASKED_AGAIN, len(opened) // 2))]
    alone = _checked(file, function(some), len(some))
    for name in ("values", "logits"):
        numbers = getattr(together, name)
        off = (getattr(alone, name) - numbers[: len(some)]).abs().max()
        scale = (numbers - numbers.mean()).abs().max() + 1e-3 * numbers.abs().max()
        if off > scale * (TOLERANCE if torch.cuda.is_available() else TOLERANCE / 4):
            log.warning(
                "%s: what outputs_of says of an image depends on the images beside it: asked again about the "
                "first %d by themselves, it gives %s up to %.3g away, where they vary by %.3g. A model in "
                "training mode (dropout, batch norm) does so: call model.eval() when it is loaded",
                *(file, len(some), name, off, scale),
                extra={"note": True},
            )
            return


def _checked(file: str | Path, returned: object, n_images: int) -> ConceptOutputs:
    """What outputs_of returned, as ConceptOutputs of so many images."""
    try:
        fields = returned if isinstance(returned, Mapping) else vars(returned)
        outputs = outputs_of_fields(fields)
        if len(outputs.values) != n_images:
            raise ValueError(f"{len(outputs.values)} rows for {n_images} images")
    except (ValueError, TypeError, RuntimeError, IndexError, AttributeError) as error:
        raise OwnModelError(
            f"{file}: what outputs_of returned cannot be used: {error}. It has to return ConceptOutputs, or "
            "a dict with concepts, classes, values, logits and class_weights (or contributions), a row for "
            "each image in their order"
        ) from error
    return outputs


def outputs_of_data(file: str | Path, data: Dataset) -> ConceptOutputs:
    """The outputs of a user's bottleneck for the test images of a data set, for all where it has none.

    Raises OwnModelError as `outputs_of_file`.
    """
    wanted = data.train.numpy() if data.train.all() else ~data.train.numpy()
    ids = [name for name, asked in zip(data.image_ids, wanted, strict=True) if asked]
    return outputs_of_file(file, data.images.path[wanted].tolist(), ids)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for what cannot be run, read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.own_model",
        description="Write the outputs of your own bottleneck to a file that every notebook takes.",
    )
    parser.add_argument("file", help="a Python file with outputs_of(images)")
    parser.add_argument("--data", default="aviary", help="a data set by name or path (default: %(default)s)")
    parser.add_argument("--out", required=True, help="safetensors file to write")
    options = parser.parse_args(arguments)
    try:
        outputs = outputs_of_data(options.file, load(options.data, attributes="class"))
        save_outputs(outputs, options.out)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{options.out}: {len(outputs.values)} images, {len(outputs.concepts)} concepts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
