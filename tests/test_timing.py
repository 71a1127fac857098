"""Timing in turns, and the name of the device."""

import pytest
import torch

from xaihelpers.timing import describe_device, time_in_turns

CPU = torch.device("cpu")


def test_functions_take_turns_and_return_their_last_result():
    calls = []

    def call(name):
        calls.append(name)
        return len(calls)

    seconds, results = time_in_turns({"a": lambda: call("a"), "b": lambda: call("b")}, 2, CPU)
    assert calls == ["a", "b", "a", "b"]
    assert results == {"a": 3, "b": 4}
    assert {name: len(values) for name, values in seconds.items()} == {"a": 2, "b": 2}
    assert min(min(values) for values in seconds.values()) >= 0


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds must be 1 or more, got 0"):
        time_in_turns({}, 0, CPU)


def test_a_cpu_is_described_by_its_threads(monkeypatch):
    for n_threads, text in ((1, "CPU, 1 thread"), (3, "CPU, 3 threads")):
        monkeypatch.setattr(torch, "get_num_threads", lambda n_threads=n_threads: n_threads)
        assert describe_device(CPU) == text
