"""The bills of a plan: each point of a grid, the sum, and whether a day of the device suffices."""

from collections.abc import Sequence

from xaihelpers.bill.bill_text import bill_text, reckoning_text, total_text
from xaihelpers.bill.estimate import estimate
from xaihelpers.bill.rates import rate_of
from xaihelpers.sweep.grid import Point


def plan_bills(points: Sequence[Point], on: str = "") -> tuple[list[str], bool]:
    """The bill of each point in lines of text, then their sum; and whether all of them could start.

    points: those that are to be run. on: a device of data/bill/devices.csv; empty stands for this machine.
    Raises ParameterError: a device that the table does not hold.
    """
    rate, bills, lines = rate_of(on), [], []
    for point in points:
        bills.append(estimate(point.notebook.stem, point.parameters, rate, point.name))
        lines.append(bill_text(bills[-1], point.title, rate))
    if len(bills) > 1:
        lines += [total_text(bills, rate), reckoning_text(bills, rate)]
    return lines, not any(bill.problems for bill in bills)
