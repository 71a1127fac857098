"""A JupyterLab in a Chromium, for the test that touches widgets as a person does.

The fixtures `lab` and `browser` are in conftest.py.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
PATIENCE = 60_000  # milliseconds; kernels start slowly where cores are shared
MARKS = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: apt-get install chromium (make test does it where it can)"
    ),
    pytest.mark.xdist_group("browser"),
]
OPTIONS = [
    "--no-browser",
    "--allow-root",
    "--ServerApp.port_retries=0",
    "--IdentityProvider.token=",
    "--LabApp.expose_app_in_browser=True",
    "--LabApp.extension_manager=readonly",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]
SESSION = "jupyterapp.shell.currentWidget.sessionContext"


@contextlib.contextmanager
def started_lab(home: Path):
    """A JupyterLab with a folder, settings and a home of its own: (address, folder)."""
    folder = home / "notebooks"
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = home / ".jupyter" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    others = ("JUPYTER", "IPYTHON", "XDG")  # places of the user's own
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        *OPTIONS,
        f"--port={port}",
        f"--ServerApp.root_dir={folder}",
    ]
    how = {"cwd": folder, "env": environment | {"HOME": str(home)}, "stdin": subprocess.DEVNULL}
    with open(home / "log", "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, **how)
    address, opener = f"http://127.0.0.1:{port}", urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for _ in range(240):
            with contextlib.suppress(OSError):
                opener.open(f"{address}/api", timeout=5).read()
                break
            assert server.poll() is None, (home / "log").read_text()[-3000:]
            time.sleep(0.5)
        yield address, folder
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def started_browser(profile: Path):
    """A Chromium with a profile of its own."""
    remedy = "no playwright: pip install -c constraints.txt -e '.[test]'"
    sync_api = pytest.importorskip("playwright.sync_api", reason=remedy)
    with sync_api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile), executable_path=CHROMIUM, args=SWITCHES, viewport={"width": 1280, "height": 900}
        )
        yield context
        context.close()


class Desk:
    """A notebook open in the browser."""

    def __init__(self, browser, address, notebook):
        self.page, self.url = browser.new_page(), f"{address}/lab/tree/{notebook}"
        self.page.set_default_timeout(PATIENCE)
        self.open()

    def open(self):
        self.page.goto(self.url)
        self.page.wait_for_function(
            f"window.jupyterapp?.shell.currentWidget?.sessionContext && {SESSION}.isReady"
        )
        self.page.evaluate("async () => { await jupyterapp.restored; }")
        self.page.wait_for_function(f"{SESSION}.session?.kernel?.status === 'idle'")

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
        self.page.evaluate(f"{SESSION}.restartKernel()")
        self.page.wait_for_function(f"{SESSION}.session?.kernel?.status === 'idle'")
        self.command("notebook:clear-all-cell-outputs")
