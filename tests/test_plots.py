"""Figures and tables that notebooks share: what stands in the tables, and how many panels there are."""

import matplotlib.colors as mcolors
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from bs4 import BeautifulSoup
from PIL import Image

from xaihelpers import plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# tables


def cells(styler):
    """The caption, the headings and the rows that a styled table shows."""
    soup = BeautifulSoup(styler.to_html(), "html.parser")
    rows = [[cell.text.strip() for cell in row.find_all("td")] for row in soup.tbody.find_all("tr")]
    return soup.caption.text, [cell.text.strip() for cell in soup.thead.find_all("th")], rows


def test_a_table_has_a_caption_no_index_and_a_dash_for_what_is_missing():
    frame = pd.DataFrame({"model": ["a", "b"], "score": [0.123, np.nan]}, index=[7, 8])
    for small in (False, True):
        styler = plots.table(frame, "A caption", precision=2, small=small)
        assert cells(styler) == ("A caption", ["model", "score"], [["a", "0.12"], ["b", "–"]])
        assert ("font-size: 85%" in styler.to_html()) == small


def test_results_stand_beside_the_papers():
    rows = pd.DataFrame(
        {
            "model": ["a", "b"],
            "chance": [20.0, 20.0],
            "words": [31.0, 4.0],
            "cases": [50, 60],
            "paper": [41.25, np.nan],
            "value": [58.34, np.nan],
            "low": [52.0, np.nan],
            "high": [64.06, np.nan],
            "not shown": "x",
        }
    )
    caption, heads, lines = cells(plots.results_table(rows, ["model"], "Table 1", more=["words"]))
    assert caption == "Table 1"
    assert heads == ["model", "paper", "this run", "interval", "words", "cases", "chance"]
    assert lines == [
        ["a", "41.2", "58.3", "[52.0, 64.1]", "31.0", "50", "20.0"],
        ["b", "–", "–", "–", "4.0", "60", "20.0"],
    ]
    _, heads, lines = cells(plots.results_table(rows, ["model", "cases"], "Table 1", digits=2))
    assert heads == ["model", "cases", "paper", "this run", "interval", "chance"]
    assert lines[0] == ["a", "50", "41.25", "58.34", "[52.00, 64.06]", "20.00"]
    with pytest.raises(KeyError, match="judge"):
        plots.results_table(rows, ["judge"], "Table 1")
    with pytest.raises(AttributeError, match="high"):
        plots.results_table(rows.drop(columns="high"), ["model"], "Table 1")


def test_a_long_table_becomes_a_wide_one():
    """Rows and columns keep their order; no bounds, no value (a dash) and chance are shown as such."""
    rows = [
        ("tied", "shown", 20.04, 7.2, 36.7, 6.7),
        ("tied", "kept", 61.0, 54.0, 69.0, np.nan),
        ("alone", "shown", 6.66, np.nan, np.nan, 6.7),
        ("alone", "kept", np.nan, np.nan, np.nan, np.nan),
    ]
    frame = pd.DataFrame(rows, columns=["method", "metric", "value", "low", "high", "chance"])
    wide = plots.interval_table(frame, ["method"])
    assert list(wide) == ["method", "shown", "kept"]
    assert wide.method.tolist() == ["tied", "alone"]
    assert wide.shown.tolist() == ["20.0 [7, 37] chance 7", "6.7 chance 7"]
    assert wide.kept.tolist() == ["61.0 [54, 69]", "–"]
    with pytest.raises(ValueError, match="duplicate"):
        plots.interval_table(pd.concat([frame, frame]), ["method"])


def test_narrow_bounds_are_as_precise_as_the_value():
    frame = pd.DataFrame(
        {"model": ["a", "b"], "metric": "Avg", "value": [3.64, 2.7], "low": [3.41, 2.0], "high": [3.87, 3.0]}
    )
    assert plots.interval_table(frame, ["model"]).Avg.tolist() == ["3.6 [3.4, 3.9]", "2.7 [2, 3]"]


def test_a_key_that_is_chance_itself_stands_once():
    row = {"method": "cam", "chance": 11.0, "metric": "inside", "value": 29.4, "low": 26.0, "high": 33.0}
    wide = plots.interval_table(pd.DataFrame([row]), ["method", "chance"], digits=0)
    assert wide.to_dict("records") == [{"method": "cam", "chance": 11.0, "inside": "29 [26, 33]"}]


# figures


def test_a_picture_is_the_same_from_any_kind_of_image():
    array = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
    as_tensor = torch.from_numpy(array).movedim(-1, 0)
    for image in (array, Image.fromarray(array), as_tensor, array / 255, as_tensor / 255):
        picture = plots.to_picture(image)
        assert picture.dtype == np.uint8
        assert np.array_equal(picture, array)
    assert plots.to_picture(np.array([[[-0.5, 0.5, 1.5]]])).tolist() == [[[0, 128, 255]]]


def test_a_grid_has_a_panel_for_each_image():
    images = [np.zeros((8, 8, 3), np.uint8)] * 5
    figure = plots.image_grid(images, [f"image {i}" for i in range(5)], columns=3)
    assert [len(ax.images) for ax in figure.axes] == [1, 1, 1, 1, 1, 0]
    assert figure.axes[4].get_title(loc="left") == "image 4"
    assert not any(ax.axison for ax in figure.axes)
    assert len(plots.image_grid(images).axes) == 6
    with pytest.raises(ValueError, match="shorter"):
        plots.image_grid(images, ["image 0"])


def test_a_case_has_its_text_under_its_image():
    images = [np.zeros((8, 8, 3), np.uint8)] * 4
    figure = plots.case_studies(images, ["one\ntwo " + "words " * 9, "a", "b", "c"], columns=3, wrap=20)
    assert [len(ax.images) for ax in figure.axes] == [1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    lines = figure.axes[3].texts[0].get_text().splitlines()
    assert lines[0] == "one"
    assert all(len(line) <= 20 for line in lines)
    assert figure.axes[9].texts[0].get_text() == "c"
    with pytest.raises(ValueError, match="shorter"):
        plots.case_studies(images, ["a"])


@pytest.mark.parametrize("vertical", [False, True])
def test_a_level_has_its_interval_behind_it(vertical):
    _, ax = plt.subplots()
    level = pd.Series({"value": 30.0, "low": 20.0, "high": 45.0})
    plots.level_line(ax, level, vertical, color="red", label="floor")
    plots.level_line(ax, level.replace({20.0: np.nan}), vertical, color="blue", label="no interval")
    (band,) = ax.patches
    corners = band.get_path().transformed(band.get_patch_transform()).vertices[:, 0 if vertical else 1]
    assert (corners.min(), corners.max()) == (20, 45)
    assert mcolors.to_rgb(band.get_facecolor()) == (1, 0, 0)
    assert [line.get_label() for line in ax.lines] == ["floor", "no interval"]


def test_the_chance_line_may_be_upright():
    _, ax = plt.subplots()
    plots.chance_line(ax, 0.2)
    plots.chance_line(ax, 0.3, "chance of b", vertical=True)
    flat, upright = ax.lines
    assert set(flat.get_ydata()) == {0.2}
    assert set(upright.get_xdata()) == {0.3}
    assert upright.get_label() == "chance of b"
