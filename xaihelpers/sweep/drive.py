"""The loop that brings the points of a plan to an executor and back, and what is said of them."""

import os
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from filelock import FileLock, Timeout

from xaihelpers.paths import CODE_KEY, PROJECT, FolderError, ensure_writable
from xaihelpers.sweep.grid import Point
from xaihelpers.sweep.job import lock_file
from xaihelpers.sweep.launch import DONE, FAILED, FOUND, HELD, LOST, Job, Outcome
from xaihelpers.sweep.plan import Plan, executed_copy

ROOM = "make room or permit writing there, or name another folder by --results; what is done is kept"
PAUSE = 1.0  # seconds between two looks at points that other processes run


class Executor(Protocol):
    """Something that runs jobs: `local.LocalExecutor` and `ray_executor.RayExecutor`."""

    n_slots: int  # jobs that may be with it at a time

    def start(self, job: Job, environment: dict[str, str], avoid: set[str]) -> None:
        """Take a job; not on the machines to `avoid`, where there are others."""

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended, waiting so long for one."""

    def stop(self) -> None:
        """End what still runs."""


class Ended(NamedTuple):
    """A point and what became of it in the end."""

    point: Point
    outcome: Outcome


def run_points(
    plan: Plan,
    executor: Executor,
    retries: int = 2,
    force: bool = False,
    say: Callable[[str, bool], object] = lambda line, ended: None,
) -> list[Ended]:
    """Run all points of a plan that are to be run, each once; returns what became of each.

    A point that another process runs is waited for, and run here if that process dies. A notebook that fails
    is not tried again now; a process, kernel or machine that fails is, `retries` times, elsewhere if there is
    an elsewhere.

    force: run also what is done. say: is told a line of each start and end, and whether it is a last end.
    Raises FolderError where the folder of results has become full or read-only: what runs then is let end,
        and nothing more is started.
    """
    if not plan.to_run:
        return []
    results = plan.to_run[0].results
    ensure_writable(results / "notebooks", ROOM)
    locks = ensure_writable(results / ".locks", ROOM)
    witness = locks / f"sweep-{uuid.uuid4().hex[:12]}"
    witness.touch()
    waiting = deque(_job(point, plan, witness.name, force) for point in plan.to_run)
    points = {point.name: point for point in plan.to_run}
    running: set[str] = set()
    held: list[Job] = []
    tries: Counter[str] = Counter()
    lost_on: dict[str, set[str]] = {}  # job -> the machines that lost it
    bad: set[str] = set()  # machines that would lose any job
    ended: list[Ended] = []
    full: FolderError | None = None
    looked = 0.0
    try:
        while waiting or running or held:
            if time.monotonic() - looked > PAUSE and held:
                looked = time.monotonic()
                free = [job for job in held if not _is_held(lock_file(results, job.name))]
                held = [job for job in held if job not in free]
                waiting.extend(free)
            while waiting and len(running) < executor.n_slots:
                job = waiting.popleft()
                executor.start(job, _environment(job), bad | lost_on.get(job.name, set()))
                running.add(job.name)
                say(f"{points[job.name].title}: started ({job.name})", False)
            for job, outcome in executor.wait(PAUSE):
                running.remove(job.name)
                title = points[job.name].title
                if outcome.state == HELD:
                    say(f"{title}: another process runs it; waiting for that", False)
                    held.append(job)
                    continue
                if outcome.state == LOST:
                    full = full or _fault(results)
                    tries[job.name] += 1
                    places = {outcome.node} - {""}
                    lost_on[job.name] = lost_on.get(job.name, set()) | places
                    bad |= places if outcome.of_machine else set()
                    if tries[job.name] <= retries and not full:
                        say(f"{title}: LOST, {outcome.reason}; tried again", False)
                        waiting.append(job)
                        continue
                ended.append(Ended(points[job.name], outcome))
                say(f"{title}: {_told(outcome)}", True)
            if full:
                waiting.clear()
                held.clear()
    finally:
        executor.stop()
        witness.unlink(missing_ok=True)
    if full:
        raise full
    return ended


def _job(point: Point, plan: Plan, witness: str, force: bool) -> Job:
    return Job(
        notebook=str(point.notebook),
        changed=point.changed,
        name=point.name,
        copy=executed_copy(point).stem,
        key=plan.keys[point.notebook],
        results=str(point.results),
        witness=f".locks/{witness}",
        project=str(PROJECT),
        force=force,
    )


def _environment(job: Job) -> dict[str, str]:
    """What a job's process must know on any machine; keys of services each machine has in its own."""
    own = {name: value for name, value in os.environ.items() if name in ("XAI_DATA", "XAI_MODEL_LABEL")}
    return own | {"XAI_RESULTS": job.results, CODE_KEY: job.key}


def _is_held(file: "os.PathLike[str]") -> bool:
    try:
        with FileLock(file, timeout=0):
            return False
    except Timeout:
        return True


def _fault(results: "os.PathLike[str]") -> FolderError | None:
    """Why nothing can be recorded any more, if so."""
    try:
        ensure_writable(results, ROOM)
    except FolderError as error:
        return error
    return None


def _told(outcome: Outcome) -> str:
    """An outcome as the end of a line."""
    if outcome.state == DONE:
        return f"done in {outcome.wall:.0f} s{outcome.reason}"
    if outcome.state == FOUND:
        return "done by another process"
    place = f" on {outcome.where}" if outcome.where else ""
    verb = "FAILED" if outcome.state == FAILED else "LOST for good"
    return f"{verb} after {outcome.wall:.0f} s{place}, {outcome.reason}"
