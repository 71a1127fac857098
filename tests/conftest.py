"""Where tests find real data, and where they write: the project alone, real data are only read."""

import logging
import os
from pathlib import Path

import matplotlib
import pytest
from browser_lab import started_browser, started_lab
from hypothesis import settings

from xaihelpers.sweep.launch import same_instructions

PROJECT = Path(__file__).resolve().parents[1]

# Before any test imports the package: XAI_DATA as given holds real data, and may be read-only. The workers of
# xdist are started from this process, so they are told by a variable of their own what was given to it.
GIVEN = os.environ.setdefault("XAI_DATA_OF_TESTS", os.environ.get("XAI_DATA", ""))
REAL_DATA = Path(GIVEN).resolve() if GIVEN else PROJECT / "data"
os.environ["XAI_DATA"] = str(PROJECT / "data")
# A model of a wrong name is not looked up on the internet: without a network that takes half a minute.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads of torch, here and in what tests start: with the other test processes together as many as cores,
# unless their number is given. Idle ones sleep, and leave the cores to processes beside them.
THREADS = os.environ.setdefault("XAI_THREADS_OF_TESTS", os.environ.get("OMP_NUM_THREADS", ""))
os.environ["OMP_NUM_THREADS"] = THREADS or ("1" if "PYTEST_XDIST_WORKER" in os.environ else "2")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# What tests fit is kept for notebooks, which are to round alike on every CPU.
for variable, value in same_instructions().items():
    os.environ.setdefault(variable, value)

matplotlib.use("agg")  # not by MPLBACKEND, which the notebooks' kernels would inherit

settings.register_profile("project", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("project")


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


@pytest.fixture(scope="session", autouse=True)
def results_of_tests(tmp_path_factory):
    """Notebooks run by tests record into a folder of their own, never among the user's results."""
    folder = tmp_path_factory.mktemp("results")
    os.environ["XAI_RESULTS"] = str(folder)
    os.environ["XAI_RATINGS"] = str(tmp_path_factory.mktemp("ratings"))  # nor do they touch anybody's ratings
    return folder


@pytest.fixture(autouse=True)
def silent_helpers():
    """Helpers log to the test alone, also where a notebook run in this process has made them print."""
    from xaihelpers import spending

    log = logging.getLogger("xaihelpers")
    spending.begin()  # nor is there an account with a limit from an earlier test
    log.handlers.clear()
    log.propagate = True


def pytest_collection_modifyitems(items):
    """Quick tests first; tests that execute notebooks last."""
    items.sort(key=lambda item: item.get_closest_marker("notebooks") is not None)


@pytest.fixture(scope="session")
def drawn_birds():
    """The aviary, drawn if it is not there yet."""
    from xaihelpers import datasets

    return datasets.load("aviary")


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A JupyterLab for all tests that touch widgets: (address, folder)."""
    with started_lab(tmp_path_factory.mktemp("lab")) as place:
        yield place


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A Chromium; not for the whole session, since Playwright keeps an event loop running meanwhile."""
    with started_browser(tmp_path_factory.mktemp("chromium")) as context:
        yield context
