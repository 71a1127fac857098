"""The bill before a run: its prices, its limit, what would stop the run; and that a plan asks nothing."""

from types import SimpleNamespace

import nbformat
import pytest

from xaihelpers import bill, paths, spending
from xaihelpers.ask import AskError, LocalModel, ServerModel
from xaihelpers.parameters import complete_parameters, declared_parameters

H200 = bill.rate_of("H200")
FEW = {"data": ["flowers102"], "general": [], "n_cases": 2, "n_seeds": 1}


def parameters(**given):
    cells = nbformat.read(next((paths.PROJECT / "notebooks").glob("32_*.ipynb")), 4).cells
    (source,) = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    return complete_parameters(declared_parameters(source), FEW | given)


@pytest.fixture(autouse=True)
def nothing_is_asked(monkeypatch, tmp_path):
    """Whatever is planned, no model is loaded and no server addressed; and nothing was asked before."""

    def refuse(*arguments, **named):
        raise AssertionError("a plan has loaded or asked a model")

    monkeypatch.setattr(LocalModel, "__init__", refuse)
    monkeypatch.setattr(ServerModel, "__init__", refuse)
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_a_bill_counts_requests_and_names_the_price():
    made = bill.estimate("32", parameters(models=["server:gpt-4o"]), H200)
    (line,) = made.asked
    assert line.requests > 50 and line.cost > 0 and "USD" in bill.bill_text(made, "32", H200)
    mine = bill.estimate("32", parameters(models=["annotator"]), H200)
    assert mine.asked[0].requests == line.requests and mine.asked[0].cost == 0


@pytest.mark.parametrize(
    "given, problem",
    [
        ({"models": ["no_such_model"]}, "The model 'no_such_model' cannot be loaded"),
        ({"chain_prompt": "no_such_prompt"}, "no_such_prompt: no prompt that can be read"),
        ({"models": ["server:a-model-without-a-price"]}, "has no price in"),
        ({"prices": "nowhere.csv"}, "there is no file nowhere.csv"),
        ({"data": ["no_such_data"]}, "there is no 'no_such_data' here, nor its size"),
    ],
)
def test_what_would_stop_a_run_is_said(given, problem):
    made = bill.estimate("32", parameters(**given), H200)
    assert any(problem in one for one in made.problems)
    assert f"STOPS: {made.problems[0]}" in bill.bill_text(made, "32", H200)


def a_run(**given):
    folder = SimpleNamespace(name="32-run")
    return SimpleNamespace(notebook="32", parameters=parameters(**given), run_folder=folder)


def test_the_limit_stops_a_run_before_it_asks():
    priced = a_run(models=["server:gpt-4o"])
    with pytest.raises(spending.SpendingError, match="about 0.0. USD, and the parameter spend_at_most is 0"):
        bill.before_asking(priced, 0.0)
    bill.before_asking(priced, 1.0)
    assert spending.account().limit == 1.0 and spending.account().name == "32-run"
    bill.before_asking(a_run(models=["annotator"]), 0.0)  # which costs nothing


def test_names_are_checked_before_a_run_asks(tmp_path):
    with pytest.raises(AskError, match="The model 'no_such_model' cannot be loaded"):
        bill.before_asking(a_run(models=["annotator"], judge="no_such_model"), 0.0)
    with pytest.raises(spending.SpendingError, match="has no price"):
        bill.before_asking(a_run(models=["server:who"]), 9.0)
    with pytest.raises(AskError, match="python:.*mine.py: there is no file"):
        bill.before_asking(a_run(models=[f"python:{tmp_path / 'mine.py'}"]), 0.0)
