"""Images from any diffusers text-to-image pipeline: one for each prompt and seed, alone or as tied pairs.

Tied Diffusion Guidance (paper sub, section 3) denoises two images from the same noise, a reference and its
guide, and in every step ties their guided predictions where they are alike (`kernels.tie`).

    symbol            name                shape, meaning
    c_R, c_G          prompts             P pairs of texts: of a reference and of its guide
    t                 TrajectoryStep.t    number in [0, 1], the noise level: 1 is pure noise
    eta(t)            share               share of the elements tied at t (equation 4, `tied_share`)
    k, t_min, t_max   tie                 10, 0.2 and, by the form of the attribute, `T_MAX` (section 5)
    x_t               sample              (2P, …) noisy latents, references first, then their guides
    e^R, e^G          prediction, tied    (2P, …) guided predictions, before and after equations 3, 5 and 6
"""

import hashlib
import inspect
import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from PIL import Image

from xaihelpers import paths
from xaihelpers.devices import resolve_device
from xaihelpers.substitute.drawn_pipeline import DrawnPipeline
from xaihelpers.substitute.pairs import SubstituteError, category
from xaihelpers.substitute.tied_guidance import TrajectoryStep, tied_scheduler

log = logging.getLogger(__name__)

PAPER_NUMBERS = 128 * 128 * 16  # latent numbers of FLUX.1-dev's images of 1024 pixels
T_MAX = {"color": 0.9, "shape": 0.9, "pattern": 0.6}  # section 5, by the form of the attribute
ROOM = 1.3  # memory that a pipeline works in, over that of its weights
QUANTISATIONS = {
    "": {},
    "8bit": {"load_in_8bit": True},
    "4bit": {"load_in_4bit": True, "bnb_4bit_compute_dtype": torch.bfloat16},
}


def latent_numbers(pipe, size: int = 0) -> int:
    """Latent numbers of a pipeline's images of size x size pixels; 0 is its own size."""
    places = (size or pipe.vae.config.sample_size) // pipe.vae_scale_factor
    return places**2 * pipe.vae.config.latent_channels


def level_at_size(t: float, numbers: int) -> float:
    """The noise level in an image of `numbers` latent numbers that is t in one of the paper's.

    In flow matching, for which the mean of a flat patch is as uncertain at both (notebook 51).
    """
    ratio = math.sqrt(PAPER_NUMBERS / numbers)
    return t / (ratio - (ratio - 1) * t)


def paper_tie(attribute: str, numbers: int = PAPER_NUMBERS) -> tuple[float, float, float]:
    """k, t_min and t_max of eta as the paper sets them for an attribute (section 5).

    numbers: latent numbers of the images, to which both levels are translated by `level_at_size`.
    """
    levels = (level_at_size(t, numbers) for t in (0.2, T_MAX[category(attribute)]))
    return (10.0, *levels)


def load_pipeline(
    name: str = "studio_flux",
    device: str | torch.device = "cpu",
    offload: str = "",
    quantise: str = "",
):
    """A text-to-image pipeline of diffusers without its progress bar, in bfloat16 on a GPU, else in float32.

    name: the shipped "studio_flux", "aviary_drawn" for a `DrawnPipeline` with its own rates, a folder, or a
        name on Hugging Face ("black-forest-labs/FLUX.1-dev").
    offload: "" keeps it on `device`; "model" moves its parts to the GPU only while they work; "auto" is
        "model" where a GPU has too little memory for all of it, else "".
    quantise: "", "8bit" or "4bit" (by bitsandbytes: the transformer or U-Net, and the second and third text
        encoder).
    Raises SubstituteError: it cannot be had, with what to download, or lacks weights; an unknown way to
        offload or quantise; no such device.
    """
    if offload not in ("", "auto", "model") or quantise not in QUANTISATIONS:
        raise SubstituteError(
            f"offload is auto, model or empty, quantise 8bit, 4bit or empty, not {offload!r} and {quantise!r}"
        )
    if name == "aviary_drawn":
        return DrawnPipeline()
    from diffusers import DiffusionPipeline, PipelineQuantizationConfig  # takes seconds

    device = resolve_device(device, SubstituteError)
    on_gpu = device.type == "cuda"
    settings = {"dtype": torch.bfloat16 if on_gpu else torch.float32, "use_safetensors": True}
    if quantise:
        settings["quantization_config"] = PipelineQuantizationConfig(
            quant_backend=f"bitsandbytes_{quantise}",
            quant_kwargs=QUANTISATIONS[quantise],
            components_to_quantize=["transformer", "unet", "text_encoder_2", "text_encoder_3"],
        )
    place = paths.find_model(name)
    source = str(place) if place and place.is_dir() else name
    try:
        pipe = DiffusionPipeline.from_pretrained(source, **settings)
    # diffusers and the hub fail in many ways where there is no connection or no such folder
    except Exception as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise SubstituteError(
            f"the pipeline {name!r} could not be loaded ({reason}). Name a shipped one, a folder made by "
            "save_pretrained, or one on Hugging Face: with a connection it is downloaded once "
            f"(hf download {name}), without one it must lie in the hub's cache."
        ) from error
    lacking = []
    for part, network in _networks(pipe).items():
        lacking += [f"{part}.{key}" for key, weight in network.named_parameters() if weight.is_meta]
    if lacking:
        raise SubstituteError(
            f"the pipeline {name!r} lacks weights ({len(lacking)}, {lacking[0]} among them): fetch or save "
            "it again"
        )
    pipe.set_progress_bar_config(disable=True)
    pipe._fingerprint = pipeline_identity(pipe)
    if offload == "auto" and on_gpu:
        n_bytes = sum(weight.nbytes for part in _networks(pipe).values() for weight in part.parameters())
        offload = "" if ROOM * n_bytes <= torch.cuda.mem_get_info(device)[0] else "model"
    if offload == "model":
        pipe.enable_model_cpu_offload(device=device)
    else:
        pipe.to(device)
    return pipe


def pipeline_identity(pipe) -> str:
    """A fingerprint of a pipeline: its class, scheduler, autoencoder, and a few values of every weight.

    Its images depend on nothing else but prompt, seed and settings. It is kept on the pipeline, since parts
    that are off-loaded hold no values (`load_pipeline` takes it before).
    """
    if known := getattr(pipe, "_fingerprint", ""):
        return known
    settings = []
    for part in filter(None, (pipe.scheduler, getattr(pipe, "vae", None))):
        settings += [(key, str(value)) for key, value in part.config.items() if not key.startswith("_")]
    names = f"{type(pipe).__name__} {type(pipe.scheduler).__name__}"
    digest = hashlib.sha256(f"{names} {sorted(settings)}".encode())
    for name, network in sorted(_networks(pipe).items()):
        for key, value in network.state_dict().items():
            first = value.detach().flatten()[:16]
            values = first.float().tolist() if first.is_floating_point() else first.tolist()
            digest.update(f"{name}.{key} {tuple(value.shape)} {value.dtype} {values}".encode())
    return digest.hexdigest()[:16]


def _networks(pipe) -> dict[str, torch.nn.Module]:
    return {name: part for name, part in pipe.components.items() if isinstance(part, torch.nn.Module)}


def _call_settings(pipe, prompts: Sequence[str], size: int | None) -> dict:
    """The arguments for size and prompt length as this pipeline takes them.

    Raises SubstituteError for a prompt that would be truncated.
    """
    arguments = inspect.signature(pipe.__call__).parameters
    # Flux's own default is 1024, whatever its autoencoder was made for
    if type(pipe).__name__.startswith("Flux"):
        size = size or pipe.vae.config.sample_size
    settings = {"height": size, "width": size} if size else {}
    names = ("tokenizer", "tokenizer_2", "tokenizer_3")
    tokenizers = [pipe.components[name] for name in names if pipe.components.get(name) is not None]
    limits = [tokenizer.model_max_length for tokenizer in tokenizers]
    if "max_sequence_length" in arguments and tokenizers:
        limits[-1] = min(limits[-1], arguments["max_sequence_length"].default)
        settings["max_sequence_length"] = limits[-1]
    for tokenizer, limit in zip(tokenizers, limits, strict=True):
        for prompt in set(prompts):
            if (length := len(tokenizer(prompt).input_ids)) > limit:
                raise SubstituteError(
                    f"the prompt {prompt!r} has {length} tokens, but this pipeline's text encoder reads "
                    f"{limit}: shorten it"
                )
    return settings


def generate(
    pipe,
    prompts: Sequence[str],
    seeds: Sequence[int],
    steps: int = 28,
    guidance: float = 3.5,
    size: int | None = None,
    batch_size: int = 16,
    **settings,
) -> list[Image.Image]:
    """An image for each prompt and its seed; the initial noise depends on the seed alone.

    steps: denoising steps. guidance: guidance scale. size: side in pixels; by default the pipeline's own.
    batch_size: images at a time. settings: any further argument of the pipeline.
    Raises SubstituteError: a prompt is too long, fewer than one step, or than one image at a time.
    """
    if steps < 1 or batch_size < 1:
        raise SubstituteError(f"steps is {steps}, batch_size {batch_size}: both have to be 1 or more")
    settings = _call_settings(pipe, prompts, size) | settings
    settings = {"num_inference_steps": steps, "guidance_scale": guidance} | settings
    images = []
    for start in range(0, len(prompts), batch_size):
        batch = slice(start, start + batch_size)
        noise = [torch.Generator().manual_seed(int(seed)) for seed in seeds[batch]]
        images.extend(pipe(prompt=list(prompts[batch]), generator=noise, **settings).images)
    return images


class Pairs(NamedTuple):
    """P references, in which an attribute is substituted, and their guides."""

    references: list[Image.Image]
    guides: list[Image.Image]
    trajectory: list[list[TrajectoryStep]]  # the steps of each batch, if they were asked for


def generate_pairs(
    pipe,
    prompts: Sequence[tuple[str, str]],
    seeds: Sequence[int],
    share: Callable[[float], float],
    batch_size: int = 16,
    trajectory: bool = False,
    rule: str = "tied",
    masks: torch.Tensor | None = None,
    **settings,
) -> Pairs:
    """A tied pair of images for each (c_R, c_G) and its seed: Tied Diffusion Guidance (section 3 of sub).

    share: eta as a function of t in [0, 1]. batch_size: images at a time, two to a pair.
    trajectory: keep every step. rule, masks (P, h, w): of `tie_by`. settings: as of `generate`.
    Raises SubstituteError as `generate` and `tied_scheduler` do.
    """
    pairs, original = Pairs([], [], []), pipe.scheduler
    n_pairs = max(1, batch_size // 2)  # at a time
    try:
        for start in range(0, len(prompts), n_pairs):
            batch = slice(start, start + n_pairs)
            steps = [] if trajectory else None
            of_batch = None if masks is None else masks[batch]
            pipe.scheduler = tied_scheduler(original, share, rule, steps, of_batch)
            references, guides = zip(*prompts[batch], strict=True)
            batch_seeds = 2 * list(seeds[batch])
            images = generate(pipe, [*references, *guides], batch_seeds, batch_size=2 * n_pairs, **settings)
            pairs.references.extend(images[: len(references)])
            pairs.guides.extend(images[len(references) :])
            pairs.trajectory.append(steps or [])
    finally:
        pipe.scheduler = original
    return pairs


def reconstruct(pipe, images: Sequence[Image.Image], batch_size: int = 64) -> list[Image.Image]:
    """Images, all of one size, encoded and decoded by the pipeline's autoencoder.

    What is lost there no prompt can draw: the upper limit of the pipeline's images.
    """
    reconstructed = []
    for start in range(0, len(images), batch_size):
        batch = [image.convert("RGB") for image in images[start : start + batch_size]]
        pixels = pipe.image_processor.preprocess(batch).to(pipe._execution_device, pipe.vae.dtype)
        with torch.inference_mode():
            latents = pipe.vae.encode(pixels).latent_dist.mean
            decoded = pipe.vae.decode(latents).sample
            reconstructed += pipe.image_processor.postprocess(decoded, output_type="pil")
    return reconstructed


def decode(pipe, latents: torch.Tensor, size: int | None = None) -> list[Image.Image]:
    """Images of a pipeline's latents (B, C, h, w), or of Flux's packed ones (B, tokens, 4C).

    size: side in pixels of the images of packed latents; by default the pipeline's own.
    """
    vae = pipe.vae
    latents = latents.to(pipe._execution_device, vae.dtype)  # where off-loaded parts work
    if latents.ndim == 3:
        size = size or vae.config.sample_size
        latents = type(pipe)._unpack_latents(latents, size, size, pipe.vae_scale_factor)
    shift = getattr(vae.config, "shift_factor", None) or 0
    with torch.inference_mode():
        pixels = vae.decode(latents / vae.config.scaling_factor + shift, return_dict=False)[0]
    return pipe.image_processor.postprocess(pixels, output_type="pil")
