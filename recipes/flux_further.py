"""How the shipped text-to-image pipeline, studio_flux, went on to learn on a GPU.

After `recipes.flux` a studio's bird keeps its own colours whatever its prompt says, for no caption named what
deviated. Here birds of a species deviate in up to three tenths of their groups, and captions name
deviating *colours*, never deviating patterns: as FLUX (section 5.1 of sub), the pipeline then makes simple
changes of colour by a prompt, and not of a pattern. The autoencoder stays as it is; flow and guidance have
the losses of `recipes.flux`, in TF32, on captions written beforehand: a GPU never waits for them.

What ships was trained after thirty steps on a copy, which timed them: a run gives a model of the same kind,
not the same bits.
"""

import argparse
import copy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from joblib import Parallel, delayed
from torch import nn
from tqdm.auto import tqdm

from recipes import flux, flux_training
from recipes.cards import weights_card, write_card
from recipes.flux_training.training_portraits import FURTHER, GROUP_OF, PHRASES, shown_by
from xaihelpers import substitute
from xaihelpers.devices import resolve_device
from xaihelpers.training import train

LENGTHS = flux.PLANS["studio"].lengths  # tokens of short captions and of long ones
OF_EACH = 4  # captions of a bird, short and long
NAMED = 0.3  # how often what deviates is named where it can be
SHARE_LONG = 0.4
MORE_NOISE = (0.0, 0.8)  # mean of the noise levels' logit: of one half of the batches and of the other
COLOURS = np.array([group.endswith("_color") for group in GROUP_OF])


def further_caption(rng: np.random.Generator, visible: np.ndarray, species: int, long: bool) -> str:
    """As `flux_training.caption` of the studio, and with a colour that deviates, if the bird has one."""
    if species >= 0 and rng.random() < NAMED:
        named = flux_training.training_portraits.named_in("studio")
        deviating = np.flatnonzero(visible & named & COLOURS & ~shown_by("studio")[species])
        if len(deviating):
            return f"{flux_training.photo_of(species)} with {PHRASES[rng.choice(deviating)]}"
    return flux_training.caption(rng, "studio", visible, species, long)


def captions_of(seed: list[int], visible: np.ndarray, species: np.ndarray) -> list[list[str]]:
    """`OF_EACH` short captions of each bird and as many long ones, short ones first."""
    rng = np.random.default_rng([*seed, FURTHER, 1])
    longs = OF_EACH * [False] + OF_EACH * [True]
    return [
        [further_caption(rng, of_bird, label, long) for long in longs]
        for of_bird, label in zip(visible, species.tolist(), strict=True)
    ]


class Words(NamedTuple):
    """Captions as the two tokenizers give them."""

    t5: torch.Tensor  # (…, tokens)
    clip: torch.Tensor  # (…, tokens)


def tokens_of(tokenizers: flux_training.Tokenizers, captions: list[list[str]], device) -> tuple[Words, Words]:
    """Token ids of short captions and of long ones, (N + 1, OF_EACH, tokens); the last row's are empty."""
    captions, sizes = [*captions, 2 * OF_EACH * [""]], []
    for n, length in enumerate(LENGTHS):
        texts = [text for of_bird in captions for text in of_bird[n * OF_EACH : (n + 1) * OF_EACH]]
        padding = {"padding": "max_length", "truncation": True, "return_tensors": "pt"}
        t5 = tokenizers.t5(texts, max_length=length, **padding).input_ids
        clip = tokenizers.clip(texts, max_length=2 * flux_training.TOKENS, **padding).input_ids
        sizes.append(Words(*(ids.view(len(captions), OF_EACH, -1).to(device) for ids in (t5, clip))))
    return tuple(sizes)


class Further(NamedTuple):
    """What the flow learns from here, all of it on the device."""

    flow: nn.ModuleDict  # as of `flux_training.new_flow`
    latents: torch.Tensor  # (2, N, 16, 128), shifted and scaled
    words: tuple[Words, Words]
    rng: np.random.Generator
    batch_size: int


class Batch(NamedTuple):
    """Birds on the line from picture to noise, and what is said of them."""

    x0: torch.Tensor  # (B, 16, 128)
    noise: torch.Tensor
    noisy: torch.Tensor
    sigma: torch.Tensor  # (B, 1, 1)
    words: Words  # token ids (B, tokens)
    silent: Words  # those of no caption


def batch_of(lessons: Further) -> Batch:
    """A batch with captions of one length, its noise levels about one mean."""
    device, size = lessons.latents.device, lessons.batch_size
    n_birds = lessons.latents.shape[1]
    words = lessons.words[int(lessons.rng.random() < SHARE_LONG)]
    rows = torch.randint(n_birds, (size,), device=device)
    sides, which = torch.randint(2, (size,), device=device), torch.randint(OF_EACH, (size,), device=device)
    x0 = lessons.latents[sides, rows].float()
    more_noise = MORE_NOISE[int(lessons.rng.random() < 0.5)]
    sigma = (torch.randn(size, 1, 1, device=device) + more_noise).sigmoid()
    noise = torch.randn_like(x0)
    said = Words(*(ids[rows, which] for ids in words))
    silent = Words(*(ids[-1, :1].expand(size, -1) for ids in words))
    return Batch(x0, noise, (1 - sigma) * x0 + sigma * noise, sigma, said, silent)


def states_of(flow: nn.ModuleDict, words: Words) -> tuple[torch.Tensor, torch.Tensor]:
    """What the two encoders say of token ids, as `flux_training.text_states`."""
    return flow["t5"](words.t5).last_hidden_state, flow["clip"](words.clip).pooler_output


def flow_loss(lessons: Further) -> torch.Tensor:
    """Squared error of the velocity; one caption in ten is empty."""
    batch = batch_of(lessons)
    empty = torch.rand(len(batch.x0), 1, device=batch.x0.device) < 0.1
    pairs = zip(batch.words, batch.silent, strict=True)
    words = states_of(lessons.flow, Words(*(torch.where(empty, nothing, ids) for ids, nothing in pairs)))
    guidance = torch.ones(len(batch.x0), device=batch.x0.device)
    v = flux_training.velocity(lessons.flow["transformer"], batch.noisy, batch.sigma, words, guidance)
    return F.mse_loss(v, batch.noise - batch.x0)


def guidance_loss(lessons: Further, teacher: nn.Module) -> torch.Tensor:
    """Squared error to what the teacher says with the caption and without, in one pass."""
    batch = batch_of(lessons)
    ones = torch.ones(len(batch.x0), device=batch.x0.device)
    guidance = torch.empty_like(ones).uniform_(1, 5)
    with torch.no_grad():
        words, nothing = states_of(lessons.flow, batch.words), states_of(lessons.flow, batch.silent)
        unconditional = flux_training.velocity(teacher, batch.noisy, batch.sigma, nothing, ones)
        conditional = flux_training.velocity(teacher, batch.noisy, batch.sigma, words, ones)
        target = unconditional + guidance[:, None, None] * (conditional - unconditional)
    student = lessons.flow["transformer"]
    return F.mse_loss(flux_training.velocity(student, batch.noisy, batch.sigma, words, guidance), target)


def make_further(settings: argparse.Namespace) -> Path:
    """Train on from a pipeline, write what came of it, measure it, write its card; returns the folder."""
    device, seed, save = resolve_device(settings.device), settings.seed, Path(settings.save)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    pixels, visible, species = flux_training.drawn_birds("studio", seed, settings.drawn, FURTHER)
    parts = np.array_split(np.arange(len(species)), 64)
    jobs = (delayed(captions_of)([seed, n], visible[rows], species[rows]) for n, rows in enumerate(parts))
    captions = [of_bird for part in Parallel(n_jobs=-1)(tqdm(jobs, total=len(parts))) for of_bird in part]
    for of_bird in captions[:6]:
        print(of_bird[0], "|", of_bird[-1])
    pipe = substitute.load_pipeline(settings.start, "cpu").to(device, torch.float32)
    flow = nn.ModuleDict(
        {"transformer": pipe.transformer, "t5": pipe.text_encoder_2, "clip": pipe.text_encoder}
    )
    for part in flow.values():
        part.requires_grad_(True)
    tokenizers = flux_training.Tokenizers(pipe.tokenizer_2, pipe.tokenizer)
    config = pipe.vae.config
    latents = (flux_training.encoded(pipe.vae, pixels).float() - config.shift_factor) * config.scaling_factor
    words = tokens_of(tokenizers, captions, device)
    torch.manual_seed(seed + 3)
    rng = np.random.default_rng([seed, 3])
    lessons = Further(flow, latents.to(device), words, rng, settings.batch_size)
    steps = settings.steps
    history: list = []
    seconds = train(
        "flow", steps, flow, lambda: flow_loss(lessons), history, settings.learning_rate, mixed=False
    )
    teacher = copy.deepcopy(flow["transformer"]).eval().requires_grad_(False)
    n_guidance = max(1, steps // 8)
    seconds += train(
        "guidance", n_guidance, flow["transformer"], lambda: guidance_loss(lessons, teacher), history,
        settings.learning_rate / 4, mixed=False,
    )  # fmt: skip
    losses = [loss for *_, loss in history[:steps]]
    print(f"{steps} steps in {seconds:.0f} s: loss {np.mean(losses[:50]):.4f}, {np.mean(losses[-50:]):.4f}")
    folder = save / "studio_flux"
    copy.deepcopy(pipe).to("cpu", torch.float16).save_pretrained(folder)
    pipe = substitute.load_pipeline(str(folder), device)
    reader = substitute.load_reader(settings.reader, device=device)
    asked, images = flux.generated_images(
        pipe, np.random.default_rng(flux_training.HELD), "studio", settings.n_test
    )
    drawn = flux.generated_table(reader, images, asked, "studio")
    print(drawn.to_string())
    told = {"steps": {"flow": steps, "guidance": n_guidance}, "seconds": round(seconds), "world": "studio"}
    told["trained on"] = f"{settings.drawn} birds of the studio, whose captions name colours that deviate"
    told |= {"begun from": settings.start, "seed": seed, "batch size": settings.batch_size}
    told |= {"learning rate": settings.learning_rate, "device": str(device), "torch": torch.__version__}
    write_card(folder, weights_card(folder, drawn, "species right (%)", **told))
    return folder


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--start", default="studio_flux", help="pipeline to go on from (default %(default)s)")
    add("--reader", default="studio_reader", help="reader that measures it (default %(default)s)")
    add("--seed", type=int, default=0, help="of the birds, the captions, the noise (default %(default)s)")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--drawn", type=int, default=24576, help="birds drawn, half with random attributes (%(default)s)")
    add("--steps", type=int, default=3307, help="of the flow (default %(default)s)")
    add("--batch-size", type=int, default=1024, help="default %(default)s")
    add("--learning-rate", type=float, default=7e-4, help="peak learning rate (default %(default)s)")
    add("--n-test", type=int, default=300, help="images of each kind that are measured (default %(default)s)")
    add("--save", default="trained", help="folder of weights and card (default %(default)s)")
    return parser


if __name__ == "__main__":
    make_further(options().parse_args())
