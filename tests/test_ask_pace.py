"""How many requests a server gets at a time, in virtual time: its clock jumps to whatever happens next."""

import asyncio
import random

import pytest

from xaihelpers.ask.pace import Pace


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
    pass


class Server:
    """Takes `limit` requests at a time, and refuses all others."""

    def __init__(self, limit=10**6, latency=1.0, jitter=0.0):
        self.limit, self.latency, self.jitter = limit, latency, jitter
        self.now = self.most = self.refused = 0
        self.answered, self.random = [], random.Random(0)

    async def answer(self, number):
        if self.now >= self.limit:
            self.refused += 1
            await asyncio.sleep(0.01)
            raise Refused
        self.answered.append(number)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.latency * (1 + self.jitter * self.random.uniform(-1, 1)))
        finally:
            self.now -= 1


def seconds_for(server, n, most=64):
    """Virtual seconds until all are answered, and the pace at the end."""

    async def main():
        pace = Pace(most, lambda error: isinstance(error, Refused), lambda error, times: times)
        numbers = iter(range(n))

        async def work():
            for number in numbers:
                while True:
                    try:
                        async with pace.place(number):
                            await server.answer(number)
                        break
                    except Refused:
                        await asyncio.sleep(0)

        await asyncio.gather(*[work() for _ in range(min(most, n))])
        return loop.time(), pace

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        loop = runner.get_loop()
        return runner.run(main())


@pytest.mark.parametrize("limit", [1, 3, 40, 10**6])
def test_a_server_of_known_latency_and_limit_is_used_to_the_full(limit):
    latency = 2.0
    server = Server(limit, latency, jitter=0.5)
    n = 32 * min(limit, 64)
    seconds, pace = seconds_for(server, n)
    ideal = 32 * latency
    assert len(server.answered) == n
    assert 0.9 * ideal < seconds < 1.15 * ideal
    assert server.most == min(limit, 64), "the limit, or as many as there may be, and no more"
    assert server.refused < 64 + n / 3
    assert limit > 1 or 1 <= pace.places <= 2


def test_a_limit_that_rises_is_found_again():
    server = Server(limit=4)
    answer = server.answer

    async def rising(number):
        if len(server.answered) == 400:
            server.limit = 48
        await answer(number)

    server.answer = rising
    seconds, pace = seconds_for(server, 4 * 100 + 48 * 100)
    assert server.most == 48 and 44 <= pace.places <= 50
    assert seconds < 1.4 * 200


def test_nobody_is_let_in_after_a_refusal_of_one_alone():
    """A server that refuses everything is not pressed: the wait grows with each lone refusal."""
    sent, server = [], Server(limit=0)
    answer = server.answer

    async def noted(number):
        sent.append(asyncio.get_running_loop().time())
        server.limit = 20 if len(sent) > 12 else 0
        await answer(number)

    server.answer = noted
    seconds_for(server, 20)
    alone = sent[8:12]  # the first ones were sent together
    assert all(later - earlier >= 1 for earlier, later in zip(alone, alone[1:], strict=False))
