"""The rating panel: one item at a time, each answer stored before the next item is shown.

The browser receives only what a rater may see. The item's id, its file, what it keeps hidden, and the raters'
answers stay in the kernel; images travel as messages, so that no saved notebook holds them.
"""

from pathlib import Path

import anywidget
import traitlets

from xaihelpers.rating.answers import current_answers, rate, undo
from xaihelpers.rating.items import RatingError, choices
from xaihelpers.rating.study import Study, item_order, read_page

FOLDER = Path(__file__).parent


class RatingPanel(anywidget.AnyWidget):
    """A Jupyter widget for one rater in one study; it begins at the first item without an answer.

    study: as `open_study` gives it. rater: a name or a code, the same each time. seed: of the rater's order.
    Raises RatingError: as `item_order`; later errors are shown in the panel.
    """

    _esm, _css = FOLDER / "panel.js", FOLDER / "panel.css"
    page = traitlets.Dict().tag(sync=True)  # all that the browser knows beside the images

    def __init__(self, study: Study, rater: str, seed: int = 0):
        self.study, self.rater = study, rater.strip()
        self._order = item_order(study, rater, seed)
        super().__init__(page=self._next_page())
        self.on_msg(self._receive)

    def _next_page(self, item: str | None = None) -> dict:
        """The page of `item`, by default of the first one without an answer; the closing page at the end."""
        answers = current_answers(self.study, self.rater)
        if item is None:
            item = next((candidate for candidate in self._order if candidate not in answers), None)
        self._page = read_page(self.study, item) if item else None
        progress = {"rater": self.rater, "done": len(answers), "total": len(self._order)}
        if item is None:
            return progress | {"position": 0, "shown": {}, "pictures": 0, "choices": []}
        buttons = []
        for choice in choices(self.study.form, self._page.shown["options"]):
            buttons.append([choice.key, choice.answer, choice.label])
        return progress | {
            "position": self._order.index(item) + 1,
            "shown": self._page.shown,
            "pictures": len(self._page.pictures),
            "choices": buttons,
        }

    def _receive(self, _, message: dict, buffers: list) -> None:
        """Handle a message from the browser: a request for images, an answer, or an undo."""
        try:
            if message.get("do") == "pictures":
                self._send_pictures(message)
            elif message.get("do") == "undo":
                self.send({"says": self._undo()})
            else:
                self.send({"says": self._rate(message)})
        except (RatingError, OSError) as error:
            reason = str(error)
            if self._page:  # an item's id may tell too much
                reason = reason.replace(repr(self._page.id), f"number {self.page['position']}")
            self.send({"says": f"NOT SAVED: {reason}", "failed": True})

    def _is_current(self, message: dict) -> bool:
        """Whether a message is about the item in view; a late second one is not."""
        return self._page is not None and message.get("position") == self.page["position"]

    def _send_pictures(self, message: dict) -> None:
        if self._is_current(message):
            self.send({"pictures": self.page["position"]}, buffers=self._page.pictures)

    def _undo(self) -> str:
        item = undo(self.study, self.rater)
        if item is None:
            return "Nothing to take back."
        self.page = self._next_page(item)
        return "Taken back; answer it again."

    def _rate(self, message: dict) -> str:
        if message.get("do") != "rate" or not self._is_current(message):
            return ""
        rate(
            self.study,
            self.rater,
            self._page.id,
            message["answer"],
            self.page["position"],
            message.get("seconds"),
            self._page.key,
        )
        self.page = self._next_page()
        return f"Saved: {message['answer']}."
