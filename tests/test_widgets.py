"""Boards without a browser: what is set changes picture and words; what is committed lies in the file."""

import base64
import io

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from xaihelpers import rating, widgets
from xaihelpers.widgets.board import Board
from xaihelpers.widgets.controls import choice, press, slider

SIDE = 24
CURVES = pd.DataFrame({"who": "annotator", "t": [1, 2], "value": [20.0, 30.0], "low": 10.0, "high": 40.0})


def test_masking_a_picture():
    pictures = torch.full((2, 3, SIDE, SIDE), 90, dtype=torch.uint8)
    maps = {"left": torch.linspace(1, 0, 6).expand(2, 6, 6), "even": torch.full((2, 6, 6), 0.5)}
    objects = torch.zeros(2, SIDE, SIDE, dtype=torch.bool)
    objects[:, :, :12] = True
    board = widgets.mask_board(pictures, ["first", "second"], maps, 25.0, 0.4, objects)
    still = base64.b64decode(board._repr_mimebundle_()[0]["image/png"])  # for whoever has no kernel
    assert 100 < min(Image.open(io.BytesIO(still)).size)
    before = board.picture
    board.values = board.values | {"beta": 0.5, "alpha": 50.0}
    assert board.picture != before
    assert "50 % of the light is left" in board.text
    assert "which fills 50 %" in board.text
    board.values = board.values | {"method": "even", "alpha": 20.0}
    assert "50 % of the light is left, 50 % of it on the object" in board.text


def slow_mode(folder):
    """Two cases of two stages; the truth of both is option B."""
    options = ["Blue Jay", "SECRET Mallard", "Crow", "Heron", "Tern"]
    picture = np.full((SIDE, SIDE, 3), 90, np.uint8)
    cases = []
    for n in range(2):
        stages = {"Background": f"on a branch {n}", "Superclass": f"a bird {n}"}
        cases.append(widgets.Case(f"case {n}", stages, options, 1, picture))
    return widgets.SlowMode(cases, CURVES, "toy", "anna", str(folder / "slow.sqlite"))


def press_all(board, *letters):
    for letter in letters:
        board._receive(None, {"press": letter}, [])


def test_slow_mode_keeps_every_choice_and_goes_on_where_it_stopped(tmp_path):
    board = slow_mode(tmp_path)
    assert "stage 1 of 2, read by anna" in board.text
    press_all(board, "A")
    assert "stage 2 of 2" in board.text
    assert "It is:" not in board.text
    press_all(board, "B")
    assert "It is: SECRET Mallard." in board.text
    assert "Blue Jay ✗, SECRET Mallard ✓" in board.text
    table = rating.ratings(tmp_path / "slow.sqlite", "toy")
    assert table.rating.tolist() == [0, 1]
    assert table.answer.tolist() == ["Blue Jay", "SECRET Mallard"]
    again = slow_mode(tmp_path)
    assert "Case 2 of 2, stage 1" in again.text
    press_all(again, "B", "B", "next")
    assert again.text == "anna has read all 2 cases."
    assert again.cri().value.tolist() == [50, 100]


def test_what_no_control_can_have_is_taken_back():
    def draw(values):
        return None, f"{values}"

    controls = [choice("a", "letter", "xyz"), slider("b", "number", 0, 1, 0.1), press("go", "go")]
    board = Board("title", controls, {"a": "x", "b": 0.5}, draw, {"go": lambda values: values | {"b": 1}})
    for wrong in ({"a": "w", "b": 0.5}, {"a": "x", "b": 7}, {"a": "x", "b": None}, {"a": "x"}):
        board.values = wrong
        assert board.values == {"a": "x", "b": 0.5}
        assert "cannot be" in board.text or "the controls are" in board.text
    board.press("go")
    assert board.text == "{'a': 'x', 'b': 1}"
    with pytest.raises(ValueError, match="no button 'stop' to press; there are go"):
        board.press("stop")
    board.closed = True
    with pytest.raises(ValueError, match="no button 'go'"):
        board.press("go")
    with pytest.raises(ValueError, match="cannot be"):
        Board("title", controls, {"a": "w", "b": 0.5}, draw)
    with pytest.raises(ValueError, match="the controls are a, b"):
        Board("title", controls, {"a": "x"}, draw)


def test_faults_without_readings():
    with pytest.raises(ValueError, match="no readings"):
        widgets.fault_board(pd.DataFrame(columns=["fault", "dose"]), {"leak": "bottlenecks"})


def test_an_error_in_a_notebooks_function_is_said():
    def draw(values):
        if values["b"] > 0.5:
            raise KeyError("lost")
        return b"png", "well"

    board = Board("title", [slider("b", "number", 0, 1, 0.1)], {"b": 0.5}, draw)
    board.values = {"b": 0.6}
    assert (board.picture, board.text) == (b"", "KeyError: 'lost'")
    board.values = {"b": 0.4}
    assert board.text == "well"
