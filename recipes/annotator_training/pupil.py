"""A model in training: pictures as its tower sees them, batches of questions, and what it answers.

| symbol | name | shape |
|---|---|---|
| pixels | `pixels` | (N, 3, 128, 128) uint8 |
| patches | `views[world]` | (N, 64, 256) |
| tokens of questions and answers | `ids` | (B, L) |
| what the language model reads | `embeddings` | (B, L, D) |
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from torch.nn.utils.rnn import pad_sequence

from recipes.annotator_training.lesson_pictures import N_PATCHES


class Pupil(NamedTuple):
    """An image-text model whose tower is frozen, so that all pictures are seen once and for all."""

    model: Any  # FastVlmForConditionalGeneration
    tokenizer: Any
    views: dict[str, torch.Tensor]  # of each world, (N, 64, 256)


class Embedded(NamedTuple):
    """A batch of questions with their answers, padded on the right: what comes later is not seen."""

    asked: list[list[int]]  # tokens of the questions
    answered: list[list[int]]  # tokens of the answers, with the end
    ids: torch.Tensor  # (B, L)
    embeddings: torch.Tensor  # (B, L, D)


def normalised(pixels: np.ndarray, device: torch.device) -> torch.Tensor:
    """Pixels (N, 3, H, W) uint8 as the tower takes them, float32."""
    mean, std = (
        torch.tensor(value, device=device).view(3, 1, 1)
        for value in (IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD)
    )
    return (torch.from_numpy(pixels).to(device).float() / 255 - mean) / std


def tower_states(tower: torch.nn.Module, pixels: np.ndarray, another_light: bool = False) -> torch.Tensor:
    """Patches (N, 64, 256) of pixels (N, 3, SIZE, SIZE) uint8; another_light: brightness at random."""
    inputs = normalised(pixels, next(tower.parameters()).device)
    if another_light:
        light = 0.08 * torch.randn(2, len(inputs), 1, 1, 1, device=inputs.device)
        inputs = inputs * (1 + light[0]) + light[1]
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    return tower(inputs).last_hidden_state.flatten(2).mT


@torch.no_grad()
def tower_views(tower: torch.nn.Module, pixels: np.ndarray) -> torch.Tensor:
    """The same, float16, of any number of pictures, 256 at a time."""
    parts = np.array_split(pixels, max(1, len(pixels) // 256))
    return torch.cat([tower_states(tower, part).half() for part in parts])


def embedded_batch(pupil: Pupil, batch: Sequence[tuple]) -> Embedded:
    """Questions and answers as the language model reads them, patches in the places of image tokens.

    batch: (question, answer, picture) each, the pictures all (world, row) or all None.
    """
    model, tokenizer, views = pupil
    questions = []
    for text, _, picture in batch:
        questions.append("<user>" + (N_PATCHES * "<image>" if picture else "") + text + "<bot>")
    asked = tokenizer(questions)["input_ids"]
    answered = tokenizer([answer + "<end>" for _, answer, _ in batch])["input_ids"]
    rows = [torch.tensor(question + answer) for question, answer in zip(asked, answered, strict=True)]
    ids = pad_sequence(rows, batch_first=True, padding_value=0).to(model.device)
    embeddings = model.get_input_embeddings()(ids)
    if batch[0][2]:
        seen = torch.stack([views[kind][row] for _, _, (kind, row) in batch])
        patches = model.model.multi_modal_projector(seen.float().to(model.device)).to(embeddings.dtype)
        is_patch = (ids == model.config.image_token_index)[..., None]
        embeddings = embeddings.masked_scatter(is_patch, patches)
    return Embedded(asked, answered, ids, embeddings)


def option_ends(tokenizer, ids: Sequence[int], text: str, answer: str) -> torch.Tensor | None:
    """Token positions at which the options of a question end; None where letters do not answer it."""
    count = len(re.findall(r"\n[A-P][.)] ", text))
    if not count or not re.fullmatch("[A-P]", answer):
        return None
    line = tokenizer.convert_tokens_to_ids(tokenizer.tokenize("\n")[0])
    line_breaks = np.flatnonzero(np.array(ids) == line)[-count:]
    return torch.tensor([*line_breaks[1:] - 1, len(ids) - 2])


@torch.inference_mode()
def chosen_letters(pupil: Pupil, batch: Sequence[tuple], letters: str = "ABCDE") -> list[str]:
    """The letter that each question of a batch is answered by, the likeliest of `letters`."""
    asked, _, _, embeddings = embedded_batch(pupil, batch)
    states = pupil.model.model.language_model(inputs_embeds=embeddings, use_cache=False).last_hidden_state
    logits = pupil.model.lm_head(states[range(len(batch)), [len(question) - 1 for question in asked]])
    columns = [pupil.tokenizer.convert_tokens_to_ids(letter) for letter in letters]
    return [letters[place] for place in logits[:, columns].argmax(1).tolist()]


@torch.inference_mode()
def said_words(pupil: Pupil, question: str, pictures: Sequence[tuple], tokens: int = 8) -> list[str]:
    """What is answered in words to one question about each picture, token by token, the likeliest each.

    pictures: (world, row) each. tokens: at most.
    """
    asked, _, _, embeddings = embedded_batch(pupil, [(question, "", picture) for picture in pictures])
    inputs = embeddings[:, : len(asked[0])]  # without the end
    memory, said = None, []
    for _ in range(tokens):
        output = pupil.model.model.language_model(
            inputs_embeds=inputs, use_cache=True, past_key_values=memory
        )
        memory = output.past_key_values
        said.append(pupil.model.lm_head(output.last_hidden_state[:, -1]).argmax(1))
        inputs = pupil.model.get_input_embeddings()(said[-1])[:, None]
    texts = [pupil.tokenizer.decode(row) for row in torch.stack(said, 1).tolist()]
    return [text.partition("<end>")[0].strip() for text in texts]
