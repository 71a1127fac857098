"""The logits of a generation: those of the options are kept, and noise makes a sample of the greatest."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

import torch
from transformers import LogitsProcessor

from xaihelpers.ask.messages import AskError


def first_tokens(tokenizer: Callable, options: Sequence[str]) -> list[list[int]]:
    """For each option the tokens that it and no other option may begin with.

    Each is tokenised with and without a space before it. Raises AskError: options that begin alike.
    """
    first = []
    for option in options:
        ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (option, f" {option}")]
        first.append({tokens[0] for tokens in ids})
    counts = Counter(chain.from_iterable(first))
    unique = []
    for tokens in first:
        unique.append([token for token in sorted(tokens) if counts[token] == 1])
    if not all(unique):
        raise AskError(
            f"The options {', '.join(options)} begin with the same token for this model: letter them "
            "(A, B, …) in the question."
        )
    return unique


class OptionLogits(LogitsProcessor):
    """Keeps the model's own logits of the options' first tokens at each step; all would fill the memory.

    tokens: of each option, as `first_tokens` gives them.
    """

    def __init__(self, tokens: Sequence[Sequence[int]]):
        self.tokens = tokens
        self.steps: list[torch.Tensor] = []  # of each step (B, options) float32

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.steps.append(torch.stack([scores[:, own].float().logsumexp(1) for own in self.tokens], 1))
        return scores


class GumbelNoise(LogitsProcessor):
    """Gumbel noise on the logits: the most probable token is then a sample at the temperature.

    Each row has a generator of its own, so that no answer depends on what else is in its batch.
    """

    def __init__(self, temperature: float, seeds: Sequence[int], device: torch.device):
        self.temperature = temperature
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        rows = []
        for generator in self.generators:
            noise = torch.empty(scores.shape[1], device=scores.device)
            rows.append(noise.exponential_(generator=generator))
        return scores / self.temperature - torch.stack(rows).log()
