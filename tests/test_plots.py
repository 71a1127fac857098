import numpy as np
import pandas as pd

from xaihelpers import plots


def test_a_long_table_becomes_a_wide_one():
    """Rows and columns keep the order in which they come; without bounds there are none, without a value a dash, and chance stands behind."""
    rows = [("tied", "shown", 20.04, 7.2, 36.7, 6.7), ("tied", "kept", 61.0, 54.0, 69.0, np.nan), ("alone", "shown", 6.66, np.nan, np.nan, 6.7), ("alone", "kept", np.nan, np.nan, np.nan, np.nan)]
    frame = pd.DataFrame(rows, columns=["method", "metric", "value", "low", "high", "chance"])
    wide = plots.interval_table(frame, ["method"])
    assert list(wide) == ["method", "shown", "kept"] and wide.method.tolist() == ["tied", "alone"]
    assert wide.shown.tolist() == ["20.0 [7, 37] chance 7", "6.7 chance 7"] and wide.kept.tolist() == ["61.0 [54, 69]", "\u2013"]


def test_narrow_bounds_are_as_precise_as_the_value():
    frame = pd.DataFrame({"model": ["a", "b"], "metric": "Avg", "value": [3.64, 2.7], "low": [3.41, 2.0], "high": [3.87, 3.0]})
    assert plots.interval_table(frame, ["model"]).Avg.tolist() == ["3.6 [3.4, 3.9]", "2.7 [2, 3]"]


def test_a_key_that_is_chance_itself_stands_once():
    frame = pd.DataFrame({"method": ["cam"], "chance": [11.0], "metric": ["inside"], "value": [29.4], "low": [26.0], "high": [33.0]})
    wide = plots.interval_table(frame, ["method", "chance"], digits=0)
    assert wide.to_dict("records") == [{"method": "cam", "chance": 11.0, "inside": "29 [26, 33]"}]
