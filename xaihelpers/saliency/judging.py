"""A vision-language model judges attention maps: what it is shown, what it is asked, and its answer.

Paper autoxplain, section 3.2 and appendix A.4; the images are those of equations 1 and 2 (`masks`).
"""

import logging
import re
from collections.abc import Sequence

import pandas as pd
import torch
from matplotlib import colormaps
from PIL import Image

from xaihelpers.ask.cache import ask
from xaihelpers.ask.messages import failure_kind, prompt, request
from xaihelpers.ask.reading import as_read, json_values, parse_score
from xaihelpers.masks import mask_images, upsample_maps
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
HIGHEST = 5


def parse_judgement(text: str, cut: bool = False) -> float | None:
    """The score of an answer, 0 ... 5, given as JSON, as lines or as a dictionary.

    One that is absent, ambiguous or off the scale is None; it is never guessed (`ask.reading.parse_score`).

    cut: whether max_tokens ended the answer. Its last word may then be half, and it has to begin with what is
        asked for: behind other words may stand the draft of a thought.
    """
    text = as_read(re.sub(r"\S+\Z", "", text) if cut else text)
    if cut and not re.match(r"\s*(?:```\w*\s*)?\{", text) and not HEADING.match(text.lstrip()):
        return None
    scores, left, read = set(), "", 0
    for start, end, found in json_values(text, "{"):
        said = [value for key, value in found.items() if key.casefold() == "score"]
        if said:
            scores.update(map(_in_json, said))
            left, read = left + text[read:start], max(read, end)
    left += text[read:]
    headings = list(HEADING.finditer(left))
    ends = [*(heading.start() for heading in headings), len(left)][1:]
    for heading, end in zip(headings, ends, strict=True):
        if heading[1].lower() == "score":
            scores.add(parse_score(left[heading.end() : end], HIGHEST))
    return scores.pop() if len(scores) == 1 else None


def _in_json(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if 0 <= value <= HIGHEST else None
    return parse_score(str(value), HIGHEST)


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
        score = parse_judgement(answer.text, answer.truncated)
        rows.append([score, answer.text, answer.error, failure_kind(answer, score is not None)])
    table = pd.DataFrame(rows, columns=["score", "text", "error", "failure"]).astype({"score": float})
    suspicion, sure = on_another_scale(table.score)
    if sure:  # and a map without light may well have half a point
        log.warning("%s: %s", getattr(model, "name", "the judge"), suspicion, extra={"note": True})
    return table
