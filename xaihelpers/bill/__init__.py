"""The bill first: what a notebook will read, compute, ask and cost, before it starts."""

from xaihelpers.bill.bill_text import bill_text, reckoning_text, total_text
from xaihelpers.bill.estimate import Bill, estimate
from xaihelpers.bill.limit import before_asking
from xaihelpers.bill.plan_bills import plan_bills
from xaihelpers.bill.rates import Rate, rate_of

__all__ = [
    "Bill",
    "Rate",
    "before_asking",
    "bill_text",
    "estimate",
    "plan_bills",
    "rate_of",
    "reckoning_text",
    "total_text",
]
