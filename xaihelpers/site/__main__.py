"""`python -m xaihelpers.site`: write the static site, and say where it is."""

import argparse
import logging
import sys
from pathlib import Path

from xaihelpers.paths import PROJECT, results_home
from xaihelpers.site.build import SiteError, build_site
from xaihelpers.site.online_copies import checked_repository, repository_of


def main() -> int:
    logging.basicConfig(format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m xaihelpers.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=PROJECT / "site", help="folder to write (default: site/)")
    parser.add_argument(
        "--repository",
        default=None,
        help="owner/name on GitHub, for links to Colab and Binder (default: the checkout's; '' for none)",
    )
    parser.add_argument(
        "--report",
        type=Path,
        default=None,
        help="report of notebook 99 (default: results/report.html, if any)",
    )
    given = parser.parse_args()
    report = given.report
    if report is None:
        found = results_home() / "report.html"
        report = found if found.is_file() else None
    elif not report.is_file():
        parser.error(f"there is no report {report}")
    try:
        repository = given.repository
        repository = repository_of(PROJECT) if repository is None else checked_repository(repository)
        built = build_site(given.out.resolve(), repository, report)
    except (SiteError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for warning in built.warnings:
        print(warning, file=sys.stderr)
    print(f"{built.pages} pages in {built.seconds:.0f} s: {built.folder / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
