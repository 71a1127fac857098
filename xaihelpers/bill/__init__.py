"""The bill first: what a notebook will read, compute, ask and cost, before it starts."""

from xaihelpers.bill.bill_text import bill_text
from xaihelpers.bill.estimate import Bill, estimate
from xaihelpers.bill.limit import before_asking
from xaihelpers.bill.rates import Rate, rate_of

__all__ = [
    "Bill",
    "Rate",
    "before_asking",
    "bill_text",
    "estimate",
    "rate_of",
]
