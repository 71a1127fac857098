"""Runs that share the asking: each begins with its own share, all end with all answers."""

import multiprocessing
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xaihelpers import ask, paths, sharing


@given(n=st.integers(0, 300), shards=st.integers(1, 9))
def test_every_share_goes_through_all_and_begins_with_its_own(n, shards):
    for shard in range(shards):
        blocks = sharing.blocks_in_turn(range(n), sharing.Share(shard, shards))
        assert sorted(item for block in blocks for item in block) == [*range(n)]
        assert all(blocks)
        own = range(shard * n // shards, (shard + 1) * n // shards)
        assert [item for block in blocks for item in block][: len(own)] == [*own]


def test_a_single_run_asks_all_at_once():
    assert sharing.blocks_in_turn("abc", sharing.Share()) == [["a", "b", "c"]]
    assert sharing.blocks_in_turn("", sharing.Share()) == []


def test_what_is_left_of_others_is_taken_from_its_end():
    blocks = sharing.blocks_in_turn(range(64), sharing.Share(1, 2))
    assert blocks[0] == [32, 33] and blocks[16] == [30, 31] and blocks[-1] == [0, 1]


def test_a_shard_that_there_is_not():
    with pytest.raises(ValueError, match="shard 4 of 4: shards are numbered from 0 to 3"):
        sharing.begin(4, 4)
    assert sharing.share() == sharing.Share()


class SlowModel:
    name, identity, warnings = "slow", "slow 1", Counter()

    def __init__(self, seconds):
        self.seconds, self.asked = seconds, []

    def answer(self, requests, seed, temperature):
        for position, request in enumerate(requests):
            time.sleep(self.seconds)
            self.asked.append(request.turns[-1].text)
            yield position, ask.Answer(self.asked[-1])


def _ask_share(folder, shard, seconds, queue):
    paths.cache_home = lambda: folder
    sharing.begin(shard, 2)
    model = SlowModel(seconds)
    answers = ask.ask(model, [ask.request(f"question {i}") for i in range(80)], progress=False)
    queue.put(([answer.text for answer in answers], model.asked))


@pytest.mark.parametrize("pace", [1, 3])  # the second as quick as the first, and three times slower
def test_two_runs_divide_the_questions(tmp_path, pace):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    given = [(tmp_path, shard, 0.02 * (pace if shard else 1), queue) for shard in range(2)]
    processes = [context.Process(target=_ask_share, args=arguments) for arguments in given]
    for process in processes:
        process.start()
    found = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    expected = [f"question {i}" for i in range(80)]
    assert [answers for answers, _ in found] == [expected, expected]
    asked = [question for _, questions in found for question in questions]
    assert set(asked) == set(expected)
    # asked twice at most: the blocks in which the two meet
    assert len(asked) - len(set(asked)) <= 2 * -(-40 // sharing.BLOCKS)
