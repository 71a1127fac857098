"""Any OpenAI-compatible server: as many requests at once as it takes, sent again where it is busy or broken.

The address and the key come from the environment; the key is never kept or shown.
"""

import asyncio
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

from xaihelpers import spending
from xaihelpers.ask.chat_completions import ErrorReply, UnusableReply, read_reply, to_messages
from xaihelpers.ask.messages import Answer, AskError, Request
from xaihelpers.ask.pace import Pace

BACK_OFF = wait_random_exponential(multiplier=0.5, max=30)
RETRIED_STATUSES = (408, 409, 425, 429)  # and all from 500 on
REFUSING_STATUSES = (429, 503)  # the server has too much to do
FILTERED = ("content_filter", "content_policy_violation")  # codes of errors by which a prompt is refused
UNREADABLE = (openai.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError, UnusableReply)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
# parameters that a server may refuse, and the words by which it does
OPTIONAL_PARAMETERS = ("top_logprobs", "logprobs", "seed", "temperature", "response_format")
UNSUPPORTED = re.compile(
    "unsupported|not support|unrecogni[sz]ed|unexpected|unknown|not permitted|not allowed|extra (field|input)"
    "|not available|not enabled|must be|at most",
    re.I,
)


class ServerModel:
    """A model behind OPENAI_BASE_URL, with the key OPENAI_API_KEY.

    concurrency: requests at a time at most; how many there are follows what the server takes (`ask.pace`).
    tries: how often a request is sent at most. timeout: of each try, in seconds.

    Attributes: `identity` tells models apart in the cache of answers: the model's name, and the environment
        variable XAI_MODEL_LABEL where it is set, for models of one name on two servers. The address is not
        part of it. `warnings` counts the errors of the last `answer` after which a request was sent again,
        and refused parameters. `refused` has these parameters, with the name that the server wants instead.
    """

    def __init__(self, name: str, concurrency: int = 64, tries: int = 8, timeout: float = 300.0):
        self.name = name
        self.identity = f"server:{name} {os.environ.get('XAI_MODEL_LABEL', '')}".strip()
        self.concurrency = concurrency
        self.tries = tries
        self.timeout = timeout
        self.warnings: Counter[str] = Counter()
        self.refused: dict[str, str] = {}
        base = urlsplit(os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
        # as it may be shown: without a password and a query
        self.base = base._replace(netloc=base.netloc.rpartition("@")[2], query="").geturl()
        self._has_address = bool(os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY"))
        self._most_logprobs = 20

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request as it comes; an answer that could not be had holds its error.

        The event loop runs in a thread of its own, because a notebook's thread runs one already. Where the
        caller leaves early, by an error or an interruption, nothing more is sent.

        Raises AskError: no server is named; an image cannot be read; the server refuses key or name, or the
            account has no credit; the first reply is no chat completion; as many requests in a row stay
            without an answer as are sent at a time, and at least 8. Raises SpendingError before a request
            that may cost more than is left.
        """
        if not self._has_address:
            raise AskError(
                f"server:{self.name}: {len(requests)} answers are not among those kept, and no server is "
                "named to ask: set OPENAI_BASE_URL to its address (for OpenAI itself its key in "
                "OPENAI_API_KEY is enough), or bring the folder of answers that holds them."
            )
        self.warnings = Counter()
        results: queue.SimpleQueue = queue.SimpleQueue()
        left = threading.Event()

        def put(item) -> None:
            if left.is_set():
                raise asyncio.CancelledError
            results.put(item)

        def run() -> None:
            try:
                asyncio.run(self._answer_all(requests, seed, temperature, put))
                results.put(None)
            except BaseException as error:  # handed to the thread that asks
                results.put(error)

        threading.Thread(target=run, daemon=True).start()
        try:
            while (item := results.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            left.set()

    async def _answer_all(
        self, requests: Sequence[Request], seed: int, temperature: float, put: Callable
    ) -> None:
        waiting = iter(enumerate(requests))
        self._answered = self._lost_in_a_row = 0
        self._pace = Pace(self.concurrency, _is_refusal, _wanted_wait)
        account = spending.account()
        price = account.price_of(self.name, self.base)
        stopped: list[spending.SpendingError] = []
        async with self._client() as client:

            async def work() -> None:
                for position, request in waiting:
                    try:
                        account.reserve(self.name, price, request)
                    except spending.SpendingError as error:  # what is under way is paid for, and waited for
                        stopped.append(error)
                        return
                    put((position, await self._answer(client, request, seed, temperature)))

            try:
                async with asyncio.TaskGroup() as workers:
                    for _ in range(min(self.concurrency, len(requests))):
                        workers.create_task(work())
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
        if stopped:
            raise stopped[0]

    def _client(self) -> openai.AsyncOpenAI:
        is_local = urlsplit(self.base).hostname in LOCAL_HOSTS
        return openai.AsyncOpenAI(
            base_url=self.base,
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            max_retries=0,  # a request that waits for its next try holds no place
            timeout=self.timeout,
            # no proxy to this machine; half the work of the standard transport
            http_client=openai.DefaultAioHttpClient(timeout=self.timeout, trust_env=not is_local),
        )

    async def _answer(
        self, client: openai.AsyncOpenAI, request: Request, seed: int, temperature: float
    ) -> Answer:
        body = {
            "model": self.name,
            "messages": await asyncio.to_thread(to_messages, request.turns),  # reading pictures takes a while
            "max_tokens": request.max_tokens,
            "temperature": temperature,
            "seed": seed,
        }
        if request.options:
            body |= {"logprobs": True, "top_logprobs": 20}
        if request.schema is not None:
            form = {"name": "answer", "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
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
                    async with self._pace.place():
                        answer = read_reply(await self._reply(client, body), request.options)
        except (openai.OpenAIError, UnusableReply, ValueError) as error:
            seconds = time.perf_counter() - started
            if getattr(error, "code", None) in FILTERED:
                return Answer(_message(error), refused=True, seconds=seconds)
            self._raise_if_hopeless(error)
            return Answer(error=_message(error), seconds=seconds)
        self._lost_in_a_row = 0
        self._answered += 1
        answer.seconds = time.perf_counter() - started
        return answer

    async def _reply(self, client: openai.AsyncOpenAI, body: dict):
        """The server's reply; parameters that it refuses are left out or renamed from then on."""
        while True:
            accepted = {self.refused.get(name, name): value for name, value in body.items()}
            accepted.pop("", None)
            if "top_logprobs" in accepted:
                accepted["top_logprobs"] = self._most_logprobs
            try:
                # a third less work than its typed equivalent, chat.completions.create
                return await client.post("/chat/completions", body=accepted, cast_to=object)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not self._adapt(f"{error.param or ''} {error.code or ''} {error}", accepted):
                    raise

    def _adapt(self, text: str, body: dict) -> bool:
        """Whether the server refused a parameter that can be left out or renamed; from now on it is.

        text: its error's, with the parameter that it names, and its code. body: what it was sent.
        """
        if not UNSUPPORTED.search(text):
            return False
        named = [name for name in OPTIONAL_PARAMETERS if name in body and re.search(rf"\b{name}\b", text)]
        if "response_format" in body and re.search(r"\bjson_?schema\b", text, re.I):
            named.append("response_format")
        if "max_tokens" in body and "max_completion_tokens" in text:
            name, how = "max_tokens", "with max_completion_tokens"
            self.refused[name] = "max_completion_tokens"
        elif not named:
            return False
        elif named[0] == "top_logprobs" and self._most_logprobs > 5:
            name, how = "top_logprobs", "with 5"
            self._most_logprobs = 5
        else:
            name, how = named[0], "without"
            # of logprobs and top_logprobs neither is of use without the other
            names = ("logprobs", "top_logprobs") if "logprobs" in name else (name,)
            self.refused |= dict.fromkeys(names, "")
        self.warnings[f"{name} refused by the server, asked {how}"] = 1
        return True

    def _raise_if_hopeless(self, error: Exception) -> None:
        """Raise AskError where no request will be answered."""
        where = f"server:{self.name}: the server at {self.base}"
        refusals = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)
        if isinstance(error, refusals):
            raise AskError(
                f"{where} refuses ({error.status_code}): check OPENAI_BASE_URL, OPENAI_API_KEY and the "
                f"model's name. It says: {_message(error)}"
            ) from None
        if getattr(error, "code", None) == "insufficient_quota":
            raise AskError(
                f"server:{self.name}: the account at {self.base} has no credit left: add some, then run "
                "again, and it goes on from here."
            ) from None
        if isinstance(error, UNREADABLE) and not self._answered:
            raise AskError(
                f"{where} gives no chat completion; {_message(error)}. Does OPENAI_BASE_URL end in /v1, and "
                "is this the address of its OpenAI-compatible interface?"
            ) from None
        self._lost_in_a_row += _may_pass(error) or isinstance(error, ErrorReply)
        if self._lost_in_a_row >= max(8, self._pace.places):
            raise AskError(
                f"{where} left {self._lost_in_a_row} requests in a row without an answer, the last by "
                f"{_message(error)}. {self._answered} replies before were as usual, and are kept. Run again "
                "when it answers, and it goes on from here."
            ) from None

    def _count_retry(self, state: RetryCallState) -> None:
        self.warnings[f"{type(state.outcome.exception()).__name__}, tried again"] += 1


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may be answered next time: the server was busy, broken or out of reach."""
    if isinstance(error, openai.APIStatusError):
        passing = error.status_code in RETRIED_STATUSES or error.status_code >= 500
        return passing and error.code != "insufficient_quota"
    return isinstance(error, (openai.APIConnectionError, *UNREADABLE)) and not isinstance(error, ErrorReply)


def _is_refusal(error: BaseException) -> bool:
    """Whether the server has too much to do: it says so, or takes too long over what it was sent."""
    if isinstance(error, openai.APITimeoutError):
        return type(error.__cause__).__name__ != "ConnectTimeout"  # it is not there at all
    return isinstance(error, openai.APIStatusError) and error.status_code in REFUSING_STATUSES


def _wanted_wait(error: BaseException) -> float:
    """The seconds that the server asks to wait, at most 120; 0 where it does not say."""
    try:
        return min(max(float(error.response.headers["retry-after"]), 0.0), 120.0)
    except (AttributeError, KeyError, ValueError):
        return 0.0


def _wait(state: RetryCallState) -> float:
    """Seconds before the next try: random, growing with the tries.

    Who was refused once, or was told when to come, waits for a place, and no longer.
    """
    error = state.outcome.exception()
    comes_at_once = _wanted_wait(error) or (_is_refusal(error) and state.attempt_number < 3)
    return 0.0 if comes_at_once else BACK_OFF(state)


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
