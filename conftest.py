"""Where tests and notebooks find real data, and where they write: the project alone."""

import logging
import os
import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import matplotlib
import nbval.kernel
import pytest
from hypothesis import settings
from jupyter_client.manager import KernelManager

from xaihelpers.notebook_kernels import begin, without_ports
from xaihelpers.run import same_instructions

pytest_plugins = ["faulty_server"]  # its fixture `serve`
PROJECT = Path(__file__).resolve().parent
# The kernels of notebooks, and the workers of xdist, inherit what stands in the environment here.
# XAI_DATA as given holds real data, and may be read-only; a variable of its own tells the workers of it.
GIVEN = os.environ.setdefault("XAI_DATA_OF_TESTS", os.environ.get("XAI_DATA", ""))
REAL_DATA = Path(GIVEN).resolve() if GIVEN else PROJECT / "data"
os.environ["XAI_DATA"] = str(PROJECT / "data")
# Notebooks that nbval runs record here, never among the user's results and ratings.
if "XAI_RESULTS" not in os.environ:
    CLEARED_AT_THE_END = TemporaryDirectory(prefix="results-of-tests-")
    os.environ["XAI_RESULTS"] = CLEARED_AT_THE_END.name
os.environ["XAI_RATINGS"] = os.environ["XAI_RESULTS"]
# A model of a wrong name is not looked up on the internet: without a network that takes half a minute.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# A process has one thread, since there are as many processes as cores; it sleeps when it is idle.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # else numba gives torch its own number, and digits turn
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# What is fitted here is kept for other runs, so it is to round alike on every CPU.
for variable, value in same_instructions().items():
    os.environ.setdefault(variable, value)

# Kernels of nbval, too, listen at no port, and are begun again where they die at their start.
nbval.kernel.KernelManager = lambda **how: KernelManager(config=without_ports(), **how)
nbval.kernel.start_new_kernel = partial(begin, nbval.kernel.start_new_kernel)

matplotlib.use("agg")  # not by MPLBACKEND, which the notebooks' kernels would inherit

settings.register_profile("project", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("project")

# Notebooks that draw or fit what others read, and long ones, begin first.
FIRST = "00 52 53 51 11 21 A5".split()


@pytest.hookimpl(tryfirst=True)  # before the workers of xdist read the groups
def pytest_collection_modifyitems(items):
    """A notebook's cells, which nbval runs, stay in one process. Notebooks first, quick tests last."""
    for item in items:
        if item.path.suffix == ".ipynb":
            item.add_marker(pytest.mark.xdist_group(f"notebook {item.path.name[:2]}"))
            item.add_marker("notebooks")
    items.sort(key=in_order)


def in_order(item):
    number = item.path.name[:2]
    is_notebook = item.path.suffix == ".ipynb"
    place = FIRST.index(number) if is_notebook and number in FIRST else len(FIRST)
    return not is_notebook, item.get_closest_marker("notebooks") is None, place


@pytest.fixture(scope="session")
def real_data():
    """A function: name -> path of a real data set; skips the test, saying so, where there is none."""

    def find(name: str) -> Path:
        path = REAL_DATA / name
        if not path.exists():
            pytest.skip(
                f"no real data: {name} is not in {REAL_DATA} (set XAI_DATA to the folder that holds it)"
            )
        return path

    return find


@pytest.fixture(autouse=True)
def apart(tmp_path_factory):
    """Helpers log to the test alone, and what it records and rates is nobody's but its own."""
    from xaihelpers import spending

    log = logging.getLogger("xaihelpers")
    spending.begin()  # nor is there an account with a limit from an earlier test
    log.handlers.clear()
    log.propagate = True
    for name in filter(lambda name: name.startswith("xaihelpers."), logging.root.manager.loggerDict):
        logging.getLogger(name).setLevel(logging.NOTSET)  # a notebook that ran here has silenced some
    folder = str(tmp_path_factory.getbasetemp() / "results")
    with patch.dict(os.environ, XAI_RESULTS=folder, XAI_RATINGS=folder):
        yield


@pytest.fixture(scope="session")
def drawn_birds():
    """The aviary, drawn if it is not there yet."""
    from xaihelpers import datasets

    return datasets.load("aviary")


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A Chromium; not for the whole session, since Playwright keeps an event loop running meanwhile."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium (make test does it where it can)")
    remedy = "no playwright: pip install -c constraints.txt -e '.[test]'"
    sync_api = pytest.importorskip("playwright.sync_api", reason=remedy)
    with sync_api.sync_playwright() as playwright:
        profile = str(tmp_path_factory.mktemp("chromium"))
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=CHROMIUM, args=SWITCHES
        )
        yield context
        context.close()
