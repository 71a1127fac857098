"""Kernels that start side by side, without ports, and one that is killed while it starts."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbval.kernel
import psutil
import pytest
from jupyter_client.manager import KernelManager

from xaihelpers import notebook_kernels
from xaihelpers.notebook_kernels import begin, without_ports

pytestmark = pytest.mark.notebooks


def value_of(kernel, expression):
    """What a kernel of nbval shows for an expression."""
    kernel.execute_cell_input(expression)
    while (message := kernel.get_message("iopub", timeout=30))["msg_type"] != "execute_result":
        pass
    return message["content"]["data"]["text/plain"]


def run_kernel(number):
    kernel = nbval.kernel.RunningKernel("python3", startup_timeout=60)
    try:
        return kernel.km.transport, value_of(kernel, f"{number} + 1")
    finally:
        kernel.stop()


def test_thirty_kernels_six_at_a_time():
    with ThreadPoolExecutor(6) as pool:
        shown = list(pool.map(run_kernel, range(30)))
    assert shown == [("ipc", str(number + 1)) for number in range(30)]


def test_a_kernel_killed_while_it_starts_is_begun_again_within_seconds():
    def kill_the_first():
        while not (children := psutil.Process().children()):
            time.sleep(0.01)
        children[0].kill()

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    started = time.monotonic()
    kernel = nbval.kernel.RunningKernel("python3", startup_timeout=60)
    assert value_of(kernel, "2 + 1") == "3" and time.monotonic() - started < 30
    killer.join()
    kernel.stop()


def test_where_there_are_no_such_sockets_a_kernel_has_ports(monkeypatch):
    path = without_ports().KernelManager.ip
    assert len(path) < 100 and Path(path).parent.is_dir() and path != without_ports().KernelManager.ip
    monkeypatch.setattr(notebook_kernels, "LONGEST", 5)
    assert KernelManager(config=without_ports()).transport == "tcp"


def test_what_never_starts_is_an_error_after_three_times():
    begun = []

    def start():
        begun.append(1)
        raise RuntimeError("Kernel died before replying to kernel_info")

    with pytest.raises(RuntimeError, match="died before"):
        begin(start)
    assert len(begun) == 3
