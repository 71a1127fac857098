"""A process that runs one point: takes its lock, looks whether it is done, executes the notebook, keeps it.

`python -m xaihelpers.sweep.job` reads a job as JSON from its input and writes what became of it as the last
line of its output. All that keeps a point from being run twice or half is here: whoever starts jobs, by
whatever means and however often, may be killed at any time. The lock is the kernel's, so it goes with this
process; what the notebook records appears whole or not at all, with the key of the code that made it.
"""

import errno
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

from filelock import FileLock, Timeout

from xaihelpers.notebook_files import clean_notebook
from xaihelpers.sweep.launch import DONE, FAILED, FOUND, HELD, LOST, MARK, Job, Outcome
from xaihelpers.sweep.plan import is_done

# what a machine may lack and another have: room, a disk that works
OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def run_job(job: Job) -> Outcome:
    """Run a point in this process, unless it is done or another process runs it now."""
    where = socket.gethostname()
    results = Path(job.results)
    if not (results / job.witness).exists():
        reason = f"{where} does not see {results}: results must lie in a folder that all machines share"
        return Outcome(LOST, reason, where, of_machine=True)
    kept = results / "notebooks" / f"{job.copy}.ipynb"
    failed = kept.with_suffix(".failed.ipynb")
    try:
        with FileLock(lock_file(results, job.name), timeout=0):
            if not job.force and is_done(results / job.name, job.key, failed):
                return Outcome(FOUND, where=where)
            return _execute(job, results, kept, failed)._replace(where=where)
    except Timeout:
        return Outcome(HELD, where=where)
    except OSError as error:
        reason = ": ".join(filter(None, [error.strerror or str(error), error.filename]))
        return Outcome(LOST, reason, where, of_machine=error.errno in OF_THE_MACHINE)


def lock_file(results: Path, name: str) -> Path:
    """The file whose lock whoever runs a point holds."""
    return results / ".locks" / f"{name}.lock"


def _execute(job: Job, results: Path, kept: Path, failed: Path) -> Outcome:
    # imported where it is used, for it takes seconds that a job which is done or held need not wait
    from nbclient.exceptions import DeadKernelError
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    before = _recorded(job, results)
    start = time.monotonic()
    # the copy grows here, on this machine's own disk, and is moved to the shared folder at the end
    with tempfile.TemporaryDirectory(prefix="xaihelpers-") as folder:
        partial = Path(folder) / kept.name
        try:
            execute_notebook(
                job.notebook, str(partial), job.changed, progress_bar=False, log_output=False, cwd=job.project
            )
        except PapermillExecutionError as error:
            seconds = time.monotonic() - start
            reason = f"in cell [{error.exec_count}]\n  {error.ename}: {str(error.evalue)[:1000]}"
            if any(os.strerror(code) in str(error.evalue) for code in OF_THE_MACHINE):
                return Outcome(LOST, reason, of_machine=True, seconds=seconds)
            return Outcome(FAILED, reason + _keep(partial, failed, {}), seconds=seconds)
        except DeadKernelError:
            reason = "the kernel died: killed, or out of memory"
            return Outcome(LOST, reason, seconds=time.monotonic() - start)
        seconds = time.monotonic() - start
        if _recorded(job, results) in (None, before):
            reason = f"it ran to its end, but recorded nothing in {results / job.name}"
            return Outcome(FAILED, reason + _keep(partial, failed, {}), seconds=seconds)
        note = _keep(partial, kept, {"key": job.key, "records": [job.name]})
        failed.unlink(missing_ok=True)
        return Outcome(DONE, note, seconds=seconds)


def _recorded(job: Job, results: Path) -> int | None:
    """When the results of a job were written, None if they are not there."""
    file = results / job.name / "run.json"
    return file.stat().st_mtime_ns if file.is_file() else None


def _keep(partial: Path, place: Path, made: dict) -> str:
    """Move an executed notebook to its place, cleaned if it is whole; returns what to say of it."""
    beside = place.with_name(f".{place.name}.partial")
    try:
        if made:
            notebook = json.loads(partial.read_text())
            clean_notebook(notebook)
            notebook["metadata"]["xaihelpers_run"] = made
            partial.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(partial, beside)
        os.replace(beside, place)
    except OSError as error:
        beside.unlink(missing_ok=True)
        return f"\n  its executed notebook could not be kept: {error.strerror or error}"
    return "" if made else f"\n  kept as far as it came: {place}"


def main() -> int:
    """Run the job that stands in the input, and write its outcome to the output."""
    for end in (signal.SIGINT, signal.SIGTERM):  # so that the kernel is stopped then, too
        signal.signal(end, signal.default_int_handler)
    outcome = run_job(Job(**json.load(sys.stdin)))
    sys.stdout.write(f"\n{MARK}{json.dumps(outcome._asdict())}\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
