"""Sweeps on a real Ray cluster of two machines' worth of workers, which are killed and filled here."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from tiny_sweeps import lines, make_plan_of, names, recorded, write_notebook

from xaihelpers import run as driver
from xaihelpers.paths import PROJECT
from xaihelpers.sweep import ray_executor
from xaihelpers.sweep.drive import run_points
from xaihelpers.sweep.local import LocalExecutor
from xaihelpers.sweep.ray_executor import ClusterError, RayExecutor, connect

pytestmark = [pytest.mark.notebooks, pytest.mark.xdist_group("ray")]
A = [1.0, 2.0, 3.0]


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """A file system of a megabyte, or None where none may be mounted."""
    place = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    mounted = shutil.which("mount") and subprocess.run(mount, capture_output=True).returncode == 0
    yield place if mounted else None
    if mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


def patient(get_node):
    """Where all cores are busy a node takes longer to start than the half minute that Ray waits for it.

    The node itself waits a quarter of a minute for its agent to say that it listens at no port, there being
    no dashboard; that is said here.
    """
    raylet = pytest.importorskip("ray._raylet")

    def get(gcs_address, node_id):
        session = os.path.realpath("/tmp/ray/session_latest")
        raylet.persist_port(session, node_id, raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME, -1)
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
def address(small_disk):
    """A cluster of two machines with a worker each; the second has the small disk for its scratch files."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    folders = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", folders)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setattr("ray._private.services.get_node", patient(ray_executor.ray._private.services.get_node))
        patch.setenv("RAY_agent_register_timeout_ms", "150000")
        head = {"num_cpus": 1, "include_dashboard": False} | free_ports()
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        scratch = {"env_vars": {"TMPDIR": str(small_disk)}} if small_disk else {}
        cluster.add_node(num_cpus=1, **scratch, **free_ports())
        yield cluster.address
        cluster.shutdown()


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """What a run of the same points gives, one after another, without Ray."""
    folder = tmp_path_factory.mktemp("serial")
    write_notebook(folder / "notebooks")
    run_points(make_plan_of(folder, a=A), LocalExecutor(1, 1))
    found = recorded(folder / "results")
    assert sorted(found.values()) == A
    return found


def wait_for(condition, seconds=180):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def made_once(folder, serial):
    """Nothing lost, nothing run twice, and all as in the serial run."""
    results = folder / "results"
    assert recorded(results) == serial
    assert sorted(names(results / "made.txt")) == sorted(serial)


def test_a_worker_killed_by_signal_9_costs_only_time(address, serial, tmp_path):
    write_notebook(tmp_path / "notebooks", "time.sleep(1)")
    begun = tmp_path / "results" / "begun.txt"

    def kill_the_first_worker():
        wait_for(lambda: lines(begun))
        job = psutil.Process(int(lines(begun)[0][1]))
        worker = job.parent()
        assert "ray" in " ".join(worker.cmdline())
        worker.kill()

    killer = threading.Thread(target=kill_the_first_worker)
    killer.start()
    said = []
    ended = run_points(
        make_plan_of(tmp_path, a=A), RayExecutor(address), say=lambda line, ended: said.append(line)
    )
    killer.join()
    assert {end.outcome.state for end in ended} <= {"done", "found"} and len(ended) == len(A)
    assert any("LOST, its Ray worker failed" in line for line in said)
    made_once(tmp_path, serial)


def test_a_driver_that_was_killed_is_started_again(address, serial, tmp_path):
    write_notebook(tmp_path / "notebooks", "time.sleep(1)")
    results = tmp_path / "results"
    command = [sys.executable, "-m", "xaihelpers.run", "11", "-p", "a=1,2,3", "--ray", address]
    command += ["--notebooks", str(tmp_path / "notebooks"), "--results", str(results)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: len(lines(results / "begun.txt")) > 1 and recorded(results))
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    ended = run_points(make_plan_of(tmp_path, a=A), RayExecutor(address))
    assert 0 < len(ended) < len(A)  # what was done is not asked for again
    made_once(tmp_path, serial)


def test_a_machine_with_a_full_disk_is_left_out(address, small_disk, serial, tmp_path):
    if not small_disk:
        pytest.skip("no small file system can be mounted here; a full disk is put in by test_sweep_local")
    write_notebook(tmp_path / "notebooks", f"# {'x' * 60_000}")
    filler = small_disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            with pytest.raises(OSError):
                for _ in range(512):  # twice its size
                    file.write(b"\0" * 4096)
            file.truncate(file.tell() - 16_384)  # room for a folder, but not for the executed notebook
        said = []
        run_points(
            make_plan_of(tmp_path, a=A), RayExecutor(address), say=lambda line, ended: said.append(line)
        )
    finally:
        filler.unlink()
    assert any("No space left on device" in line and "tried again" in line for line in said)
    made_once(tmp_path, serial)


def test_a_cluster_that_does_not_answer_is_said_quickly(tmp_path, capsys, monkeypatch):
    pytest.importorskip("ray")
    write_notebook(tmp_path / "notebooks")
    place = ["--notebooks", str(tmp_path / "notebooks"), "--results", str(tmp_path / "results")]
    assert driver.main(["11", "-p", "a=1,2", "--ray", "127.0.0.1:1", *place]) == 2
    assert "No Ray cluster answers at 127.0.0.1:1 (Connection refused)" in capsys.readouterr().err
    assert driver.main(["11", "-p", "a=1,2", "--ray", "nonsense", *place]) == 2
    assert "write host:port" in capsys.readouterr().err
    assert not names(Path(tmp_path / "results" / "begun.txt"))
    monkeypatch.setattr(ray_executor, "CONNECTED_WITHIN", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as other:  # listens, and is no Ray
        with pytest.raises(ClusterError, match="no answer within 2 s.*does Ray listen there"):
            connect(f"127.0.0.1:{other.getsockname()[1]}")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(ray_executor, "ray", None)
    with pytest.raises(ClusterError, match=r"pip install '.\[cluster\]'"):
        connect("auto")


def test_jobs_too_large_for_every_machine_are_refused(address):
    with pytest.raises(ClusterError, match="No machine of the cluster has 64 CPUs"):
        RayExecutor(address, cpus=64)
