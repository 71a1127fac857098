"""A JupyterLab in a Chromium, for the tests that touch widgets as a person does.

The fixtures `lab` and `browser` are in conftest.py: one lab for all these tests, which are one group of
xdist.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path

import nbformat
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
PATIENCE = 60_000  # milliseconds; kernels start slowly where cores are shared
MARKS = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: apt-get install chromium (make test does it where it can)"
    ),
    pytest.mark.xdist_group("browser"),  # one lab and its files for all, in the order of the tests
]
IS_IDLE = "jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"


def write_notebook(folder, name, text):
    cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in text.split("# %%")]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / name)


@contextlib.contextmanager
def started_lab(home: Path):
    """A JupyterLab with a folder, settings and a home of its own: (address, folder)."""
    folder = home / "notebooks"
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    settings = home / ".jupyter" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    others = ("JUPYTER", "IPYTHON", "XDG")  # places of the user's own
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    environment["HOME"] = str(home)
    command = [sys.executable, "-m", "jupyterlab", *options]
    with open(home / "log", "w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for _ in range(240):
            try:
                opener.open(f"{address}/api", timeout=5).read()
                break
            except OSError:
                assert server.poll() is None, (home / "log").read_text()[-3000:]
                time.sleep(0.5)
        else:
            pytest.fail((home / "log").read_text()[-3000:])
        yield address, folder
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


@contextlib.contextmanager
def started_browser(profile: Path):
    """A Chromium with a profile of its own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[test]'")
    with sync_api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile), executable_path=CHROMIUM, args=SWITCHES, viewport={"width": 1280, "height": 900}
        )
        yield context
        context.close()


class Desk:
    """A notebook open in the browser."""

    def __init__(self, browser, address, notebook):
        self.page = browser.new_page()
        workspace = uuid.uuid4().hex  # a new one: no tabs from before
        self.url = f"{address}/lab/workspaces/{workspace}/tree/{notebook}"
        self.page.set_default_timeout(PATIENCE)
        self.frames = []  # all that the server has told the page
        self.page.on("websocket", lambda socket: socket.on("framereceived", self.hear))
        self.open()

    def hear(self, data):
        self.frames.append(data if isinstance(data, bytes) else data.encode())

    def open(self):
        self.page.goto(self.url)
        self.page.wait_for_function("window.jupyterapp?.shell.currentWidget?.sessionContext")
        ready = "await jupyterapp.restored; await jupyterapp.shell.currentWidget.sessionContext.ready"
        self.page.evaluate(f"async () => {{ {ready} }}")
        self.page.wait_for_function(IS_IDLE)

    def command(self, name):
        self.page.evaluate("name => jupyterapp.commands.execute(name)", name)

    def run_all(self):
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(
            "jupyterapp.shell.currentWidget.content.widgets"
            ".every(cell => cell.model.type !== 'code' || cell.model.executionCount)"
        )

    def restart(self):
        """Restart the kernel and clear what is shown."""
        self.page.evaluate("jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
        self.page.wait_for_function(IS_IDLE)
        self.command("notebook:clear-all-cell-outputs")
