"""A board and the rating panel in a real JupyterLab in a real Chromium."""

import json

from browser_lab import MARKS, PATIENCE, Desk, write_notebook

from xaihelpers import rating

pytestmark = MARKS
BOARD = """
import ipywidgets
import matplotlib.pyplot as plt
from xaihelpers import plots
def draw(height):
    fig, ax = plt.subplots()
    ax.bar(["a", "b"], [1, height])
    return fig
plots.board(draw, height=ipywidgets.IntSlider(2, min=0, max=5, description="height"))
"""
SHOWN = "async image => [...new Uint8Array(await (await fetch(image.src)).arrayBuffer())].join()"


def test_a_slider_is_moved_and_the_picture_changes(lab, browser):
    from playwright.sync_api import expect

    address, folder = lab
    write_notebook(folder, "board.ipynb", BOARD)
    desk = Desk(browser, address, "board.ipynb")
    desk.run_all()
    slider = desk.page.get_by_role("slider")
    expect(slider).to_be_visible(timeout=PATIENCE)
    assert desk.page.locator("img[src^='data:image/png']").count() == 1  # the plain figure
    picture, seen = desk.page.locator("img.widget-image"), []
    slider.focus()
    for reading in ("3", "4"):
        desk.page.keyboard.press("ArrowRight")
        expect(desk.page.locator(".widget-readout")).to_have_text(reading, timeout=PATIENCE)
        expect(picture).to_be_visible(timeout=PATIENCE)
        for _ in range(100):
            if (now := picture.evaluate(SHOWN)) not in seen:
                break
            desk.page.wait_for_timeout(100)
        seen.append(now)
    assert len(set(seen)) == 2
    desk.page.close()


CELLS = """
from pathlib import Path
import numpy as np
from xaihelpers import rating
rng = np.random.default_rng(0)
text = "The model says: Blue Jay\\n\\n+0.91  red crown\\n-0.23  white belly\\n\\nHow well does it fit?"
ITEMS = []
for i in range(6):
    picture = np.kron(rng.integers(60, 255, (3, 4, 3)), np.ones((60, 60, 1))).astype("uint8")
    name, hidden = f"SECRETMODEL-{i}", {"truth": "SECRETTRUTH"}
    ITEMS.append(rating.item(name, text, rating.FORMS["scale"], picture, hidden))
# %%
study = rating.open_study(Path("kept.sqlite").resolve(), "study", ITEMS, "scale")
rating.RatingPanel(study, "anna")
# %%
rating.export("kept.sqlite", "rated.csv", "study")
"""


def test_rate_reload_restart_go_on_and_export(lab, browser):
    from playwright.sync_api import expect

    address, folder = lab
    write_notebook(folder, "anna.ipynb", CELLS)
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
    expect(desk.page.locator("img.widget-image")).to_be_visible()
    press("3 fits on the whole", 1)
    desk.page.keyboard.press("Enter")  # the focus is still on the button
    at(2)
    press("undo", 1)
    press("4 fits exactly", 2)
    assert rating.ratings(folder / "kept.sqlite", "study").rating.tolist() == [3, 4]

    # The first cell's source comes back from the kernel as what it runs; nothing else may hold the words.
    heard = [frame for frame in desk.frames if b"execute_input" not in frame]
    assert any(b"fits on the whole" in frame for frame in heard), "the panel's messages were not seen"
    assert not [frame for frame in heard if b"SECRET" in frame]

    desk.command("docmanager:save")
    desk.open()  # the page is reloaded, the kernel lives
    at(2)
    saved = json.loads((folder / "anna.ipynb").read_text())
    assert "SECRET" not in json.dumps([cell.get("outputs") for cell in saved["cells"]])
    assert len(json.dumps(saved)) < 20_000  # no picture in the notebook
    press("1 does not fit", 3)

    desk.restart()
    desk.run_all()
    at(3)
    for done in (4, 5, 6):
        press("2 fits in part", done)
    desk.run_all()
    at(6)
    table = rating.ratings(folder / "kept.sqlite", "study")
    assert table.rating.tolist() == [3, 4, 1, 2, 2, 2] and table.position.tolist() == [1, 2, 3, 4, 5, 6]
    assert table.seconds.between(0.3, 600).all()
    assert (folder / "rated.csv").read_text().count("anna") == 6
    desk.page.close()
