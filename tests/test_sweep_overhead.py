"""The reckoning of what a sweep costs, by hand, and that its driver can be measured."""

import pytest

from xaihelpers.sweep.launch import FAILED, Outcome
from xaihelpers.sweep.overhead import Immediate, driver_seconds, measure, on_paper


def test_efficiency_on_paper():
    table = on_paper(overhead=10.0, driver=0.0).set_index("minutes a job")
    assert table.loc[1].round(3).tolist() == [85.714] * 3  # 60 s of 70; each number of jobs fills its rounds
    slow = on_paper(overhead=10.0, driver=2.0).set_index("minutes a job")
    assert slow.loc[1, "64 jobs"] == 100 * 60 / 128  # a driver that needs 2 s a job serves 64 in 128 s
    assert slow.loc[10, "64 jobs"] == pytest.approx(100 * 600 / 610)
    assert on_paper(0.0, 0.0, workers=48).loc[0, "64 jobs"] == pytest.approx(100 * 64 / 96)  # two rounds


def test_the_driver_is_measured_alone():
    assert 0 < driver_seconds(jobs=5) < 5


def test_a_measurement_of_jobs_that_failed_is_none():
    class Failing(Immediate):
        def start(self, job, environment, avoid):
            self._ended.append((job, Outcome(FAILED, "in cell [2]")))

    with pytest.raises(RuntimeError, match=r"3 of 3 jobs were not done: in cell \[2\]"):
        measure(Failing(), workers=1, jobs=3, seconds=0.0)
    assert measure(Immediate(), workers=1, jobs=3, seconds=0.0)["jobs"] == 3
