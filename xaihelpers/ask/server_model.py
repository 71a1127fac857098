"""Any OpenAI-compatible server: many requests at once, repeated where the server is busy or broken.

The address and the key come from the environment; the key is never kept or shown.
"""

import asyncio
import contextlib
import json
import os
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from xaihelpers.ask.messages import Answer, AskError, Request

BACK_OFF = wait_random_exponential(multiplier=0.5, max=30)
UNSUPPORTED = re.compile(
    "unsupported|not support|unrecogni[sz]ed|unexpected|unknown|not permitted|not allowed|extra (field|input)"
    "|not available|not enabled|must be|at most",
    re.I,
)
OPTIONAL_PARAMETERS = ("top_logprobs", "logprobs", "seed", "temperature")  # a server may refuse them
RETRIED_STATUSES = (408, 409, 425, 429)  # and all from 500 on
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class ServerModel:
    """A model behind OPENAI_BASE_URL, with the key OPENAI_API_KEY.

    concurrency: requests at a time. tries: how often a request is sent at most.
    timeout: of each try, in seconds.
    Raises AskError: neither address nor key is set.

    Attributes: `identity` tells models apart in the cache of answers: the model's name, and the environment
        variable XAI_MODEL_LABEL where it is set, for models of one name on two servers. The address is not
        part of it. `warnings` counts the errors of the last `answer` after which a request was sent again,
        and refused parameters.
    """

    def __init__(self, name: str, concurrency: int = 16, tries: int = 8, timeout: float = 300.0):
        if not (os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY")):
            raise AskError(
                f"server:{name} needs the address of a server in OPENAI_BASE_URL "
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
        # parameters that the server refuses for this model -> the name that it wants, "" where it wants none
        self._refused: dict[str, str] = {}
        self._most_logprobs = 20
        self._lost_in_a_row = 0

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request as it comes; an answer that could not be had holds its error.

        The event loop runs in a thread of its own, because a notebook's thread runs one already. Leaving
        early, by an error or an interruption, cancels the requests under way.

        Raises AskError: an image cannot be read; the server refuses key or name, or the account has no
            credit; as many requests in a row stay without an answer as are sent at a time, and at least 8.
        """
        self.warnings = Counter()
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
        positions = iter(range(len(requests)))
        self._lost_in_a_row = 0
        async with self._client() as client:

            async def work():
                # a worker keeps its place while it waits to try again: no other request presses a busy server
                for position in positions:
                    put((position, await self._answer(client, requests[position], seed, temperature)))

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
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            max_retries=0,
            timeout=self.timeout,
            http_client=openai.DefaultAioHttpClient(**options),  # half the work of the standard transport
        )

    async def _answer(
        self, client: openai.AsyncOpenAI, request: Request, seed: int, temperature: float
    ) -> Answer:
        if request.images:  # reading and encoding them takes a while
            messages = await asyncio.to_thread(to_messages, request.turns)
        else:
            messages = to_messages(request.turns)
        parameters = {
            "model": self.name,
            "messages": messages,
            "max_tokens": request.max_tokens,
            "temperature": temperature,
            "seed": seed,
        }
        if request.options:
            parameters |= {"logprobs": True, "top_logprobs": 20}
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
                    answer = read_reply(await self._reply(client, parameters), request.options)
        except (openai.OpenAIError, UnusableReply, ValueError) as error:
            self._raise_if_hopeless(error)
            return Answer(error=_message(error), seconds=time.perf_counter() - started)
        self._lost_in_a_row = 0
        answer.seconds = time.perf_counter() - started
        return answer

    async def _reply(self, client: openai.AsyncOpenAI, parameters: dict):
        """The server's reply, as JSON; parameters that it refuses are left out or renamed."""
        while True:
            body = {}
            for name, value in parameters.items():
                sent_name = self._refused.get(name, name)
                if sent_name:
                    body[sent_name] = min(value, self._most_logprobs) if name == "top_logprobs" else value
            try:
                # a third less work than its typed equivalent, chat.completions.create
                return await client.post("/chat/completions", body=body, cast_to=object)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not self._adapt(error, body):
                    raise

    def _adapt(self, error: openai.APIStatusError, body: dict) -> bool:
        """Whether the server refused a parameter that can be left out or renamed; from now on it is."""
        text = f"{error} {error.code}"
        unsupported = re.search("unsupported|not support", text, re.I)
        if "max_tokens" in body and "max_completion_tokens" in text and unsupported:
            return self._refuse("max_tokens", "max_completion_tokens")

        def refused(name: str) -> bool:
            return error.param == name or (not error.param and re.search(rf"\b{name}\b", text) is not None)

        name = next((name for name in OPTIONAL_PARAMETERS if name in body and refused(name)), None)
        if name is None or not UNSUPPORTED.search(text):
            return False
        if name == "top_logprobs" and body[name] > 5:
            self._most_logprobs = 5
            self.warnings["top_logprobs refused by the server, asked with 5"] = 1
            return True
        return self._refuse(name, "")

    def _refuse(self, name: str, replacement: str) -> bool:
        how = f"with {replacement}" if replacement else "without"
        self.warnings[f"{name} refused by the server, asked {how}"] = 1
        # of logprobs and top_logprobs neither is of use without the other
        names = ("logprobs", "top_logprobs") if "logprobs" in name else (name,)
        self._refused |= dict.fromkeys(names, replacement)
        return True

    def _raise_if_hopeless(self, error: Exception) -> None:
        """Raise AskError where no request will be answered: key, name, credit, or a server that is down."""
        refusals = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)
        if isinstance(error, refusals):
            raise AskError(
                f"server:{self.name}: the server at {self.base} refuses ({error.status_code}): "
                "check OPENAI_BASE_URL, OPENAI_API_KEY and the model's name."
            ) from None
        if getattr(error, "code", None) == "insufficient_quota":
            raise AskError(
                f"server:{self.name}: the account at {self.base} has no credit left: "
                "add some, then run again, and it goes on from here."
            ) from None
        self._lost_in_a_row += _may_pass(error)
        if self._lost_in_a_row >= max(8, self.concurrency):
            raise AskError(
                f"server:{self.name}: the server at {self.base} left {self._lost_in_a_row} requests in a "
                f"row without an answer, the last by {_message(error)}. "
                "Run again when it answers, and it goes on from here."
            ) from None

    def _count_retry(self, state: RetryCallState) -> None:
        self.warnings[f"{type(state.outcome.exception()).__name__}, tried again"] += 1


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may be answered next time.

    The server was busy, broken or out of reach, or its reply was incomplete or empty.
    """
    if isinstance(error, openai.APIStatusError):
        passing = error.status_code in RETRIED_STATUSES or error.status_code >= 500
        return passing and error.code != "insufficient_quota"
    incomplete = (openai.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError, UnusableReply)
    return isinstance(error, (openai.APIConnectionError, *incomplete))


def _wait(state: RetryCallState) -> float:
    """Seconds to wait: by Retry-After, at most 120; else random, with exponentially growing bounds."""
    response = getattr(state.outcome.exception(), "response", None)
    try:
        return min(max(float(response.headers["retry-after"]), 0.0), 120.0)
    except (AttributeError, KeyError, ValueError):
        return BACK_OFF(state)


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
