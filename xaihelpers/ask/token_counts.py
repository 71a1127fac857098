"""Tokens of a request before it is sent: images by the rule of the model's family, texts by a rule of thumb.

| family | an image of W × H pixels costs |
|---|---|
| openai | scaled to fit 2,048², then to a shorter side of 768: 85 tokens and 170 for each tile of 512² |
| openai-mini | the same tiles: 2,833 tokens and 5,667 a tile |
| qwen2-vl | sides rounded to multiples of 28, area within 56² … 28² · 16,384: a token for each 28² |
| llama-3.2-vision | at most four tiles of 560², laid out as the image's shape asks for; 1,601 each |
| internvl | at most 12 tiles of 448², laid out likewise, and the whole image once more; 256 each |
| llava | 576, whatever its size |
"""

import math
import re
from collections.abc import Callable, Sequence

from PIL import Image

from xaihelpers.ask.messages import AskError, Request

TURN = 4  # tokens that a chat template puts around a turn
LETTERS_A_TOKEN = 7  # a word of common English is one token up to here
FAMILIES = ("openai", "openai-mini", "qwen2-vl", "llama-3.2-vision", "internvl", "llava")


def image_tokens(family: str, width: int, height: int) -> int:
    """Tokens of one image in the prompt of a model of this family.

    width, height: in pixels. Llama-3.2-Vision reads these in layers of their own (cross-attention).
    Raises AskError: a family that is not one of FAMILIES.
    """
    if family in ("openai", "openai-mini"):
        base, of_tile = (85, 170) if family == "openai" else (2833, 5667)
        return base + of_tile * _openai_tiles(width, height)
    if family == "qwen2-vl":
        rows, columns = _qwen_sides(width, height)
        return rows * columns // 28**2
    if family == "llama-3.2-vision":
        return 1601 * _llama_tiles(width, height)
    if family == "internvl":
        tiles = _internvl_tiles(width, height)
        return 256 * (tiles + (tiles > 1))
    if family == "llava":
        return 576
    raise AskError(f"there is no tile rule for {family!r}: known are {', '.join(FAMILIES)}")


def text_tokens(text: str, tokenise: Callable[[str], Sequence] | None = None) -> int:
    """Tokens of a text: by a tokeniser, or by rule of thumb.

    The rule: a word is one token for each seven letters begun, a number one for each three digits begun, a
    mark one. It is meant for English, and within a fifth of common byte-pair vocabularies there.
    """
    if tokenise is not None:
        return len(tokenise(text))
    count = 0
    for piece in re.findall(r"[^\W\d_]+|\d+|[^\w\s]|_", text):
        length = 3 if piece[0].isdigit() else LETTERS_A_TOKEN
        count += math.ceil(len(piece) / length)
    return count


def request_tokens(
    request: Request,
    family: str = "openai",
    tokenise: Callable[[str], Sequence] | None = None,
    of_image: int = 0,
) -> int:
    """Tokens of a whole request: turns, texts, images.

    of_image: tokens of each image in place of the family's rule. Raises AskError as `image_tokens` does, and
    for an image that cannot be read.
    """
    count = 0
    for turn in request.turns:
        count += TURN + text_tokens(turn.text, tokenise)
        for image in turn.images:
            count += of_image or image_tokens(family, *_size(image))
    return count


def _size(image) -> tuple[int, int]:
    if isinstance(image, Image.Image):
        return image.size
    try:
        with Image.open(image) as opened:  # its header alone is read
            return opened.size
    except OSError as error:
        raise AskError(f"{image}: no image that can be read. Restore it, or leave it out.") from error


def _openai_tiles(width: int, height: int) -> int:
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (scale * min(width, height)))
    return math.ceil(round(width * scale, 6) / 512) * math.ceil(round(height * scale, 6) / 512)


def _qwen_sides(width: int, height: int) -> tuple[int, int]:
    least, most = 56**2, 28**2 * 16384
    sides = [max(28, round(side / 28) * 28) for side in (height, width)]
    if sides[0] * sides[1] > most:
        shrink = math.sqrt(height * width / most)
        sides = [max(28, math.floor(side / shrink / 28) * 28) for side in (height, width)]
    elif sides[0] * sides[1] < least:
        grow = math.sqrt(least / (height * width))
        sides = [math.ceil(side * grow / 28) * 28 for side in (height, width)]
    return sides[0], sides[1]


def _llama_tiles(width: int, height: int, side: int = 560, most: int = 4) -> int:
    """Tiles of the layout into which the image fits with the least scaling down, else up."""
    layouts = [(c, r) for c in range(1, most + 1) for r in range(1, most + 1) if c * r <= most]
    scales = {(c, r): min(c * side / width, r * side / height) for c, r in layouts}
    growing = [scale for scale in scales.values() if scale >= 1]
    chosen = min(growing) if growing else max(scales.values())
    return min(c * r for (c, r), scale in scales.items() if scale == chosen)


def _internvl_tiles(width: int, height: int, side: int = 448, most: int = 12) -> int:
    """Tiles of the layout whose shape is nearest the image's; of equal ones the larger if it is filled."""
    layouts = [(c, r) for c in range(1, most + 1) for r in range(1, most + 1) if c * r <= most]
    layouts.sort(key=lambda layout: layout[0] * layout[1])
    best, nearest = (1, 1), math.inf
    for columns, rows in layouts:
        apart = abs(width / height - columns / rows)
        fills = apart == nearest and width * height > 0.5 * side**2 * columns * rows
        if apart < nearest or fills:
            best, nearest = (columns, rows), apart
    return best[0] * best[1]
