"""Metrics, a module for each paper and for what several share: tensors and tables in, numbers out.

No model runs here, but a user's own for its table of predictions (`scores.sub`).
"""

from xaihelpers.scores.intervals import PERCENT, Interval, interval, over_draws
