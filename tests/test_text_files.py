"""Text as people save it: read alike whatever wrote it, or refused with the file, the line and the remedy."""

import unicodedata

import numpy as np
import pytest

from xaihelpers import text_files
from xaihelpers.text_files import TextFileError

ROWS = [["image", "text", "split"], [" a.png ", "NA", "Train"], ["Möwe.png", '"x, y"', "TEST"]]


@pytest.mark.parametrize(
    "ending, mark, form", [("\n", "", "NFC"), ("\r\n", "\ufeff", "NFD"), ("\r", "", "NFD")]
)
def test_a_table_is_read_alike_whatever_wrote_it(tmp_path, ending, mark, form):
    lines = [",".join(row) for row in ROWS]
    text = unicodedata.normalize(form, mark + ending.join([lines[0], "", *lines[1:], "", ""]))
    (tmp_path / "a.csv").write_bytes(text.encode())
    table = text_files.read_table(tmp_path / "a.csv", ["image", "split"])
    values = {"image": ["a.png", "Möwe.png"], "text": ["NA", "x, y"], "split": ["Train", "TEST"]}
    assert table.to_dict("list") == values
    assert table.index.tolist() == [3, 4]  # lines of the file
    assert text_files.are_training(table["split"], "a.csv").tolist() == [True, False]


def test_tables_that_cannot_be_read_as_they_stand(tmp_path):
    file = tmp_path / "a.csv"
    for content, message in (
        (b"image,text\n", "has no row; its columns: 'image', 'text'"),
        (b"image;text\na;b\n", "separated by ';': save it with commas"),
        (b"image,text,text\na,b,c\n", "the column 'text' stands twice"),
        (b"image,text\na,b\n\nc,d,e\n", "line 4: 3 values under 2 columns"),
        (b'image,text\na,"b\nc,d\n', "is a quotation mark open"),
        ("image,text\na,Möwe\n".encode("latin-1"), r"is not UTF-8 \(byte 14\)"),
    ):
        file.write_bytes(content)
        with pytest.raises(TextFileError, match=f"a.csv.*{message}"):
            text_files.read_table(file, ["image"])
    with pytest.raises(TextFileError, match="b.csv cannot be read .No such file"):
        text_files.read_text(tmp_path / "b.csv")


def test_splits_and_numbers_in_any_spelling_that_is_one(tmp_path):
    def column(*values):
        (tmp_path / "a.csv").write_text("image,value\n" + "".join(f'i,"{value}"\n' for value in values))
        return text_files.read_table(tmp_path / "a.csv")["value"]

    good = column("train", "TRAINING", " 1", "Test", "testing ", "0")
    assert text_files.are_training(good, "a.csv").tolist() == [True] * 3 + [False] * 3
    for wrong in ("tain", "", "2", "yes"):
        with pytest.raises(TextFileError, match=f"a.csv, line 3: value is '{wrong}': write train or test"):
            text_files.are_training(column("train", wrong), "a.csv")
    good = text_files.numbers(column("4", " 2.5 ", "1e0", ""), "a.csv", 0, 5, empty_ok=True)
    np.testing.assert_array_equal(good, [4, 2.5, 1, np.nan])
    for wrong in ("4/5", "4,0", "6", "-1", "nan", "inf", "1_0", "four", ""):
        with pytest.raises(
            TextFileError, match=f"a.csv, line 3: value is '{wrong}', not a number from 0 to 5"
        ):
            text_files.numbers(column("4", wrong), "a.csv", 0, 5)


def test_lists_keep_their_first_line_and_every_place(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffn01440764\r\n cat \r\n\r\n".encode())
    assert text_files.read_names(tmp_path / "a.txt") == ["n01440764", "cat"]
    (tmp_path / "a.txt").write_text("cat\n\ndog\n")
    assert text_files.read_names(tmp_path / "a.txt") == ["cat", "dog"]
    with pytest.raises(TextFileError, match="a.txt: line 2 is empty"):
        text_files.read_names(tmp_path / "a.txt", every_line=True)


NAMES = ["red crown", "blue wings", "3-toed foot", "tail, long"]
DECORATED = {
    "numbers": [f"{n}. {name}" for n, name in enumerate(NAMES, 1)],
    "brackets": [f"{n}) {name}" for n, name in enumerate(NAMES)],
    "one number for all": [f"1. {name}" for name in NAMES],
    "letters": [f"({letter}) {name}" for letter, name in zip("abcd", NAMES, strict=True)],
    "a number alone": [f"{n} {name}" for n, name in enumerate(NAMES, 1)],
    "a dash behind the number": [f"{n} - {name}" for n, name in enumerate(NAMES, 1)],
    "bullets": [f"{mark} {name}" for mark, name in zip("-*•–", NAMES, strict=True)],
    "bold": [f"**{name}**" for name in NAMES],
    "quotes and commas": [f'"{name}",' for name in NAMES],
    "other quotes": [f"“{NAMES[0]}”", f"'{NAMES[1]}'", f"`{NAMES[2]}`", f"«{NAMES[3]}»"],
    "sentences": [f"{name}." for name in NAMES],
    "all at once": [f"- {n}. **“{name}”**;" for n, name in enumerate(NAMES, 1)],
}


@pytest.mark.parametrize("lines", DECORATED.values(), ids=DECORATED)
def test_lists_as_people_and_language_models_write_them_are_the_bare_names(tmp_path, lines):
    (tmp_path / "a.txt").write_text("\n".join(lines))
    assert text_files.read_names(tmp_path / "a.txt") == NAMES


def test_names_that_begin_with_marks_of_their_own_stay(tmp_path):
    for names in (
        ["1.0", "1.5 l bottle", "3-toed", "2 eyes", "-1", "A. thaliana", "'Apapane", '"Police" markings'],
        ["1 dot", "2 dots"],
        ["1. red crown", "b. blue wings"],
        ["707-320", "737-200"],
        ["2 legs", "4 legs", "6 legs"],
        ["-", "+", "*", "#", "|", "etched designs:"],
    ):
        (tmp_path / "a.txt").write_text("\n".join(names))
        assert text_files.read_names(tmp_path / "a.txt") == names


def test_lines_of_a_list_that_are_no_names_are_refused_by_their_line(tmp_path):
    for text, line in (
        ("Here are two concepts:\n\nred crown\nblue wings", 1),
        ("# Head\nred crown", 1),
        ("- **red crown**: the feathers on its head\n- **blue wings**: those", 1),
        ("red crown\n---\nblue wings", 2),
        ("```\nred crown\n```", 1),
        ('["red crown", "blue wings"]', 1),
        ('[\n"red crown",\n"blue wings"\n]', 1),
        ("1. red crown\n2. blue wings\nlong tail", 3),
        ('red crown\n"blue wings', 2),
    ):
        (tmp_path / "a.txt").write_text(text)
        with pytest.raises(
            TextFileError, match=f"a.txt, line {line}: .* is no bare name: write one name a line"
        ):
            text_files.read_names(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(TextFileError, match="a.txt is empty: write one name a line"):
        text_files.read_names(tmp_path / "a.txt")


def test_two_names_never_become_one():
    for first, second in (("sea_gull", "sea gull"), ("A", "a"), ("Mo\u0308we", "Möwe"), ("owl", "owl ")):
        with pytest.raises(TextFileError, match=f"birds: {first!r} and {second!r} would be one and the same"):
            text_files.require_distinct(["other", first, second], "birds")
    text_files.require_distinct(["sea-gull", "sea gull", "seagull", "1", "1.0"], "birds")
