"""Docstrings of this package as markdown: arguments as a list, the rest as it is written."""

import re
import textwrap

ARGUMENT = re.compile(r"^(\*{0,2}[a-z_]\w*(?:, \*{0,2}[a-z_]\w*)*): (?=\S)")
RESULT = re.compile(r"^(Returns|Raises|Yields|Source|Serves)\b:? ?")
CODE = re.compile(r"(`[^`]*`)")


def markdown(docstring: str) -> str:
    """A docstring as markdown.

    A line that begins with "name: " begins an argument, and one that begins with Returns or Raises that part;
    lines indented below belong to it. Blocks that are indented by themselves are shown as they are.
    """
    blocks = re.split(r"\n\s*\n", _dedented(docstring).strip("\n"))
    parts, last = [], ""
    for block in blocks:
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines):
            if last == "literal":  # two such blocks with an empty line between
                parts[-1] = parts[-1].removesuffix("\n```") + "\n\n" + textwrap.dedent(block) + "\n```"
            else:
                parts.append("```text\n" + textwrap.dedent(block) + "\n```")
            last = "literal"
        elif lines[0].startswith(("|", "```")):
            parts.append(block)
            last = "table"
        else:
            text = _items(lines)
            joined = last == "list" and text.startswith("- ")
            parts.append(text)
            if joined:
                parts[-2:] = [f"{parts[-2]}\n{parts[-1]}"]
            last = "list" if text.startswith("- ") else "text"
    return "\n\n".join(parts)


def summary(docstring: str) -> str:
    """The first sentence of a docstring as markdown, on one line."""
    first = " ".join(docstring.strip().split("\n\n")[0].split())
    return escaped(re.split(r"(?<=[.?!]) (?=[A-Z])", first)[0])


def escaped(text: str) -> str:
    """Plain text as markdown that shows it as it is; what stands in backticks is code."""
    parts = CODE.split(text)
    for n in range(0, len(parts), 2):
        parts[n] = re.sub(r"([*$<\[\]{}#~\\]|(?<!\w)_|_(?!\w))", r"\\\1", parts[n])
    return "".join(parts)


def _dedented(docstring: str) -> str:
    first, _, rest = docstring.partition("\n")
    return first.strip() + "\n" + textwrap.dedent(rest)


def _items(lines: list[str]) -> str:
    """A paragraph, or where its lines are arguments, a list of them."""
    items, begun = [], ""
    listed = False
    for line in lines:
        argument, result = ARGUMENT.match(line), RESULT.match(line)
        if argument or result:
            if begun:
                items.append((listed, begun))
            listed = True
            if argument:
                begun = f"**{escaped(argument[1])}**: {escaped(line[argument.end() :])}"
            else:
                begun = f"**{result[1]}** {escaped(line[result.end() :])}"
        else:
            begun = f"{begun} {escaped(line.strip())}".strip()
    items.append((listed, begun))
    texts = []
    for is_item, text in items:
        texts.append(f"- {text}" if is_item else f"{text}\n")
    return "\n".join(texts).rstrip()
