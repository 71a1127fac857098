"""Texts with common beginnings as one tree: a causal text tower computes what they share once.

The 25 texts that ConceptScore makes of an image (five templates, five k) begin alike: a template's list of
eight concepts begins with its list of five. In a causal tower a token sees only what lies before it, so the
states of a shared beginning are the same in every text. All tokens of a tree lie in one row; each sees its
own path to the start.
"""

from collections.abc import Sequence
from os.path import commonprefix

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

MAX_TREE_TOKENS = 384  # in a tree of several texts: attention grows with the square


class PrefixTree:
    """Token lists that share beginnings, as nodes in one row, each behind those before it in its texts.

    tokens, positions: id and place in its text of each node. ends: text number -> node of its end token.
    """

    def __init__(self):
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.ends: dict[int, int] = {}
        self._node_of: dict[tuple[int, int], int] = {}  # the node before it (-1: none) and token -> node

    def add(self, number: int, text: list[int]) -> None:
        """Add text `number`; what it begins with is shared with the texts that begin alike."""
        node = -1
        for position, token in enumerate(text):
            node = self._node_of.setdefault((node, token), len(self.tokens))
            if node == len(self.tokens):
                self.tokens.append(token)
                self.positions.append(position)
        self.ends[number] = node

    def visible(self, size: int) -> np.ndarray:
        """Which of `size` nodes each node sees, (size, size) bool; padding behind the tree sees itself."""
        visible = np.eye(size, dtype=bool)
        for (before, _), node in self._node_of.items():
            if before >= 0:
                visible[node] |= visible[before]
        return visible


def prefix_trees(texts: Sequence[list[int]], max_tokens: int = MAX_TREE_TOKENS) -> list[PrefixTree]:
    """Distinct token lists as trees of at most `max_tokens` nodes, a longer text alone.

    In alphabetical order, a text joins the tree of the one before it if a third of it or more is there
    already.
    """
    trees, last = [], []
    for number in sorted(range(len(texts)), key=texts.__getitem__):
        text = texts[number]
        shared = len(commonprefix([last, text]))
        if not trees or 3 * shared < len(text) or len(trees[-1].tokens) + len(text) - shared > max_tokens:
            trees.append(PrefixTree())
        trees[-1].add(number, text)
        last = text
    return trees


def encode_trees(
    model: torch.nn.Module, texts: Sequence[list[int]], batch_tokens: int, device: torch.device
) -> torch.Tensor:
    """Text embeddings of distinct token lists by a causal text tower of open_clip, not normalised.

    texts: token ids from start to end token. batch_tokens: about so many at a time.
    Returns (len(texts), e), on `device`.
    """
    embeddings: dict[int, torch.Tensor] = {}
    trees = sorted(prefix_trees(texts), key=lambda tree: len(tree.tokens))
    while trees:
        size = len(trees[-1].tokens)
        batch = [trees.pop() for _ in range(min(len(trees), max(1, batch_tokens // size)))]
        embeddings |= _encode_batch(model.text, batch, size, device)
    return torch.stack([embeddings[number] for number in range(len(texts))])


def _encode_batch(
    tower: torch.nn.Module, trees: list[PrefixTree], size: int, device: torch.device
) -> dict[int, torch.Tensor]:
    """Embeddings of the texts of some trees of at most `size` nodes, by text number."""
    tokens = pad_sequence([torch.tensor(tree.tokens) for tree in trees], batch_first=True).to(device)
    positions = pad_sequence([torch.tensor(tree.positions) for tree in trees], batch_first=True).to(device)
    visible = torch.from_numpy(np.stack([tree.visible(size) for tree in trees])).to(device)  # (B, n, n)
    x = tower.token_embedding(tokens) + tower.positional_embedding[positions]  # (B, n, width)
    mask = torch.zeros(visible.shape, dtype=x.dtype, device=device).masked_fill_(~visible, -torch.inf)
    heads = tower.transformer.resblocks[0].attn.num_heads
    x = tower.transformer(
        x.to(tower.transformer.get_cast_dtype()), attn_mask=mask.repeat_interleave(heads, 0)
    )
    rows, nodes, numbers = [], [], []
    for row, tree in enumerate(trees):
        for number, node in tree.ends.items():
            rows.append(row)
            nodes.append(node)
            numbers.append(number)
    pooled = tower.ln_final(x[rows, nodes])  # (texts, width)
    projection = tower.text_projection
    if isinstance(projection, torch.nn.Linear):
        pooled = projection(pooled)
    elif projection is not None:
        pooled = pooled @ projection
    return dict(zip(numbers, pooled, strict=True))
