"""Metrics, a module for each paper and for what several share: tensors and tables in, numbers out.

No model runs here.
"""

from xaihelpers.scores.intervals import PERCENT, Interval, interval, over_draws
