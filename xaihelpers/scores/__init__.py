"""Metrics, a module for each paper and for what several share: tensors and tables in, numbers out.

No model runs here.
"""

from xaihelpers.scores.intervals import Interval, mean_interval

__all__ = ["Interval", "mean_interval"]
