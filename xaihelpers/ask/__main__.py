"""`python -m xaihelpers.ask export FILE.parquet` and `show`: answers that are kept, for others to check."""

import argparse
import sys

import pandas as pd

from xaihelpers.ask.export import answers_table, export_answers, summary


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    about = "The answers that are kept."
    parser = argparse.ArgumentParser(prog="python -m xaihelpers.ask", description=about)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="write all answers, with what was asked, into a Parquet file")
    export.add_argument("file", help="a file that ends in .parquet")
    export.add_argument("--model", default="", help="only of models whose name holds this")
    show = commands.add_parser("show", help="count the answers of each model, and show the last")
    show.add_argument("text", nargs="?", default="", help="only answers to questions that hold this")
    show.add_argument("--number", type=int, default=3, help="answers to show (3)")
    given = parser.parse_args(arguments)
    if given.command == "export":
        try:
            table = export_answers(given.file, given.model)
        except (ValueError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{len(table)} answers of {table.model.nunique()} models in {given.file}")
        return 0
    table = answers_table()
    if given.text:
        table = table[table.question.fillna("").str.contains(given.text, regex=False)]
    if table.empty:
        print("No such answers are kept.")
        return 0
    print(summary(table).round(1).to_string(index=False))
    for row in table.tail(given.number).to_dict("records"):
        time = "" if pd.isna(row["asked_at"]) else f"{row['asked_at']:%Y-%m-%d %H:%M} UTC"
        print(f"\n{row['model'] or '(not noted)'}  {time}  {row['failure']}".rstrip())
        print(f"  asked    {row['question'] or '(not noted)'} {row['image_names']}".rstrip())
        print(f"  answered {row['answer']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
