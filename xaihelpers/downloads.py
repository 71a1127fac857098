"""Which published weights lie in the caches that their libraries keep, told without importing these."""

import ast
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import constants

KINDS = (".safetensors", ".bin", ".pt")


def has_repository(name: str) -> bool:
    """Whether weights of a repository on Hugging Face are there; its name may have wildcards."""
    files = Path(constants.HF_HUB_CACHE).glob(f"models--{name.replace('/', '--')}/snapshots/**/*")
    return any(file.suffix in KINDS for file in files)


def has_network(family: str, name: str) -> bool:
    """Whether the weights of a network are there, by its family of `names.FAMILIES` and its name within it.

    Of a network of torchvision any published weights count, since their files are called by it.
    """
    if family == "timm":
        return has_repository(f"timm/{name}" if "." in name else f"timm/{name}.*")
    if family == "pytorchcv":
        return any(Path("~/.torch/models").expanduser().glob(f"{name}-*.pth"))
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "torch")
    files = Path(home, "hub/checkpoints").expanduser().glob(f"{name}[-_]*.pth")
    return family == "torchvision" and any(files)


def has_clip(name: str, tag: str) -> bool:
    """Whether open_clip's weights of an architecture are there that it calls by a tag."""
    tags = clip_repositories().get(name.removesuffix("-quickgelu"), {})
    repository = tags.get(tag.lower().replace("-", "_"), "")
    return bool(repository) and has_repository(repository.rpartition("/")[0])


@cache
def clip_repositories() -> dict[str, dict[str, str]]:
    """Of each of open_clip's architectures its tags, and the repository and file that each stands for.

    Read from the text of its table: open_clip takes seconds to import.
    """
    text = Path(find_spec("open_clip").origin).with_name("pretrained.py").read_text(encoding="utf-8")
    assigned = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    value_of = {node.targets[0].id: node.value for node in assigned if isinstance(node.targets[0], ast.Name)}

    def read(tags: ast.expr) -> dict[str, str]:
        settings = {tag.arg: {one.arg: one.value for one in tag.value.keywords} for tag in tags.keywords}
        return {tag: of["hf_hub"].value for tag, of in settings.items() if "hf_hub" in of}

    table = value_of["_PRETRAINED"]
    entries = [value_of[entry.id] if isinstance(entry, ast.Name) else entry for entry in table.values]
    return {name.value: read(tags) for name, tags in zip(table.keys, entries, strict=True)}
