"""How the shipped text-to-image pipeline, studio_flux, and its reader, studio_reader, were trained.

In this order, each stage with a checkpoint of its own:

- autoencoder: portraits x of 64 x 64 pixels to latents z and back, colours first, then edges as well,

    L = mean(w |x − x̂|) + mean|c − ĉ| + mean|∇x − ∇x̂| + 1e-4 KL(q(z|x) ‖ N(0, 1)),
    w = 1 + 5 (max_RGB x − min_RGB x) / 2,  c = (R − G, B − G);

- flow: on the line x_σ = (1 − σ) x_0 + σ ε from picture to noise, the velocity ε − x_0;
- guidance: v_∅ + g (v_c − v_∅) of the finished flow becomes the aim of a copy that is given g;
- reader: attributes and species of a portrait, half of them through the autoencoder.

With --world portraits, of any bird of the aviary, they are called aviary_flux and aviary_reader.
`recipes.flux_further` then goes on with the studio's flow on a GPU; its weights are those that ship.
"""

import argparse
import copy
import random
from functools import partial
from pathlib import Path
from typing import NamedTuple

import diffusers
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn

from recipes import flux_training as flux
from recipes.cards import weights_card, write_card
from worlds import aviary
from xaihelpers import scores, substitute
from xaihelpers.devices import resolve_device
from xaihelpers.models import save_weights
from xaihelpers.training import group_loss, train

ENDS = np.cumsum([len(values) for values in aviary.GROUPS.values()])
SLICES = [slice(start, end) for start, end in zip([0, *ENDS[:-1]], ENDS, strict=True)]


class FlowPlan(NamedTuple):
    """How the flow of a world is taught."""

    lengths: tuple[int, int]  # tokens of short captions and of long ones
    # of each stage: share of the batches with long captions, portions of the batch size, share of the peak
    # learning rate, mean of the noise levels' logit
    stages: tuple[tuple[float, int, float, float], ...]


PLANS = {
    "studio": FlowPlan((flux.TOKENS, 52), ((0.75, 2, 1, 0), (0.2, 3, 1, 0), (0.5, 2, 0.8, 1.2))),
    "portraits": FlowPlan((18, flux.TOKENS), ((0.25, 3, 1, 0), (0.75, 2, 1, 0), (0.75, 2, 0.8, 1.2))),
}
NAMES = {"studio": ("studio_flux", "studio_reader"), "portraits": ("aviary_flux", "aviary_reader")}


def portrait_batch(pixels: np.ndarray, rows: np.ndarray, device: torch.device) -> torch.Tensor:
    """Portraits (B, 3, SIZE, SIZE) in [-1, 1], every second one mirrored."""
    x = torch.from_numpy(pixels[rows]).to(device).float() / 127.5 - 1
    x[::2] = x[::2].flip(3)
    return x


def gradient_loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mean absolute error of the differences from one pixel to the next, both ways."""
    vertical = F.l1_loss(a.diff(dim=2), b.diff(dim=2))
    return vertical + F.l1_loss(a.diff(dim=3), b.diff(dim=3))


def colour_loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mean absolute error of pixels by saturation, and of R - G and B - G; b is the truth."""
    weights = 1 + 5 * (b.amax(1, keepdim=True) - b.amin(1, keepdim=True)) / 2  # w
    apart = [image[:, ::2] - image[:, 1:2] for image in (a, b)]  # c
    return (weights * (a - b).abs()).mean() / weights.mean() + F.l1_loss(*apart)


def autoencoder_loss(
    vae: nn.Module, pixels: np.ndarray, rng: np.random.Generator, count: int, edges: bool
) -> torch.Tensor:
    """Of a batch of `count` portraits; edges: whether differences between pixels count."""
    x = portrait_batch(pixels, rng.integers(len(pixels), size=count), vae.device)
    x = x.contiguous(memory_format=torch.channels_last)
    z = vae.encode(x).latent_dist
    reconstructed = vae.decode(z.sample()).sample
    kl = (z.mean**2 + z.var - 1 - z.logvar).mean() / 2
    loss = colour_loss(reconstructed, x) + 1e-4 * kl
    return loss + gradient_loss(reconstructed, x) if edges else loss


def train_autoencoder(
    birds: list[np.ndarray],
    steps: list[int],
    batch_size: int,
    rate: float,
    rng: np.random.Generator,
    seed: int,
    device: torch.device,
    history: list,
    folder: str | Path = "",
) -> tuple[diffusers.AutoencoderKL, dict[str, float]]:
    """The autoencoder and the seconds of its stages.

    birds: as of `drawn_birds`. batch_size: eight times the portraits a step. history, folder: as of
    `training.train`.
    """
    torch.manual_seed(seed)
    vae, seconds = flux.new_autoencoder(device), {}
    count = max(1, batch_size // 8)
    for n, of_stage in enumerate(steps, 1):
        loss_of, stage = partial(autoencoder_loss, vae, birds[0], rng, count, n > 1), f"autoencoder {n}"
        seconds[stage] = train(stage, of_stage, vae, loss_of, history, 3 * rate, folder)
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

    world: str
    birds: list[np.ndarray]  # as of `drawn_birds`
    latents: torch.Tensor  # as of `scaled_latents`
    flow: nn.ModuleDict
    tokenizers: flux.Tokenizers
    rng: np.random.Generator
    device: torch.device


class Noised(NamedTuple):
    """A batch on the line from picture to noise."""

    x0: torch.Tensor  # (B, 16, 128)
    noise: torch.Tensor  # ε
    noisy: torch.Tensor  # x_σ
    sigma: torch.Tensor  # (B, 1, 1)
    texts: list[str]
    length: int  # tokens of a text


def noised(lessons: FlowLessons, count: int, share_long: float, more_noise: float) -> Noised:
    """A batch whose captions are long in a share of the batches; more_noise: mean of the levels' logit."""
    rng, device = lessons.rng, lessons.device
    pixels, visible, species_of = lessons.birds
    long = rng.random() < share_long
    rows = rng.integers(len(pixels), size=count)
    sides = torch.from_numpy(rng.integers(2, size=count))  # mirrored or not
    x0 = lessons.latents[sides, torch.from_numpy(rows)].to(device).float()
    sigma = (torch.randn(count, 1, 1, device=device) + more_noise).sigmoid()
    noise = torch.randn_like(x0)
    texts = [flux.caption(rng, lessons.world, visible[row], species_of[row], long) for row in rows]
    length = PLANS[lessons.world].lengths[int(long)]
    return Noised(x0, noise, (1 - sigma) * x0 + sigma * noise, sigma, texts, length)


def flow_loss(lessons: FlowLessons, count: int, share_long: float, more_noise: float) -> torch.Tensor:
    """Squared error of the velocity; one caption in ten is empty."""
    batch = noised(lessons, count, share_long, more_noise)
    texts = [text if lessons.rng.random() > 0.1 else "" for text in batch.texts]
    words = flux.text_states(lessons.flow, lessons.tokenizers, texts, batch.length)
    guidance = torch.ones(len(batch.x0), device=lessons.device)
    v = flux.velocity(lessons.flow["transformer"], batch.noisy, batch.sigma, words, guidance)
    return F.mse_loss(v, batch.noise - batch.x0)


def guidance_loss(
    lessons: FlowLessons, teacher: nn.Module, count: int, share_long: float, more_noise: float
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
    steps: list[int],
    guidance_steps: int,
    batch_size: int,
    rate: float,
    history: list,
    folder: str | Path = "",
    compiled: bool = False,
) -> dict[str, float]:
    """The flow's three stages, then guidance in one pass; returns the seconds of each.

    compiled: compile the transformer first. history, folder: as of `training.train`.
    """
    student, seconds = lessons.flow["transformer"], {}
    if compiled:
        student.compile()
    stages = PLANS[lessons.world].stages
    for n, (of_stage, stage) in enumerate(zip(steps, stages, strict=True), 1):
        share_long, portion, part, more_noise = stage
        loss_of = partial(flow_loss, lessons, portion * batch_size, share_long, more_noise)
        name, peak = f"flow {n}", part * rate
        seconds[name] = train(name, of_stage, lessons.flow, loss_of, history, peak, folder)
    teacher = copy.deepcopy(student).eval().requires_grad_(False)
    share_long, portion, _, more_noise = stages[-1]
    loss_of = partial(guidance_loss, lessons, teacher, portion * batch_size, share_long, more_noise)
    seconds["guidance"] = train("guidance", guidance_steps, student, loss_of, history, rate / 4, folder)
    return seconds


def pipeline_of(vae: diffusers.AutoencoderKL, lessons: FlowLessons) -> diffusers.FluxPipeline:
    """A pipeline of what was trained."""
    flow, tokenizers = lessons.flow, lessons.tokenizers
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler()
    return diffusers.FluxPipeline(
        scheduler, vae, flow["clip"], tokenizers.clip, flow["t5"], tokenizers.t5, flow["transformer"]
    )


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


def train_reader(
    vae: diffusers.AutoencoderKL,
    bird_sets: tuple[list, list],
    steps: list[int],
    batch_size: int,
    rate: float,
    seed: int,
    history: list,
    folder: str | Path = "",
) -> tuple[substitute.AttributeReader, dict[str, float]]:
    """The reader and the seconds of its stages: the second has changed birds in half of its batches."""
    torch.manual_seed(seed + 2)
    network, seconds = substitute.AttributeReader(len(flux.SPECIES)).to(vae.device), {}
    rng, count = np.random.default_rng([seed, 2]), 3 * batch_size // 2
    for n, (of_stage, share_changed) in enumerate(zip(steps, (0, 0.5), strict=True), 1):
        loss_of, stage = (
            partial(reader_loss, network, vae, bird_sets, rng, count, share_changed),
            f"reader {n}",
        )
        seconds[stage] = train(stage, of_stage, network, loss_of, history, 2 * rate, folder)
    return network, seconds


def reading_table(reader, pictures: dict[str, list], trials: flux.Trials) -> pd.DataFrame:
    """What a reader sees of trials, in %: pictures ("rendered", "restored"), of, metric and an Interval."""
    rows = []
    for source, images in pictures.items():
        reading = substitute.read_attributes(reader, images)
        for (kind, metric), right in flux.reading_measures(reading, trials).items():
            share = scores.interval(100 * right.float(), bounds=scores.PERCENT)
            rows.append({"pictures": source, "of": kind, "metric": f"{metric} (%)"} | share._asdict())
    return pd.DataFrame(rows)


def generated_table(reader, images: dict[str, list], asked: dict[str, list], world: str) -> pd.DataFrame:
    """What a reader sees of images generated for prompts, by kind of prompt: prompt, metric, an Interval."""
    rows = []
    for kind, of_kind in images.items():
        reading = substitute.read_attributes(reader, of_kind)
        measures = flux.prompt_measures(reading, kind, asked[kind], world)
        for metric, (shares, chance) in measures.items():
            interval = scores.interval(100 * shares, bounds=scores.PERCENT)._asdict()
            rows.append({"prompt": kind, "metric": metric, **interval, "chance": chance})
    return pd.DataFrame(rows)


def generated_images(pipe, rng: np.random.Generator, world: str, n_images: int) -> tuple[dict, dict]:
    """`n_images` prompts of each of `KINDS`, as of `asked_for`, and what the pipeline draws for them."""
    asked, images = {}, {}
    for kind in flux.KINDS:
        asked[kind] = [flux.asked_for(rng, world, kind) for _ in range(n_images)]
    seeds = range(10**6, 10**6 + n_images)
    for kind in flux.KINDS:
        images[kind] = substitute.generate(pipe, [prompt for prompt, *_ in asked[kind]], seeds)
    return asked, images


def parameters_of(part: nn.Module) -> int:
    """Its number of parameters."""
    return sum(p.numel() for p in part.parameters())


def make_flux(settings: argparse.Namespace) -> tuple[Path, Path]:
    """Train, write pipeline and reader, measure what was written, write cards; returns folder and file."""
    random.seed(settings.seed)
    np.random.seed(settings.seed % 2**32)
    device, world, seed = resolve_device(settings.device), settings.world, settings.seed
    rate, size, history, save = settings.learning_rate, settings.batch_size, [], settings.save
    rng = np.random.default_rng(seed)
    birds = flux.drawn_birds(world, seed, settings.drawn, flux.TRAINED, save)
    for i in range(12):
        print(flux.caption(rng, world, birds[1][i], birds[2][i], i % 3 == 0))
    vae, seconds = train_autoencoder(
        birds, settings.autoencoder_steps, size, rate, rng, seed, device, history, save
    )
    latents, tokenizers = scaled_latents(vae, birds[0]), flux.new_tokenizers()
    flow = flux.new_flow(tokenizers, device)
    torch.manual_seed(seed + 1)
    rng = np.random.default_rng([seed, 1])
    lessons = FlowLessons(world, birds, latents, flow, tokenizers, rng, device)
    seconds |= train_flow(
        lessons, settings.flow_steps, settings.guidance_steps, size, rate, history, save, settings.compiled
    )
    changed = flux.drawn_birds(world, seed, settings.changed, flux.CHANGED, save)
    network, of_reader = train_reader(
        vae, (birds, changed), settings.reader_steps, size, rate, seed, history, save
    )
    trained = pipeline_of(vae, lessons)
    folder, reader_file = Path(save) / NAMES[world][0], Path(save) / f"{NAMES[world][1]}.safetensors"
    copy.deepcopy(trained).to(torch.float16).save_pretrained(folder)
    save_weights(network, reader_file)
    pipe = substitute.load_pipeline(str(folder), device)
    reader = substitute.load_reader(str(reader_file), device=device)
    rng = np.random.default_rng(flux.HELD)
    held = flux.drawn_birds(world, seed, 8 * settings.n_test, flux.HELD, save)
    trials = flux.reader_trials(rng, world, seed, held, 2 * settings.n_test)
    pictures = {"rendered": trials.portraits, "restored": substitute.reconstruct(pipe, trials.portraits)}
    read = reading_table(reader, pictures, trials)
    asked, images = generated_images(pipe, rng, world, settings.n_test)
    drawn = generated_table(reader, images, asked, world)
    of_both = {"world": world, "seed": seed, "batch size": size, "learning rate": rate, "device": str(device)}
    of_both["trained on"] = (
        f"{settings.drawn} portraits of aviary birds at {flux.SIZE}x{flux.SIZE}, half of them with random "
        "attributes"
    )
    of_both["torch"] = torch.__version__
    parts = {name: part for name, part in trained.components.items() if isinstance(part, nn.Module)}
    sizes = {name: parameters_of(part) for name, part in parts.items()}
    steps = {"autoencoder": sum(settings.autoencoder_steps), "flow": sum(settings.flow_steps)}
    told = {"parameters": sum(sizes.values()), "parts": sizes, "seconds": round(sum(seconds.values()))}
    told["steps"] = steps | {"guidance": settings.guidance_steps}
    write_card(folder, weights_card(folder, drawn, "species right (%)", **told, **of_both))
    told = {"parameters": parameters_of(network), "seconds": round(sum(of_reader.values()))}
    told |= {"steps": sum(settings.reader_steps), "changed": settings.changed, **of_both}
    write_card(reader_file, weights_card(reader_file, read, "sees what is there (%)", **told))
    return folder, reader_file


def options() -> argparse.ArgumentParser:
    """The command line; its defaults made the shipped weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--world", default="studio", choices=tuple(PLANS), help="whose birds (default %(default)s)")
    add("--seed", type=int, default=0, help="of the birds, the weights, the captions (default %(default)s)")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--drawn", type=int, default=12000, help="birds drawn, half with random attributes (%(default)s)")
    add("--autoencoder-steps", type=int, nargs=2, default=[6000, 10000], help="default %(default)s")
    add("--flow-steps", type=int, nargs=3, default=[2400, 1800, 1500], help="default %(default)s")
    add("--guidance-steps", type=int, default=200, help="default %(default)s")
    add("--reader-steps", type=int, nargs=2, default=[2000, 1000], help="default %(default)s")
    add("--changed", type=int, default=6000, help="birds with a few attributes changed, for the reader")
    add("--batch-size", type=int, default=64, help="portraits a step (default %(default)s)")
    add("--learning-rate", type=float, default=0.001, help="its peak (default %(default)s)")
    add("--compiled", action="store_true", help="compile the transformer: some minutes once, shorter steps")
    add("--n-test", type=int, default=300, help="images of each kind that are measured (default %(default)s)")
    add("--save", default="trained", help="folder of checkpoints, weights and cards (default %(default)s)")
    return parser


if __name__ == "__main__":
    parser = options()
    make_flux(parser.parse_args())
