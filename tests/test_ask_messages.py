"""Requests, images, reasoning and prompts: what is read, and what is refused."""

import base64
import hashlib
import io
import json

import numpy as np
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


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


GRADIENT = np.linspace(0, 255, 20 * 12 * 3).astype(np.uint8).reshape(12, 20, 3)  # (H, W, 3)
LIGHT = np.full((12, 20, 1), 51, np.uint8)  # a fifth opaque
ON_WHITE = 255 - (255 - GRADIENT.astype(float)) / 5
GREY = np.arange(12 * 20, dtype=np.uint16).reshape(12, 20) * 270  # up to 64,530
DOT = Image.new("P", (20, 12), 1)  # colour 1 is the hidden one
DOT.putpalette([10, 20, 30, 200, 0, 0])
DOT.putpixel((0, 0), 0)
SEEN_DOT = np.full((12, 20, 3), 255)
SEEN_DOT[0, 0] = 10, 20, 30
CYAN = np.zeros((12, 20, 4), np.uint8)
CYAN[..., 0] = 255
FIRST = Image.fromarray(GRADIENT // 255 * 255)  # of colours that a GIF can hold
# name -> picture, how it is saved, what people see, and how far a lossy file may be from it
UNLIKE = {
    "turned.png": (Image.fromarray(GRADIENT), {"exif": turned(6)}, np.rot90(GRADIENT, -1), 0),
    "mirrored.png": (Image.fromarray(GRADIENT), {"exif": turned(5)}, GRADIENT.transpose(1, 0, 2), 0),
    "turned.jpg": (Image.fromarray(GRADIENT), {"exif": turned(3), "quality": 95}, GRADIENT[::-1, ::-1], 9),
    "sixteen_bits.png": (Image.fromarray(GREY), {}, np.round(GREY / 257)[..., None].repeat(3, 2), 0.5),
    "transparent.png": (Image.fromarray(np.dstack([GRADIENT, LIGHT])), {}, ON_WHITE, 1),
    "transparent.webp": (Image.fromarray(np.dstack([GRADIENT, LIGHT])), {"lossless": True}, ON_WHITE, 1),
    "palette.png": (DOT, {"transparency": 1}, SEEN_DOT, 0),
    "palette.gif": (DOT, {"transparency": 1}, SEEN_DOT, 0),
    "print.jpg": (Image.fromarray(CYAN, "CMYK"), {}, np.full((12, 20, 3), [0, 255, 255]), 3),
}


class TestPicturesAsPeopleSeeThem:
    @pytest.mark.parametrize("name", UNLIKE)
    def test_what_a_model_is_shown(self, name, tmp_path):
        """In the file, in memory, twice over, and at a server; what was sent before has another key."""
        picture, how, seen, tolerance = UNLIKE[name]
        picture.save(tmp_path / name, **how)
        with Image.open(tmp_path / name) as opened:
            sent = base64.b64decode(ask.data_url(tmp_path / name).split(",")[1])
            for shown in (
                ask.open_image(tmp_path / name),
                ask.open_image(ask.open_image(opened)),
                Image.open(io.BytesIO(sent)),
            ):
                assert shown.mode == "RGB" and not shown.getexif()
                np.testing.assert_allclose(np.array(shown).astype(float), seen, atol=tolerance)
            in_memory, of_file = ask.request_keys(
                [ask.request("q", i) for i in (opened, tmp_path / name)], "m", {}
            )
        assert of_file == in_memory != key_by_hand((tmp_path / name).read_bytes())

    def test_of_an_animation_the_first_frame(self, tmp_path):
        frames = [Image.new("RGB", (20, 12), color) for color in ("blue", "red")]
        frames[0].save(tmp_path / "moves.gif", save_all=True, append_images=frames[1:])
        opened = Image.open(tmp_path / "moves.gif")
        opened.seek(1)
        for image in (tmp_path / "moves.gif", opened):
            assert ask.open_image(image).getpixel((3, 3)) == (0, 0, 255)

    @pytest.mark.parametrize("mode", ["RGB", "L", "P"])
    @pytest.mark.parametrize("suffix", ["png", "jpg"])
    def test_others_are_sent_as_they_are_under_the_key_that_they_had(self, mode, suffix, tmp_path):
        file = tmp_path / f"plain.{suffix}"
        picture = Image.fromarray(GRADIENT).convert(mode if suffix == "png" else mode.replace("P", "L"))
        picture.save(file, exif=turned(1))
        assert base64.b64decode(ask.data_url(file).split(",")[1]) == file.read_bytes()
        assert ask.request_keys([ask.request("q", file)], "m", {}) == [key_by_hand(file.read_bytes())]

    def test_grey_of_an_unknown_range_is_refused(self, tmp_path):
        Image.fromarray(np.full((4, 4), 0.5, np.float32)).save(tmp_path / "heat.tiff")
        for image in (tmp_path / "heat.tiff", Image.fromarray(np.full((4, 4), 70_000, np.int32))):
            with pytest.raises(ask.AskError, match="no image that can be read .*what is white is not known"):
                ask.data_url(image)


def key_by_hand(content):
    """The key of the request "q" to model "m" with one picture, as it has always been."""
    turns = [["user", "q", [hashlib.sha256(content).hexdigest()]]]
    return hashlib.sha256(json.dumps(["m", {}, [], 256, turns], sort_keys=True).encode()).hexdigest()


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
        for mark in ("", "\ufeff"):
            (tmp_path / "own.txt").write_text(mark + 'Describe {entity} as {"Background": "…"}.\r\n')
            text = ask.prompt(tmp_path / "own.txt", entity="a {jay}")
            assert text == 'Describe a {jay} as {"Background": "…"}.'
        assert ask.lettered_options(["jay", "owl"]) == "A. jay\nB. owl"

    def test_errors_name_file_and_field(self, tmp_path):
        (tmp_path / "own.txt").write_text("No place.")
        with pytest.raises(ask.AskError, match=r"own.txt: the prompt has no place for \{entity\}"):
            ask.prompt(tmp_path / "own.txt", entity="x")
        with pytest.raises(ask.AskError, match="no prompt that can be read.*fse_chain"):
            ask.prompt("fse_chian", entity="x")
