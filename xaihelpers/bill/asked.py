"""What an estimate counts: kinds of questions to models, and passes of networks over images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xaihelpers.ask.messages import Request
from xaihelpers.ask.token_counts import request_tokens
from xaihelpers.bill.model_sizes import ModelSize

# tokens of a usual answer; a model that reasons before it answers writes REASONED more
USUAL = {"chain": 190, "list": 45, "letter": 2, "name": 6, "judgement": 130, "reasoning": 250}
REASONED = 900
REASONS = ("deepseek-r", "-reasoner", "o1", "o3", "o4", "qwq")  # parts of names


@dataclass
class Questions:
    """Requests of one kind to one model.

    count: different requests, for equal ones are asked once. sample: some of them as they will be sent, from
        which tokens are counted. answer: the kind of answer, of `USUAL`.
    """

    what: str
    model: str
    count: float
    sample: Sequence[Request]
    answer: str

    @property
    def images(self) -> float:
        """Images sent with them."""
        return self.count * sum(len(one.images) for one in self.sample) / max(len(self.sample), 1)

    def tokens_in(self, size: ModelSize) -> float:
        """Tokens of all prompts."""
        each = [request_tokens(one, size.family, size.tokenise, size.image_tokens) for one in self.sample]
        return self.count * sum(each) / max(len(each), 1)

    def tokens_out(self) -> float:
        """Tokens of all answers, of usual length and no longer than the requests allow."""
        usual = USUAL[self.answer]
        if any(part in self.model.lower() for part in REASONS):
            usual += REASONED
        most = min((one.max_tokens for one in self.sample), default=usual)
        return self.count * min(usual, most)


class Passes(NamedTuple):
    """Passes of one network: forward ones; a step of training counts as three."""

    network: str
    passes: float
    what: str
    gflop: float = 0.0  # of a pass; 0 takes that of data/bill/networks.csv
