"""How many requests a server gets at a time: from few, up until it refuses one, then back to what it took."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

FIRST = 8  # places at the beginning
ROUNDS = 4  # rounds of answers without a refusal, after which a place is added again


class Pace:
    """Places for the requests that are under way; who comes when all are taken waits for one.

    Until the first refusal each answer adds a place, so that their number doubles with every round. A refusal
    takes one place away: a server refuses what is above its limit, so the limit is what is left. Where an
    error says how long to wait, everybody waits: else those who are refused would use up their tries on a
    server that takes so many requests a second.

    most: places at most. is_refusal: whether an error says that the server has too much to do.
    wanted_wait: the seconds that an error asks for, 0 of any other.
    """

    def __init__(
        self,
        most: int,
        is_refusal: Callable[[BaseException], bool],
        wanted_wait: Callable[[BaseException], float],
    ):
        self.most = most
        self.places = min(FIRST, most)
        self.under_way = 0
        self._is_refusal = is_refusal
        self._wanted_wait = wanted_wait
        self._closed_until = 0.0  # by time.monotonic
        self._limit_found = False
        self._answers = 0  # since the number of places changed
        self._room = asyncio.Condition()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place while the request is under way."""
        async with self._room:
            await self._room.wait_for(lambda: self.under_way < self.places)
            self.under_way += 1
        try:
            while (closed := self._closed_until - time.monotonic()) > 0:
                await asyncio.sleep(closed)
            yield
            self._count_answer()
        except Exception as error:
            self._closed_until = max(self._closed_until, time.monotonic() + self._wanted_wait(error))
            if self._is_refusal(error):
                self._limit_found = True
                self._answers = 0
                self.places = max(self.places - 1, 1)
            raise
        finally:
            self.under_way -= 1
            async with self._room:
                self._room.notify_all()

    def _count_answer(self) -> None:
        self._answers += 1
        if not self._limit_found or self._answers >= ROUNDS * self.places:
            self.places = min(self.places + 1, self.most)
            self._answers = 0
