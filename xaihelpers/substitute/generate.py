"""Images from any diffusers text-to-image pipeline: one for each prompt and seed, alone or tied in pairs."""
import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from PIL import Image

from .. import paths
from ..devices import device_of
from .prompts import FORMS, SubstituteError, category, check_pair, pair_prompts
from .tied import tied_scheduler, tied_share

T_MAX = {"color": 0.9, "shape": 0.9, "pattern": 0.6}  # until when all is tied, by the form of the attribute (sub, section 5)


def paper_tie(attribute: str) -> tuple[float, float, float]:
    """k, t_min and t_max of eta as the paper sets them for an attribute (section 5)."""
    return 10.0, 0.2, T_MAX[category(attribute)]


def load_pipeline(name: str = "aviary_flux", device: "str | torch.device" = "cpu", offload: str = "", quantise: str = ""):
    """A text-to-image pipeline of diffusers, without its progress bar.

    name: the shipped "aviary_flux", a folder, or a name on Hugging Face ("black-forest-labs/FLUX.1-dev"). offload: "" keeps it on `device`, "model" or "sequential" moves its parts, or their
    layers, to the GPU only while they work. quantise: "", "8bit" or "4bit" (by bitsandbytes: the transformer or U-Net and the second and third text encoder). In bfloat16 on a GPU, else in float32.
    Raises SubstituteError: it cannot be had, with what to download; an unknown way to offload or quantise, or one that needs a GPU.
    """
    from diffusers import DiffusionPipeline
    from diffusers.quantizers import PipelineQuantizationConfig

    for option, given, known in (("offload", offload, ("", "model", "sequential")), ("quantise", quantise, ("", "8bit", "4bit"))):
        if given not in known:
            raise SubstituteError(f"{option} must be one of {', '.join(map(repr, known))}, not {given!r}")
    device = device_of(device, SubstituteError)
    if (offload or quantise) and device.type != "cuda":
        raise SubstituteError(f"offload={offload!r}, quantise={quantise!r}: both are for a GPU, but the device is {device}; leave them empty there")
    settings = {"dtype": torch.bfloat16 if device.type == "cuda" else torch.float32, "use_safetensors": True}
    if quantise:
        bits = {"load_in_4bit": True, "bnb_4bit_compute_dtype": torch.bfloat16} if quantise == "4bit" else {"load_in_8bit": True}
        settings["quantization_config"] = PipelineQuantizationConfig(quant_backend=f"bitsandbytes_{quantise}", quant_kwargs=bits, components_to_quantize=["transformer", "unet", "text_encoder_2", "text_encoder_3"])
    place = paths.models_home() / name if (paths.models_home() / name).is_dir() else Path(name).expanduser()
    try:
        pipe = DiffusionPipeline.from_pretrained(str(place if place.is_dir() else name), **settings)
    except Exception as error:  # diffusers and the hub fail in many ways where there is no connection or no such folder
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise SubstituteError(f"the pipeline {name!r} could not be loaded ({reason}). Name a shipped one, a folder made by save_pretrained, or one on Hugging Face: with a connection it is "
                              f"downloaded once (huggingface-cli download {name}), without one it must lie in the hub's cache." + " 8 and 4 bits need bitsandbytes." * bool(quantise)) from error
    pipe.set_progress_bar_config(disable=True)
    pipe._fingerprint = identity(pipe)
    if offload:
        {"model": pipe.enable_model_cpu_offload, "sequential": pipe.enable_sequential_cpu_offload}[offload](device=device)
    return pipe if offload else pipe.to(device)


def identity(pipe) -> str:
    """A fingerprint of a pipeline: its class, settings of its scheduler and autoencoder, and name, shape, dtype and first values of every weight. Kept on the pipeline, since parts that are
    off-loaded hold no values (`load_pipeline` takes it before)."""
    if kept := getattr(pipe, "_fingerprint", ""):
        return kept
    settings = sorted((key, str(value)) for part in (pipe.scheduler, getattr(pipe, "vae", None)) if part is not None for key, value in part.config.items() if not key.startswith("_"))
    digest = hashlib.sha256(f"{type(pipe).__name__} {type(pipe.scheduler).__name__} {settings}".encode())
    for name, part in sorted(pipe.components.items()):
        for key, value in part.state_dict().items() if isinstance(part, torch.nn.Module) else ():
            first = value.detach().flatten()[:16]
            digest.update(f"{name}.{key} {tuple(value.shape)} {value.dtype} {first.float().tolist() if first.is_floating_point() else first.tolist()}".encode())
    return digest.hexdigest()[:16]


def _settings(pipe, prompts: Sequence[str], size: int | None) -> dict:
    """Size and prompt length as this pipeline wants them. Raises SubstituteError for a prompt that its tokenizer would cut."""
    known = inspect.signature(pipe.__call__).parameters
    if type(pipe).__name__.startswith("Flux"):  # its own default is 1024, whatever its autoencoder was made for
        size = size or pipe.vae.config.sample_size
    settings = {"height": size, "width": size} if size else {}
    tokenizers = [pipe.components[name] for name in ("tokenizer", "tokenizer_2", "tokenizer_3") if pipe.components.get(name) is not None]
    limits = [tokenizer.model_max_length for tokenizer in tokenizers]
    if "max_sequence_length" in known and tokenizers:
        settings["max_sequence_length"] = limits[-1] = min(limits[-1], known["max_sequence_length"].default)
    for tokenizer, limit in zip(tokenizers, limits):
        for prompt in set(prompts):
            if (length := len(tokenizer(prompt).input_ids)) > limit:
                raise SubstituteError(f"the prompt {prompt!r} has {length} tokens, but this pipeline's text encoder reads {limit}: shorten it")
    return settings


def generate(pipe, prompts: Sequence[str], seeds: Sequence[int], steps: int = 28, guidance: float = 3.5, size: int | None = None, batch_size: int = 16, **settings) -> list[Image.Image]:
    """An image for each prompt and its seed; the start noise depends on the seed alone.

    size: side in pixels; by default the pipeline's own. settings: any further argument of the pipeline. Raises SubstituteError: prompts and seeds differ in number, a prompt is too long.
    """
    if len(prompts) != len(seeds):
        raise SubstituteError(f"{len(prompts)} prompts and {len(seeds)} seeds: each prompt needs one")
    images, settings = [], _settings(pipe, prompts, size) | settings
    for start in range(0, len(prompts), batch_size):
        noise = [torch.Generator().manual_seed(int(seed)) for seed in seeds[start:start + batch_size]]
        images.extend(pipe(prompt=list(prompts[start:start + batch_size]), generator=noise, num_inference_steps=steps, guidance_scale=guidance, **settings).images)
    return images


@dataclass
class Moment:
    """One step of a tied generation: its time t in [0, 1] (1 is noise), the share eta, and, for 2P images, what was there and what was predicted, untied and tied."""
    t: float
    share: float
    sample: torch.Tensor
    prediction: torch.Tensor
    tied: torch.Tensor


@dataclass
class Substituted:
    """Images of a reference with an attribute substituted, and of their guides, with the prompts and seeds they come from."""
    references: list[Image.Image]
    guides: list[Image.Image]
    prompts: list[tuple[str, str]]
    seeds: list[int]
    trajectory: list[list[Moment]] = field(default_factory=list, repr=False)  # a list of moments for each batch


def generate_pairs(pipe, prompts: Sequence[tuple[str, str]], seeds: Sequence[int], share, batch_size: int = 16, trajectory: bool = False, **settings) -> Substituted:
    """A tied pair of images for each (c_R, c_G) and its seed: Tied Diffusion Guidance (section 3 of sub).

    share: eta as a function of t in [0, 1]. batch_size: images at a time, two to a pair. settings: as of `generate`. The pipeline's scheduler is back in place afterwards, whatever happens.
    Raises SubstituteError as `generate` and `tied_scheduler` do.
    """
    if len(prompts) != len(seeds):
        raise SubstituteError(f"{len(prompts)} pairs and {len(seeds)} seeds: each pair needs one")
    made = Substituted([], [], list(prompts), list(seeds))
    if getattr(pipe, "scheduler", None) is None:
        raise SubstituteError(f"{type(pipe).__name__} has no scheduler, so it cannot be tied: name a pipeline of diffusers that denoises step by step")
    own, pairs = pipe.scheduler, max(1, batch_size // 2)
    try:
        for start in range(0, len(prompts), pairs):
            chosen, moments = slice(start, start + pairs), []
            pipe.scheduler = tied_scheduler(own, share, watch=(lambda *seen, kept=moments: kept.append(Moment(*seen))) if trajectory else None)
            references, guides = zip(*prompts[chosen])
            images = generate(pipe, [*references, *guides], 2 * list(seeds[chosen]), batch_size=2 * pairs, **settings)
            made.references += images[:len(images) // 2]
            made.guides += images[len(images) // 2:]
            made.trajectory += [moments] if trajectory else []
    finally:
        pipe.scheduler = own
    return made


def substitute(pipe, reference: str, attribute: str, guide: str = "", n: int = 1, seed: int = 0, k: float = 10.0, t_min: float = 0.2, t_max: float = 0.0, forms: str | Path = FORMS,
               world=None, **settings) -> Substituted:
    """`n` images of the bird `reference` with one attribute substituted, and of their guides.

    attribute: `group::value`, as has_crown_color::yellow. guide: a bird that has it; "" as in `pair_prompts`. seed: of the first image, the next ones count on. k, t_min, t_max: of eta (equation 4);
    t_max 0 takes the paper's 0.9 for colours and shapes, 0.6 for patterns. forms: the prompts. world: birds (of `load_birds`) among which the reference must be and lack the attribute, and the guide
    have it. settings: steps, guidance, size, batch_size, trajectory and any further argument of the pipeline.
    Raises SubstituteError as `check_pair`, `pair_prompts` and `generate_pairs` do.
    """
    if world is not None:
        check_pair(world, reference, attribute, guide)
    prompts = pair_prompts(reference, attribute, guide, forms)
    share = partial(tied_share, t_min=t_min, t_max=t_max or T_MAX[category(attribute)], k=k)
    return generate_pairs(pipe, [prompts] * n, range(seed, seed + n), share, **settings)


def restored(pipe, images: Sequence[Image.Image], batch_size: int = 64) -> list[Image.Image]:
    """Images (all of one size) as the pipeline's autoencoder gives them back: what is lost there it can draw for no prompt."""
    made, device = [], pipe._execution_device
    for start in range(0, len(images), batch_size):
        pixels = pipe.image_processor.preprocess([image.convert("RGB") for image in images[start:start + batch_size]]).to(device, pipe.vae.dtype)
        with torch.inference_mode():
            made += pipe.image_processor.postprocess(pipe.vae.decode(pipe.vae.encode(pixels).latent_dist.mean).sample, output_type="pil")
    return made


def decode(pipe, latents: torch.Tensor, size: int | None = None) -> list[Image.Image]:
    """Images of a pipeline's latents (B, C, h, w), or of Flux's packed ones (B, tokens, 4C) of images `size` pixels wide."""
    latents, vae = latents.to(pipe._execution_device, pipe.vae.dtype), pipe.vae  # where off-loaded parts work
    if latents.ndim == 3:
        size = size or vae.config.sample_size
        latents = type(pipe)._unpack_latents(latents, size, size, pipe.vae_scale_factor)
    with torch.inference_mode():
        pixels = vae.decode(latents / vae.config.scaling_factor + (getattr(vae.config, "shift_factor", None) or 0), return_dict=False)[0]
    return pipe.image_processor.postprocess(pixels, output_type="pil")
