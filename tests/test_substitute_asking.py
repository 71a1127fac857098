"""Attributes by asking: a question a group, letters with their probabilities, and what counts as answered."""
from collections import Counter

import pytest
import torch
from PIL import Image

from xaihelpers import paths, substitute
from xaihelpers.ask import Answer, AskError
from xaihelpers.aviary import ATTRIBUTES
from xaihelpers.substitute import SubstituteError, ask_groups, is_answered

PICTURES = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
RED, BLUE = (ATTRIBUTES.index(f"has_breast_color::{color}") for color in ("red", "blue"))


class Model:
    """Gives every question the letter of the option that is the picture's colour 0.7, and *Other* 0.2; `silent`: answers without probabilities, none at all, or no letter for blue."""

    def __init__(self, silent=""):
        self.name, self.identity, self.silent, self.told, self.asked = "m", f"m {silent}", silent, Counter(), []

    def answer(self, requests, seed, temperature):
        for position, one in enumerate(requests):
            self.asked.append(one.turns[-1].text)
            color = {(255, 0, 0): "red", (0, 0, 255): "blue"}[one.images[0].getpixel((0, 0))]
            letter = next((line[0] for line in one.turns[-1].text.splitlines() if line.endswith(f") {color}")), one.options[-1])
            rest = 0.1 / (len(one.options) - 2)
            probabilities = {option: 0.7 if option == letter else 0.2 if option == one.options[-1] else rest for option in one.options}
            yield position, Answer(error="broken") if self.silent == "error" else Answer(letter, probabilities=None if self.silent == "no probabilities" or (self.silent == "blue" and color == "blue") else probabilities)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")


def test_probabilities_lie_where_their_attributes_are():
    model = Model()
    found = ask_groups(model, PICTURES, [["breast_color", "eye_color"], ["breast_color"]], progress=False)
    assert found.shape == (2, 312) and found[0, RED] == found[1, BLUE] == pytest.approx(0.7)
    assert (~found.isnan()).sum(1).tolist() == [29, 15]  # 15 colours, and 14 of eyes
    group = [j for j, name in enumerate(ATTRIBUTES) if name.startswith("has_breast_color")]
    assert found[0, group].sum() == pytest.approx(0.8)  # Other has the rest
    assert "What type of breast color does this bird have?" in model.asked[0] and "\nA) blue\n" in model.asked[0] and model.asked[0].rstrip().endswith("P) Other")


def test_answered_is_the_likest_of_the_group_and_likelier_than_other():
    found = torch.full((4, 312), torch.nan)
    group = slice(ATTRIBUTES.index("has_breast_color::blue"), ATTRIBUTES.index("has_breast_color::blue") + 15)
    found[:3, group] = 0.0
    found[0, RED], found[0, BLUE] = 0.5, 0.2  # Other 0.3
    found[1, RED], found[1, BLUE] = 0.4, 0.1  # Other 0.5
    found[2, RED], found[2, BLUE] = 0.3, 0.6
    assert is_answered(found, [RED] * 4).tolist() == [True, False, False, False]
    assert is_answered(found, [BLUE] * 4).tolist() == [False, False, True, False]


def test_no_answer_is_no_number_and_no_probability_an_error():
    assert ask_groups(Model("error"), PICTURES, [["breast_color"]] * 2, progress=False).isnan().all()
    with pytest.raises(SubstituteError, match="m gives no probabilities.*name a model that runs here, or a server that returns log-probabilities"):
        ask_groups(Model("no probabilities"), PICTURES, [["breast_color"]] * 2, progress=False)


def test_one_answer_that_is_no_letter_does_not_lose_the_others(capsys):
    found = ask_groups(Model("blue"), PICTURES, [["breast_color"]] * 2, progress=False)
    assert found[0, RED] == pytest.approx(0.7) and found[1].isnan().all()
    assert is_answered(found, [RED, BLUE]).tolist() == [True, False]
    assert "m: 1 of 2 answers are none of the letters and count as no answer" in capsys.readouterr().out


def test_errors_name_the_thing():
    with pytest.raises(SubstituteError, match="there is no attribute group 'beak_color'; CUB has bill_shape, "):
        ask_groups(Model(), PICTURES[:1], [["beak_color"]])
    with pytest.raises(AskError, match="nowhere"):
        ask_groups(Model(), PICTURES[:1], [["bill_color"]], question="nowhere")


def test_the_shipped_annotator_gives_probabilities_of_a_bird(drawn_birds):
    from xaihelpers.ask import load_annotator

    found = ask_groups(load_annotator(), drawn_birds.images.path.tolist()[:4], [["breast_color", "bill_shape"]] * 4, progress=False)
    shown = found[:, ~found.isnan().any(0)]
    assert shown.shape == (4, 24) and (shown >= 0).all() and (shown.sum(1) <= 2 + 1e-5).all() and shown.sum() > 4  # Other is seldom the answer


def test_the_package_says_until_when_all_is_tied():
    assert substitute.T_MAX == {"color": 0.9, "shape": 0.9, "pattern": 0.6}  # section 5
