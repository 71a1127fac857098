"""What paid answers cost: a table of prices, and a limit that is 0 unless the user sets it.

There is one open account, since a notebook is one run in one process: `ask` writes every answer into it, and
`records` keeps it in run.json.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from xaihelpers import paths
from xaihelpers.names import server_address
from xaihelpers.text_files import TextFileError, numbers, read_table

log = logging.getLogger(__name__)
SHIPPED_PRICES = paths.PROJECT / "data" / "prices.csv"
COLUMNS = ("model", "currency", "in_per_million", "out_per_million", "image_tokens")
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
# of a model: requests sent, with those that failed; different requests whose answer was kept from earlier;
# without an answer; ended by max_tokens; pictures and tokens of what was sent
COUNTED = ("asked", "cached", "failed", "truncated", "images", "tokens_in", "tokens_out", "cost")


class SpendingError(ValueError):
    """A model has no price, or would cost more than may be spent; the message names the remedy."""


class Price(NamedTuple):
    """What a model's tokens cost."""

    currency: str = ""
    per_million_in: float = 0.0
    per_million_out: float = 0.0
    image_tokens: float = 0.0  # that one picture may take

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """The cost of some tokens, in the price's currency."""
        return (tokens_in * self.per_million_in + tokens_out * self.per_million_out) / 1e6

    def at_most(self, request) -> float:
        """What an `ask.Request` may cost: a token for three bytes of text, and the longest answer."""
        tokens_in = len(request.text.encode()) / 3 + self.image_tokens * len(request.images)
        return self.of(tokens_in, request.max_tokens)


FREE = Price()


def read_prices(file: str = "") -> dict[str, Price]:
    """The prices of a CSV table with the columns `COLUMNS`, by model as its server knows it.

    file: a name under XAI_DATA or a path; empty takes the shipped one.
    Raises TextFileError: no such file, a column that is missing, a price that is no number, a model
        that stands twice, prices in two currencies, which one limit cannot hold.
    """
    place = paths.find(file) or Path(file) if file else SHIPPED_PRICES
    table = read_table(place, COLUMNS)
    prices = [numbers(table[name], place, low=0) for name in COLUMNS[2:]]
    names = table["model"].str.removeprefix("server:")
    if names.duplicated().any():
        raise TextFileError(f"{place}: {names[names.duplicated()].iloc[0]!r} stands twice: keep one price")
    currencies = table["currency"][(prices[0] > 0) | (prices[1] > 0)].unique()
    if len(currencies) > 1:
        raise TextFileError(
            f"{place}: prices in {' and '.join(currencies)}: give them in one currency, as spend_at_most"
        )
    return dict(zip(names, map(Price, table["currency"], *prices), strict=True))


@dataclass
class Account:
    """The answers of a run so far, by model, and what they may cost.

    limit: in the currency of the prices; None sets none, as for calls outside of a notebook.
    file: the table of prices, empty for the shipped one.
    Raises SpendingError: a limit that is below 0, or no number.
    """

    limit: float | None = None
    file: str = ""
    lines: dict[str, dict] = field(default_factory=dict)  # model -> COUNTED and currency
    under_way: dict[int, float] = field(default_factory=dict)  # by the id of a request

    def __post_init__(self):
        if self.limit is not None and not self.limit >= 0:
            raise SpendingError(f"spend_at_most is {self.limit}: it has to be 0 or more")

    def price_of(self, model: str, address: str) -> Price:
        """The price of a model; what runs on this machine is free, unless the user's own table has it.

        Raises SpendingError: a model on another machine that the table does not hold.
        """
        elsewhere = bool(address) and urlsplit(address).hostname not in LOCAL_HOSTS
        prices = read_prices(self.file) if address and (self.file or elsewhere) else {}
        if model in prices or not elsewhere or self.limit is None:
            return prices.get(model, FREE)
        raise SpendingError(
            f"server:{model} has no price in {self.file or SHIPPED_PRICES}: name by the parameter `prices` a "
            f"CSV file ({', '.join(COLUMNS)}) that holds it, with 0 for a model that costs nothing."
        )

    def expect(self, model: str, price: Price, requests: Sequence, n_cached: int) -> None:
        """Say what the requests to a model that costs money may cost, before the first is sent."""
        line = dict.fromkeys(COUNTED, 0) | {"currency": price.currency}
        self.lines.setdefault(model, line)["cached"] += n_cached
        if most := sum(map(price.at_most, requests)):
            limit = "" if self.limit is None else f"; spend_at_most is {self.limit:g}"
            log.info("%s: %d requests, at most %.4f %s%s", model, len(requests), most, price.currency, limit)

    def reserve(self, model: str, price: Price, request) -> None:
        """Set aside what a request may cost, before it is sent.

        Raises SpendingError where that is more than is left.
        """
        most = price.at_most(request)
        spent = sum(line["cost"] for line in self.lines.values())
        if self.limit is not None and most and spent + sum(self.under_way.values()) + most > self.limit:
            raise SpendingError(
                f"{model} costs money: the next request may cost {most:.4f} {price.currency}, {spent:.2f} is "
                f"spent, spend_at_most is {self.limit:g}. Set the parameter spend_at_most higher; what was "
                "answered is kept, and the next run goes on from there."
            )
        self.under_way[id(request)] = most

    def add(self, model: str, answer, request, price: Price) -> None:
        """Write a new answer of `ask`, after `expect`, into the account.

        One whose tokens the server does not count costs what was set aside for it.
        """
        most = self.under_way.pop(id(request), 0.0)
        is_counted = bool(answer.tokens_in and answer.tokens_out) or answer.error or answer.refused
        cost = price.of(answer.tokens_in, answer.tokens_out) if is_counted else most
        tokens, failed = (answer.tokens_in, answer.tokens_out), bool(answer.error)
        found = (1, 0, failed, answer.truncated, len(request.images), *tokens, cost)
        for name, count in zip(COUNTED, found, strict=True):
            self.lines[model][name] += count

    def rows(self) -> list[dict]:
        """A row for each model that was asked, as run.json holds them."""
        return [{"model": model, **line} for model, line in self.lines.items()]


_open = Account()


def lacking(model: str, limit: float, prices: str) -> Iterator[tuple[str, str]]:
    """What is still needed to ask a server's model: a kind, with a place for a name, and the name.

    limit, prices: as of `Account`.
    """
    price, has_key = FREE, bool(os.environ.get("OPENAI_API_KEY"))
    try:
        price = Account(limit, prices).price_of(model, server_address())
    except ValueError:
        yield "a price of {} (see the parameter prices)", model
    if not (has_key or os.environ.get("OPENAI_BASE_URL")):
        yield "{} in the environment", "OPENAI_BASE_URL or OPENAI_API_KEY"
    elif not has_key and price != FREE:
        yield "{} in the environment", "OPENAI_API_KEY"
    if not limit and price != FREE:
        yield "spend_at_most above 0 for {}", model


def begin(limit: float | None = None, prices: str = "") -> Account:
    """Open the account of a run, in the place of any other; arguments as of `Account`.

    Raises TextFileError as `read_prices` does, SpendingError as `Account`.
    """
    global _open
    read_prices(prices)
    _open = Account(limit, prices)
    return _open


def account() -> Account:
    """The open account."""
    return _open
