"""A vision-language model judges attention maps: what it is shown, what it is asked, and its answer.

Paper autoxplain, section 3.2 and appendix A.4; the images are those of equations 1 and 2 (`kernels.masking`).
"""

import json
import logging
import re
from collections.abc import Sequence

import pandas as pd
import torch
from matplotlib import colormaps
from PIL import Image

from xaihelpers.ask.cache import ask
from xaihelpers.ask.messages import failure_kind, prompt, request
from xaihelpers.kernels.masking import mask_images, upsample_maps
from xaihelpers.scores.agreement import on_another_scale

log = logging.getLogger(__name__)
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
NUMBER = re.compile(r"\W*?(?<![\d−–-])(\d+(?:[.,]\d{1,2})?)(?![^\W_]|[.,]\d)(.*)")
# a percentage, a range, or a second number to choose from
NO_SCORE = re.compile(r"\s*(?:%|per\s?cent|(?:[−–,-]|to\b|or\b|and\b)\s*\d)", re.IGNORECASE)
# the end of the scale that the score is said to be on
SCALE = re.compile(
    r"(?:/|\bof\b|\bscale\b\D{0,12}?)\s*(?:\d+\s*(?:-|–|to)\s*)?(\d+)|\b(\d+)[\s-]?(?:points?|stars?)\b",
    re.IGNORECASE,
)


def parse_judgement(text: str) -> float | None:
    """The score of an answer, 0 ... 5, given as JSON, as lines or as a dictionary.

    One that is absent, ambiguous or off the scale is None; it is never guessed.
    """
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.keys() & {"evaluation", "justification", "score"}:
        return parse_score(str(found.get("score")))
    headings = list(HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings), len(text)][1:]
    scores = set()
    for heading, end in zip(headings, ends, strict=True):
        if heading[1].lower() == "score":
            scores.add(parse_score(text[heading.end() : end]))
    return scores.pop() if len(scores) == 1 else None


def _once(pairs: list[tuple[str, object]]) -> dict:
    """A dictionary; ValueError for a name that stands twice: of two, the last would be taken."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def parse_score(text: str, highest: int = 5) -> float | None:
    """The number that a text begins with, on a scale that ends at `highest`; None for any other."""
    match = NUMBER.match(text)
    if match is None or NO_SCORE.match(match[2]):
        return None
    scale = SCALE.search(match[2])
    score = float(match[1].replace(",", "."))
    return score if score <= highest and (scale is None or str(highest) in scale.groups()) else None


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
    file: str = "",
    max_tokens: int = 400,
    **settings,
) -> pd.DataFrame:
    """Ask a vision-language model for a judgement of each image.

    images: N images or files; None asks without a picture. objects: the predicted class of each in plain
        words. kind: of the images, as of `judge_images`.
    file: a prompt; "" takes the paper's own for the kind (data/prompts). settings: of `ask`.
    Returns a row per image: score (NaN where the answer holds none), text, error (where there is no
        answer), and failure, one of `ask.messages.KINDS` where there is no score. The log says where no
        score is above 1, as of a judge that takes 1 for the highest.
    """
    name, requests = file or f"autoxplain_{kind}", []
    for image, object_name in zip(images, objects, strict=True):
        shown = [] if image is None else [image]
        requests.append(request(prompt(name, object=object_name), shown, max_tokens=max_tokens))
    rows = []
    for answer in ask(model, requests, **settings):
        score = parse_judgement(answer.text)
        rows.append([score, answer.text, answer.error, failure_kind(answer, score is not None)])
    table = pd.DataFrame(rows, columns=["score", "text", "error", "failure"]).astype({"score": float})
    suspicion, sure = on_another_scale(table.score)
    if sure:  # and a map without light may well have half a point
        log.warning("%s: %s", getattr(model, "name", "the judge"), suspicion, extra={"note": True})
    return table
