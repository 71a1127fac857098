"""How the shipped CLIPs were trained, and stretched to long texts: plain and long form of one wording.

In this order, each a stage with a checkpoint of its own:

- attributes: the image tower learns, by a linear layer thrown away later, the value of every attribute group;
- captions: the text tower learns captions by CLIP's loss, the image tower locked but for its projection,

    L = −1/2N Σ_i (log e^(s_ii/τ) / Σ_j e^(s_ij/τ) + log e^(s_ii/τ) / Σ_j e^(s_ji/τ)),
    s_ij = cos(E_i(x_i), E_t(c_j));

- both towers: the same of both;
- long texts: the text tower stretched from 77 to 248 tokens (Long-CLIP) learns long lists, the rest locked.

By default it makes aviary_clip and aviary_clip_long; the second pair, aviary_clip_sentences, by

    python recipes/clip.py --wording sentences --eye aviary_clip --seed 1 --drawn 8000 --batch-size 128 \
        --attribute-steps 0 --caption-steps 900 --joint-steps 0 --long-steps 150
"""

import argparse
import copy
import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import open_clip
import pandas as pd
import torch
import torch.nn.functional as F
from torchvision.transforms.functional import normalize
from transformers import PreTrainedTokenizerFast

from recipes.clip_training import captions, clip_networks
from recipes.clip_training.clip_birds import Birds, training_birds
from recipes.clip_training.clip_measures import held_out_birds, measured_rows
from recipes.shared import command_line, n_parameters, write_card
from xaihelpers import datasets
from xaihelpers.devices import resolve_device
from xaihelpers.models import save_weights
from xaihelpers.models.clip import embed_images, encode_tokens, load_clip
from xaihelpers.models.clip_loading import CONFIG_FILE, WEIGHTS_FILE, set_positions, stretch_positions
from xaihelpers.training import group_loss, train


class Lessons(NamedTuple):
    """What a CLIP is taught with."""

    birds: Birds
    words: captions.Words
    wording: str
    groups: list[list[int]]  # the columns of each attribute group
    tokenizer: PreTrainedTokenizerFast
    rng: np.random.Generator
    batch_size: int  # captions a step; pictures come in halves of it
    device: torch.device


def normalised(pixels: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Pictures (B, 3, SIZE, SIZE) uint8 as the image tower takes them."""
    settings = clip_networks.PREPROCESS
    return normalize(pixels.to(device).float() / 255, settings["mean"], settings["std"])


def augmented(lessons: Lessons, rows: torch.Tensor) -> torch.Tensor:
    """Pictures of training rows, moved by a few pixels, under another light: no caption becomes false."""
    shift = lessons.rng.integers(-8, 9, 2).tolist()
    x = normalised(torch.roll(lessons.birds.pixels[rows], shift, (2, 3)), lessons.device)
    light = 0.1 * torch.randn(2, len(rows), 1, 1, 1, device=lessons.device)
    return x * (1 + light[0]) + light[1]


def attribute_loss(model: torch.nn.Module, head: torch.nn.Module, lessons: Lessons) -> torch.Tensor:
    """Of a batch of pictures: one softmax for each attribute group of which something can be seen."""
    rows = torch.from_numpy(lessons.rng.integers(len(lessons.birds.pixels), size=lessons.batch_size // 2))
    logits = head(model.visual(augmented(lessons, rows)))
    targets = torch.from_numpy(lessons.birds.present[rows.numpy()]).float()
    return group_loss(logits, targets.to(lessons.device), lessons.groups)


def trunk_features(model: torch.nn.Module, lessons: Lessons) -> torch.Tensor:
    """What the image tower makes of all training pictures before its projection, (N, 160)."""
    projection, model.visual.proj = model.visual.proj, None
    features = []
    with torch.inference_mode():
        for part in lessons.birds.pixels.split(128):
            features.append(model.visual(normalised(part, lessons.device)))
    model.visual.proj = projection
    return torch.cat(features).clone()


def caption_batch(
    lessons: Lessons, limit: int, forms: dict[str, float], lengths: list[int]
) -> tuple[torch.Tensor, list[list[int]]]:
    """Rows of training pictures and the tokens of their captions, written anew.

    One form, length and template to a batch, so that forms are never told apart instead of birds.
    """
    rng, birds = lessons.rng, lessons.birds
    rows = rng.integers(len(birds.pixels), size=lessons.batch_size)
    shares = np.array(list(forms.values()))
    form = rng.choice(list(forms), p=shares / sum(forms.values()))
    k = int(rng.choice(lengths))
    template = captions.TEMPLATES[rng.integers(len(captions.TEMPLATES))]
    style = captions.Style(form, k, template, int(rng.integers(2)))
    texts = [captions.a_caption(lessons.words, birds, lessons.wording, rng, j, style) for j in rows]
    return torch.from_numpy(rows), clip_networks.tokens(lessons.tokenizer, texts, limit)


def caption_loss(
    model: torch.nn.Module, text_model: torch.nn.Module, images: torch.Tensor, token_lists: list[list[int]]
) -> torch.Tensor:
    """CLIP's loss of image embeddings (B, e), not normalised, and their captions.

    model: whose temperature counts; 1/τ is kept between 1 and 100. text_model: whose text tower reads.
    """
    with torch.no_grad():
        model.logit_scale.clamp_(0, math.log(100))
    texts = encode_tokens(text_model, token_lists)
    images, texts = F.normalize(images.float(), dim=-1), F.normalize(texts.float(), dim=-1)
    return open_clip.ClipLoss()(images, texts, model.logit_scale.exp())


def train_clip(
    model: torch.nn.Module, lessons: Lessons, settings: argparse.Namespace, history: list
) -> float:
    """The plain form learns attributes, then captions, then both with both towers; returns the seconds.

    history: as of `training.train`.
    """
    head = torch.nn.Linear(clip_networks.WIDTH, lessons.birds.present.shape[1]).to(lessons.device)
    rate, folder, few = settings.learning_rate, settings.save, [1, 2, 3, 4, 5, 6]

    def seen_loss():
        return attribute_loss(model, head, lessons)

    def locked_loss():
        rows, token_lists = caption_batch(lessons, clip_networks.CONTEXT, captions.FORMS, few)
        return caption_loss(model, model, locked[rows] @ model.visual.proj, token_lists)

    def joint_loss():
        rows, token_lists = caption_batch(lessons, clip_networks.CONTEXT, captions.FORMS, few)
        return caption_loss(model, model, model.visual(augmented(lessons, rows)), token_lists)

    both = torch.nn.ModuleDict({"model": model, "head": head})
    learn = [*model.visual.parameters(), *head.parameters()]
    seconds = train("attributes", settings.attribute_steps, both, seen_loss, history, rate, folder, learn)
    locked = trunk_features(model, lessons)
    learn = [*model.text.parameters(), model.visual.proj, model.logit_scale]
    seconds += train("captions", settings.caption_steps, model, locked_loss, history, rate, folder, learn)
    return seconds + train("both towers", settings.joint_steps, model, joint_loss, history, rate / 4, folder)


def train_long(
    model: torch.nn.Module, lessons: Lessons, settings: argparse.Namespace, history: list
) -> tuple[torch.nn.Module, float]:
    """A copy stretched from 77 to 248 tokens, whose text tower has learnt long lists; and the seconds."""
    long_model = copy.deepcopy(model)  # the first 20 positions stay
    set_positions(long_model.text, stretch_positions(long_model.text.positional_embedding.data))
    locked = trunk_features(model, lessons)

    def long_loss():
        if lessons.rng.random() < 0.7:
            forms, lengths = {"list": 1.0}, [5, 8, 12, 15, 30]
        else:  # short captions stay in its diet
            forms, lengths = captions.FORMS, [1, 2, 3, 5]
        rows, token_lists = caption_batch(lessons, long_model.text.context_length, forms, lengths)
        images = (locked[rows] @ model.visual.proj).detach()
        return caption_loss(model, long_model, images, token_lists)

    steps, rate = settings.long_steps, settings.learning_rate / 2
    return long_model, train("long texts", steps, long_model.text, long_loss, history, rate, settings.save)


def save_forms(model, long_model, tokenizer, folder: Path, name: str) -> list[Path]:
    """Writes both forms as folders that open_clip loads, in 16 bits; returns the folders."""
    folders = [folder / name, folder / f"{name}_long"]
    for form, place in zip((model, long_model), folders, strict=True):
        place.mkdir(parents=True, exist_ok=True)
        tokenizer.save_pretrained(str(place))
        config = clip_networks.clip_config(len(tokenizer), form.text.context_length)
        settings = {"model_cfg": config, "preprocess_cfg": clip_networks.PREPROCESS}
        (place / CONFIG_FILE).write_text(json.dumps(settings, indent=2) + "\n")
        save_weights(form.float().eval(), place / WEIGHTS_FILE)
    return folders


def make_clip(settings: argparse.Namespace) -> list[Path]:
    """Train, measure what was written on held-out birds, write cards; returns the folders of both forms.

    Raises DatasetError: no such data; ModelError: no such eye.
    """
    torch.manual_seed(settings.seed)
    device, folder = resolve_device(settings.device), Path(settings.save)
    dataset = datasets.load(settings.data, attributes="image")
    rng, words, wording = np.random.default_rng(settings.seed), captions.words_of(dataset), settings.wording
    birds = training_birds(dataset, settings.drawn, settings.seed)
    for form in captions.FORMS:
        style = captions.Style(form, 3, captions.TEMPLATES[0])
        print(f"{form}: {captions.a_caption(words, birds, wording, rng, 0, style)!r}")
    tokenizer = clip_networks.learnt_clip_tokenizer(captions.corpus(words, birds, wording, rng))
    columns = dataset.attributes.index.to_series() - 1
    groups = [part.tolist() for _, part in columns.groupby(dataset.attributes.group, sort=False)]
    lessons = Lessons(birds, words, wording, groups, tokenizer, rng, settings.batch_size, device)
    model, history = clip_networks.new_clip(len(tokenizer), device), []
    if settings.eye:  # two CLIPs with one eye differ in their words alone
        model.visual.load_state_dict(load_clip(settings.eye, device=device).model.visual.state_dict())
    seconds = train_clip(model, lessons, settings, history)
    long_model, of_long = train_long(model, lessons, settings, history)
    folders = save_forms(model, long_model, tokenizer, folder, captions.WORDINGS[wording])
    held_out = held_out_birds(dataset, words)
    about = f"{dataset.name}, training split, {dataset.images.train.sum()} images, and {settings.drawn} birds"
    steps = ("attribute_steps", "caption_steps", "joint_steps", "long_steps")
    stages = zip(("attributes", "captions", "both towers", "long texts"), steps, strict=True)
    told = {
        "made_here": True,
        "trained on": f"{about} drawn for it, half with random attributes",
        "steps": {stage: getattr(settings, name) for stage, name in stages},
        "batch size": settings.batch_size,
        "seconds": round(seconds + of_long),
    }
    for place in folders:
        clip = load_clip(str(place), device=device)
        rows = measured_rows(clip, words, held_out, embed_images(clip, held_out.paths), place.name)
        sizes = {"parameters": n_parameters(clip.model), "features": [clip.width], "context": clip.context}
        write_card(place, pd.DataFrame(rows), "zero-shot species", settings, **sizes, **told)
    return folders


def options() -> argparse.ArgumentParser:
    """The command line; its defaults made the first shipped pair."""
    return command_line(
        __doc__,
        {
            "data": ("aviary", "a name or a path, in CUB-200-2011's format"),
            "drawn": (14000, "birds drawn besides; 0 for photographs"),
            "wording": ("concepts", "of the captions", *captions.WORDINGS),
            "eye": ("", "a CLIP whose image tower is taken; none trains one"),
            "attribute-steps": (1400, "of attributes"),
            "caption-steps": (2500, "of captions"),
            "joint-steps": (150, "of both towers"),
            "long-steps": (400, "of long texts"),
            "batch-size": (256, "captions a step"),
            "learning-rate": (0.001, "its peak"),
        },
    )


if __name__ == "__main__":
    make_clip(options().parse_args())
