"""How the shipped backbone was trained: a ResNet-18 of half the width, from nothing but the aviary's species.

The loss is cross-entropy with label smoothing over K classes y,

    t_k = (1 − ε) [k = y] + ε / K,    L = −Σ_k t_k log p_k,    ε = 0.1,

the optimiser AdamW under a one-cycle learning rate. Most passes see small pictures, the last ones pictures of
full size with a tenth of the learning rate. The attributes and masks of a world are never read.

With --data and a data set of one's own, in CUB-200-2011's format or as folders by class, it trains on that,
and --backbone and --start name another network and its first weights. The paper's ResNet-18 of CUB-200-2011:

    python recipes/backbone.py --data CUB_200_2011 --backbone torchvision/resnet18 --start published \
        --epochs 30 --size 160 --final-epochs 10 --learning-rate 0.001 --save resnet18_cub
"""

import argparse
import math
import time
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F
from tqdm.auto import tqdm

from recipes.shared import command_line, n_parameters, write_card
from xaihelpers import datasets, models, scores
from xaihelpers.devices import resolve_device
from xaihelpers.models.image_network import ImageNetwork
from xaihelpers.training import read_checkpoint, save_checkpoint

SMOOTHING = 0.1  # ε


def augment(network: ImageNetwork, batch: torch.Tensor, side: int) -> torch.Tensor:
    """Random turn (±15°), cut-out (0.45–1 of the side), place, mirror, brightness and contrast; no hue.

    What is varied here the network learns to ignore, and a bird is named by its colours.

    batch: (B, 3, crop, crop) uint8. Returns (B, 3, side, side) float32, normalised, on the network's device.
    """
    device = next(network.model.parameters()).device
    n = len(batch)
    angle = (torch.rand(n) - 0.5) * math.radians(30)
    scale = 0.45 + 0.55 * torch.rand(n)
    mirror = torch.where(torch.rand(n) < 0.5, -1.0, 1.0)
    shift = (torch.rand(n, 2) - 0.5) * (1.3 - scale)[:, None]
    cos, sin = scale * angle.cos(), scale * angle.sin()
    first_row = torch.stack([cos * mirror, -sin, shift[:, 0]], 1)
    second_row = torch.stack([sin * mirror, cos, shift[:, 1]], 1)
    theta = torch.stack([first_row, second_row], 1)  # (B, 2, 3)
    grid = F.affine_grid(theta, (n, 3, side, side), align_corners=False).to(device)
    pixels = batch.to(device).float() / 255
    # beyond the edge lies a reflection: no black border tells how far a picture was moved
    warped = F.grid_sample(pixels, grid, padding_mode="reflection", align_corners=False)
    contrast = (1 + 0.4 * (torch.rand(n, 1, 1, 1) - 0.5)).to(device)
    brightness = (0.2 * (torch.rand(n, 1, 1, 1) - 0.5)).to(device)
    return network.normalised(255 * (warped * contrast + brightness).clamp(0, 1))


def train_epoch(network, pixels, labels, side, batch_size, optimiser, schedule) -> float:
    """One pass over the training pictures at `side` pixels; returns its mean loss. On a GPU in bfloat16."""
    network.model.train()
    device = next(network.model.parameters()).device
    total = 0.0
    for rows in torch.randperm(len(pixels)).split(batch_size):
        inputs = augment(network, pixels[rows], side).contiguous(memory_format=torch.channels_last)
        targets = labels[rows].to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            logits = network.model(inputs)
        loss = F.cross_entropy(logits.float(), targets, label_smoothing=SMOOTHING)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        total += loss.item() * len(rows)
    return total / len(pixels)


def train_stage(network, pixels, labels, epochs, side, batch_size, peak, history, checkpoint) -> None:
    """Train for some passes at `side` pixels; appends [epoch, loss, seconds] of each to `history`.

    checkpoint: written after each pass, with the state of the random numbers: a killed run goes on and
        ends with the same weights.
    """
    steps = math.ceil(len(pixels) / batch_size)
    optimiser = torch.optim.AdamW(network.model.parameters(), lr=peak, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, peak, total_steps=max(epochs * steps, 1), pct_start=0.2
    )
    parts = {"model": network.model, "optimiser": optimiser, "schedule": schedule}
    first, state = 0, read_checkpoint(checkpoint)
    if state:
        for key, part in parts.items():
            part.load_state_dict(state[key])
        torch.set_rng_state(state["rng"])
        first, history[:] = state["epoch"], state["history"]
        print(f"{first} of {epochs} passes are in {checkpoint}; delete it to begin anew")
    for epoch in tqdm(range(first, epochs), f"training at {side} pixels", disable=first >= epochs):
        start = time.perf_counter()
        loss = train_epoch(network, pixels, labels, side, batch_size, optimiser, schedule)
        history.append([len(history) + 1, loss, time.perf_counter() - start])
        state = {key: part.state_dict() for key, part in parts.items()}
        save_checkpoint(
            state | {"rng": torch.get_rng_state(), "history": history, "epoch": epoch + 1}, checkpoint
        )


def make_backbone(settings: argparse.Namespace) -> Path:
    """Train, write weights, measure them on the test split, write a card; returns the file of the weights.

    Raises DatasetError for data without classes or a split, ModelError as `models.new_backbone`.
    """
    torch.manual_seed(settings.seed)
    device, folder = resolve_device(settings.device), Path(settings.save)
    world = datasets.load(settings.data, attributes="class")
    is_train = world.images["train"]
    if len(world.class_names) < 2 or is_train.nunique() < 2:
        raise datasets.DatasetError(f"{world!r}: a classifier needs classes, and images for both")
    network = models.new_backbone(settings.backbone, len(world.class_names), settings.start, device)
    pixels = models.read_pixels(network, world.images["path"][is_train])
    labels, name = world.labels[world.train], settings.backbone.replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True)
    history = []
    for stage, epochs, side, peak in (
        ("small", settings.epochs, settings.size, settings.learning_rate),
        ("full", settings.final_epochs, network.crop, settings.learning_rate / 10),
    ):
        checkpoint = folder / f"{name}.{stage}.checkpoint"
        train_stage(network, pixels, labels, epochs, side, settings.batch_size, peak, history, checkpoint)
    file = models.save_weights(network.model, folder / f"{name}.safetensors", world.class_names)
    written = models.load_backbone(settings.backbone, file, device=device)
    logits = models.extract_features(written, world.images["path"][~is_train], maps=False).logits
    hits = (logits.argmax(1) == world.labels[~world.train]).float()
    right = scores.interval(100 * hits, bounds=scores.PERCENT)
    told = {
        "parameters": n_parameters(network.model),
        "features": [network.n_features, *network.map_size],
        "made_here": True,
        "trained on": f"{world.name}, training split, {len(pixels)} images",
        "started from": Path(settings.start).name or "fresh weights",
        "epochs": [settings.epochs, settings.final_epochs],
        "pixels": [settings.size, network.crop],
        "batch size": settings.batch_size,
        "seconds": round(sum(seconds for *_, seconds in history)),
    }
    table = pd.DataFrame([right._asdict() | {"metric": "right (%)"}])
    write_card(file, table, "right (%)", settings, **told)
    return file


def options() -> argparse.ArgumentParser:
    """The command line; its defaults made the shipped weights."""
    return command_line(
        __doc__,
        {
            "data": ("aviary", "a name or a path, as datasets.load takes it"),
            "backbone": ("aviary_resnet", "the network; or one of torchvision, timm, pytorchcv"),
            "start": ("", "first weights: a file, 'published' for the library's own; or none"),
            "epochs": (40, "passes over the training split"),
            "size": (112, "side of their pictures in pixels"),
            "final-epochs": (2, "last passes at full size"),
            "batch-size": (64, "pictures a step"),
            "learning-rate": (0.004, "its peak"),
        },
    )


if __name__ == "__main__":
    make_backbone(options().parse_args())
