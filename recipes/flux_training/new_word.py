"""A new word for a text-to-image pipeline: one vector for each text encoder, and nothing else that changes.

Textual inversion (Gal et al., 2022): all weights stay, and what is learnt is the embedding of one new token.
"""

import torch
from torch import nn


class NewWord(nn.Module):
    """A token that a Flux pipeline did not know, with a vector in T5's and one in CLIP's embedding.

    The vectors take the places of the token wherever a prompt holds it; every other prompt is read as before.
    """

    def __init__(self, pipe, word: str, like: str = "bird"):
        """Add the word to both tokenizers; its vectors begin as the mean of those of `like`.

        pipe: a FluxPipeline, whose tokenizers and embeddings grow by one entry.
        """
        super().__init__()
        self.vectors = nn.ParameterList()
        pairs = ((pipe.tokenizer, pipe.text_encoder), (pipe.tokenizer_2, pipe.text_encoder_2))
        self._like = []
        for tokenizer, encoder in pairs:
            tokenizer.add_tokens([word])
            size = max(len(tokenizer), encoder.get_input_embeddings().num_embeddings)
            encoder.resize_token_embeddings(size, mean_resizing=False)
            embedding = encoder.get_input_embeddings()
            pieces = tokenizer(like, add_special_tokens=False).input_ids
            self._like.append(embedding.weight[pieces].mean(0).detach().clone())
            vector = nn.Parameter(self._like[-1].clone())
            self.vectors.append(vector)
            embedding.register_forward_hook(_in_place_of(tokenizer.convert_tokens_to_ids(word), vector))

    def forget(self) -> None:
        """Set both vectors to where they began."""
        for vector, first in zip(self.vectors, self._like, strict=True):
            vector.data.copy_(first)


def _in_place_of(token: int, vector: torch.Tensor):
    """A forward hook of an embedding that gives `vector` for a token."""

    def hook(module, inputs, output):
        return torch.where((inputs[0] == token)[..., None], vector, output)

    return hook
