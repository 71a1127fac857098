"""Texts that begin alike, through a causal text tower as one tree: what they share is computed once.

The 25 texts that ConceptScore makes of an image (five templates, five k) begin alike: a template's list of eight concepts begins with its list of five. In a causal tower a token
sees only what lies before it, so the states of a shared beginning are the same numbers in every text. Tokens of a tree lie in one row; each sees its own path to the start.
"""
from collections.abc import Sequence
from os.path import commonprefix

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

LARGEST = 384  # tokens in a tree of several texts: attention grows with the square


class Tree:
    """Token ids in one row, their positions, whom they see, and where each text ends."""

    def __init__(self):
        self.tokens, self.positions, self.ends, self.path, self.text = [], [], {}, [], []
        self.seen = []  # of each piece that was added: its nodes, and the nodes before it on its path

    def add(self, number: int, text: list[int], shared: int) -> None:
        first = len(self.tokens)
        self.tokens += text[shared:]
        self.positions += range(shared, len(text))
        self.seen.append((first, len(self.tokens), self.path[:shared]))
        self.path, self.text = [*self.path[:shared], *range(first, len(self.tokens))], text
        self.ends[number] = self.path[-1]

    def sees(self, size: int) -> np.ndarray:
        """Which of `size` nodes each sees, (size, size) bool; those behind the tree see themselves."""
        sees = np.eye(size, dtype=bool)
        for first, last, before in self.seen:
            sees[first:last, before] = True
            sees[first:last, first:last] = np.tri(last - first, dtype=bool)
        return sees


def prefix_trees(texts: Sequence[list[int]], largest: int = LARGEST) -> list[Tree]:
    """Distinct token lists as trees: in alphabetical order, a text joins the tree of the one before it if a third of it or more is there already."""
    trees = []
    for number in sorted(range(len(texts)), key=texts.__getitem__):
        text = texts[number]
        shared = len(commonprefix([trees[-1].text, text])) if trees else 0
        if not trees or 3 * shared < len(text) or len(trees[-1].tokens) + len(text) - shared > largest:
            trees.append(Tree())
            shared = 0
        trees[-1].add(number, text, min(shared, len(text) - 1))
    return trees


def encode_trees(model: torch.nn.Module, texts: Sequence[list[int]], at_once: int, device: torch.device) -> torch.Tensor:
    """Text embeddings (len(texts), e), not normalised, of distinct token lists with their end tokens, by a causal text tower of open_clip; about `at_once` tokens at a time."""
    tower, rows = model.text, {}
    heads = tower.transformer.resblocks[0].attn.num_heads
    trees = sorted(prefix_trees(texts), key=lambda tree: len(tree.tokens))
    while trees:
        size = len(trees[-1].tokens)
        part = [trees.pop() for _ in range(min(len(trees), max(1, at_once // size)))]
        ids, positions = (pad_sequence([torch.tensor(getattr(tree, name)) for tree in part], batch_first=True).to(device) for name in ("tokens", "positions"))
        sees = torch.from_numpy(np.stack([tree.sees(size) for tree in part])).to(device)  # (B, n, n)
        x = tower.token_embedding(ids) + tower.positional_embedding[positions]
        mask = torch.zeros(sees.shape, dtype=x.dtype, device=device).masked_fill_(~sees, -torch.inf).repeat_interleave(heads, 0)
        x = tower.transformer(x.to(tower.transformer.get_cast_dtype()), attn_mask=mask)
        row, node, number = zip(*((row, node, number) for row, tree in enumerate(part) for number, node in tree.ends.items()))
        pooled = tower.ln_final(x[list(row), list(node)])
        projection = tower.text_projection
        pooled = pooled if projection is None else projection(pooled) if isinstance(projection, torch.nn.Linear) else pooled @ projection
        rows |= dict(zip(number, pooled))
    return torch.stack([rows[number] for number in range(len(texts))])
