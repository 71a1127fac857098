"""A board without a browser: what is set in a control is drawn."""

import ipywidgets
import matplotlib.pyplot as plt

from xaihelpers import plots


def test_a_board_follows_its_controls():
    drawn = []
    plt.close("all")  # what an earlier test left open

    def draw(height, color):
        drawn.append((height, color))
        plt.bar(["a", "b"], [1, height], color=color)
        return plt.gcf()

    height = ipywidgets.FloatSlider(2, min=0, max=5)
    color = ipywidgets.Dropdown(options=["red", "blue"])
    board = plots.board(draw, height=height, color=color)
    assert board.children == (height, color)
    assert len(plt.get_fignums()) == 1  # the plain figure; no picture waits in the notebook's own state
    plt.close("all")
    height.value = 4
    *_, picture = board.children
    first = bytes(picture.value)
    color.value = "blue"
    assert drawn == [(2, "red"), (4, "red"), (4, "blue")]
    assert first[:4] == picture.value[:4] == b"\x89PNG" and first != picture.value
    assert not plt.get_fignums()
