"""What an answer says, its thoughts apart: the option that it names, a number, JSON. Nothing is guessed.

Full-width letters and digits are read as plain ones. What can be read in two ways is not read.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from xaihelpers.ask.thoughts import split_reasoning
from xaihelpers.text_files import words

# Thai and Lao, Burmese, Khmer, Japanese, Chinese, Korean
WITHOUT_SPACES = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
# letters that are words, too, and are one before a word, but for these, which follow no article or pronoun
AFTER_BOTH = "is seems looks appears has shows fits matches describes because since and or "
PROSE = {
    "A": AFTER_BOTH + "was would does did could should as for with from to in at by than but due",
    "I": AFTER_BOTH,
}
BEFORE_OPTION = re.compile(r"\b(?:option|choice|letter)s?:?\s*[\W_]*\Z", re.I)
NOT_BEFORE = re.compile(
    r"(?:\bnot|n['’]t|\bcannot|\bnever|\bneither|\bnor|\bexcept|\bexclud\w+|\bruling out|\brules? out"
    r"|\bthan|\bunlike|\beliminat\w+|\breject\w*|\binstead of|\bnone of|\b(?:all|anything) but|\bhardly"
    r"|\bapart from)(?: a| an| be| choose| select| pick| say| tell)?(?: the)?"
    r"(?: (?:options?|choices?|letters?|answers?))?\s*[\W_]*\Z",
    re.I,
)
NOT_AFTER = re.compile(
    r"[)\]*\"'”’~]*\s+(?:(?:is|are|was|were|does|do|did|has|have|would|could|can|seems?)\s?(?:be )?)?"
    r"(?:not\b|n['’]t\b|clearly not\b|wrong\b|incorrect\b|false\b|unlikely\b|impossible\b|ruled out\b"
    r"|eliminated\b|excluded\b)",
    re.I,
)
# in another language: what it rejects is not looked for
REJECTS = re.compile(
    r"[不非没]|ない|ません|ไม่|아니|않"
    r"|\b(?:nicht|keine?[nrs]?|n['’]est pas|no es|não|non è|niet|geen|не)\b",
    re.I,
)
BOXED = re.compile(r"\\boxed\s*\{\s*(?:\\\w+\s*\{)*([^{}]*)\}")
ANSWER_KEY = re.compile("answer|option|choice|letter|select|rating")  # of a JSON object
# a number, its decimals after a point or a comma, and the rest of its line
NUMBER = re.compile(r"[^\w<>≤≥±+−]*?(?<![\d.,–-])(\d+(?:[.,]\d{1,2})?)(?![\dA-Za-z]|[.,]\d)(.*)")
COUNTS = dict(zip("two three four five six seven eight nine ten".split(), range(2, 11), strict=True))
COUNTS["hundred"] = 100
_END = rf"(\d+(?:[.,]\d+)?|{'|'.join(COUNTS)})\b"
# the end of the scale that a number is said to be on
SCALE = re.compile(
    rf"(?:/|\b(?:of|von|sur|su|de|из)\b|\bscale\b\D{{0,12}}?|\bmax\w*\b\D{{0,4}}?)\s*"
    rf"(?:\d+\s*(?:-|–|to)\s*)?{_END}|\b\d+\s*(?:-|–|to)\s*{_END}|{_END}[- ]points?\b",
    re.I,
)
# beside a number: a percentage, another number to choose from, a fraction of one
NO_NUMBER = re.compile(
    rf"[%‰+\d]|per\s?cent|\b(?:or|to|and)\s+(?:an?\s|one\s)?(?:half|third|quarter|{'|'.join(COUNTS)})\b",
    re.I,
)
BOUND = re.compile(r"\b(?:at least|at most|above|below|over|under|up to|more|less|between)\s*\Z", re.I)
FRACTION = re.compile(r"(\d*)[ \t]*([¼½¾⅐-⅞])")  # "3½" in one character, which else became 31/2


def as_read(text: str) -> str:
    """A text with its full-width and other compatible characters plain, and fractions of one as decimals."""

    def decimals(found: re.Match) -> str:
        return f"{int(found[1] or 0) + unicodedata.numeric(found[2]):.9g}"

    return unicodedata.normalize("NFKC", FRACTION.sub(decimals, text)).replace("⁄", "/")


def json_values(text: str, opening: str, cut: bool = False) -> Iterator[tuple[int, int, dict | list]]:
    """Start, end and content of each JSON object ("{") or list ("[") of a text; of one within another, too.

    An object in which a name stands twice is none: of two values the last would be taken without a word.

    cut: whether max_tokens ended the answer. It then has to begin with the JSON, or holds none: what stands
        behind other words may be the draft of a thought.
    """
    if cut and not re.match(rf"\s*(?:```\w*\s*)?{re.escape(opening)}", text):
        return

    def distinct(pairs: list[tuple[str, object]]) -> dict:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a name stands twice")
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=distinct)
    for found in re.finditer(re.escape(opening), text):
        try:
            value, end = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        yield found.start(), end, value


def named_option(
    text: str, options: Sequence[str], names: Sequence[str] = (), cut: bool = False
) -> str | None:
    """The one of the options (A, B, …; or words, in any case) that an answer names.

    That is an option alone, or at the beginning before a mark ("B", "(B)", "**B**", "B. House"), and
    otherwise the one that stands by itself ("I select B.", "Option B is best", "答案是B"). Where there is a
    `\\boxed{}`, or a JSON object with a key like "answer", only what stands there counts. An "A" before a
    word is an article ("A bird", "A Clark Nutcracker"), and an "I" a pronoun, unless "option" stands before
    it or a verb after it.

    names: what each option stands for: "A Blue Jay" is option A where that is the Blue Jay.
    cut: whether max_tokens ended the answer. Only what it begins with counts then.

    None where no option is named, several are ("A or B", "B. No, C."), or one is only rejected ("not B",
    "不是B").
    """
    options, text = tuple(options), _final_words(as_read(text))
    if text.strip() in options:
        return text.strip()
    if REJECTS.search(text):
        return None
    text = WITHOUT_SPACES.sub(" ", text).replace("_", " ").strip()
    named, rejected = set(), set()
    for _, found, is_rejected in _mentions(text, options, names):
        (rejected if is_rejected else named).update(found)
    one = _one_of(options)
    leading = re.match(rf"\W*({one})(?:\W*$|\W*\n|\s*[.,):]|\s[-–—]\s)", text)
    # an answer that begins with its option may say of others why not
    if len(named) != 1 or named & rejected or (not leading and (rejected or cut)):
        return None
    (option,) = named
    return option if not leading or _as_option(leading[1], options) == option else None


def option_step(
    tokens: Sequence,
    decode: Callable[[Sequence], str],
    options: Sequence[str],
    cut: bool = False,
    opened: str = "",
) -> int | None:
    """At which of an answer's tokens the option that it names begins; None where it names none.

    decode: tokens -> text. cut: as of `named_option`. opened: the mark of a thought that the prompt opens.
    """
    text, _ = split_reasoning(opened + decode(tokens))
    option = named_option(text, options, cut=cut)
    starts = [start for start, found, _ in _mentions(text, options) if found[0] == option]
    for step in reversed(range(len(tokens) if starts else 0)):
        before, _ = split_reasoning(opened + decode(tokens[:step]))
        if len(before) <= starts[0] or not text.startswith(before):
            return step
    return None


def _one_of(options: Sequence[str]) -> str:
    """A pattern of any of the options: letters as they are, words in any case."""
    longest_first = sorted(options, key=len, reverse=True)
    return "|".join(re.escape(one) if len(one) == 1 else f"(?i:{re.escape(one)})" for one in longest_first)


def _as_option(text: str, options: Sequence[str]) -> str:
    """The option as it was given."""
    return text if text in options else next(one for one in options if one.casefold() == text.casefold())


def _mentions(
    text: str, options: Sequence[str], names: Sequence[str] = ()
) -> Iterator[tuple[int, list[str], bool]]:
    """Where options stand by themselves, which are enumerated together, and whether they are rejected."""
    one = rf"(?:{_one_of(options)})"
    apart = r"(?:\s*(?:[,/&]\s*(?:and\b|or\b)?|\band\b|\bor\b)\s*|[ \t]+)"
    enumerated = rf"{one}(?:{apart}{one})*"
    alone = rf"(?<!\w)(?<!\w['’-])(?<![A-Z]\.)(?<!\d[.,]){enumerated}(?!\w|['’]\w|-\w|[.,/]\d)"
    for match in re.finditer(alone, text):
        found = [_as_option(each, options) for each in re.findall(rf"(?<!\w){one}(?!\w)", match[0])]
        before, after = text[: match.start()], text[match.end() :]
        following = re.match(r"[ \t]+[\"'“‘«*`]*(\w+)", after)
        if found[-1] in PROSE and following and not BEFORE_OPTION.search(before):
            own = dict(zip(options, names, strict=False)).get(found[-1])
            is_named = bool(own) and words(after).startswith(words(own))
            if not is_named and following[1].casefold() not in PROSE[found[-1]].split():
                found.pop()
        if found:
            yield match.start(), found, bool(NOT_BEFORE.search(before) or NOT_AFTER.match(after))


def _final_words(text: str) -> str:
    """What a text marks as its answer, in `\\boxed{}` or JSON under an `ANSWER_KEY`; else all of it."""
    if boxed := BOXED.findall(text):
        return "\n".join(boxed)
    marked = []
    for _, _, found in json_values(text, "{"):
        of_keys = [value for key, value in found.items() if ANSWER_KEY.search(key.casefold())]
        marked += [str(value) for value in of_keys if isinstance(value, str | int | float)]
    return "\n".join(marked) or text


def parse_score(text: str, highest: int = 5) -> float | None:
    """The number that a text begins with, on a scale that ends at `highest`; None for any other.

    "3.5", "3,5", "3½" and "4 out of 5" are numbers. A percentage, a number on another scale ("7/10"), a
    range, one before another number in the line, with a sign ("-1", "> 3", "4+") or letters ("4th") is None.
    """
    match = NUMBER.match(as_read(text))
    if match is None:
        return None
    ends = [end.lower() for found in SCALE.findall(match[2]) for end in found if end]
    if any(float(COUNTS.get(end) or end.replace(",", ".")) != highest for end in ends):
        return None
    if NO_NUMBER.search(SCALE.sub("", match[2])):
        return None
    score = float(match[1].replace(",", "."))
    return score if score <= highest else None


def parse_rating(text: str, highest: int) -> float | None:
    """The only number in an answer of a few words, as of `parse_score`; None where there are several."""
    line = " ".join(_final_words(as_read(text)).split())
    before, number = re.fullmatch(r"(.*?)((?:[-–−+<>≤≥±]\s?)?\d.*|)", line).groups()
    if NOT_BEFORE.search(before) or BOUND.search(before):
        return None
    return parse_score(number, highest)
