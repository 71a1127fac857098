"""A vision-language model judges attention maps: what it is shown, what it is asked, and its answer.

Paper autoxplain, section 3.2 and appendix A.4; the images are those of equations 1 and 2 (`kernels.masking`).
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib import colormaps
from PIL import Image

from xaihelpers.ask.cache import ask
from xaihelpers.ask.failures import failure_kind
from xaihelpers.ask.messages import request
from xaihelpers.ask.prompt_files import prompt
from xaihelpers.kernels.masking import mask_images, upsample_maps

KINDS = ("masked", "heat")
LENGTHS = ("", "short", "long")  # of the prompt; "" is the paper's own
# the form of a judgement for servers that can be held to one: the reasons first, as the prompts have it
SCHEMA = {
    "type": "object",
    "properties": {
        "evaluation": {"type": "string"},
        "justification": {"type": "string"},
        "score": {"type": "integer", "enum": [0, 1, 2, 3, 4, 5]},
    },
    "required": ["evaluation", "justification", "score"],
    "additionalProperties": False,
}

HEADING = re.compile(
    r"""
    (?:^|[,{])                  # at the start of a line, or of an entry of a dictionary
    [\s"'*#_>•-]*               # quotation marks, Markdown, bullets
    (?:\d+[.)]\s*)?             # the number of a list
    ["'*_]*
    (?:(?:final|overall)\s+)?
    (evaluation|justification|score)
    ["'*_]*
    (?:\s*\([^)\n]*\))?         # a remark in brackets
    ["'*_]*\s*(?:[:=]|\n)["'*_]*\s*
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
# the score, its decimals after a point or a comma, and the rest of its line
NUMBER = re.compile(r"\W*?(?<![\d-])(\d+(?:[.,]\d{1,2})?)(?!\d|[.,]\d)(.*)")
# a percentage, a range, or a second number to choose from
NO_SCORE = re.compile(r"\s*(?:%|per\s?cent|(?:-|–|to\b|or\b)\s*\d)", re.IGNORECASE)
# the end of the scale that the score is said to be on
SCALE = re.compile(r"(?:/|\bof\b|\bscale\b\D{0,12}?)\s*(?:\d+\s*(?:-|–|to)\s*)?(\d+)", re.IGNORECASE)


class Judgement(NamedTuple):
    """The parts of an answer; None and "" for those that it does not hold."""

    score: float | None  # 0 ... 5
    evaluation: str
    justification: str


def parse_judgement(text: str) -> Judgement:
    """Evaluation, justification and score of an answer, given as JSON, as lines or as a dictionary.

    A score that is absent, ambiguous or outside 0 ... 5 is None; it is never guessed.
    """
    if (judgement := _parse_json(text)) is not None:
        return judgement
    headings = list(HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    parts, scores = {}, set()
    for heading, end in zip(headings, ends[: len(headings)], strict=True):
        name = heading[1].lower()
        part = text[heading.end() : end].strip().strip("\"'*{},[]\n ").strip()
        parts.setdefault(name, part)
        if name == "score":
            scores.add(parse_score(part))
    score = scores.pop() if len(scores) == 1 else None
    return Judgement(score, parts.get("evaluation", ""), parts.get("justification", ""))


def _parse_json(text: str) -> Judgement | None:
    """The judgement in a JSON object with SCHEMA's names; None of any other text."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or not found.keys() & SCHEMA["properties"].keys():
        return None
    words = [str(found.get(name) or "") for name in ("evaluation", "justification")]
    return Judgement(parse_score(str(found.get("score"))), *words)


def parse_score(text: str, highest: int = 5) -> float | None:
    """The number that a text begins with, on a scale that ends at `highest`; None for any other."""
    match = NUMBER.match(text)
    if match is None or NO_SCORE.match(match[2]):
        return None
    scale = SCALE.search(match[2])
    score = float(match[1].replace(",", "."))
    return score if score <= highest and (scale is None or scale[1] == str(highest)) else None


def heat_images(images: torch.Tensor, maps: torch.Tensor, opacity: float = 0.45) -> torch.Tensor:
    """Images under their attention as heat-maps, (N, 3, H, W) uint8.

    As the prompts describe it, red is an attention of 1 and blue of 0.

    images: (N, 3, H, W) uint8. maps: (N, h, w) in [0, 1]. opacity: share of the colours in the blend.
    """
    colors = (
        torch.from_numpy(colormaps["jet"](np.arange(256))[:, :3]).float().to(images.device) * 255
    )  # (256, 3)
    level = (upsample_maps(maps, images.shape[2:]).clamp(0, 1) * 255).round().long()  # (N, H, W)
    heat = colors[level].permute(0, 3, 1, 2)
    return (opacity * heat + (1 - opacity) * images.float()).round().to(torch.uint8)


def judge_images(
    images: torch.Tensor, maps: torch.Tensor, kind: str = "masked", alpha: float = 25.0, beta: float = 0.4
) -> list[Image.Image]:
    """Images (N, 3, H, W) uint8 as the judge sees them: masked by equations 1 and 2, or under a heat-map.

    maps: (N, h, w) in [0, 1]. kind: "masked", with alpha and beta as of `mask_images`, or "heat".
    Raises ValueError for another kind, and for images and maps that do not fit.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} of image: there are {', '.join(KINDS)}")
    if kind == "masked":
        shown = mask_images(images, maps, alpha=alpha, beta=beta)
    else:
        shown = heat_images(images, maps)
    return [Image.fromarray(image) for image in shown.permute(0, 2, 3, 1).cpu().numpy()]


def judge(
    model,
    images: Sequence,
    objects: Sequence[str],
    kind: str = "masked",
    length: str = "",
    file: str = "",
    max_tokens: int = 400,
    by_schema: bool = False,
    **settings,
) -> pd.DataFrame:
    """Ask a vision-language model for a judgement of each image.

    model: as `load_vlm` gives it. images: N images or files, as `judge_images` makes them; None asks without
        a picture.
    objects: the predicted class of each in plain words. kind: of the images, as of `judge_images`.
    length: "", "short" or "long" prompt (data/prompts). file: the name of another prompt.
    max_tokens: of an answer. by_schema: hold servers that can be to a JSON schema; others answer in lines.
    settings: of `ask`.
    Returns a row per image: score (NaN where the answer holds none), evaluation, justification, text, error
        (where there is no answer), and failure, one of `ask.failures.KINDS` where there is no score.
    Raises ValueError for another kind or length, and for images and objects of different number.
    """
    if kind not in KINDS or length not in LENGTHS:
        raise ValueError(
            f"a judge is shown {' or '.join(KINDS)}, by a prompt {' or '.join(map(repr, LENGTHS))}; "
            f"not {kind!r}, {length!r}"
        )
    name = file or "_".join(part for part in ("autoxplain", kind, length) if part)
    requests = []
    for image, object_name in zip(images, objects, strict=True):
        shown = [] if image is None else [image]
        text, schema = prompt(name, object=object_name), SCHEMA if by_schema else None
        requests.append(request(text, shown, max_tokens=max_tokens, schema=schema))
    answers = ask(model, requests, **settings)
    judgements = [parse_judgement(answer.text) for answer in answers]
    scores = [judgement.score for judgement in judgements]
    return pd.DataFrame(
        {
            "score": [np.nan if score is None else score for score in scores],
            "evaluation": [judgement.evaluation for judgement in judgements],
            "justification": [judgement.justification for judgement in judgements],
            "text": [answer.text for answer in answers],
            "error": [answer.error for answer in answers],
            "failure": [
                failure_kind(answer, score is not None) for answer, score in zip(answers, scores, strict=True)
            ],
        }
    )
