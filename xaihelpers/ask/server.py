"""Any OpenAI-compatible server: many requests at once, tried again where the server is busy or broken. Address and key come from the environment; the key is never kept or shown."""
import asyncio
import contextlib
import json
import math
import os
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

import openai
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from .chats import Answer, AskError, Request, Turn, data_url, split_reasoning

BACK_OFF = wait_random_exponential(multiplier=0.5, max=30)
UNSUPPORTED = re.compile("unsupported|not support|unrecogni[sz]ed|unexpected|unknown|not permitted|not allowed|extra (field|input)|not available|not enabled|must be|at most", re.I)
DROPPED = ("top_logprobs", "logprobs", "seed", "temperature")  # what a server may refuse; the answers can be had without


class Unusable(Exception):
    """A reply without an answer in it: no choices, or no chat completion at all."""


class Server:
    """A model behind OPENAI_BASE_URL, with the key OPENAI_API_KEY: `concurrency` requests at a time, each tried `tries` times of at most `timeout` seconds."""

    def __init__(self, name: str, concurrency: int = 16, tries: int = 8, timeout: float = 300.0):
        if not (os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY")):
            raise AskError(f"server:{name} needs the address of a server in OPENAI_BASE_URL (for OpenAI itself its key in OPENAI_API_KEY is enough).")
        base = urlsplit(os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
        self.base = base._replace(netloc=base.netloc.rpartition("@")[2], query="").geturl()  # as it may be shown
        self.name, self.identity, self.concurrency, self.tries, self.timeout = name, f"{name} at {self.base}", concurrency, tries, timeout
        self.refused: dict[str, str] = {}  # parameters that the server refuses for this model: the name that it wants, or "" where it wants none
        self.most_logprobs = 20
        self.told: Counter[str] = Counter()  # of the last `answer`: errors after which a request was tried again, parameters refused

    def answer(self, requests: Sequence[Request], seed: int, temperature: float) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request as it comes; an answer that could not be had holds its error. Raises AskError where none can be had.

        The event loop runs in a thread of its own, because a notebook's thread runs one already. Leaving early, by an error or an interruption, ends what is under way.
        """
        self.told = Counter()
        came, loop = queue.SimpleQueue(), asyncio.new_event_loop()
        work = loop.create_task(self._work(requests, seed, temperature, came.put))

        def run():
            try:
                came.put(loop.run_until_complete(work))
            except BaseException as error:  # handed to the thread that asks
                came.put(error)
            finally:
                loop.run_until_complete(loop.shutdown_default_executor())
                loop.close()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            while (item := came.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(work.cancel)
            thread.join(10)

    async def _work(self, requests: Sequence[Request], seed: int, temperature: float, put: Callable) -> None:
        todo, self._lost = iter(range(len(requests))), 0
        async with self._client() as client:
            async def worker():  # keeps its place while it waits to try again, lest others take it and press a busy server
                for position in todo:
                    put((position, await self._answer(client, requests[position], seed, temperature)))

            workers = [asyncio.create_task(worker()) for _ in range(min(self.concurrency, len(requests)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for each in workers:
                    each.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    def _client(self) -> openai.AsyncOpenAI:
        base = urlsplit(self.base)
        http = openai.DefaultAioHttpClient(  # half the work of the standard transport
            timeout=self.timeout, trust_env=base.hostname not in ("localhost", "127.0.0.1", "::1"),  # no proxy leads to this machine
            **{"verify": False, "follow_redirects": False} if base.scheme == "http" else {})  # no TLS: its certificates take 0.1 s to read
        return openai.AsyncOpenAI(base_url=self.base, api_key=os.environ.get("OPENAI_API_KEY") or "none", max_retries=0, timeout=self.timeout, http_client=http)

    async def _answer(self, client: openai.AsyncOpenAI, request: Request, seed: int, temperature: float) -> Answer:
        wanted = {"model": self.name, "messages": await asyncio.to_thread(_messages, request.turns) if request.images else _messages(request.turns),
                  "max_tokens": request.max_tokens, "temperature": temperature, "seed": seed} | ({"logprobs": True, "top_logprobs": 20} if request.options else {})
        began = time.perf_counter()
        try:
            async for attempt in AsyncRetrying(retry=retry_if_exception(_passing), wait=_wait, stop=stop_after_attempt(self.tries), reraise=True, before_sleep=self._count):
                with attempt:
                    answer = _read(await self._reply(client, wanted), request.options)
        except (openai.OpenAIError, Unusable, ValueError) as error:
            self._hopeless(error)
            return Answer(error=_shown(error), seconds=time.perf_counter() - began)
        self._lost, answer.seconds = 0, time.perf_counter() - began
        return answer

    async def _reply(self, client: openai.AsyncOpenAI, wanted: dict):
        while True:
            called = {name: self.refused.get(name, name) for name in wanted}
            sent = {called[name]: min(value, self.most_logprobs) if name == "top_logprobs" else value for name, value in wanted.items() if called[name]}
            try:
                return await client.post("/chat/completions", body=sent, cast_to=object)  # a third less work than its typed twin, chat.completions.create
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not self._learn(error, sent):
                    raise

    def _learn(self, error: openai.APIStatusError, sent: dict) -> bool:
        """Whether the server refused a parameter that can be left out or called otherwise; that is remembered for the model, and told once."""
        text = f"{error} {error.code}"
        if "max_tokens" in sent and "max_completion_tokens" in text and re.search("unsupported|not support", text, re.I):
            return self._refuse("max_tokens", "max_completion_tokens")
        name = next((name for name in DROPPED if name in sent and (error.param == name or not error.param and re.search(rf"\b{name}\b", text))), None)
        if name is None or not UNSUPPORTED.search(text):
            return False
        if name == "top_logprobs" and sent[name] > 5:
            self.most_logprobs, self.told["top_logprobs refused by the server, asked with 5"] = 5, 1
            return True
        return self._refuse(name, "")

    def _refuse(self, name: str, instead: str) -> bool:
        self.told[f"{name} refused by the server, asked {f'with {instead}' if instead else 'without'}"] = 1
        for each in ("logprobs", "top_logprobs") if "logprobs" in name else (name,):  # either tells nothing without the other
            self.refused[each] = instead
        return True

    def _hopeless(self, error: Exception) -> None:
        """Raises AskError where no request will be answered: key, name, credit, or as many requests in a row lost after all tries as are sent at a time, and 8 at least."""
        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)):
            raise AskError(f"server:{self.name}: the server at {self.base} refuses ({error.status_code}): check OPENAI_BASE_URL, OPENAI_API_KEY and the model's name.") from None
        if getattr(error, "code", None) == "insufficient_quota":
            raise AskError(f"server:{self.name}: the account at {self.base} has no credit left: add some, then run again, and it goes on from here.") from None
        self._lost += _passing(error)
        if self._lost >= max(8, self.concurrency):
            raise AskError(f"server:{self.name}: the server at {self.base} left {self._lost} requests in a row without an answer, the last by {_shown(error)}. "
                           "Run again when it answers, and it goes on from here.") from None

    def _count(self, state) -> None:
        self.told[f"{type(state.outcome.exception()).__name__}, tried again"] += 1


def _passing(error: BaseException) -> bool:
    """Whether the same request may be answered when tried again: the server was busy, broken, out of reach, or its reply was cut or empty."""
    if isinstance(error, openai.APIStatusError):
        return error.code != "insufficient_quota" and (error.status_code in (408, 409, 425, 429) or error.status_code >= 500)
    return isinstance(error, (openai.APIConnectionError, openai.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError, Unusable))


def _wait(state) -> float:
    """Seconds: what Retry-After asks for, at most 120, else a random time of exponentially growing bounds."""
    response = getattr(state.outcome.exception(), "response", None)
    try:
        return min(max(float(response.headers["retry-after"]), 0.0), 120.0)
    except (AttributeError, KeyError, ValueError):
        return BACK_OFF(state)


def _shown(error: Exception) -> str:
    why = f" {error.__cause__}" if isinstance(error, openai.APIConnectionError) and error.__cause__ else ""  # a host that cannot be reached is no more than a time-out to the client
    text, key = f"{type(error).__name__}: {error}{why}", os.environ.get("OPENAI_API_KEY", "")
    return (text.replace(key, "…") if len(key) > 4 else text)[:300]


def _messages(turns: Sequence[Turn]) -> list[dict]:
    return [{"role": turn.role, "content": turn.text if not turn.images else
             [*({"type": "image_url", "image_url": {"url": data_url(image)}} for image in turn.images), {"type": "text", "text": turn.text}]} for turn in turns]


def _read(reply, options: Sequence[str]) -> Answer:
    """The answer in a chat completion as it came; raises Unusable where there is none in it."""
    try:
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        message = choice["message"]
        text, reasoning = split_reasoning(message.get("content") or "", message.get("reasoning_content") or message.get("reasoning") or "")
        tokens = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
        return Answer(text, reasoning, _probabilities(choice, options), *tokens, cut=choice.get("finish_reason") == "length")
    except (AttributeError, TypeError, IndexError, KeyError) as error:
        raise Unusable("a reply without an answer in it") from error


def _probabilities(choice: dict, options: Sequence[str]) -> dict[str, float] | None:
    """Of the options, by the log-probabilities of the first token after the reasoning that is one of them; None where the server gives none."""
    said = ""
    for token in (choice.get("logprobs") or {}).get("content") or []:
        said += token["token"]
        mass = dict.fromkeys(options, 0.0)
        for each in token.get("top_logprobs") or []:
            if (option := each["token"].strip()) in mass:
                mass[option] += math.exp(each["logprob"])
        if token["token"].strip() in mass and sum(mass.values()) > 0 and split_reasoning(said)[0]:
            return {option: p / sum(mass.values()) for option, p in mass.items()}
    return None
