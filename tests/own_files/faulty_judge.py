"""A user's file in a judge's place that sees the masked picture alone, with a fault that a test sets."""

import numpy as np

STANDS_FOR = "a judge with a fault"
FAULT = ""


def answer(requests):
    return [by_fault(one) for one in requests]


def by_fault(asked):
    """A judgement in the prompt's form: of how much is lit, or of how bright it is."""
    if not asked.images:
        return "No picture."
    pixels = np.asarray(asked.images[0].convert("RGB"), float)
    lit = (pixels.max(2) > 12).mean()  # all else is black
    if FAULT == "looks at no object":
        score, words = 5 - 8 * lit, "The attention is narrow, as it should be."
    else:
        score, words = 4 * pixels.mean() / 255 / 0.1, "The attention is well lit."
    score = min(5.0, max(0.0, score))
    return f"Evaluation: {words}\nJustification: {words}\nScore: {score:.1f}"
