"""Lessons of the annotator and of the small Flux: rubrics and marks by hand, and a new word."""

import numpy as np
import torch

from xaihelpers import annotator_training as teach
from xaihelpers import flux_training as flux
from xaihelpers import substitute
from xaihelpers.annotator_training import examination
from xaihelpers.ask import Answer

SEED = 7


def test_overlap_and_rubric_by_hand():
    thing, heat = np.zeros((4, 4), bool), np.zeros((4, 4))
    thing[:2] = True  # eight pixels
    heat[1:, :] = 1  # twelve, of which four are the thing's
    assert teach.overlap(heat, thing) == (0.5, 4 / 12)
    assert teach.rubric(0.5, 4 / 12) == 2
    levels = [(0.04, 1), (0.1, 1), (0.3, 1), (0.5, 1), (0.7, 1), (0.9, 0.9), (0.9, 0.5)]
    assert [teach.rubric(*level) for level in levels] == [0, 1, 2, 3, 4, 5, 3]


def test_marks_by_hand():
    five = '["a", "b", "c", "d", "e"]'
    for task, truth, said, marks in (
        ("choice from an image", "B", "B", (1.0, False)),
        ("choice from an image", "B", "no", (0.0, True)),
        ("name from an image", "Blue Jay", "Blue Jay.", (1.0, False)),
        ("name from an image", "Blue Jay", "Jay", (0.0, True)),
        ("five concepts", five, '["a", "f", "c", "g", "e"]', (0.6, False)),
        ("five concepts", five, '["a", "b"]', (0.0, True)),
        ("judgement", "Score: 4", "Score: 3", (0.0, False)),
    ):
        assert examination.score_answer(task, "", truth, Answer(said)) == marks


def states(pipe, texts):
    parts = {"t5": pipe.text_encoder_2, "clip": pipe.text_encoder}
    with torch.no_grad():
        return flux.text_states(parts, flux.Tokenizers(pipe.tokenizer_2, pipe.tokenizer), texts)


def test_a_new_word_is_one_token_and_leaves_every_other_prompt_as_it_was():
    pipe = substitute.load_pipeline("studio_flux")
    texts = ["a photo of a Blue Jay", "a photo of a bird"]
    before = states(pipe, texts)
    word = flux.NewWord(pipe, "Vorsel")
    begun = states(pipe, ["a photo of a Vorsel"])
    assert [tuple(vector.shape) for vector in word.vectors] == [(128,), (192,)]
    for vector in word.vectors:
        vector.data += 1
    after, changed = states(pipe, texts), states(pipe, ["a photo of a Vorsel"])
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one, other)
    assert not torch.allclose(begun[0], changed[0]) and not torch.allclose(begun[1], changed[1])
    word.forget()
    for one, other in zip(begun, states(pipe, ["a photo of a Vorsel"]), strict=True):
        assert torch.equal(one, other)
    assert len(pipe.tokenizer_2("Vorsel").input_ids) == 2  # with the end
