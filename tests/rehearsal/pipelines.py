"""FLUX-, SD3- and SDXL-shaped pipelines of small random networks, as save_pretrained writes them."""

from pathlib import Path

import tiny_pipelines
import torch
from transformers import T5Tokenizer

LENGTH = 60  # words; of the tokenizers of letters five times as many


def _write(folder: Path, name: str) -> None:
    """The pipeline of that name, its text encoders with room for the longest prompts of the paper."""
    torch.manual_seed(0)
    pipe = tiny_pipelines.PIPELINES[name]()
    for part in [part for part in pipe.components if part.startswith("tokenizer")]:
        if isinstance(getattr(pipe, part), T5Tokenizer):
            pipe.register_modules(**{part: tiny_pipelines.t5_tokenizer(LENGTH)})
            continue
        encoder = part.replace("tokenizer", "text_encoder")
        longer = tiny_pipelines.clip_text(type(getattr(pipe, encoder)), positions=5 * LENGTH)
        pipe.register_modules(**{part: tiny_pipelines.clip_tokenizer(LENGTH), encoder: longer})
    pipe.save_pretrained(folder)


def write_flux(folder: Path) -> None:
    _write(folder, "FluxPipeline")


def write_stable_diffusion_3(folder: Path) -> None:
    _write(folder, "StableDiffusion3Pipeline")


def write_stable_diffusion_xl(folder: Path) -> None:
    _write(folder, "StableDiffusionXLPipeline")
