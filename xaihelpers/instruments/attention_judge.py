"""The shipped judge of attention: writes what its eye measures into the form that the prompt asks for.

Of a masked picture or a heat-map it finds what is lit, where the object is or must be, and its name, and so
coverage (share of the object that is lit) and precision (share of the light that lies on it). Of what a mask
leaves in its dark it sees more than people do. Under a name that what is lit may have, its score is the first
step that fits of the prompt for masked pictures, whatever prompt asks; 0 under any other.

| score | the prompt's words | where the cut lies |
|---|---|---|
| 0 | nothing to do with the object | coverage below 15 % |
| 2 | only a small part of the object | coverage below 40 %, or precision below 25 % |
| 3 | recognised, but irrelevant parts are attended too | precision below 90 % |
| 4 | most of the object | coverage below 90 % |
| 5 | the whole object, and nothing else | |

The words are printed, the cuts are not: they were fixed from the words before any result, and stand in
`scores.autoxplain.Cuts`. Nothing gets 1. It was taught on drawn pictures, and judges nothing else.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import torch

from xaihelpers.ask.messages import Answer, Request
from xaihelpers.instruments import eye as eyes
from xaihelpers.instruments.annotator import cut_off
from xaihelpers.scores.autoxplain import step_score
from xaihelpers.text_files import words

OBJECT = re.compile(r"should attend to the (.+?)\.(?:\s|$)|model predicts (.+?), ")
LIKELY = 0.2  # of the most probable name's probability: a name as likely as that may be the right one
LEAST_LIT = 0.004  # of the picture: less is nothing
PART_PIXELS = 30  # of a part that counts as attended
# words, and the shares at which the next of them begins; the object's part where the score's cuts lie
OF_OBJECT = ("hardly any", "a small part", "about half", "most", "all"), (0.15, 0.40, 0.65, 0.90)
BESIDE = ("nothing", "a little", "some", "much", "nearly all"), (0.10, 0.40, 0.65, 0.85)
REASONS = {  # of each score
    0: "Hardly anything of the object is attended.",
    2: "Only a small part of the object is attended, or most of what is attended lies beside it.",
    3: "The object is recognised, but irrelevant parts are attended too.",
    4: "Much of the object is attended, with little distraction.",
    5: "The whole object is attended, and nothing else.",
}
NO_SUCH = "What is attended is no"
MEASURED = re.compile(r"of the object, (\d+) %\..* of it, (\d+) %\.", re.DOTALL)
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
    lights_object = covered > 0
    covered, precise = round(covered, 2), round(precise, 2)  # as they are said
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
    place = "the background" if lights_object or precise >= 0.5 else "nothing"
    if precise >= 0.5 and lit:
        place = f"the {lit[0]}"
    sentences = [
        f"What is seen may be a {name}." if fits else f"What is seen is a {likeliest}, no {name}.",
        f"The attention lies mainly on {place}.",
        f"It covers {amount(covered, *OF_OBJECT)} of the object, {100 * covered:.0f} %.",
        f"Beside the object lies {amount(1 - precise, *BESIDE)} of it, {100 * (1 - precise):.0f} %.",
        f"The parts attended are {', '.join(lit[:3])}." if lit else "No part is attended.",
    ]
    score = int(step_score(covered, precise)) if fits else 0
    reason = REASONS[score] if fits else f"{NO_SUCH} {name}."
    return f"Evaluation: {' '.join(sentences)}\nJustification: {reason}\nScore: {score}"


def amount(share: float, said: Sequence[str], begins: Sequence[float]) -> str:
    """The word for a share in [0, 1]; begins: from where on each but the first of these is said."""
    return said[sum(share >= bound for bound in begins)]


def measured(text: str) -> tuple[float, float]:
    """Coverage of the named object, and precision, as a judgement says them; NaN of anybody else's."""
    found = MEASURED.search(text)
    if not found:
        return float("nan"), float("nan")
    return (0.0 if NO_SUCH in text else int(found[1]) / 100), (100 - int(found[2])) / 100
