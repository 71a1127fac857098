"""A user's file, as notebooks are given one: attention by lightness, and one prediction for all pictures."""

import numpy as np


def maps_of(images):
    maps = [np.asarray(image.convert("L").resize((16, 16))) for image in images]
    return {"maps": maps, "predicted": ["Blue_Jay"] * len(images)}
