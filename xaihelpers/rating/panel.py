"""The rating panel: one item at a time, answered by a key or a click, every answer in the file before the next picture appears.

What the browser is given is what a rater may see. The item's id, its file, what it keeps hidden, and the raters' answers stay in the kernel; pictures travel as
messages, so that no saved notebook holds them.
"""
from collections.abc import Sequence
from pathlib import Path

import anywidget
import traitlets

from . import store
from .items import Item, RatingError, choices

HERE = Path(__file__).parent


class RatingPanel(anywidget.AnyWidget):
    """The panel of one rater in one study; made by `panel`. `page`: all that the browser knows, beside the pictures."""

    _esm, _css = HERE / "panel.js", HERE / "panel.css"
    page = traitlets.Dict().tag(sync=True)

    def __init__(self, study: store.Study, rater: str, seed: int = 0):
        self.study, self.rater = study, rater.strip()
        self._order = store.order_of(study, rater, seed)
        super().__init__(page=self._next())
        self.on_msg(self._receive)

    def _next(self, item: str | None = None) -> dict:
        """The page of `item`, or of the first one in this rater's order that has no answer; the closing page after the last."""
        answers = store.rated(self.study, self.rater)
        item = item or next((i for i in self._order if i not in answers), None)
        self._page = store.page_of(self.study, item) if item else None
        progress = {"rater": self.rater, "done": len(answers), "total": len(self._order)}
        if item is None:
            return progress | {"position": 0, "shown": {}, "pictures": 0, "choices": []}
        offered = [[choice.key, choice.answer, choice.label] for choice in choices(self.study.form, self._page.shown["options"])]
        return progress | {"position": self._order.index(item) + 1, "shown": self._page.shown, "pictures": len(self._page.pictures), "choices": offered}

    def _receive(self, _, content: dict, buffers: list) -> None:
        """A message from the browser: it wants the pictures, or has an answer, or takes the last one back."""
        says = ""
        try:
            if content.get("do") == "pictures":
                if self._page and content.get("position") == self.page["position"]:
                    self.send({"pictures": self.page["position"]}, buffers=self._page.pictures)
                return
            if content.get("do") == "undo":
                item = store.undo(self.study, self.rater)
                says = "Taken back; answer it again." if item else "Nothing to take back."
                if item:
                    self.page = self._next(item)
            elif content.get("do") == "rate" and self._page and content.get("position") == self.page["position"]:  # a late second message rates nothing
                store.rate(self.study, self.rater, self._page.id, content["answer"], self.page["position"], content.get("seconds"), self._page.key)
                says, self.page = f"Saved: {content['answer']}.", self._next()
            self.send({"says": says})
        except (RatingError, OSError) as error:
            reason = str(error).replace(repr(self._page.id), f"number {self.page['position']}") if self._page else str(error)  # an id may tell too much
            self.send({"says": f"NOT SAVED: {reason}", "failed": True})


def panel(file: str | Path, study: str, rater: str, items: Sequence[Item | dict] | None = None, form: str = "scale", question: str = "",
          seed: int = 0) -> RatingPanel:
    """The panel for one rater, at the first item without an answer. Arguments and errors as of `store.open_study` and `store.order_of`."""
    return RatingPanel(store.open_study(file, study, items, form, question), rater, seed)
