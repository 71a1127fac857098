"""How many requests a server gets at a time, in virtual time: its clock jumps to whatever happens next."""

import asyncio
import random
from types import SimpleNamespace

import openai
import pytest

from xaihelpers import ask, paths
from xaihelpers.ask import server_model
from xaihelpers.ask.pace import FIRST, Pace


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop that never waits: what would take seconds moves its clock on instead."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        look = self._selector.select

        def jump(timeout=None):
            self.now += timeout or 0.0
            return look(0)

        self._selector.select = jump

    def time(self):
        return self.now


class Refused(Exception):
    def __init__(self, seconds=None):
        self.seconds = seconds


class Server:
    """Takes `limit` requests at a time, or `allowed` of them each `period`, and refuses all others."""

    def __init__(self, limit=10**6, latency=1.0, jitter=0.0, allowed=10**6, period=60.0):
        self.limit, self.latency, self.jitter = limit, latency, jitter
        self.allowed, self.period = allowed, period
        self.now = self.most = self.refused = self.of_period = 0
        self.answered, self.random = [], random.Random(0)

    async def answer(self, number):
        time = asyncio.get_running_loop().time()
        if int(time / self.period) > (self.answered[-1][1] if self.answered else 0):
            self.of_period = 0
        if self.now >= self.limit or self.of_period >= self.allowed:
            self.refused += 1
            await asyncio.sleep(0.01)
            raise Refused(self.period - time % self.period if self.of_period >= self.allowed else None)
        self.of_period += 1
        self.answered.append((number, int(time / self.period)))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.latency * (1 + self.jitter * self.random.uniform(-1, 1)))
        finally:
            self.now -= 1


def seconds_for(server, n, most=64):
    """Virtual seconds until all are answered, and the pace at the end."""

    async def main():
        pace = Pace(
            most, lambda error: isinstance(error, Refused), lambda error, times: error.seconds or times
        )
        numbers = iter(range(n))

        async def work():
            for number in numbers:
                while True:
                    try:
                        async with pace.place(number):
                            await server.answer(number)
                        break
                    except Refused as refusal:
                        await asyncio.sleep(refusal.seconds or 0)

        await asyncio.gather(*[work() for _ in range(min(most, n))])
        return loop.time(), pace

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        loop = runner.get_loop()
        return runner.run(main())


@pytest.mark.parametrize("limit", [1, 3, 16, 40, 10**6])
@pytest.mark.parametrize("latency, jitter", [(0.1, 0.0), (2.0, 0.5)])
def test_a_server_of_known_latency_and_limit_is_used_to_the_full(limit, latency, jitter):
    server = Server(limit, latency, jitter)
    n = 32 * min(limit, 64)
    seconds, pace = seconds_for(server, n)
    ideal = 32 * latency
    assert len(server.answered) == n
    assert 0.9 * ideal < seconds < 1.15 * ideal
    assert server.most == min(limit, 64), "the limit, or as many as there may be, and no more"
    assert server.refused < 64 + n / 3


def test_one_place_is_kept_where_all_others_are_refused():
    server = Server(limit=1)
    _, pace = seconds_for(server, 40)
    assert 1 <= pace.places <= 2 and server.most == 1


def test_a_limit_that_rises_is_found_again():
    server = Server(limit=4)

    async def rise():
        await asyncio.sleep(100)
        server.limit = 48

    answer = server.answer

    async def first(number):
        if number == 0:
            server.rising = asyncio.create_task(rise())
        await answer(number)

    server.answer = first
    seconds, pace = seconds_for(server, 4 * 100 + 48 * 100)
    assert server.most == 48 and 44 <= pace.places <= 50
    assert seconds < 1.4 * 200


@pytest.mark.parametrize("allowed, period", [(500, 60.0), (10, 1.0)])
def test_so_many_a_minute_are_asked_for_as_they_are_allowed(allowed, period):
    server = Server(allowed=allowed, period=period, latency=1.0, jitter=0.3)
    seconds, _ = seconds_for(server, 6 * allowed)
    assert seconds < 1.5 * 6 * period + FIRST
    assert server.refused < 6 * allowed / 2, "a server that says when is not pressed meanwhile"


def test_nobody_is_let_in_after_a_refusal_of_one_alone():
    sent = []

    class Down:
        async def answer(self, number):
            sent.append(asyncio.get_running_loop().time())
            if len(sent) <= 12:
                raise Refused
            await asyncio.sleep(1)

    seconds_for(Down(), 20)
    alone = sent[FIRST:12]  # the first ones were sent together
    assert all(later - earlier >= 1 for earlier, later in zip(alone, alone[1:], strict=False))


def test_who_is_cancelled_gives_the_place_back():
    async def main():
        pace = Pace(1, lambda error: False, lambda error, times: 0)

        async def hold(seconds):
            async with pace.place(0):
                await asyncio.sleep(seconds)

        holder, waiting, last = (asyncio.create_task(hold(seconds)) for seconds in (9, 9, 1))
        await asyncio.sleep(1)
        holder.cancel()
        waiting.cancel()
        await last
        return pace.under_way

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        assert runner.run(main()) == 0
        assert runner.get_loop().time() < 3


@pytest.fixture
def server_of(tmp_path, monkeypatch):
    """ServerModel as it is, but for the network and the clock."""
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    loops = []

    def new_loop():
        loops.append(VirtualTime())
        return loops[-1]

    monkeypatch.setattr(server_model.asyncio, "new_event_loop", new_loop)

    def make(server, **settings):
        model = ask.ServerModel("m", **settings)

        async def reply(client, parameters):
            try:
                await server.answer(parameters["messages"][-1]["content"])
            except Refused:
                response = SimpleNamespace(request=None, status_code=429, headers={})
                raise openai.RateLimitError("slow down", response=response, body=None) from None
            message = {"role": "assistant", "content": "A"}
            return {"choices": [{"finish_reason": "stop", "message": message}]}

        monkeypatch.setattr(model, "_reply", reply)
        return model

    make.loops = loops
    return make


@pytest.mark.parametrize("limit", [3, 16, 48])
def test_the_model_behind_a_server_takes_little_more_than_the_ideal_time(server_of, limit):
    server = Server(limit, latency=0.5, jitter=0.2)
    model = server_of(server)
    n = 32 * limit
    answers = dict(model.answer([ask.request(f"q{i}") for i in range(n)], 0, 0.0))
    assert {answer.text for answer in answers.values()} == {"A"} and len(answers) == n
    (loop,) = server_of.loops
    assert loop.now < 1.15 * 32 * 0.5
    assert server.most == limit


def test_a_server_that_refuses_everything_is_given_up_after_minutes_not_hours(server_of):
    server = Server(limit=0)
    model = server_of(server, tries=8)
    with pytest.raises(ask.AskError, match="in a row.*slow down.* it goes on from here"):
        list(model.answer([ask.request(f"q{i}") for i in range(1000)], 0, 0.0))
    (loop,) = server_of.loops
    assert 5 < loop.now < 600
    assert server.refused < 100, "it is not pressed"
