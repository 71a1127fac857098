"""A vision-language model judges attention: what it is shown, what it is asked, and what it said (autoxplain, section 3.2, appendix A.4)."""
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image

from ..ask import ask, prompt, request
from ..kernels.masking import mask_images, upsample_maps

KINDS = ("masked", "heat")
LENGTHS = ("", "short", "long")  # of the prompt; "" is the paper's own


class Judgement(NamedTuple):
    """What a judge said of one attention map; None and "" for what its answer does not hold."""

    score: float | None  # 0 ... 5
    evaluation: str
    justification: str


HEAD = re.compile(r"(?:^|[,{])[\s\"'*#_>•-]*(?:\d+[.)]\s*)?[\"'*_]*(?:(?:final|overall)\s+)?(evaluation|justification|score)[\"'*_]*(?:\s*\([^)\n]*\))?[\"'*_]*\s*(?:[:=]|\n)[\"'*_]*\s*", re.I | re.M)
NUMBER = re.compile(r"\W*?(?<![\d-])(\d+(?:\.\d+)?)(?:\s*(?:/|out of|of)\s*(\d+))?(?!\d|\.\d|\s*(?:/|of\b|out of|-|–|to|or)\s*\d)")


def parse_judgement(text: str) -> Judgement:
    """Evaluation, justification and score of an answer: lines, or a dictionary. A score that is absent, ambiguous or outside 0 ... 5 is None, never guessed."""
    heads, parts, scores = list(HEAD.finditer(text)), {}, set()
    for head, after in zip(heads, [*heads[1:], None]):
        part = text[head.end():after.start() if after else None].strip().strip("\"'*{},[]\n ").strip()
        parts.setdefault(head[1].lower(), part)
        if head[1].lower() == "score":
            found = NUMBER.match(part)
            scores.add(float(found[1]) if found and found[2] in (None, "5") and float(found[1]) <= 5 else None)
    return Judgement(scores.pop() if len(scores) == 1 else None, parts.get("evaluation", ""), parts.get("justification", ""))


def heat_images(images: torch.Tensor, maps: torch.Tensor, opacity: float = 0.45) -> torch.Tensor:
    """Images (N, 3, H, W) uint8 under their maps (N, h, w) as heat-maps, red where attention is 1 and blue where it is 0, as the prompts describe them; uint8."""
    from matplotlib import colormaps

    colors = torch.from_numpy(colormaps["jet"](np.arange(256))[:, :3]).float().to(images.device) * 255  # (256, 3)
    level = (upsample_maps(maps, images.shape[2:]).clamp(0, 1) * 255).round().long()
    return (opacity * colors[level].permute(0, 3, 1, 2) + (1 - opacity) * images.float()).round().to(torch.uint8)


def shown_to_judge(images: torch.Tensor, maps: torch.Tensor, kind: str = "masked", alpha: float = 25.0, beta: float = 0.4) -> list[Image.Image]:
    """What the judge sees of images (N, 3, H, W) uint8: masked by equations 1 and 2, or under a heat-map."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} of image: there are {', '.join(KINDS)}")
    made = mask_images(images, maps, alpha=alpha, beta=beta) if kind == "masked" else heat_images(images, maps)
    return [Image.fromarray(picture) for picture in made.permute(0, 2, 3, 1).cpu().numpy()]


def judge(model, pictures: Sequence, objects: Sequence[str], kind: str = "masked", length: str = "", file: str = "", max_tokens: int = 400, **settings) -> pd.DataFrame:
    """Ask for a judgement of each picture: score (NaN where the answer holds none), evaluation, justification, text, error (where there is no answer).

    pictures: N images or files, as `shown_to_judge` makes them. objects: the predicted class of each in plain words. length: "", "short" or "long" (data/prompts). file: another prompt. settings: of `ask`.
    """
    if kind not in KINDS or length not in LENGTHS:
        raise ValueError(f"a judge is shown {' or '.join(KINDS)}, by a prompt {' or '.join(repr(of) for of in LENGTHS)}; not {kind!r}, {length!r}")
    name = file or f"autoxplain_{kind}" + f"_{length}" * bool(length)
    answers = ask(model, [request(prompt(name, object=of), [picture], max_tokens=max_tokens) for picture, of in zip(pictures, objects, strict=True)], **settings)
    found = [parse_judgement(answer.text) for answer in answers]
    return pd.DataFrame({"score": [np.nan if one.score is None else one.score for one in found], "evaluation": [one.evaluation for one in found], "justification": [one.justification for one in found],
                         "text": [answer.text for answer in answers], "error": [answer.error for answer in answers]})
