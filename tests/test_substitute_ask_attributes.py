"""Attributes by asking: a question a group, letters with their probabilities, and what counts as answered."""

import pytest
import torch
from PIL import Image

from worlds.aviary import ATTRIBUTES
from xaihelpers import paths
from xaihelpers.ask import Answer
from xaihelpers.substitute import SubstituteError, answered_with, ask_groups, ask_species

PICTURES = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
COLORS = {(255, 0, 0): "red", (0, 0, 255): "blue"}
RED = ATTRIBUTES.index("has_breast_color::red")
BLUE = ATTRIBUTES.index("has_breast_color::blue")


class Model:
    """Gives the letter of the picture's colour 0.7, *Other* 0.2; of a silent colour no probability."""

    name, warnings = "m", {}

    def __init__(self, silent=(), error=""):
        self.silent, self.error, self.questions, self.identity = silent, error, [], f"m {silent} {error}"

    def answer(self, requests, seed, temperature):
        for position, request in enumerate(requests):
            question, options = request.text, request.options
            self.questions.append(question)
            color = COLORS[request.images[0].getpixel((0, 0))]
            letters = [line[0] for line in question.splitlines() if line.endswith(f") {color}")]
            letter = [*letters, options[-1]][0]
            probabilities = dict.fromkeys(options, 0.1 / (len(options) - 2)) | {options[-1]: 0.2, letter: 0.7}
            given = None if self.error or color in self.silent else probabilities
            yield position, Answer("" if self.error else letter, error=self.error, probabilities=given)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")


def test_probabilities_lie_where_their_attributes_are():
    model = Model()
    groups = [["breast_color", "eye_color"], ["breast_color"]]
    probabilities = ask_groups(model, PICTURES, groups)
    assert probabilities.shape == (2, 312)
    assert probabilities[0, RED] == probabilities[1, BLUE] == pytest.approx(0.7)
    assert (~probabilities.isnan()).sum(1).tolist() == [29, 15]  # 15 colours, and 14 of eyes
    group = [j for j, name in enumerate(ATTRIBUTES) if name.startswith("has_breast_color")]
    assert probabilities[0, group].sum() == pytest.approx(0.8)  # Other has the rest
    question = model.questions[0]
    assert "What type of breast color does this bird have?" in question
    assert "\nA) blue\n" in question and question.rstrip().endswith("P) Other")


def test_answered_is_the_likeliest_of_the_group_and_likelier_than_other():
    probabilities = torch.full((4, 312), torch.nan)
    start = ATTRIBUTES.index("has_breast_color::blue")
    probabilities[:3, start : start + 15] = 0.0
    probabilities[0, RED], probabilities[0, BLUE] = 0.5, 0.2  # Other 0.3
    probabilities[1, RED], probabilities[1, BLUE] = 0.4, 0.1  # Other 0.5
    probabilities[2, RED], probabilities[2, BLUE] = 0.3, 0.6
    assert answered_with(probabilities, [RED] * 4).tolist() == [True, False, False, False]
    assert answered_with(probabilities, [BLUE] * 4).tolist() == [False, False, True, False]


def test_what_is_no_answer():
    groups = [["breast_color"]] * 2
    assert ask_groups(Model(error="broken"), PICTURES, groups).isnan().all()
    with pytest.raises(SubstituteError, match="m gives no probabilities.*name a model that runs here"):
        ask_groups(Model(("red", "blue")), PICTURES, groups)
    probabilities = ask_groups(Model(("blue",)), PICTURES, groups)
    assert probabilities[0, RED] == pytest.approx(0.7) and probabilities[1].isnan().all()
    assert answered_with(probabilities, [RED, BLUE]).tolist() == [True, False]


def test_a_species_is_chosen_among_those_most_like_it():
    names, shows = ["green", "blue", "pink", "red"], torch.eye(4, 312, dtype=torch.bool)
    shows[0, 5:9] = True  # the green one is like no other
    model = Model()
    for silent in ((), ("red", "blue")):  # without probabilities, by the letter of the answer
        chosen = ask_species(Model(silent), PICTURES, [3, 3], names, shows, n_options=3, seed=0)
        assert chosen.tolist() == [True, False]
    with pytest.raises(SubstituteError, match="n_options is 0: a question has 2 to 26 options"):
        ask_species(model, PICTURES, [3, 3], names, shows, n_options=0)
    chosen = ask_species(model, PICTURES, [3, 3], names, shows, n_options=3, seed=0)
    assert chosen.tolist() == [True, False]
    assert all("red" in question and "green" not in question for question in model.questions)
