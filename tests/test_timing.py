"""Timing in turns, and the name of the device."""

import pytest
import torch

from xaihelpers.timing import describe_device, time_in_turns

CPU = torch.device("cpu")


def test_functions_take_turns_and_return_their_last_result():
    calls = []
    functions = {name: lambda name=name: calls.append(name) or len(calls) for name in "ab"}
    seconds, results = time_in_turns(functions, 2, CPU)
    assert calls == ["a", "b", "a", "b"] and results == {"a": 3, "b": 4}
    assert {name: len(values) for name, values in seconds.items()} == {"a": 2, "b": 2}
    with pytest.raises(ValueError, match="rounds must be 1 or more, got 0"):
        time_in_turns({}, 0, CPU)


def test_a_cpu_is_described_by_its_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert describe_device(CPU) == "CPU, 3 threads"
