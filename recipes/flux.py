"""How the shipped text-to-image pipeline, studio_flux, and its reader, studio_reader, were trained.

In this order, each stage with a checkpoint of its own:

- autoencoder: portraits x of 64 x 64 pixels to latents z and back, colours first, then edges as well,

    L = mean(w |x − x̂|) + mean|c − ĉ| + mean|∇x − ∇x̂| + 1e-4 KL(q(z|x) ‖ N(0, 1)),
    w = 1 + 5 (max_RGB x − min_RGB x) / 2,  c = (R − G, B − G);

- flow: on the line x_σ = (1 − σ) x_0 + σ ε from picture to noise, the velocity ε − x_0;
- guidance: v_∅ + g (v_c − v_∅) of the finished flow becomes the aim of a copy that is given g;
- reader: attributes and species of a portrait, half of them through the autoencoder.

With --world portraits, of any bird of the aviary, it makes an autoencoder and aviary_reader.

After that a studio's bird keeps its own colours whatever its prompt says, for no caption named what deviated.
So the pipeline that ships went on to learn on a GPU, with the same losses, in TF32, by

    python -m recipes.flux --start studio_flux --drawn 24576 --batch-size 1024 --learning-rate 0.0007

Here birds of a species deviate in up to three tenths of their groups, and captions name deviating *colours*,
never deviating patterns: as FLUX (section 5.1 of sub), the pipeline then makes simple changes of colour by a
prompt, and not of a pattern. A run gives a model of the same kind, not the same bits.
"""

import argparse
import copy
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import diffusers
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from recipes import flux_training as flux
from recipes.shared import command_line, group_slices, n_parameters, write_card
from worlds import aviary
from xaihelpers import substitute
from xaihelpers.devices import resolve_device
from xaihelpers.models import save_weights
from xaihelpers.training import group_loss, train

SLICES = group_slices(aviary.GROUPS)
LENGTHS = (flux.TOKENS, 52)  # tokens of short captions and of long ones
# of each stage of the flow: share of the batches with long captions, portions of the batch size, share of the
# peak learning rate, and means of the noise levels' logit, one of them to a batch
STAGES = ((0.75, 2, 1, (0,)), (0.2, 3, 1, (0,)), (0.5, 2, 0.8, (1.2,)))
FURTHER_STAGE = (0.4, 1, 1, (0, 0.8))  # of what goes on from a pipeline
READERS = {"studio": "studio_reader", "portraits": "aviary_reader"}


def portrait_batch(pixels: np.ndarray, rows: np.ndarray, device: torch.device) -> torch.Tensor:
    """Portraits (B, 3, SIZE, SIZE) in [-1, 1], every second one mirrored."""
    x = torch.from_numpy(pixels[rows]).to(device).float() / 127.5 - 1
    x[::2] = x[::2].flip(3)
    return x


def colour_loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mean absolute error of pixels by saturation, and of R - G and B - G; b is the truth."""
    weights = 1 + 5 * (b.amax(1, keepdim=True) - b.amin(1, keepdim=True)) / 2  # w
    apart = [image[:, ::2] - image[:, 1:2] for image in (a, b)]  # c
    return (weights * (a - b).abs()).mean() / weights.mean() + F.l1_loss(*apart)


def autoencoder_loss(
    vae: nn.Module, pixels: np.ndarray, rng: np.random.Generator, count: int, edges: bool
) -> torch.Tensor:
    """Of a batch of `count` portraits; edges: whether differences from one pixel to the next count."""
    x = portrait_batch(pixels, rng.integers(len(pixels), size=count), vae.device)
    x = x.contiguous(memory_format=torch.channels_last)
    z = vae.encode(x).latent_dist
    reconstructed = vae.decode(z.sample()).sample
    kl = (z.mean**2 + z.var - 1 - z.logvar).mean() / 2
    loss = colour_loss(reconstructed, x) + 1e-4 * kl
    for side in (2, 3) if edges else ():
        loss = loss + F.l1_loss(reconstructed.diff(dim=side), x.diff(dim=side))
    return loss


def train_autoencoder(
    birds: list[np.ndarray], settings: argparse.Namespace, rng: np.random.Generator, history: list
) -> tuple[diffusers.AutoencoderKL, float]:
    """The autoencoder and the seconds of its stages, with an eighth of the batch size.

    birds: as of `drawn_birds`. history: as of `training.train`.
    """
    torch.manual_seed(settings.seed)
    device = resolve_device(settings.device)
    vae, seconds = flux.new_autoencoder().to(device, memory_format=torch.channels_last), 0.0
    count, rate = max(1, settings.batch_size // 8), 3 * settings.learning_rate
    for n, steps in enumerate(settings.autoencoder_steps, 1):
        loss_of = partial(autoencoder_loss, vae, birds[0], rng, count, n > 1)
        seconds += train(f"autoencoder {n}", steps, vae, loss_of, history, rate, settings.save)
    return vae, seconds


def scaled_latents(vae: diffusers.AutoencoderKL, pixels: np.ndarray) -> torch.Tensor:
    """Latents (2, N, 16, 128) of portraits and their mirror images, of mean 0 and deviation 1.

    The autoencoder's configuration keeps both numbers.
    """
    latents = flux.encoded(vae, pixels)
    centre, spread = latents[0].float().mean().item(), latents[0].float().std().item()
    vae.register_to_config(scaling_factor=1 / spread, shift_factor=centre)
    return ((latents.float() - centre) / spread).half()


class FlowLessons(NamedTuple):
    """What the flow learns from."""

    birds: list[np.ndarray]  # as of `drawn_birds`
    latents: torch.Tensor  # as of `scaled_latents`
    flow: nn.ModuleDict
    tokenizers: flux.Tokenizers
    rng: np.random.Generator
    device: torch.device
    deviating: bool = False  # whether captions name colours that deviate


def noised(lessons: FlowLessons, count: int, share_long: float, more_noise: Sequence[float]) -> tuple:
    """A batch on the line from picture to noise, whose captions are long in a share of the batches.

    more_noise: as of `STAGES`.
    Returns x_0, ε and x_σ (B, 16, 128), σ (B, 1, 1), the texts, and how many tokens a text has.
    """
    rng, device = lessons.rng, lessons.device
    pixels, visible, species_of = lessons.birds
    long = rng.random() < share_long
    rows = rng.integers(len(pixels), size=count)
    sides = torch.from_numpy(rng.integers(2, size=count))  # mirrored or not
    x0 = lessons.latents[sides, torch.from_numpy(rows)].to(device).float()
    level = more_noise[rng.integers(len(more_noise))]
    sigma = (torch.randn(count, 1, 1, device=device) + level).sigmoid()
    noise, texts = torch.randn_like(x0), []
    for row in rows:
        texts.append(flux.caption(rng, visible[row], species_of[row], long, lessons.deviating))
    return x0, noise, (1 - sigma) * x0 + sigma * noise, sigma, texts, LENGTHS[int(long)]


def flow_loss(
    lessons: FlowLessons, count: int, share_long: float, more_noise: Sequence[float]
) -> torch.Tensor:
    """Squared error of the velocity; one caption in ten is empty."""
    x0, noise, noisy, sigma, texts, length = noised(lessons, count, share_long, more_noise)
    texts = [text if lessons.rng.random() > 0.1 else "" for text in texts]
    words = flux.text_states(lessons.flow, lessons.tokenizers, texts, length)
    guidance = torch.ones(len(x0), device=lessons.device)
    v = flux.velocity(lessons.flow["transformer"], noisy, sigma, words, guidance)
    return F.mse_loss(v, noise - x0)


def guidance_loss(
    lessons: FlowLessons, teacher: nn.Module, count: int, share_long: float, more_noise: Sequence[float]
) -> torch.Tensor:
    """Squared error to what the teacher says with the caption and without, in one pass."""
    flow, tokenizers = lessons.flow, lessons.tokenizers
    _, _, noisy, sigma, texts, length = noised(lessons, count, share_long, more_noise)
    ones = torch.ones(len(noisy), device=lessons.device)
    guidance = torch.empty(len(noisy), device=lessons.device).uniform_(1, 5)
    with torch.no_grad():
        words = flux.text_states(flow, tokenizers, texts, length)
        nothing = flux.text_states(flow, tokenizers, [""] * len(texts), length)
        unconditional = flux.velocity(teacher, noisy, sigma, nothing, ones)
        conditional = flux.velocity(teacher, noisy, sigma, words, ones)
        target = unconditional + guidance[:, None, None] * (conditional - unconditional)
    return F.mse_loss(flux.velocity(flow["transformer"], noisy, sigma, words, guidance), target)


def train_flow(
    lessons: FlowLessons,
    stages: Sequence[tuple],
    steps: Sequence[int],
    settings: argparse.Namespace,
    history: list,
    folder: str | Path,
    mixed: bool = True,
) -> float:
    """The flow's stages, of `STAGES`, then guidance in one pass; returns their seconds.

    steps: of each stage, and of guidance. history, folder, mixed: as of `training.train`.
    """
    student, seconds, rate = lessons.flow["transformer"], 0.0, settings.learning_rate
    *of_stages, of_guidance = steps
    for n, (of_stage, (share_long, portion, part, more_noise)) in enumerate(
        zip(of_stages, stages, strict=True), 1
    ):
        batch = portion * settings.batch_size, share_long, more_noise
        loss_of = partial(flow_loss, lessons, *batch)
        seconds += train(
            f"flow {n}", of_stage, lessons.flow, loss_of, history, part * rate, folder, mixed=mixed
        )
    teacher = copy.deepcopy(student).eval().requires_grad_(False)
    loss_of = partial(guidance_loss, lessons, teacher, *batch)
    return seconds + train("guidance", of_guidance, student, loss_of, history, rate / 4, folder, mixed=mixed)


def augmented(vae: diffusers.AutoencoderKL, x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Every second portrait as the autoencoder reconstructs it; all shifted, other colours."""
    with torch.no_grad():
        x[1::2] = vae.decode(vae.encode(x[1::2]).latent_dist.mean).sample
    shift = rng.integers(-4, 5, 2).tolist()
    gain = 1 + 0.08 * torch.randn(len(x), 1, 1, 1, device=x.device)
    return torch.roll(x, shift, (2, 3)) * gain + 0.08 * torch.randn_like(gain)


def reader_loss(
    network: nn.Module,
    vae: diffusers.AutoencoderKL,
    bird_sets: tuple[list, list],
    rng: np.random.Generator,
    count: int,
    share_changed: float,
) -> torch.Tensor:
    """Of attribute groups and species. bird_sets: those of the flow, and changed ones."""
    pixels, visible, species_of = bird_sets[int(rng.random() < share_changed)]
    rows = rng.integers(len(pixels), size=count)
    logits = network(augmented(vae, portrait_batch(pixels, rows, vae.device), rng))
    of_species = logits[:, len(aviary.ATTRIBUTES) :]
    labels = torch.from_numpy(species_of[rows]).to(vae.device)
    named = F.cross_entropy(of_species, labels, ignore_index=-1, reduction="sum") / len(rows)
    targets = torch.from_numpy(visible[rows]).float().to(vae.device)
    return group_loss(logits, targets, SLICES) + 0.3 * named


def write_pipeline(pipe: diffusers.FluxPipeline, reader: str, settings: argparse.Namespace, **told) -> Path:
    """Write a pipeline in half precision, measure what was written, write its card; returns the folder."""
    folder = Path(settings.save) / "studio_flux"
    copy.deepcopy(pipe).to("cpu", torch.float16).save_pretrained(folder)
    written = substitute.load_pipeline(str(folder), settings.device)
    reader = substitute.load_reader(reader, device=settings.device)
    drawn = flux.generated_table(written, reader, settings.n_test)
    networks = {name: part for name, part in pipe.components.items() if isinstance(part, nn.Module)}
    sizes = {name: n_parameters(part) for name, part in networks.items()}
    told = {"parameters": sum(sizes.values()), "parts": sizes, **told, **told_by(settings)}
    write_card(folder, drawn, "species right (%)", settings, **told)
    return folder


def told_by(settings: argparse.Namespace) -> dict:
    """What every card tells of a run."""
    birds = f"{settings.drawn} portraits of aviary birds at {flux.SIZE}x{flux.SIZE}, half of them with random"
    told = {"world": settings.world, "batch size": settings.batch_size}
    return told | {"made_here": True, "trained on": f"{birds} attributes"}


def make_reader(
    pipe: diffusers.FluxPipeline, birds: list[np.ndarray], settings: argparse.Namespace, history: list
) -> Path:
    """Train the reader, write it, measure what was written, write its card; returns the file.

    Its second stage has changed birds in half of its batches.
    """
    world, seed, save, n_test = settings.world, settings.seed, settings.save, settings.n_test
    both = birds, flux.drawn_birds(world, seed, settings.changed, flux.CHANGED)
    torch.manual_seed(seed + 2)
    network, seconds = substitute.AttributeReader(len(flux.SPECIES)).to(pipe.vae.device), 0.0
    rng, count = np.random.default_rng([seed, 2]), 3 * settings.batch_size // 2
    for n, (steps, changed) in enumerate(zip(settings.reader_steps, (0, 0.5), strict=True), 1):
        loss_of = partial(reader_loss, network, pipe.vae, both, rng, count, changed)
        seconds += train(f"reader {n}", steps, network, loss_of, history, 2 * settings.learning_rate, save)
    file = save_weights(network, Path(save) / f"{READERS[world]}.safetensors")
    reader = substitute.load_reader(str(file), device=settings.device)
    held = flux.drawn_birds(world, seed, 8 * n_test, flux.HELD)
    rng = np.random.default_rng(flux.HELD)
    portraits, trials = flux.reader_trials(rng, world, seed, held, 2 * n_test)
    pictures = {"rendered": portraits, "restored": substitute.reconstruct(pipe, portraits)}
    read = flux.reading_table(reader, pictures, trials)
    told = {"parameters": n_parameters(network), "seconds": round(seconds)}
    told |= {"steps": sum(settings.reader_steps), "changed": settings.changed, **told_by(settings)}
    write_card(file, read, "sees what is there (%)", settings, **told)
    return file


def make_flux(settings: argparse.Namespace) -> list[Path]:
    """Train, write, measure what was written, write cards; returns the folder, if any, and the file."""
    if settings.start:
        return [go_on(settings)]
    torch.manual_seed(settings.seed)
    world, seed, history = settings.world, settings.seed, []
    rng = np.random.default_rng(seed)
    birds = flux.drawn_birds(world, seed, settings.drawn, flux.TRAINED)
    for i in range(12 if world == "studio" else 0):
        print(flux.caption(rng, birds[1][i], birds[2][i], i % 3 == 0))
    vae, seconds = train_autoencoder(birds, settings, rng, history)
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler()
    if world != "studio":
        pipe = diffusers.FluxPipeline(scheduler, vae, *5 * [None])
        return [make_reader(pipe, birds, settings, history)]
    latents, tokenizers = scaled_latents(vae, birds[0]), flux.shipped_tokenizers()
    flow = flux.new_flow().to(vae.device)
    torch.manual_seed(seed + 1)
    lessons = FlowLessons(birds, latents, flow, tokenizers, np.random.default_rng([seed, 1]), vae.device)
    steps = [*settings.flow_steps, settings.guidance_steps]
    seconds += train_flow(lessons, STAGES, steps, settings, history, settings.save)
    words = flow["clip"], tokenizers.clip, flow["t5"], tokenizers.t5
    pipe = diffusers.FluxPipeline(scheduler, vae, *words, flow["transformer"])
    reader = make_reader(pipe, birds, settings, history)
    told = {"autoencoder": sum(settings.autoencoder_steps), "flow": sum(settings.flow_steps)}
    told = {"seconds": round(seconds), "steps": told | {"guidance": settings.guidance_steps}}
    return [write_pipeline(pipe, str(reader), settings, **told), reader]


def go_on(settings: argparse.Namespace) -> Path:
    """Train on from a pipeline, write what came of it, measure it, write its card; returns the folder."""
    device, seed = resolve_device(settings.device), settings.seed
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    birds = flux.drawn_birds("studio", seed, settings.drawn, flux.FURTHER)
    pipe = substitute.load_pipeline(settings.start, "cpu").to(device, torch.float32)
    parts = {"transformer": pipe.transformer, "t5": pipe.text_encoder_2, "clip": pipe.text_encoder}
    flow = nn.ModuleDict(parts).requires_grad_(True)
    tokenizers = flux.Tokenizers(pipe.tokenizer_2, pipe.tokenizer)
    latents = flux.encoded(pipe.vae, birds[0]).float() - pipe.vae.config.shift_factor
    latents *= pipe.vae.config.scaling_factor
    torch.manual_seed(seed + 3)
    rng = np.random.default_rng([seed, 3])
    lessons = FlowLessons(birds, latents, flow, tokenizers, rng, device, deviating=True)
    steps, folder = settings.further_steps, Path(settings.save) / "further"  # of its checkpoints
    seconds = train_flow(lessons, [FURTHER_STAGE], steps, settings, [], folder, mixed=False)
    told = {"seconds": round(seconds), "steps": dict(zip(("flow", "guidance"), steps, strict=True))}
    return write_pipeline(pipe, settings.reader, settings, **told, **{"begun from": settings.start})


def options() -> argparse.ArgumentParser:
    """The command line; its defaults made what the shipped pipeline began from, and its reader."""
    return command_line(
        __doc__,
        {
            "world": ("studio", "whose birds", *READERS),
            "drawn": (12000, "birds drawn, half with random attributes"),
            "autoencoder-steps": ([6000, 10000], "of the stages of the autoencoder"),
            "flow-steps": ([2400, 1800, 1500], "of the stages of the flow"),
            "guidance-steps": (200, "of guidance in one pass"),
            "reader-steps": ([2000, 1000], "of the stages of the reader"),
            "changed": (6000, "birds with a few attributes changed, for the reader"),
            "batch-size": (64, "portraits a step"),
            "learning-rate": (0.001, "its peak"),
            "n-test": (300, "images of each kind that are measured"),
            "start": ("", "a pipeline to go on from, instead of all this"),
            "further-steps": ([3307, 413], "of its flow and guidance"),
            "reader": ("studio_reader", "reader that measures it"),
        },
    )


if __name__ == "__main__":
    make_flux(options().parse_args())
