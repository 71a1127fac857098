"""A board and the rating panel in a real JupyterLab in a real Chromium."""

import nbformat
from browser_lab import MARKS, PATIENCE, Desk

from xaihelpers import rating

pytestmark = MARKS
BOARD = """import ipywidgets
import matplotlib.pyplot as plt
from xaihelpers import plots
def draw(height):
    fig, ax = plt.subplots()
    ax.bar(["a", "b"], [1, height])
    return fig
plots.board(draw, height=ipywidgets.IntSlider(2, min=0, max=5, description="height"))"""
PANEL = """import numpy as np
from xaihelpers import rating
picture, answers = np.full((180, 240, 3), 99, np.uint8), rating.FORMS["scale"]
items = [rating.item(f"{i}", "How well does it fit?", answers, picture) for i in range(6)]
rating.RatingPanel(rating.open_study("kept.sqlite", "study", items, "scale"), "anna")"""
SHOWN = "async image => [...new Uint8Array(await (await fetch(image.src)).arrayBuffer())].join()"


def test_a_slider_is_moved_and_birds_are_rated(lab, browser):
    """The picture follows the slider; ratings outlive a reload of the page and another kernel."""
    from playwright.sync_api import expect

    address, folder = lab
    cells = [nbformat.v4.new_code_cell(source) for source in (BOARD, PANEL)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(book, folder / "anna.ipynb")
    desk = Desk(browser, address, "anna.ipynb")

    def at(number):
        text = desk.page.get_by_text(f"{number} of 6 rated", exact=True)
        expect(text).to_be_visible(timeout=PATIENCE)
        desk.page.wait_for_timeout(400)  # longer than a double click

    def press(label, then):
        desk.page.get_by_role("button", name=label, exact=True).click()
        at(then)

    desk.run_all()
    at(0)
    slider, seen = desk.page.get_by_role("slider"), set()
    picture = desk.page.locator("img.widget-image").first
    slider.focus()
    for reading in ("3", "4"):
        desk.page.keyboard.press("ArrowRight")
        expect(desk.page.locator(".widget-readout")).to_have_text(reading, timeout=PATIENCE)
        expect(picture).to_be_visible(timeout=PATIENCE)
        for _ in range(100):
            if picture.evaluate(SHOWN) not in seen:
                break
            desk.page.wait_for_timeout(100)
        seen.add(picture.evaluate(SHOWN))
    assert len(seen) == 2
    press("3 fits on the whole", 1)
    desk.page.keyboard.press("Enter")  # the focus is still on the button
    at(2)
    press("undo", 1)
    press("4 fits exactly", 2)
    desk.command("docmanager:save")
    desk.open()  # the page is reloaded, the kernel lives
    at(2)
    press("1 does not fit", 3)
    desk.restart()
    desk.run_all()
    at(3)
    press("2 fits in part", 4)
    table = rating.ratings(folder / "kept.sqlite", "study")
    assert table.rating.tolist() == [3, 4, 1, 2] and table.position.tolist() == [1, 2, 3, 4]
    desk.page.close()
