"""Requests, images, reasoning and prompts: what is read, and what is refused."""

import base64
import io

import pytest
from PIL import Image

from xaihelpers import ask


@pytest.fixture
def picture(tmp_path):
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    return tmp_path / "red.png"


class TestRequests:
    @pytest.mark.parametrize(
        "turns, options, limit, message",
        [
            ((ask.Turn("assistant", "A"),), (), 5, "ends with the user's turn"),
            ((ask.Turn("tool", "x"), ask.Turn("user", "y")), (), 5, "not of tool"),
            ((ask.Turn("user", "x"),), ("A", "A"), 5, "options must be different"),
            ((ask.Turn("user", "x"),), ("A", ""), 5, "options must be different"),
            ((ask.Turn("user", "x"),), (), 0, "at least 1"),
        ],
    )
    def test_requests_that_cannot_be(self, turns, options, limit, message):
        with pytest.raises(ask.AskError, match=message):
            ask.Request(turns, options, limit)

    def test_a_picture_in_memory_counts_by_its_pixels(self):
        palette = [Image.new("P", (2, 2)) for _ in range(2)]
        palette[1].putpalette([9, 9, 9] * 256)
        red = Image.new("RGB", (6, 4), (200, 10, 10))
        images = (red, red.copy(), *palette, Image.new("RGB", (4, 6), (200, 10, 10)))
        keys = ask.request_keys([ask.request("q", image) for image in images], "m", {})
        assert keys[0] == keys[1] and len(set(keys)) == 4


class TestImages:
    def test_half_an_image_is_named(self, tmp_path, picture):
        Image.effect_noise((80, 60), 90).convert("RGB").save(tmp_path / "half.jpg")
        for name, content in (
            ("half.jpg", (tmp_path / "half.jpg").read_bytes()[:900]),
            ("half.png", picture.read_bytes()[:50]),
            ("text.jpg", b"no image"),
        ):
            (tmp_path / name).write_bytes(content)
            for use in (ask.open_image, ask.data_url):
                with pytest.raises(ask.AskError, match=f"{name}: no image that can be read"):
                    use(tmp_path / name)

    def test_data_urls_hold_the_file_or_its_pixels(self, tmp_path, picture):
        Image.open(picture).save(tmp_path / "red.gif")
        (tmp_path / "wrong.jpg").write_bytes(picture.read_bytes())
        head, content = ask.data_url(picture).split(",")
        assert head == "data:image/png;base64" and base64.b64decode(content) == picture.read_bytes()
        assert ask.data_url(tmp_path / "wrong.jpg") == ask.data_url(picture), "by content, not by name"
        for image in (tmp_path / "red.gif", Image.new("RGBA", (6, 4), (200, 10, 10, 255))):
            opened = Image.open(io.BytesIO(base64.b64decode(ask.data_url(image).split(",")[1])))
            assert opened.format == "PNG" and opened.getpixel((0, 0)) == (200, 10, 10)


class TestReasoning:
    @pytest.mark.parametrize(
        "text, apart, answer, reasoning",
        [
            ("A", "", "A", ""),
            ("<think>it is red</think>A", "", "A", "it is red"),
            (" A ", "it is red", "A", "it is red"),
            ("<think>never ends", "", "", "never ends"),
            ("opened by the template</think>\n\nB", "", "B", "opened by the template"),
            ("<think>a</think>B<think>c</think>D", "", "BD", "a\nc"),
        ],
    )
    def test_reasoning_is_split_from_the_answer(self, text, apart, answer, reasoning):
        assert ask.split_reasoning(text, apart) == (answer, reasoning)


class TestPrompts:
    def test_braces_that_are_no_fields_stay(self, tmp_path):
        (tmp_path / "own.txt").write_text('Describe {entity} as {"Background": "…"}.\n')
        text = ask.prompt(tmp_path / "own.txt", entity="a {jay}")
        assert text == 'Describe a {jay} as {"Background": "…"}.'
        assert ask.lettered_options(["jay", "owl"]) == "A. jay\nB. owl"

    def test_errors_name_file_and_field(self, tmp_path):
        (tmp_path / "own.txt").write_text("No place.")
        with pytest.raises(ask.AskError, match=r"own.txt: the prompt has no place for \{entity\}"):
            ask.prompt(tmp_path / "own.txt", entity="x")
        with pytest.raises(ask.AskError, match="no prompt that can be read.*fse_chain"):
            ask.prompt("fse_chian", entity="x")
