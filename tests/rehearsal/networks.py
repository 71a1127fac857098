"""Random weights under the file names that torchvision and pytorchcv give theirs, and small CLIPs."""

from pathlib import Path

import open_clip
import torch
import torchvision

from rehearsal.language_models import sentence_tokenizer
from xaihelpers.models.clip.clip_models import CONFIG_FILE, WEIGHTS_FILE
from xaihelpers.models.networks import build_network
from xaihelpers.models.weights import save_weights


def write_torchvision(checkpoints: Path, name: str) -> None:
    """A network of torchvision with fresh weights, where torchvision would download the published ones."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    entry = torchvision.models.get_model_weights(name).DEFAULT
    torch.manual_seed(0)
    segments = name in torchvision.models.list_models(module=torchvision.models.segmentation)
    if segments:
        has_more = "lraspp" not in name  # a second head, which the published ones have
        more = {"weights_backbone": None} | ({"aux_loss": True} if has_more else {})
        model = torchvision.models.get_model(name, weights=None, num_classes=21, **more)
    else:
        more = {"init_weights": True} if name == "inception_v3" else {}
        model = torchvision.models.get_model(name, weights=None, **more)
    torch.save(model.state_dict(), checkpoints / Path(entry.url).name)


def write_resnet18_cub(file: Path) -> None:
    """pytorchcv's ResNet-18 for the 200 species of CUB."""
    torch.manual_seed(1)
    save_weights(build_network("pytorchcv", "resnet18_cub"), file)


# what stands in for each CLIP of open_clip: its configuration, but with narrow towers of two layers
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2}
TEXT_OF_SIGLIP = {
    "context_length": 64,
    "vocab_size": 200,
    "hf_tokenizer_name": "this folder",
    "tokenizer_kwargs": {"clean": "canonicalize"},
    "width": 64,
    "heads": 2,
    "layers": 2,
    "no_causal_mask": True,
    "proj_bias": True,
    "pool_type": "last",
    "norm_kwargs": {"eps": 1e-6},
}
CLIP_MEAN = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
SIGLIP_MEAN = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic", "resize_mode": "squash"}


def _clip(patch: int) -> dict:
    tower = {"image_size": 224, "layers": 2, "width": 64, "head_width": 32, "patch_size": patch}
    return {"embed_dim": 64, "quick_gelu": True, "vision_cfg": tower, "text_cfg": TEXT}


def _siglip() -> dict:
    tower = {"image_size": 224, "timm_model_name": "vit_tiny_patch16_224", "timm_pool": "map"}
    tower |= {"timm_proj": "none", "timm_model_pretrained": False}
    extra = {"init_logit_bias": -10, "custom_text": True}
    return {"embed_dim": 192, **extra, "vision_cfg": tower, "text_cfg": TEXT_OF_SIGLIP | {"width": 192}}


def _eva() -> dict:
    tower = {"image_size": 224, "timm_model_name": "eva02_tiny_patch14_224", "timm_pool": "token"}
    tower |= {"timm_proj": None, "timm_model_pretrained": False}
    return {"embed_dim": 192, "custom_text": True, "vision_cfg": tower, "text_cfg": TEXT}


CLIPS = {
    "ViT-B-32-quickgelu": (_clip(32), CLIP_MEAN),
    "ViT-B-16-quickgelu": (_clip(16), CLIP_MEAN),
    "ViT-L-14-quickgelu": (_clip(14), CLIP_MEAN),
    "ViT-B-16-SigLIP": (_siglip(), SIGLIP_MEAN),
    "ViT-SO400M-14-SigLIP": (_siglip(), SIGLIP_MEAN),
    "ViT-B-16-SigLIP2": (_siglip(), SIGLIP_MEAN),
    "EVA02-L-14": (_eva(), CLIP_MEAN),
}


def write_clip(folder: Path) -> None:
    """A CLIP as a folder that open_clip reads, by the name of the folder among `CLIPS`."""
    import json

    config, preprocessing = CLIPS[folder.name]
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"model_cfg": config, "preprocess_cfg": {"size": 224, **preprocessing}}
    (folder / CONFIG_FILE).write_text(json.dumps(whole, indent=2))
    if "hf_tokenizer_name" in config["text_cfg"]:
        sentence_tokenizer().save_pretrained(folder)
    torch.manual_seed(2)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, force_custom_text=True)
    save_weights(model, folder / WEIGHTS_FILE)


def write_long_clip(file: Path) -> None:
    """A checkpoint in Long-CLIP's form: two tables of 248 positions, of which the second is trained."""
    torch.manual_seed(3)
    file.parent.mkdir(parents=True, exist_ok=True)
    config, _ = CLIPS["ViT-B-16-quickgelu"]
    more = {"embed_dim": config["embed_dim"], "quick_gelu": True}
    text = open_clip.CLIPTextCfg(**config["text_cfg"] | {"context_length": 248})
    model = open_clip.CLIP(vision_cfg=open_clip.CLIPVisionCfg(**config["vision_cfg"]), text_cfg=text, **more)
    state = model.state_dict()
    state["positional_embedding_res"] = torch.randn_like(state["positional_embedding"]) * 0.01
    torch.save(state, file)
