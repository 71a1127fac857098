"""Boards in a real JupyterLab in a real Chromium: touched, reloaded, gone on.

Set XAI_SCREENSHOTS to a folder to look at what was seen.
"""

import json
import os
from pathlib import Path

import pytest
from browser_lab import MARKS, PATIENCE, Desk, write_notebook

from xaihelpers import rating

pytestmark = MARKS
TESTS = str(Path(__file__).parent)
TOY = f"""
import os, sys
sys.path.insert(0, {TESTS!r})
os.environ["XAI_RATINGS"], os.environ["XAI_RATER"] = os.getcwd(), "anna"
import toy_boards
"""
CELLS = f"""{TOY}
from xaihelpers.teaching import guesses
# %%
toy_boards.part_board()
# %%
toy_boards.mask_board()
# %%
toy_boards.explanation_board()
# %%
toy_boards.bird_board()
# %%
toy_boards.fault_board()
# %%
guess = guesses.ask("first", "How many of 100?", "%", 0, 100)
guess
# %%
print(guess.value)
"""
SLOW = f"""{TOY}
# %%
reading = toy_boards.slow_mode("")
reading
"""


@pytest.fixture(scope="module", autouse=True)
def notebooks(lab):
    _, folder = lab
    write_notebook(folder, "boards.ipynb", CELLS)
    write_notebook(folder, "slow.ipynb", SLOW)


class BoardDesk(Desk):
    """What a person does with boards."""

    def board(self, title):
        return self.page.get_by_role("region", name=title)

    def reopen(self, board):
        """Reload the page; again where the widgets were not restored in time, as on a busy machine."""
        for _ in range(4):
            self.open()
            lost = self.page.get_by_text("model not found")
            board.or_(lost).first.wait_for()
            if board.count():
                return
        pytest.fail("the board is gone after the page was reloaded")

    def recorded(self, board):
        """The PNG that a board shows, as numbers."""
        board.locator("img").wait_for()
        return board.locator("img").evaluate(
            "async image => [...new Uint8Array(await (await fetch(image.src)).arrayBuffer())].join()"
        )

    def says(self, board, text):
        from playwright.sync_api import expect

        expect(board.locator(".board-status")).to_contain_text(text, timeout=PATIENCE)

    def changes(self, board, touch, text):
        """Touch a board: it says the text, and its picture is another one."""
        before = self.recorded(board)
        touch()
        self.says(board, text)
        for _ in range(100):
            if self.recorded(board) != before:
                return
            self.page.wait_for_timeout(100)
        pytest.fail(f"the picture stays when the board says: {text}")

    def keep_screenshot(self, name):
        if folder := os.environ.get("XAI_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            for number, root in enumerate(self.page.locator(".board-root").all()):
                root.scroll_into_view_if_needed()
                root.screenshot(path=f"{folder}/{name}_{number}.png")


def test_boards_are_touched_reloaded_and_touched_again(lab, browser):
    address, folder = lab
    desk = BoardDesk(browser, address, "boards.ipynb")
    desk.run_all()
    cells = desk.kinds()

    part = desk.board("Point to the part")
    desk.says(part, "Nobody has pointed yet")
    box = part.locator("img").bounding_box()
    at = {"x": 0.495 * 0.25 * box["width"], "y": box["height"] * 0.35}
    desk.changes(part, lambda: part.locator("img").click(position=at), "rank")
    desk.says(part, "α = 1: in Ω")
    part.locator(".board-frame").press("ArrowLeft")
    desk.changes(part, lambda: part.get_by_label("concept").select_option("tail"), "Nobody has pointed")

    mask = desk.board("Mask a picture")
    desk.changes(mask, lambda: mask.get_by_label("β, middle").fill("0.8"), "β = 0.8")
    desk.changes(mask, lambda: mask.get_by_label("method").select_option("even"), "even, α = 25")

    edited = desk.board("Edit the explanation")
    weight = edited.get_by_label("red", exact=True)
    desk.changes(edited, lambda: (weight.fill("2"), weight.press("Tab")), "weight 1.75")
    edited.get_by_label("concept to add").select_option("blue")
    desk.changes(edited, lambda: edited.get_by_role("button", name="add", exact=True).click(), "true 2")
    edited.get_by_role("button", name="blue: earlier").click()
    edited.get_by_role("button", name="remove green").click()
    desk.says(edited, "2 concepts: true 2")
    desk.keep_screenshot("touched")

    bird = desk.board("Give a bird an attribute")
    desk.changes(bird, lambda: bird.get_by_label("bird").select_option("Mallard"), "blue breast")
    bird.get_by_label("is given").select_option("red eyes")
    desk.says(bird, "a Mallard cannot be given red eyes")
    bird.get_by_label("bird").select_option("Blue Jay")
    desk.says(bird, "Probability of “red eyes”")

    fault = desk.board("Choose a fault and a dose")
    desk.changes(fault, lambda: fault.get_by_label("dose").select_option("0.5"), "leak, dose 0.5")

    guess = desk.board("How many of 100?")
    guess.get_by_label("your guess").fill("71")
    guess.get_by_role("button", name="commit").click()
    desk.says(guess, "Committed by anna: 71 %")
    assert guess.get_by_label("your guess").is_disabled()
    assert desk.kinds() == cells  # no key was taken for JupyterLab's own
    desk.command("docmanager:save")
    desk.page.wait_for_function("!jupyterapp.shell.currentWidget.context.model.dirty")

    desk.reopen(mask)  # the kernel lives
    desk.says(mask, "even, α = 25, β = 0.8")
    assert mask.get_by_label("β, middle").input_value() == "0.8"
    desk.changes(mask, lambda: mask.get_by_label("picture").select_option("second"), "even, α = 25, β = 0.8")
    desk.says(edited, "2 concepts: true 2")
    assert edited.locator("li label").all_text_contents() == ["red", "blue"]
    desk.says(guess, "Committed by anna: 71 %")
    desk.keep_screenshot("reloaded")
    assert rating.ratings(folder / "guesses.sqlite", "first").rating.tolist() == [71]
    desk.page.close()


def test_the_saved_notebook_has_pictures_for_whoever_has_no_kernel(lab, browser):
    _, folder = lab
    saved = json.loads((folder / "boards.ipynb").read_text())
    shown = [list(output.get("data", {})) for cell in saved["cells"] for output in cell["outputs"]]
    assert sum("image/png" in data for data in shown) == 5
    assert len(json.dumps(saved)) < 200_000


def test_slow_mode_by_keys_reloaded_restarted_gone_on(lab, browser):
    address, folder = lab
    desk = BoardDesk(browser, address, "slow.ipynb")
    desk.run_all()
    cells = desk.kinds()
    board = desk.board("Read what was said")
    desk.says(board, "Case 1 of 2, stage 1 of 2, read by anna.")
    desk.keep_screenshot("slow_first")
    board.locator(".board-title").click()
    desk.page.keyboard.press("a")
    desk.says(board, "stage 2 of 2")
    assert not [frame for frame in desk.frames if b"It is:" in frame]
    desk.changes(board, lambda: desk.page.keyboard.press("B"), "It is: SECRET Mallard.")
    desk.keep_screenshot("slow_uncovered")
    desk.page.keyboard.press("n")
    desk.says(board, "Case 2 of 2, stage 1 of 2")
    board.get_by_role("button", name="SECRET Mallard").click()
    desk.says(board, "Case 2 of 2, stage 2 of 2")
    assert desk.kinds() == cells

    desk.command("docmanager:save")
    desk.reopen(board)  # the kernel lives
    desk.says(board, "Case 2 of 2, stage 2 of 2")
    desk.restart()
    desk.run_all()
    desk.says(board, "Case 2 of 2, stage 2 of 2")
    board.get_by_role("button", name="Crow").click()
    desk.says(board, "It is: SECRET Mallard.")
    board.get_by_role("button", name="go on").click()
    desk.says(board, "anna has read all 2 cases.")
    desk.keep_screenshot("slow_all")
    table = rating.ratings(folder / "slow.sqlite", "toy")
    assert table.rating.tolist() == [0, 1, 1, 0]
    assert (table.seconds > 0).all()
    desk.page.close()
