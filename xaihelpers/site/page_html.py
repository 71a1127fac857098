"""The last touches to a page's HTML: tables that the keyboard can scroll, figures that open in full size."""

import html
import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

WRAPPER = re.compile(r'<div class="table-wrapper([^"]*)">')
PICTURE = re.compile(r'<img ([^>]*?)src="([^"]+)"([^>]*?)/?>')
NUMBERS = re.compile(r"\b([Nn]otebooks?) ((?:\d\d(?:, | and | or | to )?)+)(?!\d)")


class LinkNotebooks(SphinxPostTransform):
    """ "notebook 13" in the text of a page becomes a link to that notebook's page."""

    default_priority = 400

    def run(self, **kwargs) -> None:
        pages = self.config.xai_notebooks  # number -> document
        own = self.env.docname
        for text in list(self.document.findall(nodes.Text)):
            if not NUMBERS.search(text) or _is_taken(text):
                continue
            parts, last = [], 0
            for match in NUMBERS.finditer(text):
                for number in re.finditer(r"\d\d", match[2]):
                    document = pages.get(number[0])
                    if document is None or document == own:
                        continue
                    begin = match.start(2) + number.start()
                    parts.append(nodes.Text(text[last:begin]))
                    uri = self.app.builder.get_relative_uri(own, document)
                    parts.append(nodes.reference("", number[0], internal=True, refuri=uri))
                    last = begin + 2
            if parts:
                parts.append(nodes.Text(text[last:]))
                text.parent.replace(text, parts)


def _is_taken(text: nodes.Text) -> bool:
    """Whether a text stands where a link would be wrong: in a link, a title, code or an equation."""
    node = text.parent
    while node is not None:
        if isinstance(
            node, (nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.math, nodes.raw)
        ):
            return True
        node = node.parent
    return False


def finish(app, pagename, templatename, context, doctree) -> None:
    """Work on the body of a page; called by Sphinx for each."""
    body = context.get("body")
    if not body:
        return
    count = 0

    def wrapper(match: re.Match) -> str:
        nonlocal count
        count += 1
        label = f"Table in the text, number {count}"
        return f'<div class="table-wrapper{match[1]}" role="group" tabindex="0" aria-label="{label}">'

    body = WRAPPER.sub(wrapper, body)
    body = body.replace(' aria-label="Toggle hidden content"', "")  # the words on it say more
    context["body"] = PICTURE.sub(_enlargeable, body)


def _enlargeable(match: re.Match) -> str:
    """A picture that leads to itself in full size, in a box that scrolls on a narrow screen."""
    before, source, after = match.groups()
    alt = re.search(r'alt="([^"]*)"', before + after)
    words = html.escape(html.unescape(alt[1]), quote=True) if alt else ""
    rest = re.sub(r'\balt="[^"]*"', "", before + after).strip()
    image = f'<img alt="{words}" src="{source}" loading="lazy" {rest}>'
    return f'<a class="picture" href="{source}">{image}</a>'


def navigate(app, pagename, templatename, context, doctree) -> None:
    """Give the theme the navigation as HTML, which it would otherwise resolve anew for every page."""
    context["toctree"] = lambda **kwargs: navigation_html(app, pagename)


def navigation_html(app, pagename: str) -> str:
    """The groups of pages as lists, with links from this page; the rooms only beside the functions."""
    parts = []
    rooms = sorted(name for name in app.env.found_docs if name.startswith("api/") and name != "api/index")
    for caption, members in app.config.xai_navigation:
        items = ""
        for title, document in members:
            below = ""
            if document == "api/index" and pagename.startswith("api/"):
                below = "".join(_entry(app, pagename, 2, room[4:], room) for room in rooms)
                below = f"<ul>{below}</ul>"
            items += _entry(app, pagename, 1, title, document, below)
        heading = f'<span class="caption-text">{caption}</span>'
        parts.append(f'<p class="caption" role="heading" aria-level="2">{heading}</p>')
        parts.append(f"<ul>{items}</ul>")
    return "".join(parts)


def _entry(app, pagename: str, level: int, title: str, document: str, below: str = "") -> str:
    address = "#" if document == pagename else app.builder.get_relative_uri(pagename, document)
    inside = document == pagename or (below and pagename.startswith("api/"))
    kind = f"toctree-l{level} current" if inside else f"toctree-l{level}"
    mark = "current reference internal" if document == pagename else "reference internal"
    return f'<li class="{kind}"><a class="{mark}" href="{address}">{title}</a>{below}</li>'


def setup(app) -> dict:
    app.add_config_value("xai_notebooks", {}, "env")
    app.add_config_value("xai_navigation", [], "env")
    app.add_post_transform(LinkNotebooks)
    app.connect("html-page-context", navigate, priority=400)  # before the theme's
    app.connect("html-page-context", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
