"""FLUX-, SD3- and SDXL-shaped pipelines of small random networks, as save_pretrained writes them."""

from pathlib import Path

import tiny_pipelines
import torch


def _write(folder: Path, name: str) -> None:
    torch.manual_seed(0)
    pipe = tiny_pipelines.PIPELINES[name]()
    pipe.save_pretrained(folder)


def write_flux(folder: Path) -> None:
    _write(folder, "FluxPipeline")


def write_stable_diffusion_3(folder: Path) -> None:
    _write(folder, "StableDiffusion3Pipeline")


def write_stable_diffusion_xl(folder: Path) -> None:
    _write(folder, "StableDiffusionXLPipeline")
