"""A Flux of nine million parameters, of diffusers' and transformers' own classes, and how it is called.

Its sizes and its tokenizers stand in the files of the shipped pipeline, data/models/studio_flux: T5's holds
the words of the captions whole, and characters, CLIP's pairs of bytes learnt from them.

| symbol | name | shape |
|---|---|---|
| portraits | `pixels` | (N, 3, 64, 64), uint8 |
| latents of the autoencoder | `latents` | (B, 32, 8, 8) |
| the same as the transformer's tokens | `packed(latents)` | (B, 16, 128) |
| noise level | `sigma` | (B, 1, 1) |
| words | `words` | T5's states (B, L, 192), CLIP's vector (B, 128) |
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import diffusers
import numpy as np
import torch
import transformers
from einops import rearrange
from torch import nn

from recipes.flux_training.training_portraits import SIZE
from xaihelpers.paths import models_home

TOKENS = 28  # of a short prompt for T5, at most
SHIPPED = models_home() / "studio_flux"


class Tokenizers(NamedTuple):
    """The two tokenizers of a Flux."""

    t5: Any
    clip: Any


def shipped_tokenizers() -> Tokenizers:
    """Those of the shipped pipeline."""
    t5 = transformers.T5Tokenizer.from_pretrained(SHIPPED / "tokenizer_2")
    return Tokenizers(t5, transformers.CLIPTokenizer.from_pretrained(SHIPPED / "tokenizer"))


def new_autoencoder() -> diffusers.AutoencoderKL:
    """An autoencoder of 64 x 64 pixels and latents of 8 x 8 x 32, with random weights."""
    return diffusers.AutoencoderKL.from_config(diffusers.AutoencoderKL.load_config(SHIPPED / "vae"))


def new_flow() -> nn.ModuleDict:
    """ "transformer", "t5" and "clip" with random weights.

    The transformer has three blocks with separate and five with joined streams for words and picture.
    """
    of_t5 = transformers.T5Config.from_pretrained(SHIPPED / "text_encoder_2")
    of_clip = transformers.CLIPTextConfig.from_pretrained(SHIPPED / "text_encoder")
    of_transformer = diffusers.FluxTransformer2DModel.load_config(SHIPPED / "transformer")
    t5, clip = transformers.T5EncoderModel(of_t5), transformers.CLIPTextModel(of_clip)
    transformer = diffusers.FluxTransformer2DModel.from_config(of_transformer)
    return nn.ModuleDict({"transformer": transformer, "t5": t5, "clip": clip})


def packed(latents: torch.Tensor) -> torch.Tensor:
    """Latents (B, 32, 8, 8) as the transformer's tokens, two by two places each, (B, 16, 128)."""
    return rearrange(latents, "b c (h y) (w x) -> b (h w) (c y x)", y=2, x=2)


def encoded(vae: diffusers.AutoencoderKL, pixels: np.ndarray) -> torch.Tensor:
    """Packed latents of portraits and of their mirror images, (2, N, 16, 128), not yet shifted and scaled."""
    batches = []
    with torch.no_grad():
        for rows in np.array_split(np.arange(len(pixels)), -(-len(pixels) // 128)):
            x = torch.from_numpy(pixels[rows]).to(vae.device).float() / 127.5 - 1
            sides = [vae.encode(side).latent_dist.mean for side in (x, x.flip(3))]
            batches.append(torch.stack([packed(latents).half() for latents in sides]))
    return torch.cat(batches, 1)


def text_states(
    parts, tokenizers: Tokenizers, texts: Sequence[str], length: int = TOKENS
) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts for the transformer: T5's states (B, length, 192), CLIP's vector (B, 128).

    parts: with "t5" and "clip", as `new_flow` gives them.
    """
    device = next(parts["t5"].parameters()).device
    padding = {"padding": "max_length", "max_length": length, "truncation": True}
    ids = tokenizers.t5(texts, **padding, return_tensors="pt").input_ids.to(device)
    # what follows the end is not attended to
    clip_ids = tokenizers.clip(texts, padding=True, return_tensors="pt").input_ids.to(device)
    return parts["t5"](ids).last_hidden_state, parts["clip"](clip_ids).pooler_output


def velocity(
    network: nn.Module,
    noisy: torch.Tensor,
    sigma: torch.Tensor,
    words: tuple[torch.Tensor, torch.Tensor],
    guidance: torch.Tensor,
) -> torch.Tensor:
    """The network's velocity (B, 16, 128) at noisy latents (B, 16, 128) and their noise levels (B, 1, 1).

    words: as of `text_states`. guidance: (B,).
    """
    places = diffusers.FluxPipeline._prepare_latent_image_ids(
        1, SIZE // 16, SIZE // 16, noisy.device, torch.float32
    )
    return network(
        hidden_states=noisy,
        timestep=sigma.flatten(),
        guidance=guidance,
        encoder_hidden_states=words[0],
        pooled_projections=words[1],
        txt_ids=torch.zeros(words[0].shape[1], 3, device=noisy.device),
        img_ids=places,
        return_dict=False,
    )[0]
