"""Rehearsals in processes of their own, forked from one that has imported the libraries already."""

import linecache
import multiprocessing
import os
import sys
import time
import traceback
from pathlib import Path

PRELOADED = ["torch", "torchvision", "timm", "open_clip", "transformers", "diffusers", "sklearn", "pandas"]
PRELOADED += ["matplotlib.pyplot", "notebook_nets", "statsmodels.stats.power", "ipywidgets", "nltk"]


def rehearse(name: str, folder: Path, log: Path) -> None:
    """Run one preset in this process; what it prints goes to a file, an error's first line to another."""
    with open(log, "w", buffering=1) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        import matplotlib

        matplotlib.use("agg")
        import torch

        from rehearsal.photographs import without_checksums
        from rehearsal.presets import parameters_of

        torch.set_num_threads(1)
        without_checksums()
        try:
            run_notebook(name[:2], parameters_of(name) | {"results": str(folder / "results")})
        except BaseException as error:
            traceback.print_exc()
            lines = str(error).strip().splitlines() or [""]
            log.with_suffix(".error").write_text(f"{type(error).__name__}: {lines[0]}")
            os._exit(1)
    os._exit(0)


def run_notebook(number: str, parameters: dict) -> None:
    """Execute the cells of a notebook here, with other parameters; prints the seconds of each to stderr."""
    from notebook_nets import PATHS, _display, code_cells

    first, *others = [cell.source for cell in code_cells(PATHS[number])]
    injected = "".join(f"{name} = {value!r}\n" for name, value in parameters.items())
    history: list[str] = [""]
    namespace = {"__name__": "__main__", "In": history, "display": _display}
    for source in (first, f"# Parameters\n{injected}", *others):
        history.append(source)
        where = f"{PATHS[number].stem}, cell {len(history) - 1}"
        linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
        started = time.perf_counter()
        exec(compile(source, where, "exec"), namespace)
        if (seconds := time.perf_counter() - started) > 1:
            print(f"[cell {len(history) - 1}: {seconds:.1f} s]", file=sys.stderr)


def run(names: list[str], folder: Path, jobs: int = 1, limit: float = 0.0) -> dict[str, tuple[float, str]]:
    """Rehearse presets, at most `jobs` at a time; (seconds, "" or what went wrong) of each.

    limit: seconds after which one is stopped; 0 for none.
    """
    from rehearsal.server import Server

    (folder / "logs").mkdir(parents=True, exist_ok=True)
    (folder / "done").mkdir(exist_ok=True)
    os.environ["OPENAI_BASE_URL"] = Server(folder / "requests.txt").address
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    waiting, running, outcomes = list(names), {}, {}
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            log = folder / "logs" / f"{name}.txt"
            log.with_suffix(".error").unlink(missing_ok=True)
            process = context.Process(target=rehearse, args=(name, folder, log))
            process.start()
            running[name] = (process, time.monotonic(), log)
        time.sleep(0.1)
        for name, (process, started, log) in list(running.items()):
            seconds = time.monotonic() - started
            if limit and seconds > limit and process.is_alive():
                process.kill()
                process.join()
                log.with_suffix(".error").write_text(f"stopped after {limit:.0f} seconds")
            if process.is_alive():
                continue
            del running[name]
            error = ""
            if process.exitcode:
                file = log.with_suffix(".error")
                error = file.read_text() if file.exists() else f"killed by signal {-process.exitcode}"
            else:
                (folder / "done" / name).touch()
            outcomes[name] = (seconds, error)
            print(line(name, seconds, error or "to its end"), flush=True)
    return outcomes


def line(name: str, seconds: float | str, outcome: str) -> str:
    """A row of the table of outcomes."""
    shown = seconds if isinstance(seconds, str) else f"{seconds:.0f}"
    return f"{name:<16} {shown:>8}  {outcome[:150]}"
