"""A board: controls, a picture that follows them, and a line that says in words what the picture shows.

Where nobody can touch it (an executed notebook, a page on the web) the picture of its first state stands in
its place. It never waits: whoever runs a notebook without looking at it runs it to the end.
"""

import base64
import html
import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import anywidget
import traitlets
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

from xaihelpers.widgets.controls import checked

log = logging.getLogger(__name__)
FOLDER = Path(__file__).parent
DPI = 75
STILL = 480  # pixels: width of the picture that a notebook keeps


class Board(anywidget.AnyWidget):
    """A Jupyter widget of native controls and one picture.

    title: what it is, and how to use it, in a sentence. controls: as `controls` makes them.
    values: name of a control -> its first value.
    draw: a function of the values (a dict) that returns the picture and the line; the picture is a figure
        that pyplot does not hold, PNG bytes, or None. Called now, and whenever a value changes.
    presses: name of a button -> a function of the values, called when it is pressed; it may return new ones.
    adjust: a function of the earlier and the new values that returns those that shall count.
    area: the part of the picture in which one can point: left, top, width, height, as shares of it.
    Raises ValueError: for a value that its control cannot have; and whatever `draw` raises now. What it
        raises later is said in the line.
    """

    _esm, _css = FOLDER / "board.js", FOLDER / "board.css"
    title = traitlets.Unicode().tag(sync=True)
    controls = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    closed = traitlets.Bool(False).tag(sync=True)  # sliders and buttons no longer answer
    asks = traitlets.Bool(False).tag(sync=True)  # the line is a question, and stands above the controls
    area = traitlets.List([0, 0, 1, 1]).tag(sync=True)
    picture = traitlets.Bytes(b"").tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        title: str,
        controls: Sequence[dict],
        values: dict,
        draw: Callable[[dict], tuple],
        presses: dict[str, Callable[[dict], dict | None]] | None = None,
        adjust: Callable[[dict, dict], dict] | None = None,
        area: Sequence[float] = (0, 0, 1, 1),
    ):
        self._draw, self._presses, self._adjust = draw, presses or {}, adjust
        super().__init__(title=title, controls=list(controls), area=list(area))
        self.values = self._accepted(values)
        self.redraw()
        self.observe(self._touched, "values")
        self.on_msg(self._receive)

    def redraw(self) -> None:
        """Draw the picture and say the line anew."""
        with rc_context({"text.antialiased": True}):  # whatever a notebook sets for its own, larger figures
            figure, text = self._draw(dict(self.values))
            self.picture, self.text = as_png(figure), text

    def press(self, name: str) -> None:
        """Press a button. Raises ValueError if there is none of that name, or the board is closed."""
        shown = [one["name"] for one in self.controls if one["kind"] == "press"]
        if name not in shown or self.closed:
            raise ValueError(f"there is no button {name!r} to press; there are {', '.join(shown) or 'none'}")
        changed = self._presses[name](dict(self.values))
        if changed:
            self._put(self._accepted(changed))
        self.redraw()

    def _accepted(self, values: dict) -> dict:
        kinds = {one["name"]: one for one in self.controls if one["kind"] != "press"}
        if set(values) != set(kinds):
            raise ValueError(f"the controls are {', '.join(kinds)}, not {', '.join(values)}")
        return {name: checked(kinds[name], value) for name, value in values.items()}

    def _touched(self, change: dict) -> None:
        """Follow what was set in the browser; what no control can have is taken back."""
        try:
            accepted = self._accepted(change["new"])
            if self._adjust:
                accepted = self._accepted(self._adjust(change["old"], accepted))
        except (TypeError, ValueError) as error:
            self._put(change["old"])
            self.text = str(error)
        else:
            self._put(accepted)
            self._say_errors(self.redraw)
        self.send({"done": True})

    def _put(self, values: dict) -> None:
        """Set the values without following them."""
        self.unobserve(self._touched, "values")
        self.values = values
        self.observe(self._touched, "values")

    def _receive(self, _, message: dict, buffers: list) -> None:
        """Handle a message from the browser: a button was pressed."""
        self._say_errors(lambda: self.press(message.get("press")))
        self.send({"done": True})

    def _say_errors(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # of a notebook's own function: nobody would see it in a callback
            known = isinstance(error, ValueError)  # says what cannot be, in a sentence
            log.debug("a board cannot be drawn", exc_info=True)
            self.picture, self.text = b"", str(error) if known else f"{type(error).__name__}: {error}"

    def __repr__(self) -> str:
        return f"<{self.title} {self.text}>"

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        """The widget, and for whoever has no kernel its picture, or its words."""
        data, metadata = super()._repr_mimebundle_(**kwargs)
        if self.picture:
            data["image/png"] = base64.b64encode(_still(self.picture)).decode()
        else:
            data["text/html"] = f"<p><b>{html.escape(self.title)}</b> {html.escape(self.text)}</p>"
        return data, metadata


def as_png(figure: Figure | bytes | None) -> bytes:
    """A picture as PNG bytes, empty if there is none."""
    if isinstance(figure, bytes) or figure is None:
        return figure or b""
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI)
    return png.getvalue()


def _still(png: bytes) -> bytes:
    """A picture that is small enough for every notebook: at most STILL pixels wide, of 64 colours."""
    image, small = Image.open(io.BytesIO(png)).convert("RGB"), io.BytesIO()
    if image.width > STILL:
        image = image.resize((STILL, round(image.height * STILL / image.width)), Image.Resampling.LANCZOS)
    image.quantize(64, kmeans=3, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()
