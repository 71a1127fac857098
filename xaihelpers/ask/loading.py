"""Models by name: one on this machine, one behind a server, or a function of your own."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from xaihelpers import paths
from xaihelpers.ask.cache import latest_identity
from xaihelpers.ask.local_model import LocalModel
from xaihelpers.ask.messages import AskError, Request
from xaihelpers.ask.python_model import FunctionModel, python_model
from xaihelpers.ask.server_model import ServerModel
from xaihelpers.devices import resolve_device
from xaihelpers.own_model import file_hash

log = logging.getLogger(__name__)
SHIPPED = ("annotator", "judge")


Model = LocalModel | ServerModel | FunctionModel


def load_vlm(name: str = "annotator", device: str | torch.device = "cpu", batch_size: int = 0) -> Model:
    """Load a vision-language model.

    name: the shipped "annotator" or "judge", a folder or a name on Hugging Face; or "server:NAME" for a model
        behind an OpenAI-compatible server, whose address and key are read from OPENAI_BASE_URL and
        OPENAI_API_KEY; or "python:FILE" for a function of your own. Of a model that cannot be loaded the
        answers that are kept can be had again.
    device: of a local model.
    batch_size: requests at a time; 0 stands for what is usual for the kind of model.
    Raises AskError: the model cannot be loaded, there is no such device; as `python_model` does; a
        `batch_size` below 0.
    """
    if batch_size < 0:
        raise AskError(f"batch_size is {batch_size}: it has to be 1 or more, or 0 for the usual one")
    if name.startswith("python:"):
        return python_model(name.removeprefix("python:"), batch_size)
    if name.startswith("server:"):
        return ServerModel(name.removeprefix("server:"), batch_size)
    device = resolve_device(device, AskError)
    if name in SHIPPED:
        return shipped_model(name, device, batch_size)
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
    still names it. batch_size: as of `load_vlm`. The function raises AskError as `load_vlm` does.
    """
    loaded: dict[str, Model] = {}

    def load(name: str) -> Model:
        if name not in loaded:
            for other in loaded.keys() - {keep}:
                released = loaded.pop(other)
                if isinstance(released, LocalModel):
                    released.release()
            loaded[name] = load_vlm(name, device, batch_size)
        return loaded[name]

    return load
