"""Chrome of the report (notebook 99): numbers and tables as HTML, one page that needs nothing else, written whole or not at all."""

import base64
import re
from html import escape
from pathlib import Path

import pandas as pd

from xaihelpers import paths
from xaihelpers.paths import FolderError

UNITS = {**dict.fromkeys(("accuracy", "CEM", "CLM", "S+", "S-", "T", "T_A", "recall"), ("%", "{:.1f}")), "CGIM": ("cosine", "{:.2f}"), "IoU": ("0–1", "{:.3f}")}
SIGNS = {"theta": "θ", "u": "û", "theta*u": "θ·û", "lambda": "λ", "alpha": "α", "samples": "N_p = N_n", "values": "concept values",
         "head": "black box's head", "attribute": "concept", "class_name": "class"}  # fmt: skip

CSS = """
body { max-width: 66rem; margin: 2.5rem auto; padding: 0 1.2rem; color: #1d2127; background: #fff; font: 1rem/1.5 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.4rem; margin: 3rem 0 .3rem; padding-top: .8rem; border-top: 2px solid #1d2127; }
h3 { font-size: 1.08rem; margin: 2rem 0 .2rem; }
p, li, figcaption, summary { max-width: 46rem; }
p { margin: .4rem 0; } ul { margin: .4rem 0; padding-left: 1.3rem; } li { margin: .25rem 0; }
a { color: #0b5cad; }
small, .quiet, figcaption { color: #59616b; } figcaption, .quiet { font-size: .9rem; }
.scroll { overflow-x: auto; margin: .6rem 0 1rem; }
table { border-collapse: collapse; font-size: .84rem; line-height: 1.35; }
th, td { padding: .2rem .6rem; text-align: left; vertical-align: top; }
thead th { vertical-align: bottom; font-weight: 600; border-bottom: 1px solid #b8bfc8; }
thead th.source { font-weight: 400; } thead th.n { font-weight: 400; color: #59616b; }
td.k, th.source, .nowrap { white-space: nowrap; }
tbody tr:nth-child(even) { background: #f4f6f8; } tbody tr.first td { border-top: 1px solid #b8bfc8; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.g { border-left: 1px solid #b8bfc8; } td.paper { background: #fdf6e3; } tr:nth-child(even) td.paper { background: #f8efd6; }
td.value { font-weight: 600; } td.paper { font-weight: 400; } td.interval, td.cases, td.chance { color: #59616b; }
details { margin: .5rem 0; } summary { cursor: pointer; color: #0b5cad; }
figure { margin: 1.2rem 0; break-inside: avoid; } figure img { max-width: 100%; height: auto; }
.failed { color: #a11; } .paper-mark { background: #fdf6e3; padding: 0 .3em; }
@media print { html { font-size: 11px; } body { max-width: none; margin: 0; } h2, h3 { break-after: avoid; } tr { break-inside: avoid; }
  thead { display: table-header-group; } .scroll { overflow: visible; } th, td { padding: .15rem .35rem; } * { print-color-adjust: exact; } }
"""


def with_unit(metric: str) -> str:
    """The name of a metric with its unit: "CEM (%)"."""
    unit = UNITS.get(metric.rstrip("0123456789"), ("", ""))[0]
    return f"{metric} ({unit})" if unit else metric


def number_text(value: float, metric: str = "") -> str:
    """A number in the digits of its metric (% one, cosine two, others three significant or whole), a dash for NaN."""
    if value != value:
        return "–"
    form = UNITS.get(metric.rstrip("0123456789"), ("", ""))[1]
    form = form or ("{:,.0f}" if abs(value) >= 1000 or value == int(value) else "{:.3g}")
    text = form.format(value).replace("-", "−")
    return text if re.search("[1-9]", text) else text.removeprefix("−")


def readable(name: str) -> str:
    """A key as a person would write it: θ for theta, "bill shape: dagger" for has_bill_shape::dagger, a class without its number."""
    name = SIGNS.get(name, name)
    if re.match(r"\d{3}\.\w", name):
        return name[4:].replace("_", " ")
    return name.removeprefix("has_").replace("_", " ").replace("::", ": ") if name.startswith("has_") else name


def columns_of(rows: pd.DataFrame, narrow: bool = False) -> tuple[dict[str, list[str]], str]:
    """The columns that a source has in a table, and the line of its heading.

    rows: `metric`, `value`, and NaN or numbers in `low`, `high`, `cases`, `chance` and any further column, one line for each
        line of the table.
    narrow: whether cases get no column even where they differ, but their range stands in the line.
    Returns name of column -> texts. Cases and chance that are the same in all rows are no column but stand in the line.
    """
    columns, line = {"value": [number_text(v, m) for v, m in zip(rows.value, rows.metric)]}, []
    percent = " %" if all(with_unit(metric).endswith("(%)") for metric in rows.metric) else ""
    if rows.low.notna().any():
        bounds = zip(rows.low, rows.high, rows.metric)
        columns["interval"] = [f"[{number_text(a, m)}, {number_text(b, m)}]" if a == a else "–" for a, b, m in bounds]
    for name, shown in (("cases", "{} cases"), ("chance", "chance {}" + percent)):
        texts = [number_text(v, m if name == "chance" else "") for v, m in zip(rows[name], rows.metric)]
        there = {text for text, value in zip(texts, rows.value) if value == value}
        if len(there) == 1 and len(rows) > 1:
            line += [shown.format(*there)] if there != {"–"} else []
        elif name == "cases" and narrow and there - {"–"}:
            line.append(f"{number_text(rows.cases.min())} to {number_text(rows.cases.max())} cases")
        elif there - {"–"}:
            columns[name] = texts
    for name in rows.columns.difference(["metric", "value", "low", "high", "cases", "chance"]):
        if rows[name].notna().any():
            columns[name] = [number_text(v) for v in rows[name]]
    return columns, ", ".join(line)


def table_html(names: pd.DataFrame, blocks: list[tuple[str, str, dict]], unit: str = "") -> str:
    """A table of named rows with blocks of columns beside each other.

    names: texts that name the rows, a column each. blocks: (metric, heading as HTML, name of column -> texts), those of a metric
    together; where there are several metrics they get a line of headings of their own, else `unit` stands for "value".
    """
    metrics = list(dict.fromkeys(metric for metric, _, _ in blocks))
    wide = len(metrics) > 1
    keys = "".join(f"<th class=k rowspan={2 + wide}>{escape(readable(name))}</th>" for name in names)
    groups = [(metric, sum(len(columns) for m, _, columns in blocks if m == metric)) for metric in metrics]
    lines = ["".join(f'<th class="g" colspan={n}>{escape(with_unit(metric))}</th>' for metric, n in groups)] if wide else []
    lines.append("".join(f'<th class="g source" colspan={len(columns)}>{title}</th>' for _, title, columns in blocks))
    small = [(i, name if name != "value" or wide else unit or name) for _, _, columns in blocks for i, name in enumerate(columns)]
    lines.append("".join(f'<th class="n{" g" if i == 0 else ""}">{escape(name)}</th>' for i, name in small))
    head = "".join(f"<tr>{keys if i == 0 else ''}{line}</tr>" for i, line in enumerate(lines))
    sources = [(f"n {name}{' g' if i == 0 else ''}{' paper' if title.startswith('<b>paper') else ''}", texts)
               for _, title, columns in blocks for i, (name, texts) in enumerate(columns.items())]  # fmt: skip
    body, above = [], ()
    repeats = len(names.columns) > 1 and names.iloc[:, 0].nunique() < len(names) / 1.5
    for i, row in enumerate(names.itertuples(index=False, name=None)):
        told = [row[: k + 1] == above[: k + 1] and k < len(row) - 1 for k in range(len(row))]  # a name of several rows is written once
        shown = [with_unit(name) if column == "metric" else readable(name) for column, name in zip(names, row)]
        cells = "".join(f"<td class=k>{'' if same else escape(name)}</td>" for name, same in zip(shown, told))
        cells += "".join(f'<td class="{kind}">{escape(texts[i])}</td>' for kind, texts in sources)
        body.append(f"<tr{' class=first' if i and repeats and row[:1] != above[:1] else ''}>{cells}</tr>")
        above = row
    return f"<div class=scroll><table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table></div>"


def page(cells: list, title: str) -> str:
    """Notebook cells as one HTML page without code, scripts or addresses, the images inside it.

    Raises ValueError if something in the cells would be loaded from elsewhere.
    """
    import nbformat
    from nbconvert import HTMLExporter

    left_out = dict.fromkeys(("exclude_input", "exclude_input_prompt", "exclude_output_prompt", "exclude_anchor_links"), True)
    exporter = HTMLExporter(template_name="basic", **left_out)  # this template brings no script and no style of its own
    body, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    without_pictures = re.sub(r"base64,[^\"']*", "base64,", body)
    loaded = re.search(r"""<(?:script|link|iframe|object|embed)\b|\bsrc\s*=\s*["']?(?!["']?data:)|@import|url\((?!["']?data:)""", without_pictures)
    if loaded:
        raise ValueError(f"The report would not stand alone: {without_pictures[max(0, loaded.start() - 80) : loaded.end() + 80]!r}")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title><style>{CSS}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def html_cell(html: str):
    """A notebook cell that shows this HTML."""
    from nbformat.v4 import new_code_cell, new_output

    return new_code_cell(outputs=[new_output("display_data", {"text/html": html})])


def figure_html(png: Path, caption: str) -> str:
    """A figure with its caption; the picture is inside the HTML. Raises OSError if the file cannot be read."""
    picture = base64.b64encode(png.read_bytes()).decode()
    return f'<figure><img src="data:image/png;base64,{picture}" alt="{escape(caption)}"><figcaption>{escape(caption)}</figcaption></figure>'


def write_whole(path: Path, text: str) -> None:
    """Write a file, in place of an earlier one, whole or not at all. Raises FolderError if it cannot be written."""
    try:
        paths.write_whole(path, text.encode())
    except OSError as error:
        remedy = "make room or permit writing there, or name another folder by the parameter results"
        raise FolderError(f"Could not write {path} ({error.strerror}): {remedy}.") from error
