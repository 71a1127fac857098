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
from xaihelpers.ask.messages import open_image, request_keys, request_records, split_reasoning


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


def test_prompts_are_filled_in_and_errors_name_file_and_field(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text('\ufeffDescribe {entity} as {"Background": "…"}.\r\n')
    assert ask.prompt(own, entity="a {jay}") == 'Describe a {jay} as {"Background": "…"}.'
    assert ask.lettered_options(["jay", "owl"]) == "A. jay\nB. owl"
    with pytest.raises(ask.AskError, match=r"own.txt: the prompt has no place for \{options\}"):
        ask.prompt(own, options="x")
    with pytest.raises(ask.AskError, match="no prompt that can be read.*fse_chain"):
        ask.prompt("fse_chian", entity="x")
