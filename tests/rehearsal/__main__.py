"""`python -m rehearsal [NAMES] [--jobs N] [--go-on]`, or `make rehearse`: presets run to their ends."""

import argparse
import sys
from pathlib import Path

from rehearsal import stand_ins
from rehearsal.running import line, run


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 if all came to their ends, 1 if not, 2 for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m rehearsal", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="as 32, or 22-long-clip (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="at a time, each on one core")
    parser.add_argument("--go-on", action="store_true", help="keep what was computed, skip what was done")
    parser.add_argument("--limit", type=float, default=0.0, help="seconds after which one is stopped")
    parser.add_argument("--folder", type=Path, help="where all of it lies (default: rehearsal/ in the cache)")
    options = parser.parse_args(arguments)
    folder = options.folder or Path(__file__).resolve().parents[2] / "data/cache/rehearsal"
    folder = folder.expanduser().resolve()
    stand_ins.use(folder)
    from rehearsal.presets import REHEARSALS

    unknown = [name for name in options.names if name not in REHEARSALS]
    if unknown:
        print(f"no rehearsal {' '.join(unknown)}; there are: {' '.join(REHEARSALS)}", file=sys.stderr)
        return 2
    names = [name for name in REHEARSALS if name in options.names or not options.names]
    if not options.go_on:
        stand_ins.remove_computed(folder)
    else:
        names = [name for name in names if not (folder / "done" / name).exists()]
    stand_ins.prepare(folder, [need for name in names for need in REHEARSALS[name].needs])
    print(line("preset", "seconds", "outcome"))
    outcomes = run(names, folder, max(1, options.jobs), options.limit)
    failed = [name for name, (_, error) in outcomes.items() if error]
    total = sum(seconds for seconds, _ in outcomes.values())
    count = f"{len(outcomes) - len(failed)} of {len(outcomes)}"
    print(f"{count} to their ends in {total:.0f} s; logs in {folder}/logs")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
