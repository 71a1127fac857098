"""A model of your own: a Python file with one function, which runs because its path was named.

    outputs_of(images)   -> outputs of a concept bottleneck    notebooks 11-13, 22-25, 53, 61, the scorecard
    maps_of(images)      -> attention maps                     notebooks 41-44 (`saliency.own_maps`)
    answer(requests)     -> answers of a language model        python:FILE wherever one is named (`ask`)

`images` is a list of RGB PIL images as the data set holds them, some at a time. Such a file runs as any
program does: it is found by the path that is given, from the working folder, and never looked for among data.
Its folder is on Python's path while it runs. `python -m xaihelpers.own_model FILE --out outputs.safetensors`
writes the outputs to a file, which is then read by all notebooks without running the model again.
"""

import argparse
import hashlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType

import torch
from PIL import Image
from tqdm.auto import tqdm

from xaihelpers.datasets import Dataset, DatasetError, load, load_image
from xaihelpers.outputs import OPTIONAL, PER_IMAGE, TENSORS, ConceptOutputs, save_outputs
from xaihelpers.paths import find

FIELDS = ("concepts", "classes", *TENSORS)  # of a dict that outputs_of may return


class OwnModelError(ValueError):
    """A user's file or what its function returned; the message names the file, the place and the remedy."""


def is_python_file(name: str | Path) -> bool:
    """Whether a name is that of a Python file, whether or not it exists."""
    return Path(name).suffix == ".py"


def file_hash(file: str | Path) -> str:
    """The first 16 digits of the sha256 of a file. Raises OSError where it cannot be read."""
    return hashlib.sha256((find(file, Path()) or Path(file)).read_bytes()).hexdigest()[:16]


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
    module = _run(file, place, "<module>", _module, place, file_hash(place))
    if not callable(getattr(module, name, None)):
        found = [
            one for one, held in vars(module).items() if getattr(held, "__module__", "") == module.__name__
        ]
        raise OwnModelError(
            f"{file} has no function {name} (it defines {', '.join(found) or 'nothing'}): write "
            f"def {name}(...) in it, at the top level"
        )
    return partial(_run, file, place, name, getattr(module, name))


@lru_cache(maxsize=None)
def _module(place: Path, content: str) -> ModuleType:
    """The file as a module, run once for each of its contents."""
    module = ModuleType(f"own_model_{place.stem}_{content}")
    sys.modules[module.__name__] = module  # for classes that are pickled or inspected
    module.__file__ = str(place)
    exec(compile(place.read_bytes(), place, "exec"), vars(module))
    return module


def _run(file: str | Path, place: Path, name: str, function: Callable, *arguments):
    """Call a user's code, its folder on Python's path; its exceptions name its file and line."""
    sys.path.insert(0, str(place.parent))
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(place)]
        where = f"line {frames[-1].lineno}, in {frames[-1].name}: {frames[-1].line}" if frames else name
        if isinstance(error, SyntaxError) and error.filename == str(place):
            where = f"line {error.lineno}"
        raise OwnModelError(f"{file}, {where}\n{type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(place.parent))


def outputs_of_file(
    file: str | Path,
    images: Sequence[str | Path | Image.Image],
    image_ids: Sequence[str],
    batch_size: int = 64,
) -> ConceptOutputs:
    """The outputs of a user's bottleneck for N images, on the CPU, under the images' ids.

    file: with `outputs_of(images)`, which returns for n RGB images ConceptOutputs, or a dict of its fields as
        arrays: concepts, classes, values (n, L), logits (n, K), and perhaps class_weights (L, K),
        contributions (n, L), thresholds (L,), concept_maps (n, L, H, W). Contributions may be left out where
        class weights are given: they are then θ_jk û_ij of the predicted class k.
    images: N image files or images, of which `batch_size` at a time are opened.
    Raises OwnModelError: as `load_function`; something else returned, another number of rows, wrong shapes or
        NaN, names or weights that change between batches; DatasetError for an image that cannot be read.
    """
    function, parts = load_function(file, "outputs_of"), []
    if not len(images):
        raise OwnModelError(f"{file}: there is no image to ask it about")
    starts = range(0, len(images), batch_size)
    for start in tqdm(starts, desc=Path(file).stem, disable=len(starts) < 2):
        some = images[start : start + batch_size]
        opened = [one.convert("RGB") if isinstance(one, Image.Image) else load_image(one) for one in some]
        parts.append(_checked(file, function(opened), len(some)))
        for name in ("concepts", "classes", *OPTIONAL):
            if not _alike(getattr(parts[0], name), getattr(parts[-1], name), name in PER_IMAGE):
                raise OwnModelError(
                    f"{file}: outputs_of returned other {name} for image {start} on than for the first ones: "
                    "what is the model's is the same whatever the image"
                )
    tensors = {}
    for name in PER_IMAGE:
        if getattr(parts[0], name) is not None:
            tensors[name] = torch.cat([getattr(part, name) for part in parts])
    return replace(parts[0], **tensors, image_ids=list(image_ids))


def _alike(one, other, of_image: bool) -> bool:
    """Whether names or tensors of two batches are the same; of those of images, whether both are there."""
    if one is None or other is None or of_image:
        return (one is None) == (other is None)
    return torch.allclose(one, other) if isinstance(one, torch.Tensor) else one == other


def _checked(file: str | Path, returned: object, n_images: int) -> ConceptOutputs:
    """What outputs_of returned, as ConceptOutputs of so many images on the CPU."""
    if isinstance(returned, dict):
        returned = _from_fields(file, returned)
    if not isinstance(returned, ConceptOutputs):
        kind = "nothing" if returned is None else f"an object of type {type(returned).__name__}"
        raise OwnModelError(
            f"{file}: outputs_of returned {kind}: it has to return ConceptOutputs, or a dict with "
            "concepts, classes, values, logits and class_weights (or contributions)"
        )
    if len(returned.values) != n_images:
        raise OwnModelError(
            f"{file}: outputs_of returned {len(returned.values)} rows for {n_images} images: one row for "
            "each image is wanted, in their order"
        )
    return returned.cpu()


def _from_fields(file: str | Path, given: dict) -> ConceptOutputs:
    missing = [name for name in ("concepts", "classes", "values", "logits") if given.get(name) is None]
    unknown = [name for name in given if name not in (*FIELDS, "image_ids")]
    if unknown or missing:
        wrong = f"has no {missing[0]}" if missing else f"has {unknown[0]!r}, which is no field"
        raise OwnModelError(
            f"{file}: the dict that outputs_of returned {wrong}; its fields: {', '.join(FIELDS)}"
        )
    fields = dict.fromkeys(TENSORS) | given
    if fields["contributions"] is None and fields["class_weights"] is None:
        raise OwnModelError(
            f"{file}: outputs_of returned neither contributions nor class_weights: what each concept adds to "
            "the predicted class's logit is not known without one of them"
        )
    try:
        for name in ("concepts", "classes"):
            fields[name] = [str(one) for one in fields[name]]
        for name in TENSORS:
            if fields[name] is not None:
                fields[name] = torch.as_tensor(fields[name]).detach().float()
        if fields["contributions"] is None:
            fields["contributions"] = fields["values"] * fields["class_weights"].T[fields["logits"].argmax(1)]
        return ConceptOutputs(**fields)
    except (ValueError, TypeError, RuntimeError, IndexError, AttributeError) as error:
        raise OwnModelError(
            f"{file}: what outputs_of returned is of wrong types or shapes: {error}"
        ) from error


def outputs_of_data(file: str | Path, data: Dataset, split: str = "test") -> ConceptOutputs:
    """The outputs of a user's bottleneck for the images of a data set.

    split: "test", "train" or "all"; "test" takes all where no image is for testing.
    Raises OwnModelError as `outputs_of_file`, and for an unknown split.
    """
    if split not in ("test", "train", "all"):
        raise OwnModelError(f"split is test, train or all, not {split!r}")
    train = data.train
    wanted = torch.ones_like(train) if split == "all" or train.all() else train == (split == "train")
    rows = wanted.nonzero()[:, 0].tolist()
    ids = data.image_ids
    return outputs_of_file(file, data.images.path.iloc[rows].tolist(), [ids[row] for row in rows])


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for what cannot be run, read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m xaihelpers.own_model",
        description="Write the outputs of your own bottleneck to a file that every notebook takes.",
    )
    parser.add_argument("file", help="a Python file with outputs_of(images)")
    parser.add_argument("--data", default="aviary", help="a data set by name or path (default: %(default)s)")
    parser.add_argument("--split", default="test", help="test (default), train or all")
    parser.add_argument("--out", required=True, help="safetensors file to write")
    options = parser.parse_args(arguments)
    try:
        outputs = outputs_of_data(options.file, load(options.data, attributes="class"), options.split)
        save_outputs(outputs, options.out)
    except (OwnModelError, DatasetError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    shape = f"{len(outputs.values)} images, {len(outputs.concepts)} concepts, {len(outputs.classes)} classes"
    print(f"{options.out}: {shape}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
