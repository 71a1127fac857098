"""How the runs were made, as HTML: what was run, all settings, and what models were asked."""

import json
import shlex
from html import escape

import pandas as pd

# of the bill in run.json, in the order of the table
BILL_COLUMNS = "requests asked cached failed truncated images tokens_in tokens_out seconds".split()


def runs_html(runs: pd.DataFrame) -> str:
    """The runs as a table, a row each, of texts; a text that begins with "failed" is shown in red."""
    head = "".join(f"<th>{escape(name)}</th>" for name in runs)
    body = ""
    for row in runs.to_dict("records"):
        body += "<tr>"
        for name, text in row.items():
            kind = {"seconds": " class=n", "started (UTC)": " class=nowrap"}.get(name, "")
            if text.startswith("failed"):
                kind = " class=failed"
            body += f"<td{kind}>{escape(text)}</td>"
        body += "</tr>"
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def bills_html(runs: list[dict]) -> str:
    """What each run asked of models, as its run.json says, a row for each model; "" where none was asked.

    runs: as of `records.read_runs`. The numbers are those of new answers, beside what was kept from earlier.
    """
    lines = []
    for entry in runs:
        for row in entry.get("bill", {}).get("asked", []):
            line = {"run": entry["folder"].name, "model": row["model"]}
            for name in BILL_COLUMNS:
                line[name.replace("_", " ")] = f"{row[name]:,.0f}"
            line["cost"] = f"{row['cost']:,.2f} {row['currency']}" if row["cost"] else "nothing"
            lines.append(line)
    if not lines:
        return ""
    heading = "<h3>What models were asked, and what it cost</h3>"
    return heading + runs_html(pd.DataFrame(lines))


def settings_html(runs: list[dict]) -> str:
    """All settings of each run, folded, with the command that makes it again; "" without runs.

    runs: as of `records.read_runs`; "changed" holds the parameters that differ from the notebook's defaults.
    A link to "#run-<name of its folder>" unfolds a run's own part.
    """
    parts, seen = [], set()
    for entry in runs:
        name = entry["folder"].name
        if name in seen:  # the same parameters, kept in two places
            continue
        seen.add(name)
        rows = ""
        for parameter, value in entry["parameters"].items():
            mark = "" if parameter in entry["changed"] else " <small>(default)</small>"
            text = escape(json.dumps(value, ensure_ascii=False))
            rows += f"<tr><td class=k>{escape(parameter)}</td><td>{text}{mark}</td></tr>"
        versions = ", ".join(f"{library} {version}" for library, version in entry["versions"].items())
        made = (
            f"{entry['started'][:16].replace('T', ' ')} UTC, {entry['seconds']:,.0f} s on {entry['device']}, "
        )
        made += f"seed {entry['parameters'].get('seed', 0)}, {versions}"
        command = f"papermill notebooks/{entry['notebook']}_*.ipynb out.ipynb"
        if entry["changed"]:
            given = {parameter: entry["parameters"][parameter] for parameter in entry["changed"]}
            command += f" -y {shlex.quote(json.dumps(given, ensure_ascii=False))}"
        parts.append(
            f"<details><summary>{escape(name)}</summary><div id='run-{name}'>"
            f"<p>{escape(made)}</p><p><code>{escape(command)}</code></p>"
            f"<div class=scroll><table><thead><tr><th>parameter</th><th>value</th></tr></thead>"
            f"<tbody>{rows}</tbody></table></div></div></details>"
        )
    return f"<h3>Settings of each run</h3>{''.join(parts)}" if parts else ""


def made_html(runs: list[dict]) -> str:
    """How the runs were made: all their settings, and what they asked of models."""
    return settings_html(runs) + bills_html(runs)
