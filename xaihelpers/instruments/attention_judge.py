"""The shipped judge of attention: writes what its eye measures into the form that the prompt asks for.

Of a masked picture or a heat-map it finds what is lit, where the object is or must be, and its name. The
score is 5 times coverage times precision, rounded, under a name that what is lit may have, and 0 under any
other. It was taught on drawn pictures under made-up maps, and judges nothing else.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import torch

from xaihelpers.ask.messages import Answer, Request
from xaihelpers.instruments import eye as eyes
from xaihelpers.instruments.annotator import cut_off
from xaihelpers.text_files import words

OBJECT = re.compile(r"should attend to the (.+?)\.(?:\s|$)|model predicts (.+?), ")
LIKELY = 0.2  # of the most probable name's probability: a name as likely as that may be the right one
LEAST_LIT = 0.004  # of the picture: less is nothing
PART_PIXELS = 30  # of a part that counts as attended
AMOUNTS = (0.05, 0.40, 0.65, 0.85)  # shares at which the next of these words begins
OF_OBJECT = ("none", "a small part", "about half", "most", "all")
BESIDE = ("nothing", "a little", "some", "much", "nearly all")
REASONS = (  # of each score
    "The attention has nothing to do with the object.",
    "The object is missed.",
    "Only a small part of the object is attended, or much more besides it.",
    "A part of the object is attended, or much besides it.",
    "Most of the object is attended with little distraction.",
    "The whole object is attended and nothing else.",
)
NO_PICTURE = "Evaluation: Nothing is shown.\nJustification: There is no picture to judge.\nScore: none"


class AttentionJudge:
    """What answers in the place of a vision-language model; see the module docstring.

    folder: with eye.safetensors, as `recipes/annotator.py` writes it. Raises OSError where it is missing.
    """

    def __init__(self, folder: Path, device: torch.device):
        self.eye = eyes.load_eye(eyes.JudgingEye(), folder / "eye.safetensors", device)

    @torch.inference_mode()
    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """A judgement for each request, by its last turn and its first image."""
        images = [request.images[0] for request in requests if request.images]
        seen = iter(())
        if images:
            found = self.eye(eyes.as_pixels(images).to(next(self.eye.parameters()).device))
            lit = found["lit"].sigmoid()
            on_parts = (found["parts"].softmax(1)[:, 1:] * lit[:, None]).sum((2, 3)) * eyes.CELL**2
            covered = found["covered"] * (lit.mean((1, 2)) > LEAST_LIT)
            names = found["names"].softmax(1).cpu()
            seen = zip(covered.tolist(), found["precise"].tolist(), names, on_parts.cpu(), strict=True)
        answers = []
        for request in requests:
            text = judgement(named(request.text), *next(seen)) if request.images else NO_PICTURE
            answers.append(cut_off(Answer(text), request.max_tokens))
        return answers


def named(text: str) -> str:
    """The name in a question about attention, or the first that is known; "" of a question without any."""
    found = OBJECT.search(text)
    return (found[1] or found[2]) if found else eyes.first_named(text)


def judgement(name: str, covered: float, precise: float, names: torch.Tensor, on_parts: torch.Tensor) -> str:
    """Evaluation, justification and score.

    name: the one that is given. covered, precise: in [0, 1]. names: (species and things,) probabilities.
    on_parts: (parts,), lit pixels of each.
    """
    known = [words(one) for one in eyes.SPECIES + eyes.THINGS]
    chances = dict(zip(known, names.tolist(), strict=True))
    likeliest = max(chances, key=chances.get)
    chances["bird"] = sum(list(chances.values())[: len(eyes.SPECIES)])
    fits = chances.get(words(name), 0.0) >= LIKELY * chances[likeliest]
    of_parts: dict[str, float] = {}
    for part, pixels in zip(eyes.PARTS, on_parts.tolist(), strict=True):
        plain = part.removeprefix("left ").removeprefix("right ")
        of_parts[plain] = max(pixels, of_parts.get(plain, 0.0))
    lit = [part for part in sorted(of_parts, key=of_parts.get, reverse=True) if of_parts[part] >= PART_PIXELS]
    place = "nothing" if not covered and precise < 0.5 else "the background"
    if precise >= 0.5 and lit:
        place = f"the {lit[0]}"
    covers, lies_beside = (sum(share >= bound for bound in AMOUNTS) for share in (covered, 1 - precise))
    sentences = [
        f"What is seen may be a {name}." if fits else f"What is seen is a {likeliest}, no {name}.",
        f"The attention lies mainly on {place}.",
        f"It covers {OF_OBJECT[covers]} of the object.",
        f"Beside the object lies {BESIDE[lies_beside]} of it.",
        f"The parts attended are {', '.join(lit[:3])}." if lit else "No part is attended.",
    ]
    score = round(5 * covered * precise) if fits else 0
    reason = REASONS[score] if fits else f"What is attended is no {name}."
    return f"Evaluation: {' '.join(sentences)}\nJustification: {reason}\nScore: {score}"
