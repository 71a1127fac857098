"""The rating panel in a real JupyterLab in a real Chromium: keys, clicks, undo, a new page, a new kernel."""

import json

from browser_lab import MARKS, PATIENCE, Desk, write_notebook

from xaihelpers import rating

pytestmark = MARKS

CELLS = """
from pathlib import Path
import numpy as np
from xaihelpers import rating
rng = np.random.default_rng(0)
def picture(i):
    return np.kron(rng.integers(60, 255, (3, 4, 3)), np.ones((60, 60, 1))).astype("uint8")
concepts = [("red crown", 0.91), ("cone bill shape", 0.4), ("white belly", -0.23)]
hidden = {"truth": "SECRETTRUTH"}
ITEMS = []
for i in range(6):
    ITEMS.append(rating.Item(f"SECRETMODEL-{i}", picture(i), "Blue Jay", concepts, hidden=hidden))
# %%
study = rating.open_study(Path("kept.sqlite").resolve(), "study", ITEMS)
panel = rating.RatingPanel(study, "anna")
panel
"""


class RatingDesk(Desk):
    """What a rater does."""

    def __init__(self, browser, address, notebook):
        super().__init__(browser, address, notebook)
        self.panel = self.page.locator(".rating-panel")

    def begin(self, text):
        self.run_all()
        self.picture()
        self.at(text)
        self.panel.locator(".rating-question").click()

    def picture(self):
        """Wait until the picture of the item is there."""
        self.page.wait_for_function(
            "(all => all.length && all.every(image => image.naturalWidth > 1))"
            "([...document.querySelectorAll('.rating-picture')])"
        )

    def at(self, text):
        from playwright.sync_api import expect

        expect(self.panel.locator(".rating-place")).to_have_text(text, timeout=PATIENCE)

    def key(self, name, then):
        self.picture()
        self.page.keyboard.press(name)
        self.at(then)

    def click(self, label, then):
        self.panel.get_by_role("button", name=label).click()
        self.at(then)


def test_rate_reload_restart_and_go_on(lab, browser):
    address, folder = lab
    write_notebook(folder, "anna.ipynb", CELLS)
    desk = RatingDesk(browser, address, "anna.ipynb")
    desk.begin("Item 1 of 6")
    cells = desk.kinds()
    desk.key("3", "Item 2 of 6")
    desk.key("1", "Item 3 of 6")
    desk.page.keyboard.press("7")  # no key of this form
    desk.key("Backspace", "Item 2 of 6")
    desk.key("4", "Item 3 of 6")
    desk.click("2 fits in part", "Item 4 of 6")
    desk.click("U undo", "Item 3 of 6")
    desk.key("2", "Item 4 of 6")  # the focus is still in the panel
    # none of the keys was taken for JupyterLab's own: cells keep their kind and text
    assert desk.kinds() == cells
    answers = rating.ratings(folder / "kept.sqlite", history=True)
    found = answers[["answer", "position", "ended_by"]].fillna("").values.tolist()
    assert found == [["3", 1, ""], ["1", 2, "undone"], ["4", 2, ""], ["2", 3, "undone"], ["2", 3, ""]]
    assert answers.seconds.between(0, 600, inclusive="neither").all()

    # The first cell's source comes back from the kernel as what it runs; nothing else may hold the words.
    heard = [frame for frame in desk.frames if b"execute_input" not in frame]
    assert any(b"fits on the whole" in frame for frame in heard), "the panel's messages were not seen"
    assert not [frame for frame in heard if b"SECRET" in frame]

    desk.command("docmanager:save")
    desk.open()  # the page is reloaded, the kernel lives
    desk.picture()
    desk.at("Item 4 of 6")
    saved = json.loads((folder / "anna.ipynb").read_text())
    assert "SECRET" not in json.dumps([cell.get("outputs") for cell in saved["cells"]])
    assert len(json.dumps(saved)) < 40_000  # no picture in the notebook

    desk.restart()
    desk.begin("Item 4 of 6")
    desk.key("1", "Item 5 of 6")
    desk.key("3", "Item 6 of 6")
    desk.key("2", "All 6 rated")
    table = rating.ratings(folder / "kept.sqlite")
    assert table.rating.tolist() == [3, 4, 2, 1, 3, 2] and table.position.tolist() == [1, 2, 3, 4, 5, 6]
    study = rating.open_study(folder / "kept.sqlite", "study")
    assert table["item"].tolist() == rating.item_order(study, "anna")
    desk.page.close()
