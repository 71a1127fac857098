"""The rating panel in a real JupyterLab in a real Chromium.

Keys, clicks, undo, a reloaded page, a restarted kernel, two raters, the exported table.
"""

import json

import pandas as pd
import pytest
from browser_lab import MARKS, PATIENCE, Desk, write_notebook

from xaihelpers import rating

pytestmark = MARKS

CELLS = """
from pathlib import Path
import numpy as np
from xaihelpers import rating
rng = np.random.default_rng(0)
birds = ["Northern Cardinal", "Blue Jay", "Mallard", "Brown Pelican", "Painted Bunting", "American Crow"]
def picture(i):
    return np.kron(rng.integers(60, 255, (3, 4, 3)), np.ones((60, 60, 1))).astype("uint8")
concepts = [("red crown", 0.91), ("cone bill shape", 0.4), ("white belly", -0.23)]
hidden = {"truth": "SECRETTRUTH"}
ITEMS = []
for i, bird in enumerate(birds):
    ITEMS.append(rating.Item(f"SECRETMODEL-{i}", picture(i), bird, concepts, hidden=hidden))
# %%
study = rating.open_study(Path("kept.sqlite").resolve(), "study", ITEMS)
panel = rating.RatingPanel(study, "RATER")
panel
# %%
after = "what follows"
"""
PICK = """
from pathlib import Path
import numpy as np
from xaihelpers import rating
colours = "blue brown iridescent purple rufous grey yellow olive green pink orange black white red buff"
colours = colours.split()
grey = [np.full((32, 32, 3), 40 * i, np.uint8) for i in range(3)]
question = "Which crown colour does the bird have?"
items = []
for i in range(3):
    items.append(rating.Item(f"item {i}", grey[i], options=colours, question=question, reference=grey[0]))
# %%
study = rating.open_study(Path("picked.sqlite").resolve(), "colours", items, form="pick")
panel = rating.RatingPanel(study, "anna")
panel
"""


@pytest.fixture(scope="module", autouse=True)
def notebooks(lab):
    _, folder = lab
    for rater in ("anna", "ben"):
        write_notebook(folder, f"{rater}.ipynb", CELLS.replace("RATER", rater))
    write_notebook(folder, "pick.ipynb", PICK)


class RatingDesk(Desk):
    """What a rater does."""

    def __init__(self, browser, address, notebook):
        super().__init__(browser, address, notebook)
        self.panel = self.page.locator(".rating-panel")

    def run_all(self):
        super().run_all()
        self.picture()

    def picture(self):
        """Wait until the picture of the item is there."""
        self.page.wait_for_function(
            "(all => all.length && all.every(image => image.naturalWidth > 1))"
            "([...document.querySelectorAll('.rating-picture')])"
        )

    def at(self, text):
        from playwright.sync_api import expect

        expect(self.panel.locator(".rating-place")).to_have_text(text, timeout=PATIENCE)

    def says(self, text):
        from playwright.sync_api import expect

        expect(self.panel.locator(".rating-status")).to_contain_text(text, timeout=PATIENCE)

    def focus(self):
        self.panel.locator(".rating-question").click()

    def key(self, name, then):
        self.picture()
        self.page.keyboard.press(name)
        self.at(then)

    def click(self, label, then):
        self.picture()
        self.panel.get_by_role("button", name=label).click()
        self.at(then)


def kept(folder, rater):
    table = rating.ratings(folder / "kept.sqlite", history=True)
    return table[table.rater == rater]


def test_rate_reload_restart_go_on_export(lab, browser):
    address, folder = lab
    desk = RatingDesk(browser, address, "anna.ipynb")
    desk.run_all()
    cells = desk.kinds()
    desk.at("Item 1 of 6")

    desk.focus()
    desk.key("3", "Item 2 of 6")
    desk.says("Saved: 3.")
    desk.key("1", "Item 3 of 6")
    desk.page.keyboard.press("7")  # no key of this form
    desk.key("Backspace", "Item 2 of 6")
    desk.key("4", "Item 3 of 6")
    desk.click("2 fits in part", "Item 4 of 6")
    desk.click("U undo", "Item 3 of 6")
    desk.key("2", "Item 4 of 6")  # the focus is still in the panel
    # none of the keys was taken for JupyterLab's own: cells keep their kind and text
    assert desk.kinds() == cells
    answers = kept(folder, "anna")
    found = answers[["answer", "position", "ended_by"]].fillna("").values.tolist()
    assert found == [["3", 1, ""], ["1", 2, "undone"], ["4", 2, ""], ["2", 3, "undone"], ["2", 3, ""]]
    assert (answers.seconds > 0).all()
    assert (answers.seconds < 600).all()

    desk.command("docmanager:save")
    desk.open()  # the page is reloaded, the kernel lives
    desk.picture()
    desk.at("Item 4 of 6")
    desk.focus()
    desk.key("1", "Item 5 of 6")

    desk.restart()
    desk.run_all()
    desk.at("Item 5 of 6")
    desk.focus()
    desk.key("3", "Item 6 of 6")
    desk.key("2", "All 6 rated")
    desk.says("Saved: 2.")

    table = rating.export(folder / "kept.sqlite", folder / "out.csv")
    mine = pd.read_csv(folder / "out.csv").query("rater == 'anna'")
    assert mine.rating.tolist() == [3, 4, 2, 1, 3, 2]
    assert mine.position.tolist() == [1, 2, 3, 4, 5, 6]
    assert mine["item"].is_unique
    assert mine.rating.tolist() == table[table.rater == "anna"].rating.tolist()
    assert mine["item"].tolist() == rating.item_order(
        rating.open_study(folder / "kept.sqlite", "study"), "anna"
    )
    desk.page.close()


def test_the_browser_never_hears_what_is_hidden(lab, browser):
    address, folder = lab
    desk = RatingDesk(browser, address, "ben.ipynb")
    desk.command("notebook:clear-all-cell-outputs")
    desk.page.wait_for_timeout(200)
    desk.frames.clear()
    desk.run_all()
    desk.focus()
    for position, answer in enumerate("4321", 1):
        desk.key(answer, f"Item {position + 1} of 6")
    # The first cell's source comes back from the kernel as what it runs; nothing else may hold the words.
    heard = [frame for frame in desk.frames if b"execute_input" not in frame]
    assert any(b"fits on the whole" in frame for frame in heard), (
        "the panel's own messages were not seen, so this test would see nothing"
    )
    assert not [frame for frame in heard if b"SECRET" in frame]
    desk.command("docmanager:save")
    desk.page.wait_for_function("!jupyterapp.shell.currentWidget.context.model.dirty")
    saved = json.loads((folder / "ben.ipynb").read_text())
    assert "SECRET" not in json.dumps([cell.get("outputs") for cell in saved["cells"]]) + json.dumps(
        saved["metadata"]
    )
    assert len(json.dumps(saved)) < 40_000  # no picture in the notebook
    desk.page.close()


def test_two_raters_see_two_orders_of_the_same_items(lab, browser):
    _, folder = lab
    study = rating.open_study(folder / "kept.sqlite", "study")
    assert kept(folder, "ben").answer.tolist() == list("4321")
    assert rating.item_order(study, "anna") != rating.item_order(study, "ben")
    assert sorted(rating.item_order(study, "ben")) == sorted(study.items)


def test_a_dead_kernel_is_told_to_the_rater(lab, browser):
    address, folder = lab
    desk = RatingDesk(browser, address, "ben.ipynb")
    desk.command("notebook:clear-all-cell-outputs")
    desk.run_all()
    desk.at("Item 5 of 6")
    desk.page.evaluate("jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    desk.focus()
    desk.page.keyboard.press("4")
    desk.says("NOT SAVED YET")
    desk.at("Item 5 of 6")
    assert len(kept(folder, "ben")) == 4
    desk.page.close()


def test_pick_one_of_a_group_by_keys_beyond_nine(lab, browser):
    address, folder = lab
    desk = RatingDesk(browser, address, "pick.ipynb")
    desk.run_all()
    assert desk.panel.get_by_role("img").count() == 2
    assert desk.panel.get_by_text("Which crown colour").count() == 1
    desk.focus()
    desk.key("c", "Item 2 of 3")  # the twelfth
    desk.key("2", "Item 3 of 3")
    desk.page.keyboard.press("Tab")  # from the panel to its first button
    desk.picture()
    desk.page.keyboard.press("Enter")
    desk.at("All 3 rated")
    assert rating.ratings(folder / "picked.sqlite").answer.tolist() == ["black", "brown", "blue"]
    desk.page.close()
