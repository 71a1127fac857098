"""What fits on a slide of 1280 by 720 pixels: where points stand, how large tables and equations are."""

import base64
import math
import re
import struct

from bs4 import BeautifulSoup

from xaihelpers.teaching.slides import Slide

ROOM = 1184, 636  # what title, points and output share
TITLE, POINT = 58, 36  # heights: a line of a title, of a point
ASIDE = 340  # width of the points beside a figure
LARGE, SMALL = 24, 18  # type, in pixels
# commands of LaTeX that draw no letter
NO_LETTERS = (
    "text|mathrm|mathcal|mathbb|operatorname|hat|bar|tilde|overline|frac|tfrac|sqrt|bigl|bigr|Bigl|Bigr"
)


def look(slide: Slide) -> str:
    """Whether the points stand above what is shown or beside it, whichever leaves a figure larger."""
    if slide.output.get("type") != "image/png" or slide.code or not slide.points:
        return "below"
    # width and height stand in the header of a PNG
    width, height = struct.unpack(">II", base64.b64decode(slide.output["data"])[16:24])
    below = min(ROOM[0] / width, (ROOM[1] - TITLE - POINT * len(slide.points)) / height)
    beside = min((ROOM[0] - ASIDE) / width, (ROOM[1] - TITLE) / height)
    return "beside" if beside > 1.05 * below else "below"


def _room(slide: Slide) -> int:
    """Height that is left for what is shown."""
    code = len(slide.code.splitlines()) * 1.35 * SMALL + 24 if slide.code else 0
    return int(ROOM[1] - TITLE - POINT * len(slide.points) - code)


def rows_that_fit(slide: Slide, size: int) -> int:
    """Rows of a table, or lines of printed text, for which there is room at a size of type."""
    padding, caption = (9, 34) if slide.output["type"] == "text/html" else (0, 8)
    wraps = math.ceil(_width_of_output(slide, size) / ROOM[0])
    return max(3, int((_room(slide) - caption) / (1.35 * size * wraps + padding)))


def _width_of_output(slide: Slide, size: int) -> float:
    """Pixels that a table or printed text would need without line breaks, about."""
    if slide.output["type"] == "text/plain":
        return 0.61 * size * max(map(len, slide.output["data"].splitlines()))
    table = [[len(cell) for cell in row] for row in _texts_of(slide.output["data"])]
    columns = max(map(len, table), default=0)
    letters = sum(max((row[i] for row in table if i < len(row)), default=0) for i in range(columns))
    return 0.46 * size * letters + 24 * columns


def size_of_output(slide: Slide) -> int:
    """Type of a table or of printed text: as large as fits, and never below the smallest that is read."""
    if slide.output.get("type") not in ("text/html", "text/plain"):
        return LARGE
    data = slide.output["data"]
    lines = len(_texts_of(data) if slide.output["type"] == "text/html" else data.rstrip().splitlines())
    for size in range(LARGE, SMALL, -1):
        if _width_of_output(slide, size) <= ROOM[0] and lines <= rows_that_fit(slide, size):
            return size
    return SMALL


def equations_of(slide: Slide) -> list[str]:
    """The equations of a cell; what a wide space parts stands on lines of its own."""
    if slide.kind != "cell":
        return []
    return [part.strip() for line in slide.body.split("$$")[1::2] for part in re.split(r"\\qquad", line)]


def size_of_equations(slide: Slide) -> int:
    """Type of the equations: as large as the longest allows, by its letters without commands and braces."""
    longest, equations = 1, equations_of(slide)
    for line in equations:
        letters = re.sub(rf"\\({NO_LETTERS})(?![a-zA-Z])|[{{}}^_\s]", "", line)
        longest = max(longest, len(re.sub(r"\\[a-zA-Z]+|\\.", "x", letters)))
    # of each a line with a fraction, and what parts it from the next
    high = _room(slide) / (3.2 * max(1, len(equations)))
    return int(max(SMALL, min(40, high, ROOM[0] / (0.62 * longest))))


def _texts_of(table: str) -> list[list[str]]:
    rows = BeautifulSoup(table, "html.parser").find_all("tr")
    return [[" ".join(cell.get_text().split()) for cell in row.find_all(["th", "td"])] for row in rows]
