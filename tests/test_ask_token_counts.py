"""Tokens of images by each family's tile rule, and of texts, worked out by hand."""

import pytest
from PIL import Image

from xaihelpers import ask
from xaihelpers.ask.token_counts import TURN, image_tokens, request_tokens, text_tokens


@pytest.mark.parametrize(
    "family, size, tokens",
    [
        ("openai", (512, 512), 85 + 170),  # one tile
        ("openai", (1024, 1024), 85 + 4 * 170),  # 768 × 768 after scaling: 2 × 2 tiles
        ("openai", (2048, 4096), 85 + 6 * 170),  # 1,024 × 2,048, then 768 × 1,536: 2 × 3 tiles
        ("openai", (467, 386), 85 + 170),  # nothing is scaled up
        ("openai-mini", (224, 224), 2833 + 5667),
        ("qwen2-vl", (224, 224), 64),  # 8 × 8 patches of 28
        ("qwen2-vl", (500, 375), 18 * 13),  # 17.9 and 13.4, rounded
        ("qwen2-vl", (32, 32), 4),  # enlarged to the least area, 56 × 56
        ("llama-3.2-vision", (224, 224), 1601),
        ("llama-3.2-vision", (1000, 500), 2 * 1601),  # two tiles beside each other
        ("llama-3.2-vision", (2000, 2000), 4 * 1601),
        ("internvl", (448, 448), 256),  # one tile, and no second view of it
        ("internvl", (896, 448), 3 * 256),  # two tiles and the whole
        ("internvl", (600, 450), 13 * 256),  # 4 : 3 in twelve tiles, and the whole
        ("llava", (4000, 30), 576),
    ],
)
def test_images_by_the_rule_of_their_family(family, size, tokens):
    assert image_tokens(family, *size) == tokens
    with pytest.raises(ask.AskError, match="no tile rule for 'clippy'"):
        image_tokens("clippy", 10, 10)


@pytest.mark.parametrize(
    "text, tokens", [("", 0), ("A bird.", 3), ("hummingbird", 2), ("12345 birds", 3), ('{"a": "b"}', 9)]
)
def test_texts_by_rule_of_thumb(text, tokens):
    assert text_tokens(text) == tokens and text_tokens("one two three", str.split) == 3


def test_a_request_is_its_turns_texts_and_images(tmp_path):
    Image.new("RGB", (512, 512)).save(tmp_path / "a.png")
    asked = ask.request("A bird.", [tmp_path / "a.png", Image.new("RGB", (512, 512))], system="Be brief.")
    assert request_tokens(asked) == 2 * TURN + 3 + 3 + 2 * 255
    assert request_tokens(asked, of_image=16) == 2 * TURN + 6 + 32
    with pytest.raises(ask.AskError, match="no image that can be read"):
        request_tokens(ask.request("What?", [tmp_path / "none.png"]))
