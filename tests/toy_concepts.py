"""A data set of planted concepts that the tests of several bottlenecks share."""

import dataclasses
from types import SimpleNamespace

import pandas as pd
import torch
import torch.nn.functional as F

from xaihelpers.bottlenecks.concept_dataset import ConceptDataset

N, L = 700, 6
CONCEPTS, CLASSES = [f"concept {j}" for j in range(L)], ["jay", "crow", "gull", "tern"]
# (2 L, 16), orthonormal
TEXTS = torch.linalg.qr(torch.randn(16, 2 * L, generator=torch.Generator().manual_seed(3))).Q.T.contiguous()


def embed_texts(texts):
    """Concepts and phrases of one number lie near each other, classes far from all."""
    rows = []
    for text in texts:
        if text in CLASSES:
            rows.append(TEXTS[L + 1 + CLASSES.index(text)])
        elif text.startswith("a "):
            rows.append(TEXTS[int(text.split()[-1])] + 0.2 * TEXTS[L])
        else:
            rows.append(TEXTS[int(text.split()[-1])])
    return F.normalize(torch.stack(rows), dim=1)


def accuracy(outputs, labels):
    """Share of images whose predicted class is their label."""
    return (outputs.predictions == labels).float().mean().item()


def toy_dataset(seed=0, **changed):
    """700 images, 600 for training; the first two concepts are the class's binary digits."""
    generator = torch.Generator().manual_seed(seed)
    present = (torch.rand(N, L, generator=generator) < 0.4).float()
    pooled = 2 * present @ TEXTS[:L] + 0.2 * torch.randn(N, 16, generator=generator)
    images = F.normalize(present @ TEXTS[:L] + 0.05 * torch.randn(N, 16, generator=generator), dim=1)
    train, labels = torch.arange(N) < 600, (2 * present[:, 0] + present[:, 1]).long()
    image_ids = [f"{i}.png" for i in range(N)]
    phrases = [*(f"a thing {j}" for j in range(L)), "a thing that takes far more letters to say 1"]
    columns = [*present.T, *present.T, present[:, 1]]
    dataset = ConceptDataset(
        name="toy",
        images=pd.DataFrame({"path": image_ids, "label": labels.numpy(), "train": train.numpy()}),
        image_ids=image_ids,
        classes=CLASSES,
        labels=labels,
        train=train,
        pooled=pooled,
        backbone_name="network A",
        backbone_identity="network A",
        concepts=CONCEPTS,
        attributes=CONCEPTS,
        present=present,
        truth=present,
        phrases=phrases,
        told=dict(zip([*CONCEPTS, *phrases], columns, strict=True)),
        clip=SimpleNamespace(identity="clip A"),
        image_embeddings=images,
        embed_texts=embed_texts,
    )
    return dataclasses.replace(dataset, **changed)
