"""Lessons of the annotator: truths of pictures, maps and questions by hand, and what a pupil answers."""

import re

import numpy as np
import pytest
import torch

from xaihelpers import annotator_training as teach
from xaihelpers import paths
from xaihelpers.annotator_training import attention_maps, concept_questions, examination, judgement_questions
from xaihelpers.fastslow import parse_chain, parse_letter
from xaihelpers.saliency.judging import parse_judgement

SEED = 7


@pytest.fixture(scope="module")
def pool():
    """A few drawn pictures of each kind."""
    made = {
        "birds": teach.stacked(teach.drawn_bird(SEED, number) for number in range(6)),
        "things": teach.stacked(teach.drawn_thing(SEED, number) for number in range(4)),
        "portraits": teach.stacked(teach.drawn_portrait(SEED, number) for number in range(4)),
    }
    made["judged"] = teach.under_attention(made, 8, SEED, 95)
    return made


def test_pictures_of_odd_numbers_have_no_species(pool):
    pixels, parts, seen, label = pool["birds"]
    assert pixels.shape == (6, 3, teach.SIZE, teach.SIZE) and pixels.dtype == np.uint8
    assert parts.shape == (6, teach.SIZE, teach.SIZE) and seen.shape == (6, 312 + 7)
    assert (label[1::2] == -1).all() and (label[::2] >= 0).all()
    assert (seen[:, 312:].sum(1) == 1).all()  # one seat
    assert (pool["things"][3] >= 0).all() and (pool["portraits"][3] == -1).all()
    assert not pool["portraits"][2][:, 312:].any()


def test_gathered_pictures_are_kept_and_read_again(tmp_path, pool):
    def draw(number):
        return teach.drawn_portrait(SEED, number)

    first = teach.gather_pictures("portraits", draw, 2, folder=str(tmp_path))
    again = teach.gather_pictures("portraits", None, 2, folder=str(tmp_path))
    for one, other, known in zip(first, again, pool["portraits"], strict=True):
        assert np.array_equal(one, other) and np.array_equal(one, known[:2])


def test_overlap_and_rubric_by_hand():
    thing, heat = np.zeros((4, 4), bool), np.zeros((4, 4))
    thing[:2] = True  # eight pixels
    heat[1:, :] = 1  # twelve, of which four are the thing's
    assert teach.overlap(heat, thing) == (0.5, 4 / 12)
    assert teach.rubric(0.5, 4 / 12) == 2
    levels = [(0.04, 1), (0.1, 1), (0.3, 1), (0.5, 1), (0.7, 1), (0.9, 0.9), (0.9, 0.5)]
    assert [teach.rubric(*level) for level in levels] == [0, 1, 2, 3, 4, 5, 3]


def test_maps_lie_in_their_range_and_every_kind_can_be_made():
    thing = np.zeros((teach.SIZE, teach.SIZE), bool)
    thing[40:90, 30:70] = True
    rng = np.random.default_rng(0)
    for _ in range(60):
        heat = teach.attention_map(rng, thing)
        assert heat.shape == thing.shape and heat.min() >= 0 and heat.max() <= 1
    exact = attention_maps.sharp_map(rng, "exact", thing)
    assert teach.rubric(*teach.overlap(exact, thing)) == 5
    nothing = attention_maps.sharp_map(rng, "nothing", thing)
    assert teach.rubric(*teach.overlap(nothing, thing)) == 0


def test_hard_candidates_hold_the_true_class_and_no_place_or_likeness_gives_it_away():
    rng, letters, central = np.random.default_rng(0), [], 0
    for _ in range(300):
        label = int(rng.integers(len(teach.SPECIES)))
        options, letter = teach.hard_options(rng, "birds", label)
        names = re.findall(r"[A-E]\. (.+)", options)
        assert len(set(names)) == 5 and names["ABCDE".index(letter)] == teach.SPECIES[label]
        letters.append(letter)
        rows = [teach.SPECIES.index(name) for name in names]
        likeness = teach.similarity("birds")[np.ix_(rows, rows)] + 2 * np.eye(5)
        central += likeness.sum(1).argmax() == "ABCDE".index(letter)
    counts = np.array([letters.count(letter) for letter in "ABCDE"])
    assert (counts > 35).all()
    assert central / 300 < 0.45  # whoever picks the middle of the set is seldom right


def test_every_task_asks_and_knows_the_answer(pool):
    rng = np.random.default_rng(1)
    for name, task in teach.TASKS.items():
        for _ in range(5):
            text, answer, picture = task.question(rng, pool)
            assert text and answer
            assert picture is None or picture[1] < len(pool[picture[0]][-1])
            options = teach.options_of(name, text)
            assert not options or parse_letter(answer, options) == answer
            if name.startswith("chain"):
                assert parse_chain(answer)
            if name == "judgement":
                assert parse_judgement(answer).score in range(6)


def test_the_stages_weigh_tasks_that_exist():
    mixtures = teach.mixtures()
    assert list(mixtures) == ["letters", "tasks", "choices", "last", "judge"]
    assert all(set(weights) <= set(teach.TASKS) for weights in mixtures.values())
    assert "letters" not in mixtures["tasks"] and mixtures["choices"]["letters"] == 0.3
    assert mixtures["last"]["judgement"] == pytest.approx(0.08 + 1.2)


def test_a_wrong_name_has_the_score_0_and_two_names_in_five_are_right(pool):
    rng = np.random.default_rng(2)
    names = [teach.given_name(rng, 3, "birds") for _ in range(400)]
    right = np.mean([name == truth for name, truth in names])
    assert 0.33 < right < 0.47 and {truth for _, truth in names} == {teach.SPECIES[3]}
    wrong = teach.judgement(pool["judged"], 0, "spoon", "Blue Jay")
    assert wrong.endswith("Score: 0") and "These are not the same." in wrong
    own = teach.judgement(pool["judged"], 0, "Blue Jay", "Blue Jay")
    assert own.endswith(f"Score: {pool['judged'][3][0]}") and "These are the same." in own
    assert judgement_questions.amount(0.7, judgement_questions.OF_OBJECT) == "most"


def test_easy_candidates_are_few():
    rng = np.random.default_rng(3)
    counts = {teach.easy_options(rng, "things", 1)[0].count("\n") + 1 for _ in range(60)}
    assert counts == {2, 3, 4, 5}


class Answer:
    def __init__(self, text, reasoning=""):
        self.text, self.reasoning = text, reasoning


@pytest.mark.parametrize(
    "task, question, truth, said, marks",
    [
        ("choice from an image", "", "B", "B", (1.0, False)),
        ("choice from an image", "", "B", "no", (0.0, True)),
        ("name from an image", "", "Blue Jay", "Blue Jay.", (1.0, False)),
        ("name from an image", "", "Blue Jay", "Jay", (0.0, True)),
        ("five concepts", "", '["a", "b", "c", "d", "e"]', '["a", "f", "c", "g", "e"]', (0.6, False)),
        ("five concepts", "", '["a", "b", "c", "d", "e"]', '["a", "b"]', (0.0, True)),
        ("judgement", "", "Score: 4", "Score: 3", (0.0, False)),
    ],
)
def test_marks_by_hand(task, question, truth, said, marks):
    assert examination.score_answer(task, question, truth, Answer(said)) == marks


def test_levels_of_chance():
    assert teach.chance_of("choice from both", [("", "A", None)]) == 20
    assert teach.chance_of("judgement", []) == pytest.approx(100 / 6)
    assert np.isnan(teach.chance_of("five concepts", [("", "", None)]))
    two_and_four = [("?\nA) x\nB) y", "A", None), ("?\nA) x\nB) y\nC) z\nD) w", "A", None)]
    assert teach.chance_of("attribute", two_and_four) == pytest.approx(37.5)


@pytest.fixture(scope="module")
def pupil(pool):
    """The shipped annotator with what its tower sees of the pool."""
    model, processor = teach.saved_annotator(paths.models_home() / "annotator", torch.device("cpu"))
    views = {"birds": teach.tower_views(model.model.vision_tower, pool["birds"][0])}
    return teach.Pupil(model, processor.tokenizer, views)


def test_patches_stand_in_the_places_of_image_tokens(pupil):
    batch = [("Which?", "A", ("birds", 0)), ("Which of all these?", "B", ("birds", 2))]
    asked, answered, ids, embeddings = teach.embedded_batch(pupil, batch)
    assert ids.shape == embeddings.shape[:2] and embeddings.shape[2] == 192
    is_patch = ids == pupil.model.config.image_token_index
    assert (is_patch.sum(1) == teach.N_PATCHES).all()
    patches = pupil.model.model.multi_modal_projector(pupil.views["birds"][[0, 2]].float())
    assert torch.allclose(embeddings[is_patch], patches.flatten(0, 1))
    assert [len(tokens) for tokens in answered] == [2, 2]  # a letter and the end
    assert len(asked[0]) < len(asked[1]) and ids[0, -1] == 0  # padded on the right


def test_ends_of_options_are_found(pupil):
    text = "Which is it?\nA. Blue Jay\nB. Cardinal"
    ids = pupil.tokenizer("<user>" + text + "<bot>")["input_ids"]
    ends = teach.option_ends(pupil.tokenizer, ids, text, "A")
    read = [pupil.tokenizer.decode(ids[: end + 1]).rsplit("\n", 1)[-1] for end in ends]
    assert read == ["A. Blue Jay", "B. Cardinal"]
    assert teach.option_ends(pupil.tokenizer, ids, text, "Blue Jay") is None
    assert teach.option_ends(pupil.tokenizer, ids, "Name it.", "A") is None


def test_the_shipped_annotator_names_and_chooses_birds_it_knows(pupil, pool):
    rows = [("birds", row) for row in (0, 2, 4)]
    truths = [teach.SPECIES[pool["birds"][3][row]] for _, row in rows]
    said = teach.said_words(pupil, concept_questions.prompt("fse_name"), rows)
    assert sum(one == truth for one, truth in zip(said, truths, strict=True)) >= 2
    rng = np.random.default_rng(0)
    batch = []
    for picture, truth in zip(rows, truths, strict=True):
        others = [name for name in teach.THINGS[:4] if name != truth]
        options, letter = teach.in_any_order(rng, truth, others)
        batch.append((concept_questions.prompt("fse_choose_image", options=options), letter, picture))
    letters = teach.chosen_letters(pupil, batch)
    assert sum(one == letter for one, (_, letter, _) in zip(letters, batch, strict=True)) >= 2


def test_a_tokenizer_is_learnt_and_a_model_is_built_around_a_tower():
    tokenizer = teach.learnt_tokenizer(["a red crown", "a blue crown"], entries=400)
    assert tokenizer.decode(tokenizer("a green crown?")["input_ids"]) == "a green crown?"
    assert len(tokenizer("<think>")["input_ids"]) == 1
    tower = teach.new_tower(torch.device("cpu"))
    model, processor = teach.new_annotator(tower, tokenizer, torch.device("cpu"))
    assert not any(weight.requires_grad for weight in model.model.vision_tower.parameters())
    pixels = np.zeros((2, 3, teach.SIZE, teach.SIZE), np.uint8)
    assert teach.tower_states(tower.eval(), pixels).shape == (2, teach.N_PATCHES, 256)
    assert processor.tokenizer is tokenizer
