"""Any OpenAI-compatible server: as many requests at once as it takes, repeated where it is busy or broken.

The address and the key come from the environment; the key is never kept or shown.
"""

import asyncio
import contextlib
import json
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from urllib.parse import urlsplit

import openai
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from xaihelpers.ask.chat_completions import UnusableReply, read_reply, to_messages
from xaihelpers.ask.messages import Answer, AskError, Request, by_images
from xaihelpers.ask.pace import Pace
from xaihelpers.ask.request_body import RequestBody

BACK_OFF = wait_random_exponential(multiplier=0.5, max=30)
RETRIED_STATUSES = (408, 409, 425, 429)  # and all from 500 on
REFUSING_STATUSES = (429, 503)  # the server has too much to do
FILTERED = ("content_filter", "content_policy_violation")  # codes of errors by which a prompt is refused
# replies that are cut off, empty, or no chat completions
UNREADABLE = (openai.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError, UnusableReply)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class ServerModel:
    """A model behind OPENAI_BASE_URL, with the key OPENAI_API_KEY.

    concurrency: requests at a time at most; how many there are follows what the server takes (`ask.pace`).
    tries: how often a request is sent at most. timeout: of each try, in seconds.
    Raises AskError: neither address nor key is set.

    Attributes: `identity` tells models apart in the cache of answers: the model's name, and the environment
        variable XAI_MODEL_LABEL where it is set, for models of one name on two servers. The address is not
        part of it. `warnings` counts the errors of the last `answer` after which a request was sent again,
        and refused parameters.
    """

    kind = "server"
    is_batch = False

    def __init__(self, name: str, concurrency: int = 64, tries: int = 8, timeout: float = 300.0):
        if not (os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY")):
            raise AskError(
                f"{self.kind}:{name} needs the address of a server in OPENAI_BASE_URL "
                "(for OpenAI itself its key in OPENAI_API_KEY is enough)."
            )
        self.name = name
        self.identity = f"server:{name} {os.environ.get('XAI_MODEL_LABEL', '')}".strip()
        self.concurrency = concurrency
        self.tries = tries
        self.timeout = timeout
        self.warnings: Counter[str] = Counter()
        base = urlsplit(os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
        # as it may be shown: without a password and a query
        self.base = base._replace(netloc=base.netloc.rpartition("@")[2], query="").geturl()
        self.body = RequestBody(name)
        self._pace = Pace(concurrency, _is_refusal, _closed_for)
        self._answered = 0  # in this call
        self._lost_in_a_row = 0

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request as it comes; an answer that could not be had holds its error.

        The event loop runs in a thread of its own, because a notebook's thread runs one already. Leaving
        early, by an error or an interruption, cancels the requests under way. Requests about the same images
        are sent one after the other.

        Raises AskError: an image cannot be read; the server refuses key or name, or the account has no
            credit; as many requests in a row stay without an answer as are sent at a time, and at least 8;
            or it refuses every one for minutes, though none but this is under way.
        """
        self.warnings = self.body.warnings = Counter()
        self._pace = Pace(self.concurrency, _is_refusal, _closed_for)
        results: queue.SimpleQueue = queue.SimpleQueue()
        loop = asyncio.new_event_loop()
        task = loop.create_task(self._answer_all(requests, seed, temperature, results.put))

        def run():
            try:
                results.put(loop.run_until_complete(task))  # None: all have come
            except BaseException as error:  # handed to the thread that asks
                results.put(error)
            finally:
                loop.run_until_complete(loop.shutdown_default_executor())
                loop.close()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            while (item := results.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(task.cancel)
            thread.join(10)

    async def _answer_all(
        self, requests: Sequence[Request], seed: int, temperature: float, put: Callable
    ) -> None:
        turns = enumerate(by_images(requests))
        self._answered = self._lost_in_a_row = 0
        async with self._client() as client:

            async def work():
                for turn, position in turns:
                    put((position, await self._answer(client, requests[position], seed, temperature, turn)))

            workers = [asyncio.create_task(work()) for _ in range(min(self.concurrency, len(requests)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    def _client(self) -> openai.AsyncOpenAI:
        base = urlsplit(self.base)
        options = {
            "timeout": self.timeout,
            "trust_env": base.hostname not in LOCAL_HOSTS,
        }  # no proxy to this machine
        if base.scheme == "http":
            options |= {"verify": False, "follow_redirects": False}  # reading TLS certificates takes 0.1 s
        return openai.AsyncOpenAI(
            base_url=self.base,
            api_key=self._key(),
            max_retries=0,
            timeout=self.timeout,
            http_client=openai.DefaultAioHttpClient(**options),  # half the work of the standard transport
        )

    def _key(self) -> str:
        return os.environ.get("OPENAI_API_KEY") or "none"

    async def _answer(
        self, client: openai.AsyncOpenAI, request: Request, seed: int, temperature: float, turn: int
    ) -> Answer:
        if request.images:  # reading and encoding them takes a while
            messages = await asyncio.to_thread(to_messages, request.turns)
        else:
            messages = to_messages(request.turns)
        parameters = self.body.parameters(request, messages, seed, temperature)
        retrying = AsyncRetrying(
            retry=retry_if_exception(_may_pass),
            wait=_wait,
            stop=stop_after_attempt(self.tries),
            reraise=True,
            before_sleep=self._count_retry,
        )
        started = time.perf_counter()
        try:
            async for attempt in retrying:
                with attempt:
                    # a place is given back before the wait for the next try
                    async with self._pace.place(turn):
                        answer = read_reply(await self._reply(client, parameters), request.options)
        except AskError:
            raise
        except (openai.OpenAIError, UnusableReply, ValueError) as error:
            if getattr(error, "code", None) in FILTERED:
                return Answer(_message(error), refused=True, seconds=time.perf_counter() - started)
            self._raise_if_hopeless(error)
            return Answer(error=_message(error), seconds=time.perf_counter() - started)
        self._lost_in_a_row = 0
        self._answered += 1
        answer.seconds = time.perf_counter() - started
        return answer

    async def _reply(self, client: openai.AsyncOpenAI, parameters: dict):
        """The server's reply, as JSON; parameters that it refuses are left out or renamed."""
        while True:
            body = self.body.accepted(parameters)
            try:
                # a third less work than its typed equivalent, chat.completions.create
                return await client.post("/chat/completions", body=body, cast_to=object)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not self.body.adapt(f"{error} {error.code}", error.param, body):
                    raise

    def _raise_if_hopeless(self, error: Exception) -> None:
        """Raise AskError where no request will be answered: key, name, credit, or a server that is down."""
        refusals = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)
        if isinstance(error, refusals):
            raise AskError(
                f"{self.kind}:{self.name}: the server at {self.base} refuses ({error.status_code}): "
                "check OPENAI_BASE_URL, OPENAI_API_KEY and the model's name."
            ) from None
        if getattr(error, "code", None) == "insufficient_quota":
            raise AskError(
                f"{self.kind}:{self.name}: the account at {self.base} has no credit left: "
                "add some, then run again, and it goes on from here."
            ) from None
        self._lost_in_a_row += _may_pass(error)
        if self._lost_in_a_row >= max(8, self._pace.places):
            self._give_up(f"left {self._lost_in_a_row} requests in a row without an answer", error)

    def _give_up(self, what: str, error: BaseException) -> None:
        """Raise AskError for a server that is down, or has changed."""
        remedy = "Run again when it answers, and it goes on from here."
        if isinstance(error, UNREADABLE) and self._answered:
            remedy = (
                f"{self._answered} replies before were of the usual form, and are kept: see what has changed "
                "at the server. Run again when it answers as before, and it goes on from here."
            )
        problem = f"the server at {self.base} {what}, the last by {_message(error)}"
        raise AskError(f"{self.kind}:{self.name}: {problem}. {remedy}") from None

    def _count_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception()
        self.warnings[f"{type(error).__name__}, tried again"] += 1
        if self._pace.refused_alone >= 2 * self.tries:
            self._give_up(f"refused {self._pace.refused_alone} requests in a row", error)


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may be answered next time.

    The server was busy, broken or out of reach, or its reply was incomplete or empty.
    """
    if isinstance(error, openai.APIStatusError):
        passing = error.status_code in RETRIED_STATUSES or error.status_code >= 500
        return passing and error.code != "insufficient_quota"
    return isinstance(error, (openai.APIConnectionError, *UNREADABLE))


def _is_refusal(error: BaseException) -> bool:
    """Whether the server has too much to do: it says so, or takes too long over what it was sent."""
    if isinstance(error, openai.APITimeoutError):
        return type(error.__cause__).__name__ != "ConnectTimeout"  # it is not there at all
    return isinstance(error, openai.APIStatusError) and error.status_code in REFUSING_STATUSES


def _closed_for(error: BaseException, times: int) -> float:
    """Seconds in which nothing is sent, after so many refusals of a request that was alone."""
    seconds = _retry_after(error)
    return BACK_OFF(SimpleNamespace(attempt_number=times)) if seconds is None else seconds


def _wait(state: RetryCallState) -> float:
    """Seconds before the next try: by Retry-After; else random, with exponentially growing bounds.

    Who was refused waits for a place, and no longer.
    """
    error = state.outcome.exception()
    seconds = _retry_after(error)
    if seconds is None:
        seconds = 0.0 if _is_refusal(error) else BACK_OFF(state)
    return seconds


def _retry_after(error: BaseException) -> float | None:
    """Seconds to wait as the server wants it, at most 120; None where it does not say."""
    try:
        return min(max(float(error.response.headers["retry-after"]), 0.0), 120.0)
    except (AttributeError, KeyError, ValueError):
        return None


def _message(error: Exception) -> str:
    """An error as text of at most 300 characters, without the key."""
    text = f"{type(error).__name__}: {error}"
    # the client reports a host that cannot be reached as a time-out; its cause says more
    if isinstance(error, openai.APIConnectionError) and error.__cause__:
        text += f" {error.__cause__}"
    key = os.environ.get("OPENAI_API_KEY", "")
    if len(key) > 4:
        text = text.replace(key, "…")
    return text[:300]
