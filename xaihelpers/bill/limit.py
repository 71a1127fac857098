"""The check in a notebook's set-up: names first, then the bill, and a stop above what may be spent."""

import logging

from xaihelpers import spending
from xaihelpers.ask.messages import AskError
from xaihelpers.bill.bill_text import bill_text
from xaihelpers.bill.estimate import estimate, too_large
from xaihelpers.bill.model_names import asked_models, fetch_configurations, problems_of
from xaihelpers.bill.model_sizes import is_served, model_size
from xaihelpers.bill.rates import rate_of
from xaihelpers.records import Run

log = logging.getLogger(__name__)
LARGE = 0.5  # 10⁹ weights; what is smaller fits everywhere


def before_asking(run: Run, spend_at_most: float, prices: str = "") -> None:
    """Check what the run will ask, before it asks anything, and open its account with the limit.

    Models, prompts and files that its parameters name must be there. Where a model costs money, the bill is
    shown, and more than `spend_at_most` is an error. Local models cost nothing, nor do servers on this
    machine, unless the user's own table names their models; nothing is shown of them.

    run: as `records.start` gives it. spend_at_most: in the currency of the prices.
    prices: a CSV file, as of `spending.read_prices`; empty takes the shipped one.
    Raises AskError: a model or a prompt that is not there.
    Raises SpendingError: a model without a price, or a bill above the limit.
    """
    account = spending.begin(spend_at_most, prices, run.run_folder.name)
    account.prices = spending.read_prices(prices)
    problems = problems_of(run.notebook, run.parameters)
    if problems:
        of_money = [problem for problem in problems if "price" in problem]
        raise (spending.SpendingError if of_money else AskError)("\n".join(problems))
    fetch_configurations(run.notebook, run.parameters)
    _say_what_does_not_fit(run)
    if not any(is_served(name) for name in asked_models(run.notebook, run.parameters)):
        return
    rate = rate_of()
    bill = estimate(run.notebook, run.parameters, rate, run.run_folder.name)
    dear = [line for line in bill.asked if line.price.per_million_in or line.price.per_million_out]
    if not dear:
        return
    cost, names = sum(line.cost for line in dear), ", ".join(line.model for line in dear)
    log.info("%s", bill_text(bill, "The bill of this run, estimated before it asks anything:", rate))
    if cost > spend_at_most:
        raise spending.SpendingError(
            f"{names}: about {bill.cost}, and the parameter spend_at_most is {spend_at_most:g}. Set it to "
            "what this may cost, or ask fewer cases or other models; nothing was asked."
        )


def _say_what_does_not_fit(run: Run) -> None:
    """Log by how much a model is too large for the device; it may still be placed over more than one."""
    sizes = [model_size(name) for name in asked_models(run.notebook, run.parameters)]
    large = [size for size in sizes if not size.is_served and size.billions > LARGE]
    rate = rate_of() if large else None
    for size in large:
        if size.memory(rate.weight_bytes) > rate.memory:
            log.warning("%s", too_large(size.name, size.memory(rate.weight_bytes), rate))
