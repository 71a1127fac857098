"""Requests, images, reasoning and prompts: what is read, and what is refused."""

import base64
import hashlib
import io
import json

import numpy as np
import pytest
from colour_profiles import PROPHOTO, SRGB
from PIL import Image

from xaihelpers import ask
from xaihelpers.ask.chat_completions import data_url
from xaihelpers.ask.messages import open_image, request_keys, request_records
from xaihelpers.ask.reading import named_option, parse_rating
from xaihelpers.ask.thoughts import split_reasoning


def keys_of(*images):
    return request_keys(request_records([ask.request("q", image) for image in images]), "m", {})


def test_requests_that_cannot_be():
    with pytest.raises(ask.AskError, match="options must be different: 'A', 'A'"):
        ask.request("x", options="AA")
    with pytest.raises(ask.AskError, match="max_tokens is 0: an answer needs at least 1"):
        ask.request("x", max_tokens=0)


def test_a_picture_in_memory_counts_by_its_pixels():
    palette = [Image.new("P", (2, 2)) for _ in range(2)]
    palette[1].putpalette([9, 9, 9] * 256)
    red = Image.new("RGB", (6, 4), (200, 10, 10))
    keys = keys_of(red, red.copy(), *palette, Image.new("RGB", (4, 6), (200, 10, 10)))
    assert keys[0] == keys[1] and len(set(keys)) == 4


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


GRADIENT = Image.fromarray(np.linspace(0, 255, 20 * 12 * 3).astype(np.uint8).reshape(12, 20, 3))
# what programs show in different ways -> picture, and how it is saved
UNLIKE = {
    "turned.jpg": (GRADIENT, {"exif": turned(3)}),
    "sixteen_bits.png": (Image.fromarray(np.full((4, 4), 9000, np.uint16)), {}),
    "transparent.png": (Image.new("RGBA", (6, 4), (200, 10, 10, 51)), {}),
    "print.jpg": (Image.new("CMYK", (6, 4), (255, 0, 0, 0)), {}),
    "other_colours.jpg": (GRADIENT, {"icc_profile": PROPHOTO}),
    "other_colours.png": (GRADIENT.convert("P"), {"icc_profile": PROPHOTO}),
}


def test_such_a_picture_is_sent_as_people_see_it_under_a_key_of_its_own(tmp_path):
    for name, (picture, how) in UNLIKE.items():
        picture.save(tmp_path / name, **how)
        sent = Image.open(io.BytesIO(base64.b64decode(data_url(tmp_path / name).split(",")[1])))
        with Image.open(tmp_path / name) as opened:
            assert sent.tobytes() == open_image(tmp_path / name).tobytes() == open_image(opened).tobytes()
            in_memory, of_file = keys_of(opened, tmp_path / name)
        assert of_file == in_memory != key_by_hand((tmp_path / name).read_bytes())


def test_others_are_sent_as_they_are_under_the_key_that_they_had(tmp_path):
    for name, mode in (("a.png", "RGB"), ("a.png", "P"), ("a.jpg", "RGB"), ("a.jpg", "L")):
        file = tmp_path / name
        GRADIENT.convert(mode).save(file, exif=turned(1), icc_profile=SRGB)
        head, content = data_url(file).split(",")
        assert head == f"data:image/{name[2:].replace('jpg', 'jpeg')};base64"
        assert base64.b64decode(content) == file.read_bytes()
        assert keys_of(file) == [key_by_hand(file.read_bytes())]
        file.rename(tmp_path / "wrong.gif")
        assert data_url(tmp_path / "wrong.gif") == f"{head},{content}", "by content, not by name"


def key_by_hand(content):
    """The key of the request "q" to model "m" with one picture, as it has always been."""
    turns = [["user", "q", [hashlib.sha256(content).hexdigest()]]]
    return hashlib.sha256(json.dumps(["m", {}, [], 256, turns], sort_keys=True).encode()).hexdigest()


def test_reasoning_is_split_from_the_answer():
    for text, apart, answer, reasoning in (
        ("<think>it is red</think>A", "", "A", "it is red"),
        (" A ", "it is red", "A", "it is red"),
        ("<think>never ends", "", "", "never ends"),
        ("opened by the template</think>\n\nB", "", "B", "opened by the template"),
        ("<think>a</think>B<think>c</think>D", "", "BD", "a\nc"),
    ):
        assert split_reasoning(text, apart) == (answer, reasoning)


THOUGHT = "it may be A, or C"
MARKED = (  # {} is where the thought stands
    "<thinking>{}</thinking>B",
    "{}</thinking>B",
    "<seed:think>{}</seed:think>B",
    "◁think▷{}◁/think▷B",
    "[THINK]{}[/THINK]B",
    "{}[/THINK]B",
    "<|begin_of_thought|>{}<|end_of_thought|>\n<|begin_of_solution|>B<|end_of_solution|>",
    "<|START_THINKING|>{}<|END_THINKING|><|START_RESPONSE|>B<|END_RESPONSE|>",
    "<|inner_prefix|>{}<|inner_suffix|>B",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>B<|return|>",
    "analysisWell, {}assistantfinalB",
    "<|channel>thought\n{}<channel|>B",
    "<|open|>think<|sep|>{}<|close|>think<|sep|><|open|>response<|sep|>B<|close|>response<|sep|>",
    "<reasoning>{}</reasoning><answer>B</answer>",
    "<thinking>Well. <reflection>No.</reflection> {}</thinking><output>B</output>",
    "<SUMMARY>s</SUMMARY><CAPTION>c</CAPTION><REASONING>{}</REASONING><CONCLUSION>B</CONCLUSION>",
    "<think>{} <answer>A</answer></think><answer>B</answer>",
    "<think>\n<think>{}</think>B",
    "Here is my thought process:\n{}\nHere is my response:\nB",
    "Here are my reasoning steps:\n{}\n[BEGIN FINAL RESPONSE]\nB\n[END FINAL RESPONSE]",
    "## Thinking\n\n{}\n\n## Final Response\n\nB",
    "<|begin_of_box|>B<|end_of_box|> {}",
)


def test_no_draft_of_a_thought_is_an_answer_whatever_marks_it():
    for form in MARKED:
        answer, reasoning = split_reasoning(form.format(THOUGHT))
        assert answer == "B" and THOUGHT in reasoning, form
    for form in MARKED[:-1]:
        cut = form.format(THOUGHT).partition(", or C")[0]
        if not cut.startswith("it"):  # a thought that only the prompt has opened
            assert split_reasoning(cut)[0] == "", form
    for text in ("It is <b>B</b>, 3 < 4 > 2.", "<box>(1,2)</box> B", "[A] B", "A winner: <winner>B</winner>"):
        assert split_reasoning(text) == (text, "")


def test_a_thought_stands_apart_whoever_answered(tmp_path, monkeypatch):
    """A function of one's own, or the answers that are kept."""
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    (tmp_path / "mine.py").write_text("def answer(requests): return ['<thinking>A or C</thinking>B']")
    for _ in range(2):
        (answer,) = ask.ask(ask.load_vlm(f"python:{tmp_path / 'mine.py'}"), [ask.request("which")])
        assert (answer.text, answer.reasoning) == ("B", "A or C")


def test_a_rating_is_the_only_number_of_an_answer():
    for text, rating in {
        "3": 3,
        "**3**": 3,
        "３": 3,
        "Rating: 3 out of 4.": 3,
        "3 - it fits on the whole": 3,
        '{"rating": 3, "why": "2 of them fit"}': 3,
        "2 of the features fit. Rating: 3": None,
        "All is right.\n2 features fit.\nRating: 3": None,
        "1 - it does not fit\n2 - it fits in part": None,
        "not 3": None,
        "at least 3": None,
        "3 of 10": None,
        "-3": None,
        "": None,
    }.items():
        assert parse_rating(text, 4) == rating, text


def test_an_option_may_be_a_word():
    for text, option in (("Yes, it is.", "yes"), ("No.", "no"), ("yes or no", None), ("not yes", None)):
        assert named_option(text, ("yes", "no")) == option


def test_prompts_are_filled_in_and_errors_name_file_and_field(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text('\ufeffDescribe {entity} as {"Background": "…"}.\r\n')
    assert ask.prompt(own, entity="a {jay}") == 'Describe a {jay} as {"Background": "…"}.'
    assert ask.lettered_options(["jay", "owl"]) == "A. jay\nB. owl"
    with pytest.raises(ask.AskError, match=r"own.txt: the prompt has no place for \{options\}"):
        ask.prompt(own, options="x")
    with pytest.raises(ask.AskError, match="no prompt that can be read.*fse_chain"):
        ask.prompt("fse_chian", entity="x")
