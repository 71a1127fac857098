"""A stage of training: it learns, and a killed one goes on where it was."""

import contextlib
import math

import pytest
import torch

from xaihelpers.training import group_loss, train


def stage(folder, stop_at=None):
    """A line fitted to y = 3x − 1; `stop_at`: killed in that step."""
    torch.manual_seed(0)
    model, history, calls = torch.nn.Linear(1, 1), [], []
    x = torch.linspace(-1, 1, 20)[:, None]

    def loss_of():
        calls.append(1)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return ((model(x) - (3 * x - 1)) ** 2).mean()

    with pytest.raises(KeyboardInterrupt) if stop_at else contextlib.nullcontext():
        train("line", 250, model, loss_of, history, 0.1, folder)
    return model, history, len(calls)


def test_a_killed_stage_goes_on_where_it_was(tmp_path):
    whole, rows, _ = stage(tmp_path / "whole")
    assert not whole.training and rows[0][2] > 1 and rows[-1][2] < 0.05
    assert [row[:2] for row in rows] == [["line", step] for step in range(1, 251)]
    stage(tmp_path / "killed", stop_at=170)
    again, continued, calls = stage(tmp_path / "killed")
    assert calls == 150 and continued == rows  # from the checkpoint of step 100
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))
    assert stage(tmp_path / "killed")[2] == 0


def test_a_damaged_checkpoint_is_set_aside_and_the_stage_begins_anew(tmp_path, caplog):
    stage(tmp_path, stop_at=170)
    file = tmp_path / "line.checkpoint"
    whole = file.read_bytes()
    for torn in (whole[: len(whole) // 2], b""):
        file.write_bytes(torn)
        assert stage(tmp_path)[2] == 250 and "line.checkpoint is damaged" in caplog.text
        assert file.with_name("line.checkpoint.damaged").read_bytes() == torn


def test_only_the_parameters_named_are_trained(tmp_path):
    model = torch.nn.Linear(1, 1)
    kept = model.weight.detach().clone()

    def loss_of():
        return (model(torch.ones(4, 1)) - 2).square().mean()

    train("bias", 5, model, loss_of, [], folder=tmp_path, parameters=[model.bias])
    assert torch.equal(model.weight, kept) and model.bias.grad is not None
    with pytest.raises(ValueError, match="loss of nan is nan at step 1"):
        train("nan", 5, model, lambda: model.weight.sum() * float("nan"), [], folder=tmp_path)


def test_loss_of_groups_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25, 0.9, 0.1], [0.2, 0.2, 0.6, 0.5, 0.5]]))
    # two values of the first group; the second picture shows nothing of it
    wanted = torch.tensor([[1.0, 1, 0, 1, 0], [0, 0, 0, 0, 1]])
    groups = [slice(0, 3), slice(3, 5)]
    expected = (-(math.log(0.5) + math.log(0.25)) / 2 - math.log(0.9) - math.log(0.5)) / 3
    assert group_loss(logits, wanted, groups).item() == pytest.approx(expected)
    more = torch.cat([logits, torch.full((2, 2), 9.0)], 1)  # further outputs do not count
    assert group_loss(more, wanted, groups).item() == pytest.approx(expected)
