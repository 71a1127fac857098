"""Prices, what may be spent, and the account of what was asked."""

from collections import Counter

import pytest

from xaihelpers import ask, paths, records, spending
from xaihelpers.spending import FREE, Price, SpendingError, price_of, read_prices

ELSEWHERE, HERE = "https://api.openai.com/v1", "http://localhost:8000/v1"


class Served:
    """A model on another machine: 1,000 tokens in and 100 out for each request."""

    name, identity, base = "gpt-4o", "server:gpt-4o", ELSEWHERE

    def __init__(self, fails=()):
        self.asked, self.warnings, self.fails = 0, Counter(), fails

    def answer(self, requests, seed, temperature):
        for position in range(len(requests)):
            self.asked += 1
            error = "broken" if self.asked in self.fails else ""
            yield position, ask.Answer("yes", tokens_in=1000, tokens_out=100, error=error)


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")


def questions(n):
    return [ask.request(f"question {i}") for i in range(n)]


def table(tmp_path, text):
    file = tmp_path / "prices.csv"
    file.write_text(text)
    return str(file)


def test_the_shipped_table_can_be_read():
    prices = read_prices()
    assert prices["gpt-4o"].of(1e6, 1e6) == pytest.approx(12.5)
    assert Price("m", "USD", 2.5, 10.0).of(2000, 300) == pytest.approx(0.008) and FREE.of(1e9, 1e9) == 0
    assert all(price.currency and price.source and 0 < price.batch_factor <= 1 for price in prices.values())


def test_who_costs_what(tmp_path):
    prices = read_prices()
    assert price_of("annotator", "", prices) is FREE
    # a server on this machine, whatever its model's name
    assert price_of("server:gpt-4o", HERE, prices) is FREE
    assert price_of("server:gpt-4o", ELSEWHERE, prices).per_million_in == 2.5
    own = table(tmp_path, "model,currency,in_per_million,out_per_million\nserver:mine,EUR,1,2\n")
    assert price_of("mine", HERE, read_prices(own), own) == Price("mine", "EUR", 1, 2)
    message = "server:gpt-4o has no price in .*prices.csv: name by the parameter"
    with pytest.raises(SpendingError, match=message):
        price_of("gpt-4o", ELSEWHERE, read_prices(own), own)


@pytest.mark.parametrize(
    "text, message",
    [
        ("model,currency\nm,USD\n", "needs the column 'in_per_million'"),
        ("model,currency,in_per_million,out_per_million\nm,USD,dear,2\n", "the price of 'm' is no number"),
        ("model,currency,in_per_million,out_per_million\nm,USD,nan,2\n", "line 2: the price of 'm' is no"),
        ("model,currency,in_per_million,out_per_million\nm,USD,1,-2\n", "line 2: the price of 'm' is no"),
        (
            "model,currency,in_per_million,out_per_million\nm,USD,1,2\nserver:m,USD,3,4\n",
            "line 3: 'm' has a price already",
        ),
    ],
)
def test_a_bad_table_is_named(text, message, tmp_path):
    with pytest.raises(SpendingError, match=message):
        read_prices(table(tmp_path, text))
    with pytest.raises(SpendingError, match="there is no file nowhere.csv"):
        read_prices("nowhere.csv")


def test_asking_stops_where_the_limit_is_reached_and_goes_on_from_there(tmp_path):
    each, model = 1000 * 2.5e-6 + 100 * 10e-6, Served()
    for begin in (lambda: spending.begin(0.0), lambda: records.start("81", {"results": str(tmp_path)})):
        begin()  # a run spends nothing unless its notebook allows it
        with pytest.raises(SpendingError, match="a notebook without it asks no model"):
            spending.account().may_ask("server:gpt-4o", read_prices()["gpt-4o"])
        with pytest.raises(SpendingError, match="spend_at_most is 0: set the parameter spend_at_most higher"):
            ask.ask(model, questions(3), progress=False)
    assert model.asked == 0
    spending.begin(2 * each)
    first, second = Served(), Served()
    with pytest.raises(SpendingError, match="0.01 USD are spent and spend_at_most is 0.007"):
        ask.ask(first, questions(5), progress=False)
    assert first.asked == 2
    account = spending.begin(10.0)
    ask.ask(second, questions(5), progress=False)
    assert second.asked == 3 and account.cost == pytest.approx(3 * each)


def test_the_account_tells_asked_cached_failed_and_different_requests_apart():
    account = spending.begin(10.0)
    ask.ask(Served(fails=[2]), [*questions(3), *questions(2)], progress=False)
    (row,) = account.rows()
    assert (row["requests"], row["asked"], row["cached"], row["failed"]) == (3, 3, 0, 1)
    assert (row["tokens_in"], row["tokens_out"], row["currency"]) == (3000, 300, "USD")
    again = spending.begin(10.0)
    ask.ask(Served(), questions(3), progress=False)
    ask.ask(Served(), questions(3), progress=False)
    (row,) = again.rows()
    assert spending.total([(1.0, "USD"), (2.5, "EUR"), (0.5, "USD"), (0, "")]) == "1.50 USD, 2.50 EUR"
    assert (row["requests"], row["asked"], row["cached"], row["failed"]) == (3, 1, 2, 0)
