"""Kernels of notebooks, each at sockets of its own and with its prints in a file.

Two kernels that start together over TCP can pick one port: the second then hangs in its exit.
"""

import logging
import os
import tempfile
import uuid
from collections.abc import Callable

from jupyter_client import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from traitlets import Unicode
from traitlets.config import Config

log = logging.getLogger(__name__)
STARTS = 3  # times that a kernel is begun
LONGEST = 90  # characters of a socket's path, of which systems allow some hundred


class PrintingKernel(AsyncKernelManager):
    """A kernel whose process prints into a file: what no cell shows, as the last words of one that dies."""

    printed = Unicode(os.devnull, config=True)

    async def start_kernel(self, **how) -> None:
        with open(self.printed, "ab") as file:
            await super().start_kernel(stdout=file, stderr=file, **how)


def without_ports() -> Config:
    """Settings of a manager of one kernel: a path of its own, or TCP where there are no such sockets."""
    path = os.path.join(tempfile.gettempdir(), f"xai-{uuid.uuid4().hex[:12]}")
    if os.name == "nt" or len(path) > LONGEST:
        return Config()
    return Config({"KernelManager": {"transport": "ipc", "ip": path}})


def begin(start: Callable, *args, **how):
    """What `start` returns, which begins a kernel; called again if the kernel dies before it answers.

    Raises the RuntimeError of the last start; of a kernel that dies later nothing is begun again.
    """
    for left in reversed(range(STARTS)):
        try:
            return start(*args, **how)
        except RuntimeError as error:
            if not left or isinstance(error, DeadKernelError):
                raise
            log.warning("A kernel did not start (%s) and is begun again.", error)
