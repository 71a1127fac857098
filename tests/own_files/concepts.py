"""A user's file, as notebooks are given one: concepts by mean colours, and a head that knows nothing."""

import numpy as np

from xaihelpers import datasets

CLASSES = datasets.load("aviary").class_names


def outputs_of(images):
    values = np.stack([np.asarray(image).mean((0, 1)) / 255 for image in images])
    concepts = ["red crown", "a look of its own", "blue wings"]
    weights = np.ones((3, len(CLASSES)))
    return {
        "concepts": concepts,
        "classes": CLASSES,
        "values": values,
        "class_weights": weights,
        "logits": values @ weights,
    }
