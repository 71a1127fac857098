"""How many requests a server gets at a time: from few, up until it refuses one, then back to what it took."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

FIRST = 8  # places at the beginning
ROUNDS = 4  # rounds of answers without a refusal, after which places are added again


class Pace:
    """Places for the requests that are under way; who comes when all are taken waits for one.

    Until the first refusal each answer adds a place, so that their number doubles with every round. A refusal
    takes one place away: a server refuses what is above its limit, so the limit is what is left. Because it
    may rise, or others may have used it up, places are added again after `ROUNDS` rounds of answers without a
    refusal: one at first, then twice as many each time.

    A refusal while nothing else is under way is one that fewer places would not have prevented: nobody is let
        in for a while.

        most: places at most. is_refusal: whether an error says that the server has too much to do.
        closed_for: the seconds after such a lone refusal, from the error and how many there were in a row.

        Attributes: `places`; `under_way`, requests now; `refused_alone`, lone refusals in a row.
    """

    def __init__(
        self,
        most: int,
        is_refusal: Callable[[BaseException], bool],
        closed_for: Callable[[BaseException, int], float],
    ):
        self.most = most
        self.places = min(FIRST, most)
        self.under_way = 0
        self.refused_alone = 0
        self._is_refusal = is_refusal
        self._closed_for = closed_for
        self._step = 0  # places that are added next; 0: one for each answer
        self._answers = 0  # since the number of places changed
        self._waiting: list[tuple[int, int, asyncio.Future]] = []
        self._arrivals = 0
        self._closed_until = 0.0

    @asynccontextmanager
    async def place(self, order: int) -> AsyncIterator[None]:
        """Hold a place while the request is under way; of those that wait, the lowest `order` is next."""
        await self._enter(order)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.under_way -= 1
            if error is None:
                self._count_answer()
            elif self._is_refusal(error):
                self._count_refusal(error)
            self._admit()

    async def _enter(self, order: int) -> None:
        entered = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (order, self._arrivals, entered))
        self._admit()
        try:
            await entered
        except asyncio.CancelledError:
            if entered.done() and not entered.cancelled():  # cancelled with the place in hand
                self.under_way -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        with suppress(IndexError):  # nobody waits
            while self.under_way < self.places and asyncio.get_running_loop().time() >= self._closed_until:
                *_, entered = heapq.heappop(self._waiting)
                if not entered.done():
                    self.under_way += 1
                    entered.set_result(None)

    def _count_answer(self) -> None:
        self.refused_alone = 0
        self._answers += 1
        if not self._step:
            self.places = min(self.places + 1, self.most)
        elif self._answers >= ROUNDS * self.places:
            self.places = min(self.places + self._step, self.most)
            self._step *= 2
            self._answers = 0

    def _count_refusal(self, error: BaseException) -> None:
        self.places = max(self.places - 1, 1)
        self._step = 1
        self._answers = 0
        if self.under_way:
            return
        self.refused_alone += 1
        loop = asyncio.get_running_loop()
        self._closed_until = loop.time() + self._closed_for(error, self.refused_alone)
        loop.call_at(self._closed_until, self._admit)
