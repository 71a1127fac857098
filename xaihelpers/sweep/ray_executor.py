"""Points on a Ray cluster; Ray comes with the extra `cluster`.

Ray only chooses the machine and starts the job's process there; that nothing is run twice is the job's own
doing. All machines must see the project, the data and the results under the same paths.
"""

import json
import logging
import socket
import subprocess
import sys
from collections import Counter

from xaihelpers.sweep import launch
from xaihelpers.sweep.launch import LOST, Job, Outcome, start_job

try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError:
    ray = None

log = logging.getLogger(__name__)
ANSWER_WITHIN = 5.0  # seconds for a connection to the address
QUIET = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
CONNECTED_WITHIN = 45.0  # seconds for Ray to take part in the cluster


class ClusterError(ValueError):
    """There is no Ray, no cluster where one was named, or none of its machines is large enough."""


class RayExecutor:
    """Runs jobs on a cluster.

    address: "host:port" of the head, "ray://host:port" of its client server, "auto" for a cluster that this
        machine belongs to, "local" for one on this machine that ends with the sweep.
    cpus, gpus: of each job; gpus may be a part of one; by default one where the cluster has any, else none.
    Raises ClusterError.
    """

    def __init__(self, address: str, cpus: float = 1.0, gpus: float | None = None):
        connect(address)
        self._cpus = cpus
        self._gpus = gpus if gpus is not None else float(ray.cluster_resources().get("GPU", 0) > 0)
        self._running: dict[ray.ObjectRef, Job] = {}
        self._placed: Counter[str] = Counter()
        for module in (launch, sys.modules[__name__]):  # the machines need not be able to import them
            ray.cloudpickle.register_pickle_by_value(module)
        self._task = ray.remote(num_cpus=cpus, num_gpus=self._gpus, max_retries=0)(_run)
        if not self.capacity:
            ray.shutdown()
            raise ClusterError(
                f"No machine of the cluster has {cpus:g} CPUs and {self._gpus:g} GPUs for a job: start one, "
                "or ask for less by --cpus and --gpus."
            )

    @property
    def n_slots(self) -> int:
        """The jobs that fit into the cluster as it is now, and some in reserve, so that none waits for us."""
        capacity = self.capacity
        return capacity + max(1, capacity // 4)

    def start(self, job: Job, environment: dict[str, str], avoid: set[str]) -> None:
        """Hand a job to Ray, not to the machines (by Ray's ids) to `avoid`, if there are others."""
        task = self._task
        others = [node["NodeID"] for node in self._nodes() if node["NodeID"] not in avoid]
        if avoid and others:
            node = min(others, key=self._placed.__getitem__)
            self._placed[node] += 1
            task = task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True))
        threads = str(max(1, int(self._cpus)))
        shares = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        reference = task.remote(job._asdict(), shares | {"OMP_WAIT_POLICY": "PASSIVE"} | environment)
        self._running[reference] = job

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended, waiting so long for one; a worker that died has lost its job."""
        ready, _ = (
            ray.wait(list(self._running), num_returns=1, timeout=seconds) if self._running else ([], [])
        )
        ended = []
        for reference in ready:
            job = self._running.pop(reference)
            try:
                outcome = Outcome(**ray.get(reference))
            except ray.exceptions.RayError as error:
                lines = str(error).strip().splitlines() or [""]
                outcome = Outcome(LOST, f"its Ray worker failed: {type(error).__name__}: {lines[0][:300]}")
            ended.append((job, outcome))
        return ended

    def stop(self) -> None:
        """End what still runs, and leave the cluster."""
        for reference in self._running:
            ray.cancel(reference, force=True)
        ray.shutdown()

    def _nodes(self) -> list[dict]:
        """The machines that are alive and large enough for a job."""
        needed = {"CPU": self._cpus, "GPU": self._gpus}
        nodes = [node for node in ray.nodes() if node["Alive"]]
        return [
            node
            for node in nodes
            if all(node["Resources"].get(kind, 0) >= count for kind, count in needed.items())
        ]

    @property
    def capacity(self) -> int:
        """The jobs that fit into the cluster as it is now."""
        total = 0
        for node in self._nodes():
            fits = [node["Resources"].get("CPU", 0) / self._cpus if self._cpus else 1]
            fits += [node["Resources"].get("GPU", 0) / self._gpus] if self._gpus else []
            total += int(min(fits))
        return total


def connect(address: str) -> None:
    """Connect this process to a cluster. Raises ClusterError within seconds if there is none."""
    if ray is None:
        raise ClusterError("Ray is not installed: pip install '.[cluster]'")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address not in ("auto", "local"):
        if not host or not port.isdigit():
            raise ClusterError(f"--ray {address}: write host:port, ray://host:port, auto or local.")
        try:
            socket.create_connection((host, int(port)), ANSWER_WITHIN).close()
        except OSError as error:
            raise ClusterError(
                f"No Ray cluster answers at {address} ({error.strerror or error}): is it started there "
                "(ray start --head), is the port right, and is it reachable from here?"
            ) from error
    if address != "local":
        _try(address)
    try:
        ray.init(address, **QUIET)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise _no_cluster(address, str(error)) from error


def _try(address: str) -> None:
    """Connect in a process that can be killed: where something else listens, Ray tries for minutes."""
    command = "import json, ray, sys; ray.init(sys.argv[1], **json.loads(sys.argv[2]))"
    try:
        tried = subprocess.run(
            [sys.executable, "-c", command, address, json.dumps(QUIET)],
            capture_output=True,
            text=True,
            timeout=CONNECTED_WITHIN,
        )
    except subprocess.TimeoutExpired as error:
        raise _no_cluster(address, f"no answer within {CONNECTED_WITHIN:.0f} s") from error
    if tried.returncode:
        raise _no_cluster(address, tried.stderr)


def _no_cluster(address: str, reason: str) -> ClusterError:
    last = (reason.strip().splitlines() or [""])[-1][:300]
    remedy = "does Ray listen there, and is it of the same version?"
    if address == "auto":
        remedy = "start one (ray start --head), or name its address"
    return ClusterError(f"No Ray cluster at {address} ({last}): {remedy}")


def _run(job: dict, environment: dict) -> dict:
    outcome = start_job(job, environment)
    return outcome | {"node": ray.get_runtime_context().get_node_id()}
