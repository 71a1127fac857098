"""The folder of a rehearsal, and what stands in it for data and models; each is made once from its code."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock

PROJECT_DATA = Path(__file__).resolve().parents[2] / "data"
# torchvision's networks of the presets
NETWORKS = ("resnet18", "inception_v3", "maxvit_t", "convnext_tiny", "efficientnet_b1")
SEGMENTERS = ("deeplabv3_resnet50", "deeplabv3_resnet101", "lraspp_mobilenet_v3_large", "fcn_resnet50")
CLIP_NAMES = (
    "ViT-B-32-quickgelu",
    "ViT-B-16-quickgelu",
    "ViT-L-14-quickgelu",
    "ViT-B-16-SigLIP",
    "ViT-SO400M-14-SigLIP",
    "ViT-B-16-SigLIP2",
    "EVA02-L-14",
)
# name under XAI_DATA -> (module of this package, function that writes the folder or file)
WRITERS = {
    "CUB_200_2011": ("birds", "write_cub"),
    "CUB_few": ("birds", "write_few_of_cub"),
    "SUB": ("birds", "write_benchmark"),
    "concept_sets/cub_filtered.txt": ("birds", "write_concept_file"),
    "downloads/imagenet": ("photographs", "write_imagenet"),
    "downloads/flowers-102": ("photographs", "write_flowers"),
    "downloads/stanford_cars": ("photographs", "write_cars"),
    "downloads/cifar100": ("photographs", "write_cifar100"),
    "downloads/caltech101": ("photographs", "write_caltech"),
    "cats_and_dogs": ("photographs", "write_cats_and_dogs"),
    "resnet18_cub.safetensors": ("networks", "write_resnet18_cub"),
    "longclip-B.pt": ("networks", "write_long_clip"),
    "Qwen/Qwen2-VL-7B-Instruct": ("language_models", "write_qwen2_vl"),
    "Qwen/Qwen2-VL-72B-Instruct": ("language_models", "write_qwen2_vl"),
    "meta-llama/Llama-3.2-11B-Vision-Instruct": ("language_models", "write_llama_vision"),
    "meta-llama/Llama-3.2-90B-Vision-Instruct": ("language_models", "write_llama_vision"),
    "OpenGVLab/InternVL2_5-8B-MPO-hf": ("language_models", "write_internvl"),
    "llava-hf/llava-1.5-7b-hf": ("language_models", "write_llava"),
    "black-forest-labs/FLUX.1-dev": ("pipelines", "write_flux"),
    "stabilityai/stable-diffusion-3.5-large": ("pipelines", "write_stable_diffusion_3"),
    "stabilityai/stable-diffusion-xl-base-1.0": ("pipelines", "write_stable_diffusion_xl"),
}
WRITERS |= {name: ("networks", "write_clip") for name in CLIP_NAMES}
NOT_IN_FOLDERS_OF_THEIR_OWN = {"downloads/cifar100": "downloads"}  # torchvision adds its own inside


def environment(folder: Path) -> dict[str, str]:
    """What processes of a rehearsal are told: where data, caches, results and weights lie; no connection."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        "XAI_DATA": str(folder / "data"),
        "XAI_RESULTS": str(folder / "results"),
        "XAI_RATINGS": str(folder / "ratings"),
        "TORCH_HOME": str(folder / "torch"),
        "HF_HOME": str(folder / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "OPENAI_API_KEY": "of-the-rehearsal",
        **one_thread,
    }


def prepare(folder: Path, names: Iterable[str]) -> None:
    """Make the stand-ins of these names, of `WRITERS` or torchvision's networks, that are not there yet."""
    made = folder / "made"
    made.mkdir(parents=True, exist_ok=True)
    _link_world(folder / "data")
    with FileLock(folder / ".lock"):
        for name in dict.fromkeys(names):
            is_network = name in (*NETWORKS, *SEGMENTERS)
            module = "networks" if is_network else WRITERS[name][0]
            code = Path(__file__).with_name(f"{module}.py").read_bytes()
            mark = made / f"{name.replace('/', '--')}-{hashlib.sha256(code).hexdigest()[:10]}"
            if mark.exists():
                continue
            if is_network:
                from rehearsal.networks import write_torchvision

                write_torchvision(folder / "torch/hub/checkpoints", name)
            else:
                _write(folder / "data", name)
            mark.touch()


def _link_world(data: Path) -> None:
    """The drawn birds, on which judges prove themselves, are the project's own: drawn once for all."""
    data.mkdir(parents=True, exist_ok=True)
    if not (data / "aviary").is_symlink():
        (data / "aviary").symlink_to(PROJECT_DATA / "aviary")


def _write(data: Path, name: str) -> None:
    """One of `WRITERS`; what an interrupted process has left of it is removed first."""
    module, function = WRITERS[name]
    target = data / name
    if target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    write = getattr(__import__(f"rehearsal.{module}", fromlist=[function]), function)
    write(data / NOT_IN_FOLDERS_OF_THEIR_OWN.get(name, name))


def remove_computed(folder: Path) -> None:
    """Features, answers, fitted models and results of earlier rehearsals; the stand-ins stay."""
    for place in (folder / "data/cache", folder / "results", folder / "ratings", folder / "done"):
        shutil.rmtree(place, ignore_errors=True)
    for made_by_52 in (folder / "data").glob("sub_*"):
        shutil.rmtree(made_by_52, ignore_errors=True)


def use(folder: Path) -> None:
    """Let this process, before it imports the package, and those it starts see nothing but the rehearsal."""
    os.environ.update(environment(folder))
