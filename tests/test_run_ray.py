"""Grids on a real Ray cluster of two machines' worth of workers, which are killed here."""

import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
from tiny_notebook import lines, recorded, write_notebook

from xaihelpers.paths import PROJECT

pytestmark = [pytest.mark.notebooks, pytest.mark.xdist_group("ray")]
VALUES = [1.0, 2.0, 3.0, 4.0]


def patient(get_node):
    """Where all cores are busy a node takes longer to start than the half minute that Ray waits for it.

    The node itself waits a quarter of a minute for its agent to say that it listens at no port, there being
    no dashboard; that is said here.
    """
    from ray import _raylet

    def get(gcs_address, node_id):
        session = os.path.realpath("/tmp/ray/session_latest")
        _raylet.persist_port(session, node_id, _raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME, -1)
        end = time.monotonic() + 150
        while True:
            try:
                return get_node(gcs_address, node_id)
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    return get


def free_ports():
    """Ports for a node's other helpers, so that it waits for none of them to say its own."""
    names = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port")
    sockets = [socket.create_server(("", 0)) for _ in names]
    ports = {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module")
def address():
    """A cluster of two nodes with a worker each."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    import ray._private.services as services

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_agent_register_timeout_ms", "150000")
        patch.setattr(services, "get_node", patient(services.get_node))
        head = {"num_cpus": 1, "include_dashboard": False} | free_ports()
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=1, **free_ports())
        yield cluster.address
        cluster.shutdown()


def start(folder, address, *more):
    command = [sys.executable, "-m", "xaihelpers.run", "11", "-p", "a=1,2,3,4", "--ray", address, *more]
    command += ["--notebooks", str(folder / "notebooks"), "--results", str(folder / "results")]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()[0][-3000:]
        time.sleep(0.05)


def test_a_killed_worker_and_a_killed_driver_lose_nothing_and_run_nothing_twice(address, tmp_path):
    write_notebook(tmp_path / "notebooks", "time.sleep(1)")
    results = tmp_path / "results"
    driver = start(tmp_path, address)
    wait_for(lambda: lines(results / "begun.txt"), driver)
    worker = psutil.Process(int(lines(results / "begun.txt")[0][1]))
    assert "ray" in " ".join(worker.cmdline()).lower()
    worker.kill()
    wait_for(lambda: len(recorded(results)) >= 2, driver)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    done = {name for name, *_ in lines(results / "made.txt")}
    assert 2 <= len(done) < len(VALUES)
    again = start(tmp_path, address)
    said, _ = again.communicate(timeout=300)
    assert again.returncode == 0, said[-3000:]
    assert said.count("up to date") >= len(done)
    assert sorted(recorded(results).values()) == VALUES
    made = [name for name, *_ in lines(results / "made.txt")]
    assert len(made) == len(set(made)) == len(VALUES)
    refused = start(tmp_path, address, "--cpus", "64")
    said, _ = refused.communicate(timeout=300)
    assert refused.returncode == 2 and "no 64 CPUs and 0 GPUs for a point" in said
