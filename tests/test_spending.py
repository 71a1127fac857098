"""Prices, what may be spent, and the account of what was asked."""

import time

import pytest
from faulty_server import said

from xaihelpers import ask, paths, records, spending
from xaihelpers.spending import FREE, Price, SpendingError, read_prices
from xaihelpers.text_files import TextFileError

ELSEWHERE, HERE = "https://api.openai.com/v1", "http://localhost:8000/v1"
OWN_TABLE = "model,currency,in_per_million,out_per_million,image_tokens\nm,EUR,1000000,1000000,0\n"


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")


def table(tmp_path, text):
    file = tmp_path / "prices.csv"
    file.write_text(text)
    return str(file)


def test_the_shipped_table_can_be_read():
    prices = read_prices()
    assert prices["gpt-4o"].of(1e6, 1e6) == pytest.approx(12.5)
    assert Price("USD", 2.5, 10.0).of(2000, 300) == pytest.approx(0.008) and FREE.of(1e9, 1e9) == 0
    asked = ask.request("three bytes a token", ["one.png", "two.png"], max_tokens=100)
    assert Price("USD", 3.0, 10.0, 1000).at_most(asked) == pytest.approx((19 + 6000 + 1000) / 1e6)


def test_who_costs_what(tmp_path):
    account = spending.begin(0.0)
    assert account.price_of("annotator", "") is FREE
    # a server on this machine, whatever its model's name
    assert account.price_of("gpt-4o", HERE) is FREE
    assert account.price_of("gpt-4o", ELSEWHERE).per_million_in == 2.5
    own = spending.begin(0.0, table(tmp_path, OWN_TABLE.replace("m,", "server:mine,")))
    assert own.price_of("mine", HERE) == Price("EUR", 1e6, 1e6, 0)
    message = "server:gpt-4o has no price in .*prices.csv: name by the parameter"
    with pytest.raises(SpendingError, match=message):
        own.price_of("gpt-4o", ELSEWHERE)
    with pytest.raises(TextFileError, match="'m' stands twice"):
        read_prices(table(tmp_path, OWN_TABLE + "m,EUR,1,2,0\n"))
    with pytest.raises(TextFileError, match="prices in EUR and USD: give them in one currency"):
        read_prices(table(tmp_path, OWN_TABLE + "n,USD,1,2,0\n"))
    assert len(read_prices(table(tmp_path, OWN_TABLE + "n,,0,0,0\n"))) == 2
    for limit in (-1.0, float("nan")):
        with pytest.raises(SpendingError, match="spend_at_most is .*: it has to be 0 or more"):
            spending.begin(limit)


@pytest.mark.parametrize(
    "usage, cost",
    [
        (None, 14),  # twelve bytes are 4 tokens of a prompt, and the answer has 10 at most
        ({"prompt_tokens": 5, "completion_tokens": -2}, 14),
        ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 12}, 12),
    ],
)
def test_tokens_that_a_server_does_not_count_cost_all_the_same(tmp_path, serve, usage, cost):
    """As where what was thought stands in the total alone."""
    serve(lambda body, times: (200, {}, said("A") | {"usage": usage}))
    account = spending.begin(1000.0, table(tmp_path, OWN_TABLE))
    ask.ask(ask.load_vlm("server:m"), [ask.request("twelve bytes", max_tokens=10)])
    assert account.rows()[0]["cost"] == cost


def reply(body, times):
    """7 tokens, of which 2 are the answer's."""
    time.sleep(0.1)
    return 200, {}, said(body["messages"][-1]["content"])


def test_asking_stops_before_the_limit_and_goes_on_from_there(tmp_path, serve):
    """At 1 EUR a token a question may cost 4 + 10 and costs 7."""
    faulty, prices = serve(reply), table(tmp_path, OWN_TABLE)
    questions = [ask.request(f"question {n:02}", max_tokens=10) for n in range(12)]
    for begin in (
        lambda: spending.begin(0.0, prices),
        lambda: records.start("81", {"results": str(tmp_path)}),
    ):
        begin()  # a run spends nothing unless its notebook allows it
        spending.account().file = prices
        with pytest.raises(SpendingError, match="m costs money.*0.00 is spent, spend_at_most is 0"):
            ask.ask(ask.load_vlm("server:m"), questions)
    assert not faulty.bodies
    account = spending.begin(30.0, prices)
    with pytest.raises(SpendingError, match="spend_at_most is 30"):
        ask.ask(ask.load_vlm("server:m"), questions)
    (row,) = account.rows()
    assert 2 <= len(faulty.bodies) == row["asked"] <= 4 and row["cost"] == 7 * row["asked"] <= 30, "all kept"
    account = spending.begin(1000.0, prices)
    assert len(ask.ask(ask.load_vlm("server:m"), questions)) == 12
    assert len(faulty.bodies) == 12, "what was answered is not paid for again"
    (again,) = account.rows()
    assert (again["cached"], again["asked"], again["currency"]) == (row["asked"], 12 - row["asked"], "EUR")
