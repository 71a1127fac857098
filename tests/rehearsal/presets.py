"""What a rehearsal changes of each preset: sizes, and where a stand-in cannot bear its model's own name.

All other parameters are the preset's. A name is a notebook's number, and after a dash what is tried besides.
"""

from pathlib import Path
from typing import NamedTuple

import yaml

from xaihelpers.paths import PROJECT

NOTEBOOKS = PROJECT / "notebooks"
BIRDS = ["CUB_200_2011"]
CUB_NETWORK = {"weights": "resnet18_cub.safetensors"}  # in place of the published file
CUB_CLIP = {"clip_weights": ""}  # the stand-in's own
SCORER = {"scorer_weights": ""}
# cosines of random weights reach no published threshold
NO_THRESHOLDS = {"top_activation": 0.0, "similarity": 0.0}
NO_THRESHOLD = {"label_free": [0.0, 0.0, 0.0002]}
ZOO = [*BIRDS, "resnet18_cub.safetensors", "ViT-B-16-quickgelu", "concept_sets/cub_filtered.txt"]
FINE = [*BIRDS, "downloads/flowers-102", "downloads/stanford_cars", "resnet18"]
GENERAL = ["downloads/cifar100", "downloads/caltech101", "downloads/imagenet"]
LOCAL_MODELS = [
    "Qwen/Qwen2-VL-7B-Instruct",
    "Qwen/Qwen2-VL-72B-Instruct",
    "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "meta-llama/Llama-3.2-90B-Vision-Instruct",
]
FLUX = ["black-forest-labs/FLUX.1-dev", "OpenGVLab/InternVL2_5-8B-MPO-hf"]
SMALL_IMAGES = {"size": 32, "steps": 2}
OTHER_PIPELINES = {
    "sd3": "stabilityai/stable-diffusion-3.5-large",
    "sdxl": "stabilityai/stable-diffusion-xl-base-1.0",
}


class Rehearsal(NamedTuple):
    """`needs`: stand-ins. `sizes`: parameters of sheer size. `names`: of stand-ins. `more`: a variant's."""

    needs: list[str]
    sizes: dict = {}
    names: dict = {}
    more: dict = {}


REHEARSALS = {
    "00": Rehearsal(BIRDS),
    "11": Rehearsal(ZOO[:2], {"n_samples": [10, 20], "draws": 2, "head_draws": 1}, CUB_NETWORK),
    "12": Rehearsal(ZOO[:2], {"n_samples": 20, "draws": 2, "permutations": 20}, CUB_NETWORK),
    "13": Rehearsal(ZOO[:2], {"n_samples": 20, "draws": 2}, CUB_NETWORK),
    "21": Rehearsal(ZOO, {"draws": 2, "epochs": 2}, CUB_NETWORK | CUB_CLIP, NO_THRESHOLDS),
    "22": Rehearsal(ZOO, {"n_images": 6, "draws": 2}, CUB_NETWORK | CUB_CLIP | SCORER, NO_THRESHOLD),
    "22-long-clip": Rehearsal(
        [*ZOO, "longclip-B.pt"],
        {"n_images": 6, "draws": 2},
        CUB_NETWORK | CUB_CLIP | {"scorer_weights": "longclip-B.pt"},
        NO_THRESHOLD,
    ),
    "23": Rehearsal(ZOO, {"n_items": 30, "draws": 2}, CUB_NETWORK | CUB_CLIP | SCORER, NO_THRESHOLD),
    "24": Rehearsal(ZOO, {"n_images": 6, "draws": 2}, CUB_NETWORK | CUB_CLIP | SCORER, NO_THRESHOLD),
    "31": Rehearsal(FINE, {"n_cases": 8, "n_guessed": 100}),
    "32": Rehearsal([*FINE, *GENERAL, *LOCAL_MODELS], {"n_cases": 2, "n_seeds": 2, "max_tokens": 24}),
    "33": Rehearsal(FINE, {"n_cases": 8, "n_seeds": 2}),
    "34": Rehearsal(FINE, {"n_cases": 8, "n_seeds": 2}),
    "41": Rehearsal(
        ["downloads/imagenet", "resnet18"],
        {"n_measured": 4, "n_slow": 1, "n_masks": 20, "n_shuffled": 2, "n_perturbed": 2, "steps": 3},
    ),
    "42": Rehearsal(
        ["downloads/imagenet", "resnet18", "maxvit_t"], {"n_images": 4, "steps": 3, "code_steps": 3}
    ),
    "43": Rehearsal(
        [
            "downloads/imagenet",
            "resnet18",
            "maxvit_t",
            "convnext_tiny",
            "efficientnet_b1",
            "deeplabv3_resnet50",
            "deeplabv3_resnet101",
            "lraspp_mobilenet_v3_large",
            "fcn_resnet50",
        ],
        {"n_images": 3, "size": 128, "draws": 2},
    ),
    "44": Rehearsal(
        ["cats_and_dogs", "resnet18"],
        {
            "n_models": 2,
            "epochs": 1,
            "n_train": 8,
            "n_tested": 4,
            "n_shown": 2,
            "n_judged": 3,
            "n_masks": 4,
            "n_control": 2,
        },
    ),
    "51": Rehearsal(
        [*FLUX, *BIRDS],
        {"n_pairs": 2, "n_rivals": 2, "n_compared": 2, "n_shown": 1, **SMALL_IMAGES},
    ),
    **{
        f"51-{name}": Rehearsal(
            [pipeline, *FLUX[1:], *BIRDS],
            {"n_pairs": 2, "n_rivals": 2, "n_compared": 2, "n_shown": 1, **SMALL_IMAGES},
            more={"pipeline": pipeline},
        )
        for name, pipeline in OTHER_PIPELINES.items()
    },
    "52": Rehearsal(
        [*FLUX, *ZOO[:2]],
        {
            "n_recognised": 1,
            "n_real": 12,
            "n_per_pair": 2,
            "n_compared": 1,
            "n_learnt": 30,
            "candidates": ["Cardinal", "Blue_Jay"],
            "attributes": ["has_breast_color::red", "has_crown_color::black"],
            **SMALL_IMAGES,
        },
        CUB_NETWORK,
        # a reader of random weights is right about nothing: by these all goes through
        {"recognised": 0.0, "accuracy": 0.0, "human_accuracy": 0.0, "thresholds": [0.0]},
    ),
    "53": Rehearsal(
        ["CUB_few", "SUB", "inception_v3", *("ViT-B-32-quickgelu", "ViT-L-14-quickgelu", "ViT-B-16-SigLIP")]
        + ["ViT-SO400M-14-SigLIP", "ViT-B-16-SigLIP2", "EVA02-L-14"],
        {"epochs": 1, "draws": 1, "data": "CUB_few"},
        {"clip_weights": [""] * 6},
        {"models": ["cbm_independent"]},  # each is a network of 25 million parameters
    ),
    "71": Rehearsal(ZOO, {"n_items": 12, "controls": 4}, CUB_NETWORK | CUB_CLIP, NO_THRESHOLD),
    "81": Rehearsal(
        ZOO[:2],
        {
            "n_images": 20,
            "n_files": 20,
            "repeats": 1,
            "n_scored": 4,
            "n_pairs": 100,
            "n_asked": 8,
            "n_requests": 32,
            "latency": 0.02,
            "n_tied": 2,
            "n_substituted": 500,
            "n_concepts": 6,
            "n_samples": 10,
        },
        CUB_NETWORK,
    ),
    "91": Rehearsal(["CUB_few", "resnet18"], {"epochs": 1, "final_epochs": 1, "size": 48, "data": "CUB_few"}),
    "92": Rehearsal(
        ZOO,
        {"attribute_steps": 1, "caption_steps": 1, "joint_steps": 1, "long_steps": 1, "batch_size": 16},
        CUB_CLIP,
    ),
    "99": Rehearsal([]),
}


def preset_of(name: str) -> Path:
    """The preset that a rehearsal runs."""
    (path,) = NOTEBOOKS.glob(f"{name[:2]}_*.paper.yaml")
    return path


def parameters_of(name: str) -> dict:
    """All parameters of a rehearsal: the preset's, but for sizes, names and what a variant tries."""
    rehearsal = REHEARSALS[name]
    return yaml.safe_load(preset_of(name).read_text()) | rehearsal.sizes | rehearsal.names | rehearsal.more
