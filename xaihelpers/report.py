"""Notebook 99 as a page: its tables, and one HTML file that needs nothing else."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

import pandas as pd
from IPython.display import HTML
from nbconvert import HTMLExporter
from traitlets.config import Config

from xaihelpers.paths import write_whole

EXERCISES = ["exercise", "stub", "answer", "check"]  # tags of cells that are not for the page
STYLE = """<style>
.border-box-sizing { max-width: 84rem; margin: auto; font: 15px/1.45 sans-serif; }
.output_subarea :is(img, pre) { max-width: 100%; white-space: pre-wrap; }
.output_html table { border-collapse: collapse; font-size: 12px; }
.output_html :is(td, th) { padding: 2px 7px; border: 1px solid #ddd; text-align: left; }
.output_html tbody :is(td, th) { vertical-align: top; }
.output_html thead { position: sticky; top: 0; background: white; }
</style>"""
PRINTED_ON = {
    "alignment": "CUB-200-2011 · ResNet-18",
    "conceptscore": "CUB-200-2011, CIFAR · Long-CLIP",
    "fse": "six sets of photographs · GPT-4o, Llama-3.2-vision, Qwen2-VL, DeepSeek-R1",
    "sub": "CUB-200-2011, SUB · FLUX.1-dev, InternVL-2.5-8B",
}
DEFINITIONS = {("alignment", "4"), ("alignment", "5")}  # printed tables with nothing to measure in them


def number_text(value: float) -> str:
    """Whole where it is whole or large, else three digits; a dash for none."""
    if pd.isna(value):
        return "–"
    is_whole = abs(value) >= 1000 or value == round(value)
    return f"{value:,.0f}" if is_whole else f"{value:.3g}"


def with_interval(value: float, low: float, high: float) -> str:
    """A number with its 95 % interval, where it has one."""
    text = number_text(value)
    return text if pd.isna(low) else f"{text} [{number_text(low)}, {number_text(high)}]"


def shown(
    rows: list[dict] | pd.DataFrame,
    columns: list[str] | None = None,
    caption: str = "",
    html: bool = False,
    index: bool = False,
) -> HTML:
    """A table as pandas writes it, a dash where there is nothing; a long one scrolls.

    html: whether texts are HTML already. index: whether the index is shown.
    """
    text = pd.DataFrame(rows, columns=columns).to_html(index=index, border=0, na_rep="–", escape=not html)
    if caption:
        text = text.replace("<thead>", f"<caption>{escape(caption)}</caption><thead>")
    return HTML(f'<div style="max-height: 48rem; overflow: auto">{text}</div>')


def verdict_cell(outcome: str, colour: str, row: dict | None, below: str) -> str:
    """A verdict in its colour, its number with the interval, and in small what it is from; HTML.

    row: with value, low and high, or None where there is no verdict.
    """
    if row is None:
        return "–"
    number = with_interval(row["value"], row["low"], row["high"])
    look = f"border-left: 9px solid {colour}; padding-left: 5px"
    return f'<b style="{look}">{escape(outcome)}</b><br>{number}<br><small>{escape(below)}</small>'


def paper_tables(
    recorded: pd.DataFrame, papers: list[str], settings: dict[str, str]
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Each table of the papers and of the runs: its title, its caption, and the table of texts.

    The paper's column stands first, then those of each run, each under the data and model that it is of.

    recorded: as of `records.read_records`. papers: whose printed tables are shown without a run as well.
    settings: folder of a run -> its parameters in words; the columns stand in this order.
    """
    from xaihelpers import tables  # brings torch, which the launcher, that imports this module, does without

    headings = tables.headings()
    places = set(zip(recorded.paper, recorded.table, strict=True))
    for paper in {*papers, *recorded.paper}:
        places |= {(paper, table) for table in tables.tables_of(paper)} - DEFINITIONS
    for paper, table in sorted(places, key=lambda place: (place[0], tables.table_order(place[1]))):
        names, numbers = tables.beside(recorded, paper, table)
        about = headings.get((paper, table), {"title": "", "caption": ""})
        name = f"Table {table}" if table[0].isdigit() else table
        title = f"{paper}, {name}: {about['title']}".removesuffix(": ")
        yield title, about["caption"], _side_by_side(paper, names, numbers, settings)


def _side_by_side(paper: str, names: pd.DataFrame, numbers: dict, settings: dict[str, str]) -> pd.DataFrame:
    columns, order = {}, ["paper", *settings]
    for source in sorted(numbers, key=lambda source: order.index(source.run)):
        rows, same = numbers[source], [settings.get(source.run, "")]
        void = [" void" if isinstance(mark, str) and mark else "" for mark in rows.void]
        texts = {"value": rows.value.map(number_text) + void}
        if rows.low.notna().any():
            interval_text = "[" + rows.low.map(number_text) + ", " + rows.high.map(number_text) + "]"
            texts["interval"] = interval_text.where(rows.low.notna(), "–")
        for name in rows.columns.difference(["value", "low", "high", "void"]):
            more = rows[name].map(number_text)
            distinct = more[rows.value.notna()].unique()
            if len(distinct) > 1:
                texts[name] = more
            elif {*distinct} - {"–"}:  # what is the same in all rows stands above them
                same.append(f"{name} {distinct[0]}")
        on = f"{source.data} · {source.model}" if source.data else PRINTED_ON.get(paper, "")
        for name, column in texts.items():
            columns[source.run, on, ", ".join(filter(None, same)), name] = column.to_numpy()
    return pd.DataFrame(columns, index=pd.MultiIndex.from_frame(names))


def write_report(executed: Path, page: Path) -> None:
    """Write an executed notebook as a page without code and exercises, whole or not at all.

    Pictures and style are inside it, and it loads nothing from elsewhere: nbconvert's template "basic" has no
    script and no style of its own.
    Raises OSError, leaving an earlier page, if it cannot be written.
    """
    config = Config({"TagRemovePreprocessor": {"enabled": True, "remove_cell_tags": EXERCISES}})
    hidden = {"exclude_input": True, "exclude_output_prompt": True, "exclude_anchor_links": True}
    exporter = HTMLExporter(config, template_name="basic", **hidden)
    body, _ = exporter.from_filename(str(executed))
    head = f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Report</title>\n{STYLE}\n'
    write_whole(page, (head + body).encode())
