"""A board in a real JupyterLab in a real Chromium: a slider is moved, and the picture is another one."""

from browser_lab import MARKS, PATIENCE, Desk, write_notebook

pytestmark = MARKS
BOARD = """
import torch
from xaihelpers import widgets
picture = torch.full((1, 3, 24, 24), 90, dtype=torch.uint8)
maps = {"left": torch.linspace(1, 0, 6).expand(1, 6, 6)}
widgets.mask_board(picture, ["first"], maps, 25.0, 0.4)
"""
SHOWN = "async image => [...new Uint8Array(await (await fetch(image.src)).arrayBuffer())].join()"


def test_a_slider_is_moved_and_the_picture_changes(lab, browser):
    from playwright.sync_api import expect

    address, folder = lab
    write_notebook(folder, "board.ipynb", BOARD)
    desk = Desk(browser, address, "board.ipynb")
    desk.run_all()
    board = desk.page.get_by_role("region", name="Mask a picture")
    picture = board.locator("img")
    before = picture.evaluate(SHOWN)
    board.get_by_label("β, middle").fill("0.8")
    expect(board.locator(".board-status")).to_contain_text("β = 0.8", timeout=PATIENCE)
    for _ in range(100):
        if picture.evaluate(SHOWN) != before:
            break
        desk.page.wait_for_timeout(100)
    assert picture.evaluate(SHOWN) != before
    desk.page.close()
