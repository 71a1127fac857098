"""Metrics, one module a paper: tensors and tables in, numbers out; no model runs here."""

from xaihelpers.scores.intervals import Interval, mean_interval

__all__ = ["Interval", "mean_interval"]
