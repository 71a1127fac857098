"""Boards without a browser: what is set changes picture and words; what is committed lies in the file."""

import base64
import io
import json

import pytest
import toy_boards
from PIL import Image

from xaihelpers import rating, widgets
from xaihelpers.notebook_files import WIDGET_VIEW, clean_notebook
from xaihelpers.widgets.board import Board
from xaihelpers.widgets.controls import choice, press, slider

BOARDS = ["part_board", "mask_board", "explanation_board", "bird_board", "fault_board", "slow_mode"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of files of ratings in a test."""
    monkeypatch.setenv("XAI_RATINGS", str(tmp_path))
    monkeypatch.delenv("XAI_RATER", raising=False)
    return tmp_path


def touch(board, **values):
    """Set values as the browser does, and return the picture and the words that follow."""
    board.values = board.values | values
    return board.picture, board.text


@pytest.mark.parametrize("name", BOARDS)
def test_without_a_kernel_the_picture_stands(name):
    board = getattr(toy_boards, name)()
    data, _ = board._repr_mimebundle_()
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert min(image.size) > 100
    assert image.width <= 480
    assert len(data["image/png"]) < 20_000
    assert "0x" not in data["text/plain"]
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    bar = {"output_type": "display_data", "data": {WIDGET_VIEW: {}, "text/plain": "HBox()"}, "metadata": {}}
    cell = {"cell_type": "code", "source": [], "metadata": {}, "outputs": [output, bar]}
    clean_notebook({"metadata": {}, "cells": [cell]})
    assert [sorted(kept["data"]) for kept in cell["outputs"]] == [["image/png", "text/plain"]]


@pytest.mark.parametrize("name", BOARDS)
def test_a_second_board_is_the_same(name):
    first, second = (getattr(toy_boards, name)() for _ in range(2))
    assert first.picture == second.picture
    assert first.text == second.text


def test_pointing_to_a_part():
    board = toy_boards.part_board()
    seen = [board.picture]
    assert "Nobody has pointed yet" in board.text
    picture, text = touch(board, place=[0.25, 0.25])
    assert picture not in seen
    first, centre = text.splitlines()
    assert "rank 4 of 576" in first  # four pixels share the top
    assert first.endswith("α = 1: in Ω, α = 6: in Ω.")
    assert "annotated centre (cross) has rank 4 of" in centre
    _, text = touch(board, place=[0.75, 0.75])  # where the map is even: after all that is higher
    assert "α = 1: not in Ω" in text.splitlines()[0]
    picture, text = touch(board, concept="tail")  # another question: nobody has pointed
    assert board.values["place"] is None
    _, text = touch(board, place=[0.75, 0.75])
    assert "α = 1: in Ω" in text
    assert len(text.splitlines()) == 1  # no centre of this part is visible
    touch(board, place=[1.0, 1.0])  # the very corner
    assert "rank" in board.text


def test_masking_a_picture():
    board = toy_boards.mask_board()
    whole = touch(board, beta=0.0, alpha=50.0)
    assert whole[0] != touch(board, beta=0.5)[0]
    assert "which fills 50 %" in board.text
    assert "50 % of the light is left" in board.text
    even = touch(board, method="even", alpha=20.0)
    assert "50 % of the light is left, 50 % of it on the object" in even[1]
    assert touch(board, picture="second")[0] != even[0]


def test_editing_an_explanation():
    board = toy_boards.explanation_board()
    assert board.text == "2 concepts: true 1 (as the model says: 1); weight 0.25 (as the model says: 0.25)."
    before = board.picture
    picture, text = touch(board, list=[["blue", 2], ["red", 0.5], ["green", -0.25]])
    assert picture != before
    assert text.startswith("3 concepts: true 2 (as the model says: 1)")
    board.press("first only")
    assert board.values["list"] == [["blue", 2]]
    board.press("reset")
    assert board.values["list"] == [["red", 0.5], ["green", -0.25]]
    touch(board, list=[])
    assert (board.picture, board.text) == (b"", "Nothing is named: add a concept.")
    touch(board, picture="bird 1")
    assert board.values["list"] == [["green", 1.0]]


def test_substituting_an_attribute():
    board = toy_boards.bird_board()
    assert "sees 0.26 → 0.18; recites 0.15 → 0.15" in board.text
    before = board.picture
    touch(board, bird="Mallard")
    assert board.picture != before
    touch(board, attribute="red eyes")
    assert (board.picture, board.text) == (b"", "a Mallard cannot be given red eyes")
    touch(board, attribute="blue breast")
    assert board.picture


def test_planting_a_fault():
    board = toy_boards.fault_board()
    assert board.controls[0]["options"] == ["leak"]  # what was never planted is left out
    assert board.values["dose"] == "1"
    assert "3 yardsticks (falls 1, rises 1, stays 1)" in board.text
    assert "What falls: T. Praised for it: accuracy." in board.text
    assert touch(board, dose="0.5")[0] != toy_boards.fault_board().picture
    with pytest.raises(ValueError, match="no readings"):
        widgets.fault_board(toy_boards.pd.DataFrame(columns=["fault", "dose"]), {"leak": "bottlenecks"})


def press_all(board, letters):
    for letter in letters:
        board._receive(None, {"press": letter}, [])


def state(board):
    """All that the browser has been told, but for the picture."""
    told = {name: value for name, value in board.get_state().items() if isinstance(value, str | list | dict)}
    return json.dumps([told[name] for name in ("title", "controls", "values", "text")])


def test_slow_mode_asks_stage_by_stage_and_keeps_every_choice(folder):
    board = toy_boards.slow_mode()
    assert "stage 1 of 2, read by anna" in board.text
    assert "Superclass" not in board.text
    plain = board.picture
    press_all(board, "A")
    assert "stage 2 of 2" in board.text
    assert "Superclass" in board.text
    assert board.picture == plain  # no sign of right or wrong
    assert "It is:" not in state(board)
    press_all(board, "B")
    assert "It is: SECRET Mallard." in board.text
    assert "Blue Jay ✗, SECRET Mallard ✓" in board.text
    assert board.picture != plain
    table = rating.ratings(folder / "slow.sqlite", "toy")
    assert table.rating.tolist() == [0, 1]
    assert table.position.tolist() == [1, 2]
    assert table.answer.tolist() == ["Blue Jay", "SECRET Mallard"]
    assert (table.seconds >= 0).all()
    press_all(board, ["next"])
    assert "Case 2 of 2, stage 1" in board.text


def test_slow_mode_goes_on_where_it_stopped():
    press_all(toy_boards.slow_mode(), "BB")
    again = toy_boards.slow_mode()
    assert "Case 2 of 2, stage 1" in again.text
    press_all(again, "C")
    assert "Case 2 of 2, stage 2" in toy_boards.slow_mode().text
    press_all(again, ["C", "next"])
    assert again.text == "anna has read all 2 cases."
    assert again.controls == []
    press_all(again, "A")  # a late key
    assert "no button" in again.text
    assert len(again.answers()) == 4
    assert "stage 1 of 2" in toy_boards.slow_mode(words="on a lake").text  # other words are other questions


def test_slow_mode_puts_a_class_together():
    press_all(toy_boards.slow_mode("anna"), ["B", "B", "next", "A", "B"])
    press_all(toy_boards.slow_mode("ben"), ["A", "B", "next", "A"])  # the second case is not finished
    board = toy_boards.slow_mode("eve")
    assert "stage 1" in board.text
    found = board.cri().set_index("t")
    assert found.cases.tolist() == [3, 3]
    assert found.value.round().tolist() == [33, 100]


def test_the_first_choice_of_a_stage_counts():
    one, other = toy_boards.slow_mode(), toy_boards.slow_mode()  # two windows of one person
    press_all(one, "B")
    item = one.cases[0].item(1)
    rating.commit(one.file, "toy", "anna", item, "Crow", 0.0)
    assert other.answers().answer.tolist() == ["SECRET Mallard"]


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
