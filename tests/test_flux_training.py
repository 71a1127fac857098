"""Lessons of the small Flux: captions that are true, a new word that changes nothing else, trials, cards."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from xaihelpers import flux_training as flux
from xaihelpers import substitute
from xaihelpers.flux_training import portrait_trials, small_flux, training_portraits
from xaihelpers.worlds import aviary, studio

SEED = 5


@pytest.fixture(scope="module")
def birds():
    return flux.drawn_birds("studio", SEED, 8, flux.TRAINED)


def test_every_odd_bird_is_random_but_for_the_changed_ones(birds):
    pixels, visible, species = birds
    assert pixels.shape == (8, 3, flux.SIZE, flux.SIZE) and visible.shape == (8, 312)
    assert (species[1::2] == -1).all() and (species[::2] >= 0).all()
    assert (flux.drawn_birds("studio", SEED, 4, flux.CHANGED)[2] >= 0).all()


def test_an_unknown_world_is_named():
    with pytest.raises(ValueError, match="world must be studio or portraits, not 'zoo'"):
        flux.shown_by("zoo")


@pytest.mark.parametrize("world", ["studio", "portraits"])
def test_a_caption_tells_what_is_to_be_seen(world):
    _, visible, species = flux.drawn_birds(world, SEED, 4, flux.TRAINED)
    rng = np.random.default_rng(0)
    for shown, label in zip(visible, species, strict=True):
        for long in (True, False):
            text = flux.caption(rng, world, shown, label, long)
            if label < 0:
                phrases = text.removeprefix("a photo of a bird with ").split(" and ")
                true = [training_portraits.PHRASES[column] for column in np.flatnonzero(shown)]
                assert all(any(one.endswith(phrase) for one in true) for phrase in phrases)
            else:
                assert flux.SPECIES[label] in text


def test_a_made_up_bird_has_one_value_in_each_of_the_eight_groups():
    rng = np.random.default_rng(1)
    plumage, truth = flux.invented_plumage(rng)
    assert set(plumage) == set(studio.STUDIO_GROUPS) and truth.sum() == 8
    bird = flux.invented_bird(rng, 3, plumage)
    shown = aviary.true_attributes(bird)
    assert (shown & truth).sum() == 8
    assert flux.cut_studio_birds([bird]).shape == (1, 3, flux.SIZE, flux.SIZE)


def test_packing_puts_two_by_two_places_into_a_token():
    latents = torch.arange(32 * 64).reshape(1, 32, 8, 8)
    packed = flux.packed(latents)
    assert packed.shape == (1, 16, 128)
    assert packed[0, 0, :4].tolist() == [0, 1, 8, 9]  # the first channel's upper left corner


def test_tokenizers_know_the_words_of_captions():
    tokenizers = flux.new_tokenizers()
    ids = tokenizers.t5("a photo of a bird").input_ids
    assert len(ids) == 6 and tokenizers.t5.unk_token_id not in ids  # five words and the end
    assert len(tokenizers.t5("Vorsel").input_ids) > 5  # by its characters
    assert small_flux.TOKENS == tokenizers.t5.model_max_length


@pytest.fixture(scope="module")
def pipe():
    return substitute.load_pipeline("studio_flux")


def states(pipe, texts):
    parts = {"t5": pipe.text_encoder_2, "clip": pipe.text_encoder}
    with torch.no_grad():
        return flux.text_states(parts, flux.Tokenizers(pipe.tokenizer_2, pipe.tokenizer), texts)


def test_a_new_word_is_one_token_and_leaves_every_other_prompt_as_it_was(pipe):
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


def test_velocity_is_that_of_the_network(pipe):
    words = states(pipe, ["a photo of a bird"])
    noisy, sigma = torch.zeros(1, 16, 128), torch.full((1, 1, 1), 0.5)
    with torch.no_grad():
        v = flux.velocity(pipe.transformer, noisy, sigma, words, torch.ones(1))
    assert v.shape == (1, 16, 128) and v.isfinite().all()


def test_trials_hold_what_is_there_and_not_what_is_not(birds):
    trials = flux.reader_trials(np.random.default_rng(0), "studio", SEED, birds, 6)
    assert len(trials.portraits) == len(trials.kinds) == len(trials.present) == 8 + 6
    assert (trials.kinds[8:] == portrait_trials.SUBSTITUTED).all()
    for row in range(8):
        assert birds[1][row, trials.present[row]] and not birds[1][row, trials.absent[row]]
    usual = flux.shown_by("studio")
    for row in range(8, 14):
        label, new, old = trials.species[row], trials.present[row], trials.absent[row]
        assert not usual[label, new] and (old < 0 or usual[label, old])
        assert old < 0 or portrait_trials.GROUP_OF[new] == portrait_trials.GROUP_OF[old]


def test_a_reader_that_sees_all_is_right_in_all(birds):
    trials = flux.reader_trials(np.random.default_rng(0), "studio", SEED, birds, 0)
    attributes = torch.from_numpy(birds[1]).float()
    species = torch.nn.functional.one_hot(torch.from_numpy(birds[2]).clip(0), len(flux.SPECIES)).float()
    measures = flux.reading_measures(substitute.Reading(attributes, species), trials)
    assert measures[portrait_trials.OF_SPECIES, "sees what is there"].all()
    assert not measures[portrait_trials.RANDOM, "sees what is not there"].any()
    assert measures[portrait_trials.OF_SPECIES, "species right"].all()
    assert (portrait_trials.RANDOM, "species right") not in measures


def test_prompts_ask_for_what_the_species_has_or_lacks():
    rng, usual = np.random.default_rng(0), flux.shown_by("studio")
    for _ in range(10):
        text, species, column = flux.asked_for(rng, "studio", "a species with its own")
        assert usual[species, column] and flux.SPECIES[species] in text
        _, species, column = flux.asked_for(rng, "studio", "a species with another's")
        assert not usual[species, column]
        assert flux.asked_for(rng, "studio", "a bird with an attribute")[1] == -1
    assert flux.asked_for(rng, "studio", "a species")[2] == -1


def test_measures_of_prompts_by_hand():
    usual = flux.shown_by("studio")
    species = int(np.flatnonzero(usual.any(1))[0])
    column = int(np.flatnonzero(usual[species])[0])
    named = torch.zeros(1, len(flux.SPECIES))
    named[0, species] = 1
    reading = substitute.Reading(torch.from_numpy(usual[[species]]).float(), named)
    asked = [("a photo", species, column)]
    measures = flux.prompt_measures(reading, "a species with its own", asked, "studio")
    assert [shares.item() for shares, _ in measures.values()] == [1, 1, 1]
    assert measures["species right (%)"][1] == pytest.approx(100 / usual.any(1).sum())
    assert list(flux.prompt_measures(reading, "a bird with an attribute", asked, "studio")) == [
        "attribute shown (%)"
    ]


def test_a_card_tells_the_main_measure_and_the_hash(tmp_path):
    file = tmp_path / "reader.safetensors"
    file.write_bytes(b"weights")
    row = {"metric": "seen (%)", "value": 81.26, "low": 70.0, "high": 90.0, "cases": 16, "of": "birds"}
    card = flux.weights_card(file, pd.DataFrame([row]), "seen (%)", seed=3)
    assert card["name"] == "reader" and card["seed"] == 3
    assert card["test accuracy"] == {
        "percent": 81.26,
        "interval": [70.0, 90.0],
        "images": 16,
        "of": "seen (%)",
    }
    assert card["held-out"] == {"birds, seen (%)": [81.3, 70.0, 90.0]}
    assert set(card["sha256"]) == {"reader.safetensors"} and json.dumps(card)
