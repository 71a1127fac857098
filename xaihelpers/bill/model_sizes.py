"""How large a model is, and by which rule it counts images: from its folder, or else from a table."""

import csv
import functools
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from transformers import AutoTokenizer

from xaihelpers import paths, spending
from xaihelpers.bill.data_sizes import FOLDER

OVERHEAD = 1.2  # memory over that of the weights: activations, the kept keys and values, the library's own
FAMILY_OF_TYPE = {
    "qwen2_vl": "qwen2-vl",
    "qwen2_5_vl": "qwen2-vl",
    "mllama": "llama-3.2-vision",
    "internvl": "internvl",
    "internvl_chat": "internvl",
}


class ModelSize(NamedTuple):
    """What an estimate needs to know of a model that is asked."""

    name: str
    family: str  # of `ask.token_counts`
    billions: float  # parameters, in 10⁹; 0 for a served model of unknown size
    is_served: bool
    is_known: bool  # whether it lies here or stands in the table
    image_tokens: int = 0  # of each image, in place of the family's rule
    tokenise: Callable[[str], Sequence] | None = None

    def memory(self, bytes_each: int = 2) -> float:
        """Bytes of device memory that it needs, with `OVERHEAD`; 0 where it is served."""
        return 0.0 if self.is_served else self.billions * 1e9 * bytes_each * OVERHEAD


class NetworkSize(NamedTuple):
    """A network for images, or a pipeline that makes them: side of its input, GFLOP a pass, 10⁶ weights."""

    name: str
    side: int
    gflop: float
    millions: float


def model_size(name: str) -> ModelSize:
    """A vision-language model, as `ask.load_vlm` takes its name."""
    plain, served = spending.plain_name(name), is_served(name)
    if is_own(name):
        return ModelSize(name, "openai", 0.0, True, True)
    if not served:
        folder = paths.find(plain, paths.models_home(), paths.data_home(), holding="config.json")
        if folder is not None:
            return _of_folder(name, folder)
    for row in _table("vision_language_models.csv"):
        if Path(plain).name.lower().startswith(row["name"].lower()):
            billions = float(row["billions"])
            return ModelSize(name, row["family"], billions, served, True)
    return ModelSize(name, "openai", 0.0, served, False)


def is_served(name: str) -> bool:
    """Whether a model is behind a server, asked one by one or in batches."""
    return name.startswith(("server:", "batch:"))


def is_own(name: str) -> bool:
    """Whether answers come from a function of the user or from a file of them, and cost nothing here."""
    return name.startswith(("python:", "replay:"))


def network_size(name: str) -> NetworkSize:
    """A network by its name, with or without its library; a ResNet-50's numbers for an unknown one."""
    plain = name.rsplit("/", 1)[-1].removesuffix("_cub").lower()
    for row in _table("networks.csv"):
        if plain.startswith(row["name"].lower()):
            return NetworkSize(name, int(row["side"]), float(row["gflop"]), float(row["millions"]))
    return NetworkSize(name, 224, 8.18, 25.6)


def weights_on_disk(folder: Path) -> float:
    """Numbers that the safetensors files of a folder hold, in 10⁹; read from their headers."""
    count = 0
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as opened:
            length = struct.unpack("<Q", opened.read(8))[0]
            header = json.loads(opened.read(length))
        for entry in header.values():
            if "shape" in entry:
                size = 1
                for side in entry["shape"]:
                    size *= side
                count += size
    return count / 1e9


def _of_folder(name: str, folder: Path) -> ModelSize:
    config = json.loads((folder / "config.json").read_text())
    kind = config.get("model_type", "")
    # what models with one size of image say themselves
    of_image = 0 if kind in FAMILY_OF_TYPE else config.get("image_seq_length") or 0
    tokeniser = AutoTokenizer.from_pretrained(str(folder))

    def tokenise(text: str) -> list[int]:
        return tokeniser(text, add_special_tokens=False)["input_ids"]

    family = FAMILY_OF_TYPE.get(kind, "llava")
    return ModelSize(name, family, weights_on_disk(folder), False, True, of_image, tokenise)


@functools.cache
def _table(file: str) -> list[dict]:
    with open(FOLDER / file, encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    return sorted(rows, key=lambda row: -len(row["name"]))  # the longest name that fits wins
