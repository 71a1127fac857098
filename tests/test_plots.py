"""Tables that notebooks share, and a board without a browser: what is set in a control is drawn."""

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from xaihelpers import plots


def cells(styler):
    """The caption, the headings and the rows that a styled table shows."""
    soup = BeautifulSoup(styler.to_html(), "html.parser")
    rows = [[cell.text.strip() for cell in row.find_all("td")] for row in soup.tbody.find_all("tr")]
    return soup.caption.text, [cell.text.strip() for cell in soup.thead.find_all("th")], rows


def test_results_stand_beside_the_papers():
    rows = pd.DataFrame({"model": ["a", "b"], "chance": 20.0, "cases": [50, 60], "not shown": "x"})
    of_b = {"paper": np.nan, "value": np.nan, "low": np.nan, "high": np.nan}
    rows = rows.join(pd.DataFrame([{"paper": 41.25, "value": 58.34, "low": 52.0, "high": 64.06}, of_b]))
    caption, heads, lines = cells(plots.results_table(rows, ["model"], "Table 1"))
    assert caption == "Table 1" and heads == ["model", "paper", "this run", "interval", "cases", "chance"]
    assert lines == [["a", "41.2", "58.3", "[52.0, 64.1]", "50", "20.0"], ["b", "–", "–", "–", "60", "20.0"]]


def test_a_long_table_becomes_a_wide_one():
    """No bounds, no value (a dash) and chance are shown as such."""
    rows = [
        ("tied", "shown", 20.04, 7.2, 36.7, 6.7),
        ("tied", "kept", 3.64, 3.41, 3.87, np.nan),
        ("alone", "shown", 6.66, np.nan, np.nan, 6.7),
        ("alone", "kept", np.nan, np.nan, np.nan, np.nan),
    ]
    frame = pd.DataFrame(rows, columns=["method", "metric", "value", "low", "high", "chance"])
    wide = plots.interval_table(frame, ["method"]).set_index("method")
    assert wide.loc["tied"].tolist() == ["20.0 [7, 37] chance 7", "3.6 [3.4, 3.9]"]
    assert wide.loc["alone"].tolist() == ["6.7 chance 7", "–"]
    with pytest.raises(ValueError, match="duplicate"):
        plots.interval_table(pd.concat([frame, frame]), ["method"])


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
