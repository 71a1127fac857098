"""Any OpenAI-compatible server. Address and key come from the environment; the key is never kept or shown.

The client sends a request again where the server is busy, broken or out of reach, as late as it asks for.
"""

import logging
import os
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from urllib.parse import urlsplit

import openai

from xaihelpers import spending
from xaihelpers.ask.chat_completions import UnusableReply, read_reply, to_messages
from xaihelpers.ask.messages import Answer, AskError, Request
from xaihelpers.names import server_address

log = logging.getLogger(__name__)
RETRIES = 10  # of a request
TIMEOUT = 300.0  # of each try, in seconds
LOST = 8  # requests in a row without an answer, after which nothing more is asked
FILTERED = ("content_filter", "content_policy_violation")  # codes of errors by which a prompt is refused
REFUSALS = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)
# parameters that a server may refuse, and the words by which it does
OPTIONAL_PARAMETERS = ("top_logprobs", "logprobs", "seed", "temperature")
UNSUPPORTED = re.compile(
    "support|unrecogni[sz]ed|unexpected|unknown|not (permitted|allowed|available|enabled)|must be|at most",
    re.I,
)


class ServerModel:
    """A model behind OPENAI_BASE_URL, with the key OPENAI_API_KEY.

    batch_size: requests at a time; 0 stands for 32.

    Attributes: `identity` tells models apart in the cache of answers: the model's name, and the environment
        variable XAI_MODEL_LABEL where it is set, for models of one name on two servers. The address is not
        part of it. `base` is the address as it may be shown, without a password and a query.
    """

    def __init__(self, name: str, batch_size: int = 0):
        self.name = name
        self.identity = f"server:{name} {os.environ.get('XAI_MODEL_LABEL', '')}".strip()
        self.batch_size = batch_size or 32
        self.base = server_address()
        self._has_address = bool(os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY"))
        # what this server takes, as its refusals tell
        self._limit_name, self._top_logprobs = "max_tokens", 20
        self._left_out: set[str] = set()

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request as it comes; an answer that could not be had holds its error.

        After an error nothing more is sent, and what is under way is waited for; not so where the caller
        leaves early.

        Raises AskError: no server is named; the server refuses key or name, or the account has no credit;
            `LOST` requests in a row stay without an answer. Raises ValueError for an image that cannot be
            read, SpendingError before a request that may cost more than is left.
        """
        if not self._has_address:
            raise AskError(
                f"server:{self.name}: {len(requests)} answers are not among those kept, and no server is "
                "named to ask: set OPENAI_BASE_URL to its address (for OpenAI itself its key in "
                "OPENAI_API_KEY is enough), or bring the folder of answers that holds them."
            )
        self._lost_in_a_row = 0
        account = spending.account()
        price = account.price_of(self.name, self.base)
        left, under_way, stopped = deque(enumerate(requests)), {}, None
        client = openai.OpenAI(
            base_url=self.base,
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            max_retries=RETRIES,
            timeout=TIMEOUT,
            # no proxy to this machine
            http_client=openai.DefaultHttpxClient(
                trust_env=urlsplit(self.base).hostname not in spending.LOCAL_HOSTS
            ),
        )
        pool = ThreadPoolExecutor(self.batch_size)
        try:
            while under_way or (left and not stopped):
                while left and not stopped and len(under_way) < self.batch_size:
                    position, request = left.popleft()
                    try:
                        account.reserve(self.name, price, request)
                        sent = pool.submit(self._answer, client, request, seed, temperature)
                        under_way[sent] = position
                    except spending.SpendingError as error:
                        stopped = error
                for sent in wait(under_way, return_when=FIRST_COMPLETED).done:
                    position = under_way.pop(sent)
                    try:
                        yield position, sent.result()
                    except ValueError as error:
                        stopped = stopped or error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            client.close()
        if stopped:
            raise stopped

    def _answer(self, client: openai.OpenAI, request: Request, seed: int, temperature: float) -> Answer:
        started = time.perf_counter()
        messages = to_messages(request)
        try:
            while True:
                body = {"model": self.name, "messages": messages, self._limit_name: request.max_tokens}
                body |= {"temperature": temperature, "seed": seed}
                if request.options:
                    body |= {"logprobs": True, "top_logprobs": self._top_logprobs}
                body = {name: value for name, value in body.items() if name not in self._left_out}
                try:
                    reply = client.post("/chat/completions", body=body, cast_to=object)
                    break
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    if not self._adapt(f"{error.param or ''} {error.code or ''} {error}", body):
                        raise
            answer = read_reply(reply, request.options)
            self._lost_in_a_row = 0
        except (openai.OpenAIError, UnusableReply, ValueError) as error:  # ValueError: no JSON
            if getattr(error, "code", None) in FILTERED:
                answer = Answer(_message(error), refused=True)
            else:
                self._raise_if_hopeless(error)
                answer = Answer(error=_message(error))
        answer.seconds = time.perf_counter() - started
        return answer

    def _adapt(self, text: str, body: dict) -> bool:
        """Whether the server refused a parameter that can be left out or renamed; from now on it is.

        text: its error's, with the parameter that it names, and its code. body: what it was sent.
        """
        if not UNSUPPORTED.search(text):
            return False
        named = [name for name in OPTIONAL_PARAMETERS if name in body and re.search(rf"\b{name}\b", text)]
        if "max_tokens" in body and "max_completion_tokens" in text:
            self._limit_name = "max_completion_tokens"
            what = "max_tokens, asked with max_completion_tokens"
        elif not named:
            return False
        elif named[0] == "top_logprobs" and body["top_logprobs"] > 5:
            self._top_logprobs = 5
            what = "top_logprobs, asked with 5"
        else:
            # of logprobs and top_logprobs neither is of use without the other
            names = ("logprobs", "top_logprobs") if "logprobs" in named[0] else named[:1]
            self._left_out |= set(names)
            what = f"{named[0]}, asked without"
        log.warning("%s: the server refuses %s", self.name, what)
        return True

    def _raise_if_hopeless(self, error: Exception) -> None:
        """Raise AskError where no request will be answered."""
        where = f"server:{self.name}: the server at {self.base}"
        if isinstance(error, REFUSALS) or getattr(error, "code", None) == "insufficient_quota":
            raise AskError(
                f"{where} refuses ({error.status_code}): check OPENAI_BASE_URL, OPENAI_API_KEY, the model's "
                f"name and the account's credit. It says: {_message(error)}"
            ) from None
        is_own = isinstance(error, openai.APIStatusError) and error.status_code < 429  # this request's
        self._lost_in_a_row += not is_own
        if self._lost_in_a_row >= LOST:
            raise AskError(
                f"{where} left {LOST} requests in a row without an answer, the last by {_message(error)}. "
                "Does OPENAI_BASE_URL end in /v1? What came before is kept: run again when it answers."
            ) from None


def _message(error: Exception) -> str:
    """An error as text of at most 300 characters, without the key."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, openai.APIConnectionError) and error.__cause__:  # which says more
        text += f" {error.__cause__}"
    key = os.environ.get("OPENAI_API_KEY", "")
    if len(key) > 4:
        text = text.replace(key, "…")
    return text[:300]
