"""A kernel without ports that is killed while it starts."""

import threading
import time

import nbval.kernel
import psutil
import pytest

pytestmark = pytest.mark.notebooks


def value_of(kernel, expression):
    """What a kernel of nbval shows for an expression."""
    kernel.execute_cell_input(expression)
    while (message := kernel.get_message("iopub", timeout=30))["msg_type"] != "execute_result":
        pass
    return message["content"]["data"]["text/plain"]


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
    assert kernel.km.transport == "ipc"
    killer.join()
    kernel.stop()
