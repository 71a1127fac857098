"""A vision-language model judges attention maps: what it is shown, what it is asked, and its answer.

Paper autoxplain, section 3.2 and appendix A.4; the images are those of equations 1 and 2 (`kernels.masking`).
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
from matplotlib import colormaps
from PIL import Image

from xaihelpers.ask.cache import ask
from xaihelpers.ask.messages import failure_kind, prompt, request
from xaihelpers.kernels.masking import mask_images, upsample_maps

KINDS = ("masked", "heat")
OPACITY = 0.45  # of a heat-map over its image
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
    parts = _parts(text)
    scores = {parse_score(part) for name, part in parts if name == "score"}
    first = dict(reversed(parts))  # of two parts of a name, the first
    score = scores.pop() if len(scores) == 1 else None
    return Judgement(score, first.get("evaluation", ""), first.get("justification", ""))


def _parts(text: str) -> list[tuple[str, str]]:
    """Names and texts of an answer's parts: entries of a JSON object, else what stands under headings."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.keys() & set(Judgement._fields):
        return [(name, "" if part is None else str(part)) for name, part in found.items()]
    headings = list(HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings), len(text)][1:]
    parts = []
    for heading, end in zip(headings, ends, strict=True):
        part = text[heading.end() : end].strip().strip("\"'*{},[]\n ").strip()
        parts.append((heading[1].lower(), part))
    return parts


def parse_score(text: str, highest: int = 5) -> float | None:
    """The number that a text begins with, on a scale that ends at `highest`; None for any other."""
    match = NUMBER.match(text)
    if match is None or NO_SCORE.match(match[2]):
        return None
    scale = SCALE.search(match[2])
    score = float(match[1].replace(",", "."))
    return score if score <= highest and (scale is None or scale[1] == str(highest)) else None


def judge_images(
    images: torch.Tensor, maps: torch.Tensor, kind: str = "masked", alpha: float = 25.0, beta: float = 0.4
) -> list[Image.Image]:
    """Images (N, 3, H, W) uint8 as the judge sees them: masked by equations 1 and 2, or under a heat-map.

    As the prompts describe a heat-map, red is an attention of 1 and blue of 0.

    maps: (N, h, w) in [0, 1]. kind: "masked", with alpha and beta as of `mask_images`, or "heat".
    Raises ValueError for another kind, and for images and maps that do not fit.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} of image: there are {', '.join(KINDS)}")
    if kind == "masked":
        shown = mask_images(images, maps, alpha=alpha, beta=beta)
    else:
        colors = torch.tensor(colormaps["jet"](range(256)), dtype=torch.float32, device=images.device) * 255
        level = (upsample_maps(maps, images.shape[2:]).clamp(0, 1) * 255).round().long()  # (N, H, W)
        heat = colors[level, :3].permute(0, 3, 1, 2)
        shown = (OPACITY * heat + (1 - OPACITY) * images.float()).round().to(torch.uint8)
    return [Image.fromarray(image) for image in shown.permute(0, 2, 3, 1).cpu().numpy()]


def judge(
    model,
    images: Sequence,
    objects: Sequence[str],
    kind: str = "masked",
    length: str = "",
    file: str = "",
    max_tokens: int = 400,
    **settings,
) -> pd.DataFrame:
    """Ask a vision-language model for a judgement of each image.

    model: as `load_vlm` gives it. images: N images or files; None asks without a picture.
    objects: the predicted class of each in plain words. kind: of the images, as of `judge_images`.
    length: "short" or "long", or "" for the paper's own prompt (data/prompts). file: name of another prompt.
    max_tokens: of an answer. settings: of `ask`.
    Returns a row per image: score (NaN where the answer holds none), evaluation, justification, text, error
        (where there is no answer), and failure, one of `ask.messages.KINDS` where there is no score.
    Raises AskError for another kind or length, as `prompt`; ValueError for images and objects of different
        number.
    """
    name = file or "_".join(part for part in ("autoxplain", kind, length) if part)
    requests = []
    for image, object_name in zip(images, objects, strict=True):
        shown = [] if image is None else [image]
        requests.append(request(prompt(name, object=object_name), shown, max_tokens=max_tokens))
    rows = []
    for answer in ask(model, requests, **settings):
        judgement = parse_judgement(answer.text)
        failure = failure_kind(answer, judgement.score is not None)
        rows.append([*judgement, answer.text, answer.error, failure])
    columns = [*Judgement._fields, "text", "error", "failure"]
    return pd.DataFrame(rows, columns=columns).astype({"score": float})
