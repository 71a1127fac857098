"""A Flux of nine million parameters, of diffusers' and transformers' own classes, and how it is called.

| symbol | name | shape |
|---|---|---|
| portraits | `pixels` | (N, 3, 64, 64), uint8 |
| latents of the autoencoder | `latents` | (B, 32, 8, 8) |
| the same as the transformer's tokens | `packed(latents)` | (B, 16, 128) |
| noise level | `sigma` | (B, 1, 1) |
| words | `words` | T5's states (B, L, 192), CLIP's vector (B, 128) |
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import diffusers
import numpy as np
import torch
import transformers
from einops import rearrange
from tokenizers import Regex, Tokenizer, pre_tokenizers, trainers
from tokenizers.models import BPE
from torch import nn

from recipes.flux_training.training_portraits import PHRASES, SIZE, SPECIES

TOKENS = 28  # of a short prompt for T5, at most
OTHERS = "a an the bird photo of with and like body beak tail wings head build size"


class Tokenizers(NamedTuple):
    """The two tokenizers of a Flux."""

    t5: Any
    clip: Any


def new_autoencoder(device: torch.device) -> diffusers.AutoencoderKL:
    """An autoencoder of 64 x 64 pixels and latents of 8 x 8 x 32, with random weights."""
    return diffusers.AutoencoderKL(
        block_out_channels=(16, 32, 48, 64),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=32,
        norm_num_groups=8,
        sample_size=SIZE,
        use_quant_conv=False,
        use_post_quant_conv=False,
        mid_block_add_attention=False,
    ).to(device, memory_format=torch.channels_last)


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


def new_tokenizers() -> Tokenizers:
    """Tokenizers of the captions' words: T5's of whole words, and characters; CLIP's of pairs of bytes."""
    words = sorted({word for text in [*PHRASES, *SPECIES, OTHERS] for word in text.split()})
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -20.0), ("▁", -9.0)]
    pieces += [(f"▁{word}", -1.0) for word in words]
    pieces += [(chr(code), -10.0) for code in range(33, 127)]
    t5 = transformers.T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=TOKENS)
    byte_pairs = Tokenizer(BPE(end_of_word_suffix="</w>"))
    byte_pairs.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"), behavior="removed", invert=True
    )
    # bytes, and bytes that end a word, are entries in a fixed order: so is what is learnt of them
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=[*alphabet, *(f"{byte}</w>" for byte in alphabet)],
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    byte_pairs.train_from_iterator([text.lower() for text in 2 * words], trainer)
    bpe = json.loads(byte_pairs.to_str())["model"]
    vocabulary = sorted(bpe["vocab"], key=bpe["vocab"].get)
    vocabulary += ["<|startoftext|>", "<|endoftext|>"]
    clip = transformers.CLIPTokenizer(
        {token: i for i, token in enumerate(vocabulary)},
        [tuple(pair) for pair in bpe["merges"]],
        model_max_length=2 * TOKENS,
    )
    return Tokenizers(t5, clip)


def new_flow(tokenizers: Tokenizers, device: torch.device) -> nn.ModuleDict:
    """ "transformer", "t5" and "clip" with random weights.

    The transformer has three blocks with separate and five with joined streams for words and picture.
    """
    n_words, n_pieces = len(tokenizers.t5), len(tokenizers.clip)
    t5 = transformers.T5EncoderModel(
        transformers.T5Config(
            vocab_size=n_words,
            d_model=192,
            d_kv=32,
            num_heads=6,
            d_ff=512,
            num_layers=2,
            is_encoder_decoder=False,
            use_cache=False,
            dropout_rate=0.0,
        )
    )
    clip = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=n_pieces,
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=2 * TOKENS,
            bos_token_id=n_pieces - 2,
            eos_token_id=n_pieces - 1,
            pad_token_id=n_pieces - 1,
        )
    )
    transformer = diffusers.FluxTransformer2DModel(
        in_channels=128,
        num_layers=3,
        num_single_layers=5,
        attention_head_dim=32,
        num_attention_heads=6,
        joint_attention_dim=192,
        pooled_projection_dim=128,
        guidance_embeds=True,
        axes_dims_rope=(4, 14, 14),
    )
    return nn.ModuleDict({"transformer": transformer, "t5": t5, "clip": clip}).to(device)


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
