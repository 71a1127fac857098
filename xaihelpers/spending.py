"""What a run asks of models and what that costs: prices, the limit, and the account of its answers.

A notebook is one run in one process, so there is one open account: `ask` writes every answer into it,
wherever it is called from, `records` keeps it in run.json, and `bill` (the estimate before a run) opens it
with a limit.
"""

import json
import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from xaihelpers import paths
from xaihelpers.text_files import TextFileError, read_table

log = logging.getLogger(__name__)
SHIPPED_PRICES = paths.PROJECT / "data" / "bill" / "prices.csv"
COLUMNS = ("model", "currency", "in_per_million", "out_per_million", "batch_factor", "source")
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


class SpendingError(ValueError):
    """A model has no price, or would cost more than may be spent; the message names the remedy."""


class Price(NamedTuple):
    """What a model's tokens cost."""

    model: str
    currency: str
    per_million_in: float
    per_million_out: float
    batch_factor: float = 1.0  # of the provider's batch interface
    source: str = ""  # where and when the price was read

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """The cost of some tokens, in the price's currency."""
        return (tokens_in * self.per_million_in + tokens_out * self.per_million_out) / 1e6

    def in_batches(self) -> "Price":
        """The price by the provider's batch interface."""
        tokens_in, tokens_out = (
            self.batch_factor * price for price in (self.per_million_in, self.per_million_out)
        )
        return self._replace(per_million_in=tokens_in, per_million_out=tokens_out)


FREE = Price("", "", 0.0, 0.0)


def read_prices(file: str = "") -> dict[str, Price]:
    """The prices of a table, by model.

    file: a CSV with the columns of `COLUMNS`, a name under XAI_DATA or a path; empty takes the shipped one.
    Raises SpendingError: no such file, a column that is missing, a price that is no number from 0 up, a model
        that stands twice.
    """
    place = SHIPPED_PRICES if not file else paths.find(file)
    if place is None or not Path(place).is_file():
        raise SpendingError(f"prices: there is no file {file}: give a CSV file with {', '.join(COLUMNS)}.")
    try:
        table = read_table(place)
    except TextFileError as error:
        raise SpendingError(f"prices: {error}") from error
    if missing := set(COLUMNS[:4]) - set(table.columns):
        raise SpendingError(
            f"{place}: a table of prices needs the column {sorted(missing)[0]!r}; its columns are "
            f"{', '.join(COLUMNS)}, the last two of which may be left out."
        )
    prices = {}
    for line, row in table.iterrows():
        try:
            values = [row["in_per_million"], row["out_per_million"], row.get("batch_factor") or 1]
            numbers = [float(value) for value in values]
        except ValueError:
            numbers = [math.nan]
        if not all(0 <= number < math.inf for number in numbers):
            raise SpendingError(
                f"{place}, line {line}: the price of {row['model']!r} is no number from 0 up: correct it."
            )
        name = plain_name(row["model"])
        if name in prices:
            raise SpendingError(f"{place}, line {line}: {name!r} has a price already: keep one of the two.")
        prices[name] = Price(name, row["currency"], *numbers, row.get("source", ""))
    return prices


def plain_name(model: str) -> str:
    """A model's name as its server knows it: gpt-4o of server:gpt-4o and of batch:gpt-4o."""
    return model.removeprefix("server:").removeprefix("batch:").removeprefix("vllm:")


def is_elsewhere(address: str) -> bool:
    """Whether the server at an address is on another machine than this one."""
    return urlsplit(address).hostname not in (None, *LOCAL_HOSTS)


def price_of(name: str, address: str, prices: dict[str, Price], file: str = "") -> Price:
    """The price of a model.

    name: as the server knows it. address: of its server; empty for a model that runs here, which is free.
    A server on this machine is free as well, unless a table of the user's own names the model.
    prices, file: the table, and the file that it was read from, empty for the shipped one.
    Raises SpendingError: a model on another machine that the table does not hold.
    """
    name = plain_name(name)
    if not address or not (file or is_elsewhere(address)):
        return FREE
    if name in prices:
        return prices[name]
    if not is_elsewhere(address):
        return FREE
    raise SpendingError(
        f"server:{name} has no price in {file or SHIPPED_PRICES}: name by the parameter `prices` a CSV file "
        f"({', '.join(COLUMNS)}) that holds it, with 0 for a model that costs nothing."
    )


@dataclass
class Line:
    """What one model was asked; the tokens, seconds and failures are those of new answers."""

    keys: set = field(default_factory=set)  # of different requests
    asked: int = 0  # requests sent, with those that failed
    cached: int = 0  # different requests whose answer was kept from earlier
    failed: int = 0  # without an answer
    truncated: int = 0  # answers that max_tokens ended
    images: int = 0  # sent with the requests
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    currency: str = ""


@dataclass
class Account:
    """The answers of a run so far, by model, and what they may cost.

    limit: in the currency of the prices; None sets none, as for calls outside of a notebook.
    file: the table of prices, empty for the shipped one. name: of the run's folder, under which its progress
        is kept; empty keeps none.
    """

    limit: float | None = None
    file: str = ""
    name: str = ""
    lines: dict[str, Line] = field(default_factory=dict)
    prices: dict[str, Price] | None = None
    started: float = field(default_factory=time.perf_counter)

    @property
    def cost(self) -> float:
        """What the new answers have cost so far."""
        return sum(line.cost for line in self.lines.values())

    def line(self, model: str) -> Line:
        """The line of a model, begun where there is none."""
        return self.lines.setdefault(model, Line())

    def price_of(self, name: str, address: str) -> Price:
        """As the function of this name; outside of a notebook a model without a price is free."""
        if self.prices is None:
            self.prices = read_prices(self.file)
        try:
            return price_of(name, address, self.prices, self.file)
        except SpendingError:
            if self.limit is None:
                return FREE
            raise

    def may_ask(self, model: str, price: Price) -> None:
        """Raise SpendingError where a priced model is about to be asked, and all that may be is spent."""
        dear = price.per_million_in > 0 or price.per_million_out > 0
        if self.limit is not None and dear and self.cost >= self.limit:
            raise SpendingError(
                f"{model} costs money, {self.cost:.2f} {price.currency} are spent and spend_at_most is "
                f"{self.limit:g}: set the parameter spend_at_most higher (a notebook without it asks no "
                "model that costs money). What was answered is kept, and the next run goes on from there."
            )

    def add(self, model: str, answer, n_images: int, price: Price) -> None:
        """Write a new answer of `ask` into the account."""
        line = self.line(model)
        line.asked += 1
        line.failed += bool(answer.error)
        line.truncated += answer.truncated
        line.images += n_images
        line.tokens_in += answer.tokens_in
        line.tokens_out += answer.tokens_out
        line.cost += price.of(answer.tokens_in, answer.tokens_out)
        line.currency = price.currency

    def rows(self) -> list[dict]:
        """A row for each model that was asked, as run.json holds them."""
        rows = []
        for model, line in self.lines.items():
            row = {"model": model, "requests": len(line.keys)} | vars(line)
            del row["keys"]
            rows.append(row | {"seconds": round(line.seconds, 2), "cost": round(line.cost, 6)})
        return rows

    def keep_progress(self) -> None:
        """Write how many answers this run has, so that the next estimate knows what is left."""
        if not self.name:
            return
        have = progress_of(self.name)
        for model, line in self.lines.items():
            have[model] = max(have.get(model, 0), len(line.keys) - line.failed)
        try:
            paths.write_whole(_progress_file(self.name), json.dumps(have).encode())
        except OSError as error:  # an estimate is not worth an interruption
            log.debug("the progress of %s could not be kept: %s", self.name, error)


_open = Account()


def begin(limit: float | None = None, file: str = "", name: str = "") -> Account:
    """Open the account of a run, in the place of any other; arguments as of `Account`."""
    global _open
    _open = Account(limit, file, name)
    return _open


def account() -> Account:
    """The open account."""
    return _open


def progress_of(name: str) -> dict[str, int]:
    """How many answers a run has by now, whether or not it came to its end: model -> number."""
    try:
        return json.loads(_progress_file(name).read_text())
    except (OSError, ValueError):
        return {}


def total(costs: Iterable[tuple[float, str]]) -> str:
    """A sum of costs in words, each currency for itself: "12.40 USD"; "nothing" where all is free."""
    sums: dict[str, float] = {}
    for cost, currency in costs:
        if cost:
            sums[currency] = sums.get(currency, 0.0) + cost
    return ", ".join(f"{cost:,.2f} {currency}" for currency, cost in sums.items()) or "nothing"


def _progress_file(name: str) -> Path:
    return paths.cache_home() / "bills" / f"{name}.json"
