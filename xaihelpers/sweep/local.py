"""Points in worker processes of this machine, each with its share of the cores and the GPUs."""

import os
import queue
import signal
import subprocess
import threading
from pathlib import Path

from xaihelpers.sweep.launch import Job, Outcome, start_job

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class LocalExecutor:
    """Runs jobs side by side on this machine.

    workers: jobs at a time; fewer where each is to have `gpus` for itself and there are not so many.
    cores: of all jobs together. gpus: for each job, a part of one if below 1; 0 shares out what there is.
    """

    def __init__(self, workers: int, cores: int, gpus: float = 0.0):
        shares = gpu_shares(visible_gpus(), workers, gpus)
        self.n_slots = len(shares)
        self._free: queue.SimpleQueue[dict] = queue.SimpleQueue()
        # idle threads sleep: spinning, they starve the processes beside them
        threads = dict.fromkeys(THREADS, str(max(1, cores // self.n_slots))) | {"OMP_WAIT_POLICY": "PASSIVE"}
        for share in shares:
            self._free.put(threads | ({"CUDA_VISIBLE_DEVICES": share} if share else {}))
        self._ended: queue.SimpleQueue[tuple[Job, Outcome]] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen] = set()
        self._stopped = False

    def start(self, job: Job, environment: dict[str, str], avoid: set[str]) -> None:
        """Start a job in a free slot, of which there must be one. avoid: machines; there is only this one."""
        share = self._free.get_nowait()
        threading.Thread(target=self._run, args=(job, environment | share, share), daemon=True).start()

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended, waiting so long for one."""
        try:
            return [self._ended.get(timeout=seconds)]
        except queue.Empty:
            return []

    def stop(self) -> None:
        """End what still runs: the notebooks' kernels end with their processes."""
        self._stopped = True
        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            running = list(self._processes)
            for process in running:
                process.send_signal(end)
            for process in running:
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    continue

    def _run(self, job: Job, environment: dict[str, str], share: dict[str, str]) -> None:
        running: list[subprocess.Popen] = []

        def started(process: subprocess.Popen) -> None:
            running.append(process)
            self._processes.add(process)
            if self._stopped:
                process.kill()

        try:
            outcome = Outcome(**start_job(job._asdict(), environment, started))
        except OSError as error:  # no process could be started
            outcome = Outcome("lost", f"its process could not be started: {error}")
        self._processes.difference_update(running)
        self._free.put(share)
        self._ended.put((job, outcome))


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip() and name.strip() != "-1"]
    folder = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number in range(len(list(folder.iterdir())))] if folder.is_dir() else []


def gpu_shares(gpus: list[str], workers: int, per_job: float = 0.0) -> list[str]:
    """The GPUs of each worker, as a value of CUDA_VISIBLE_DEVICES; "" where there are none to be shared out.

    gpus: their names. per_job: how many each worker is to have; a part of one if below 1; 0: several workers
        share a GPU, or one has several, as the numbers are.
    Returns a list of at most `workers`. Raises ValueError where there are not enough for one worker.
    """
    workers = max(1, workers)
    if per_job > len(gpus):
        raise ValueError(f"Each job is to have {per_job:g} GPUs, but there are {len(gpus)}: correct --gpus.")
    if not gpus:
        return [""] * workers
    if per_job >= 1:
        size = int(per_job)
        groups = [gpus[first : first + size] for first in range(0, len(gpus) - size + 1, size)]
        return [",".join(group) for group in groups[:workers]]
    if per_job:
        places = [gpu for _ in range(int(1 / per_job)) for gpu in gpus]  # first one a GPU
        return places[:workers]
    return [",".join(gpus[worker::workers]) or gpus[worker % len(gpus)] for worker in range(workers)]
