"""How good explanations are: one module a paper, and the intervals that all of them report."""
from .intervals import Interval, mean_interval

__all__ = ["Interval", "mean_interval"]
