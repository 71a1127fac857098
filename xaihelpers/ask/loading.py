"""Models by name: one on this machine, one behind a server, or a function in a model's place."""

import gc
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from xaihelpers import paths
from xaihelpers.ask.cache import latest_identity
from xaihelpers.ask.messages import Answer, AskError, Request, open_image
from xaihelpers.devices import resolve_device
from xaihelpers.names import server_or_file
from xaihelpers.own_model import OwnModelError, file_hash, load_function

log = logging.getLogger(__name__)


class FunctionModel:
    """A function in a model's place: of a user's Python file, or a shipped instrument's.

    identity: by which its answers are kept.
    function: is given a list of requests (`text`, `images` in RGB, `options`, `max_tokens`) and returns for
        each a text, an `Answer`, or a dict of its fields.
    batch_size: requests at a time; 0 stands for 16.
    """

    def __init__(self, name: str, identity: str, function: Callable[[list], list], batch_size: int = 0):
        self.name, self.identity, self.function, self.batch_size = name, identity, function, batch_size or 16

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, batch by batch; seed and temperature are not passed on.

        Raises AskError: an exception of the function, with its line; another number of answers, or answers of
            another kind. Raises ValueError for an image that cannot be read.
        """
        for start in range(0, len(requests), self.batch_size):
            batch = []
            for one in requests[start : start + self.batch_size]:
                batch.append(replace(one, images=tuple(map(open_image, one.images))))
            try:
                returned = list(self.function(batch))
                if len(returned) != len(batch):
                    raise ValueError(f"{len(returned)} answers for {len(batch)} requests")
                answers = [_as_answer(one, asked) for one, asked in zip(returned, batch, strict=True)]
            except AskError:
                raise
            except (OwnModelError, TypeError, ValueError) as error:
                raise AskError(
                    f"{self.name.removeprefix('python:')}: {error}. answer has to return a list with an "
                    f"answer for each request: a text, or a dict with text and, perhaps, probabilities"
                ) from error
            yield from enumerate(answers, start)


def _as_answer(returned: object, asked: Request) -> Answer:
    answer = Answer(**returned) if isinstance(returned, Mapping) else returned
    answer = Answer(answer) if isinstance(answer, str) else answer
    if not isinstance(answer, Answer) or not isinstance(answer.text, str):
        raise TypeError(f"an object of type {type(returned).__name__} is no answer")
    chances = answer.probabilities
    if chances is not None and set(chances) != set(asked.options):
        raise ValueError(f"probabilities are {chances}, the options {', '.join(asked.options) or 'none'}")
    if chances and not (min(chances.values()) >= 0 and abs(sum(chances.values()) - 1) < 0.01):
        raise ValueError(f"probabilities are {chances}: they have to be 0 or more and 1 in sum")
    return replace(answer)  # a function may give one object twice


Model = "LocalModel | ServerModel | FunctionModel"  # two of which take seconds to import


def load_vlm(name: str = "annotator", device: str | torch.device = "cpu", batch_size: int = 0) -> Model:
    """Load a vision-language model.

    name: the shipped "annotator" or "judge", a folder or a name on Hugging Face; or "server:NAME" for a model
        behind an OpenAI-compatible server, whose address and key are read from OPENAI_BASE_URL and
        OPENAI_API_KEY; or "python:FILE" for the function `answer(requests)` of a file of your own. Answers of
        a function are kept by the file's content and by the environment variable XAI_MODEL_LABEL, to be
        changed where other files, as weights, have changed. Of a model that cannot be loaded the answers that
        are kept can be had again.
    device: of a local model.
    batch_size: requests at a time; 0 stands for what is usual for the kind of model.
    Raises AskError: the model cannot be loaded, there is no such device, a `batch_size` below 0.
    """
    if batch_size < 0:
        raise AskError(f"batch_size is {batch_size}: it has to be 1 or more, or 0 for the usual one")
    kind, rest = server_or_file(name)
    if kind == "server":
        from xaihelpers.ask.server_model import ServerModel

        return ServerModel(rest, batch_size)
    if kind == "python":
        try:
            function = load_function(rest, "answer")
        except OwnModelError as error:
            raise AskError(str(error)) from error
        identity = f"python {file_hash(rest)} {os.environ.get('XAI_MODEL_LABEL', '')}".strip()
        return FunctionModel(name, identity, function, batch_size)
    device = resolve_device(device, AskError)
    if name in ("annotator", "judge"):
        return shipped_model(name, device, batch_size)
    from xaihelpers.ask.local_model import LocalModel

    try:
        return LocalModel(name, device, batch_size)
    except AskError as error:
        identity = latest_identity(name)
        if identity is None:
            raise
        log.warning("%s: only the answers that are kept of it are there", error)
        reason = f"{name}: this is not among the answers kept of it in {paths.cache_home()}, and {error}"

        def refuse(requests: Sequence[Request]):
            raise AskError(reason)

        return FunctionModel(name, identity, refuse)


def shipped_model(
    name: str, device: torch.device, batch_size: int = 0, home: Path | None = None
) -> FunctionModel:
    """The shipped annotator or judge; its answers are kept by the content of its files and by its form.

    home: where the folder `name` lies, by default `paths.models_home()`. Raises OSError where it does not.
    """
    from xaihelpers import instruments  # which themselves answer requests of this room

    folder = (home or paths.models_home()) / name
    shipped = {"annotator": instruments.Annotator, "judge": instruments.AttentionJudge}[name](folder, device)
    hashes = [file_hash(file) for file in sorted(folder.glob("*.safetensors"))]
    identity = f"{name} form {instruments.FORM} {' '.join(hashes)}"
    return FunctionModel(name, identity, shipped.answer, batch_size or 32)


def vlm_loader(
    device: str | torch.device = "cpu", keep: str = "", batch_size: int = 0
) -> Callable[[str], Model]:
    """A function from names to loaded models that holds one at a time, and besides it the one named `keep`.

    For notebooks that go through a list of models: one is released before the next is loaded, whoever else
    still names it. device, batch_size, errors: as of `load_vlm`.
    """
    loaded: dict[str, Model] = {}

    def load(name: str) -> Model:
        if name not in loaded:
            for other in loaded.keys() - {keep}:
                released = loaded.pop(other)
                if hasattr(released, "model"):
                    released.model = None  # the weights of a local one
                    gc.collect()
                    torch.cuda.empty_cache()
            loaded[name] = load_vlm(name, device, batch_size)
        return loaded[name]

    return load
