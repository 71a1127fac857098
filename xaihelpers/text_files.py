"""Text files as people save them: lines, tables, numbers, and one comparison of names.

Whatever a user gives as text is read here, so that it is read alike: UTF-8 with or without a byte order mark,
any line ending, blanks around a value gone, letters composed (Unicode NFC), "None" and "NA" as texts. What
cannot be read as it stands is refused with the file, the line and the remedy.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

# what people and language models write before a name in a list, and around it
BULLET = re.compile(r"\A(?:[-*+]\s|[•‣◦▪●○∙·–—])\s*(?=\S)")
NUMBER = re.compile(r"[(\[#]?(\d+|[A-Za-z])[.):\]]+\s+(?=\S)")
# a number that may be a name's own, as in "2 eyes": 1.0 and 3-toed are none
SHORT_NUMBER = re.compile(r"(\d+)(?:[.):](?=[^\W\d])|\s+[-–—]\s+|\s+)(?=\S)")
AROUND = [("**", "**"), ("__", "__"), *((mark, mark) for mark in "*`\"'"), *zip("“„‘«", "”“’»", strict=True)]
# a heading, a rule, a row of a table, a list in brackets, a name with a comment or half its marks
NO_NAME = re.compile(r"#+\s|>\s|\|.*\|$|[\[{].*[\"']|[\"“][^\"”]*$|[-=_*`]{3}|.*\*\*|$")
SPLITS = {"train": True, "training": True, "1": True, "test": False, "testing": False, "0": False}


class TextFileError(ValueError):
    """A text file that cannot be read as it stands; the message names it, the place and the remedy."""


def plain(text: object) -> str:
    """A text as it is compared everywhere: composed letters (NFC), no blanks around it."""
    return unicodedata.normalize("NFC", str(text)).strip()


def words(text: object) -> str:
    """A name as two names of one set are told apart: case, underscores and blanks make no difference."""
    return " ".join(plain(text).casefold().replace("_", " ").split())


def places(wanted: Sequence[str], held: Sequence[str]) -> tuple[list[int], list[str]]:
    """Where wanted names stand among those held, as `plain` compares them; and which stand nowhere."""
    place_of = {plain(name): place for place, name in enumerate(held)}
    found = [place_of.get(plain(name)) for name in wanted]
    missing = [name for name, place in zip(wanted, found, strict=True) if place is None]
    return [place for place in found if place is not None], missing


def read_text(file: str | Path) -> str:
    """The text of a file, composed (NFC). Raises TextFileError: it cannot be read, or is not UTF-8."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextFileError(f"{file} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise TextFileError(f"{file} cannot be read ({error.strerror or error}): give its path") from error
    return unicodedata.normalize("NFC", text)


def read_names(file: str | Path, every_line: bool = False) -> list[str]:
    """The names of a list, one a line, as `bare_names` has them; empty lines are passed over.

    every_line: an empty line inside is an error, for names that are known by their place.
    Raises TextFileError as `read_text` and `bare_names`, for no name, and for an empty line.
    """
    lines = dict(enumerate(map(plain, read_text(file).rstrip().split("\n")), 1))
    names = {number: line for number, line in lines.items() if line}
    if every_line and len(names) < len(lines):
        empty = min(set(lines) - set(names))
        raise TextFileError(f"{file}: line {empty} is empty: one entry a line is needed")
    if not names:
        raise TextFileError(f"{file} is empty: write one name a line")
    return bare_names(names, str(file))


def bare_names(lines: dict[int, str], what: str) -> list[str]:
    """Names as they are compared, of lines, by their numbers, as people and language models write lists.

    Numbers, letters or bullets before the names go, bold print and quotes around them, and commas behind, or
    points behind all. Only what every line begins with is a number, 1. or a), and one without a point must
    count them: "1.0" and "3-toed" are names.
    Raises TextFileError naming a line that is no bare name: a heading, a rule, a name with a comment.
    """
    names, before = [*lines.values()], []
    while names != before:
        before = names
        names = _without_numbers([_unwrapped(name) for name in names])
        if len(names) > 1 and all(name.endswith(".") for name in names):
            names = [name.removesuffix(".") for name in names]
    is_numbered = [bool(NUMBER.match(name)) and not name[0].isalpha() for name in names]
    some_lack = sum(is_numbered) > len(names) / 2
    # a heading, or the bracket of a list
    begins_otherwise = len(names) > 2 and (names[0].endswith(":") or names[0] + names[-1] in ("[]", "{}"))
    for line, name, has_number in zip(lines, names, is_numbered, strict=True):
        if begins_otherwise or NO_NAME.match(name) or (some_lack and not has_number):
            raise TextFileError(
                f"{what}, line {line}: {lines[line]!r} is no bare name: write one name a line"
            )
    return names


def _unwrapped(name: str) -> str:
    """A name without a bullet before it, a comma behind it, and marks around it."""
    name = BULLET.sub("", name)
    name = name.rstrip(",; ") or name
    for start, end in AROUND:
        inner = name[len(start) : -len(end)].strip()
        if name.startswith(start) and name.endswith(end) and inner and not {*start, *end} & {*inner}:
            return inner
    return name


def _without_numbers(names: list[str]) -> list[str]:
    """Names without the numbers or letters by which their list is numbered, if it is."""
    for form in (NUMBER, SHORT_NUMBER):
        found = [form.match(name) for name in names]
        if not all(found):
            continue
        marks = [one[1] for one in found]
        bare = [name[one.end() :] for name, one in zip(names, found, strict=True)]
        is_sure = form is NUMBER and all(map(str.isdigit, marks))
        places = [int(mark) if mark.isdigit() else ord(mark.lower()) - 96 for mark in marks]
        counts = places == [*range(places[0], places[0] + len(places))] and places[0] in (0, 1)
        if is_sure or (counts and len(set(bare)) == len(bare) > 2):
            return bare
    return names


def read_table(file: str | Path, columns: Sequence[str] = ()) -> pd.DataFrame:
    """A CSV table, every value a text, rows indexed by their line in the file; blank lines are left out.

    columns: those that the table must have; it may have more.
    Raises TextFileError as `read_text`; for a missing column, a column that stands twice, no row, or a row
        with another number of values than the header has.
    """
    reader = csv.reader(io.StringIO(read_text(file)), strict=True)
    rows = {}
    try:
        for row in reader:
            values = [value.strip() for value in row]
            if any(values):
                rows[reader.line_num] = values
    except csv.Error as error:
        raise TextFileError(f"{file}, line {reader.line_num}: {error}: is a quotation mark open?") from error
    head = rows.pop(min(rows), []) if rows else []
    missing = [name for name in columns if name not in head]
    if missing or not rows:
        wrong = f"has no column {missing[0]!r}" if missing else "has no row"
        other = [mark for mark in (";", "\t") if mark in "".join(head)]
        remedy = f" Its values are separated by {other[0]!r}: save it with commas." if other else ""
        raise TextFileError(f"{file} {wrong}; its columns: {', '.join(map(repr, head)) or 'none'}.{remedy}")
    twice = [name for name in head if head.count(name) > 1]
    if twice:
        raise TextFileError(f"{file}: the column {twice[0]!r} stands twice: keep one")
    for line, values in rows.items():
        if len(values) != len(head):
            wrong = f"{len(values)} values under {len(head)} columns"
            raise TextFileError(f"{file}, line {line}: {wrong}: a comma in a value needs quotation marks")
    return pd.DataFrame.from_dict(rows, orient="index", columns=head, dtype=str)


def numbers(
    column: pd.Series,
    file: str | Path,
    low: float = -np.inf,
    high: float = np.inf,
    empty_ok: bool = False,
) -> pd.Series:
    """A column of `read_table` as float64 within [low, high], NaN where it is empty and may be.

    Raises TextFileError naming the line of what is no such number.
    """
    # an underscore, which Python would pass over, is no digit
    found = pd.to_numeric(column.str.replace("_", "?"), errors="coerce").astype(float)
    wrong = ~(found.between(low, high) & np.isfinite(found))
    if empty_ok:
        wrong &= column != ""
    if wrong.any():
        line = wrong.idxmax()
        scale = f" from {low:g} to {high:g}" if np.isfinite([low, high]).all() else ""
        raise TextFileError(
            f"{file}, line {line}: {column.name} is {column[line]!r}, not a number{scale}: write it in "
            f"digits, with a point and no unit{', or leave it empty' if empty_ok else ''}"
        )
    return found


def are_training(column: pd.Series, file: str | Path) -> pd.Series:
    """Whether each row of a split column of `read_table` is for training, bool: by `SPLITS`, in any case.

    Raises TextFileError naming the line of any other value.
    """
    known = column.str.lower().map(SPLITS)
    if known.isna().any():
        line = known.index[known.isna()][0]
        raise TextFileError(
            f"{file}, line {line}: {column.name} is {column[line]!r}: write train or test (or 1 or 0)"
        )
    return known.astype(bool)


class _OnceLoader(yaml.SafeLoader):
    """YAML in which a name stands once: of two, the last would be taken without a word."""

    def construct_mapping(self, node, deep=False):
        """A mapping. Raises ConstructorError for a name that stands twice."""
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                problem = f"{key.value!r} stands twice: keep one of the two"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(file: str | Path) -> object:
    """What a YAML file holds. Raises TextFileError as `read_text`, and for what is no such YAML."""
    try:
        return yaml.load(read_text(file), _OnceLoader)
    except yaml.YAMLError as error:
        raise TextFileError(f"{file}: {error}") from error


def require_distinct(names: Iterable[str], what: str, said: Callable[[str], str] = plain) -> None:
    """Raise TextFileError for two names of `what` that are the same by `words`.

    said: what a name is shortened to elsewhere.
    """
    first = {}
    for name in names:
        key = words(said(name))
        if key in first:
            twice = f"{first[key]!r} and {name!r}"
            raise TextFileError(f"{what}: {twice} would be one and the same: rename one of them")
        first[key] = name


def on_disk(path: Path) -> Path:
    """A path in the spelling, composed or decomposed, in which a file of it is there; else as it is given."""
    if str(path).isascii():
        return path
    spelt = [Path(unicodedata.normalize(form, str(path))) for form in ("NFC", "NFD")]
    return next((one for one in (path, *spelt) if one.exists()), path)
