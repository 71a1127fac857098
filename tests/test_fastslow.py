"""Chains, cases and questions of the Fast and Slow Effect, on cases worked out by hand.

Above all the rule that slow mode sees neither the image nor the class's name.
"""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from xaihelpers import ask
from xaihelpers.datasets import load
from xaihelpers.fastslow import (
    LETTERS,
    STAGES,
    annotate_chains,
    answered,
    case_table,
    case_text,
    chain_from_attributes,
    chain_prefix,
    chains_from_labels,
    choice_request,
    choose,
    draw_cases,
    failure_mark,
    failure_note,
    failure_table,
    mentions_class,
    parse_chain,
    parse_letter,
    parse_list,
    position_table,
    reasoning_steps,
    require_some,
    sampling,
    segment_reasoning,
    similarity_dictionary,
)
from xaihelpers.parameters import ParameterError
from xaihelpers.scores.fse import cri_table
from xaihelpers.worlds import aviary, everyday

TEXTS = ("a branch", "perching bird", "crown, wings", "red crown", "small")
CHAIN = dict(zip(STAGES, TEXTS, strict=True))
OPTIONS = ["Blue Jay", "Green Jay", "Mallard", "Gadwall", "Cardinal"]


class Scripted:
    """A model whose answers a function gives; it keeps every request that reached it."""

    name = identity = "scripted"

    def __init__(self, say):
        self.say, self.asked, self.warnings = say, [], {}

    def answer(self, requests, seed, temperature):
        for position, one in enumerate(requests):
            self.asked.append(one)
            yield position, ask.Answer(self.say(one))


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))


class TestChains:
    @pytest.mark.parametrize(
        "form",
        ["{}", "Here it is:\n```json\n{}\n```\nDone.", "A {{set}} first. {}", '{} {{"Background": 1}}'],
    )
    def test_a_chain_is_found_amid_other_words(self, form):
        assert parse_chain(form.format(json.dumps(CHAIN))) == CHAIN

    def test_keys_may_be_written_otherwise_and_values_nested(self):
        said = {
            "background": "a lake",
            "super_class": "duck",
            "Salient Features": ["head", "bill"],
            "detailedFeatures": {"head": "green", "size": 50},
            "AUXILIARYFEATURES": "quacks",
        }
        texts = ("a lake", "duck", "head, bill", "head: green, size: 50", "quacks")
        assert parse_chain(json.dumps(said)) == dict(zip(STAGES, texts, strict=True))

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "no JSON",
            "{",
            json.dumps(CHAIN)[:-3],
            json.dumps({**CHAIN, "Superclass": ""}),
            json.dumps({**CHAIN, "Superclass": None}),
            json.dumps({k: v for k, v in CHAIN.items() if k != "Background"}),
            "[1, 2]",
            '{"a": 1}',
        ],
    )
    def test_no_whole_chain_is_none(self, text):
        assert parse_chain(text) is None

    def test_first_stages_are_in_order(self):
        assert list(json.loads(chain_prefix(dict(reversed(CHAIN.items())), 3))) == list(STAGES[:3])
        for t in (0, 6):
            with pytest.raises(ValueError, match=f"t is {t}"):
                chain_prefix(CHAIN, t)

    def test_no_chain_is_an_empty_text(self):
        assert chain_prefix(None, 3) == ""

    def test_five_phrases(self):
        assert parse_list('Sure: ["a", " b ", "c", "d", "e"].') == list("abcde")
        for text in ('["a", "b"]', '["a", "b", "c", "d", 5]', "a, b, c, d, e"):
            assert parse_list(text) is None

    def test_steps_are_counted_by_the_mark(self):
        assert reasoning_steps("> one. > two > three") == ["one.", "two", "three"]
        assert reasoning_steps("First.\n\nSecond.\n\n") == ["First.", "Second."]
        tag = "Look.</think> Look again."  # a tag is no mark
        assert reasoning_steps(tag) == [tag]

    def test_seven_steps_fall_into_five_segments(self):
        found = segment_reasoning(" ".join(f"> s{n}" for n in range(7)))
        assert list(found) == list(STAGES)
        assert list(found.values()) == ["s0 s1", "s2 s3", "s4", "s5", "s6"]

    def test_too_few_steps_are_cut_by_sentences_then_words(self):
        found = segment_reasoning("> A b. C d. > E f. G h. I j.")
        assert list(found.values()) == ["A b.", "C d.", "E f.", "G h.", "I j."]
        assert list(segment_reasoning("a b c d e f").values()) == ["a b", "c", "d", "e", "f"]
        assert segment_reasoning("only four words here") is None
        with pytest.raises(ValueError, match="'steps' or 'words'"):
            segment_reasoning("a b c d e", by="lines")

    @given(
        st.lists(st.text("abc", min_size=1, max_size=4), min_size=5, max_size=40),
        st.sampled_from(["steps", "words"]),
    )
    def test_a_cut_loses_no_word(self, words, by):
        found = segment_reasoning(" ".join(words), by)
        assert " ".join(found.values()).split() == words
        if by == "words":
            sizes = [len(part.split()) for part in found.values()]
            assert max(sizes) - min(sizes) <= 1

    @pytest.mark.parametrize(
        "text, name, leaks",
        [
            ("a Painted Bunting sings", "Painted Bunting", True),
            ("painted_buntings", "Painted_Bunting", True),
            ("a painted wall, a bunting", "Painted Bunting", False),
            ("the cup's rim", "cup", True),
            ("a cupboard", "cup", False),
            ("two boxes", "box", True),
            ("Black-and-white warbler", "Black and white Warbler", True),
        ],
    )
    def test_a_leak_is_the_whole_name(self, text, name, leaks):
        assert mentions_class(text, name) is leaks


class TestCases:
    def test_the_dictionary_counts_the_highest_wrong_classes(self):
        scores = np.array(
            [
                [9, 5, 4, 3, 2, 1],
                [9, 5, 4, 3, 1, 2],
                [0, 9, 5, 4, 3, 2],
                [5, 4, 9, 3, 2, 1],
                [5, 4, 3, 9, 2, 1],
                [5, 4, 3, 2, 9, 1],
                [5, 4, 3, 2, 1, 9],
            ]
        )
        found = similarity_dictionary(scores, [0, 0, 1, 2, 3, 4, 5])
        assert found[0].tolist() == [1, 2, 3, 4]  # 1, 2, 3 twice; 4 and 5 once each: the lower index
        assert found[1].tolist() == [2, 3, 4, 5] and found[5].tolist() == [0, 1, 2, 3]

    def test_a_class_without_samples_is_named(self):
        with pytest.raises(ValueError, match="class 2 has no sample, and 2 such"):
            similarity_dictionary(np.eye(6), [0, 1, 3, 4])
        with pytest.raises(ValueError, match="at least 5"):
            similarity_dictionary(np.eye(4), [0, 1, 2, 3])

    @pytest.mark.parametrize("balanced", [False, True])
    @pytest.mark.parametrize("semantic", [False, True])
    def test_every_set_holds_the_true_class_once(self, balanced, semantic):
        labels = np.repeat(np.arange(8), 6)
        near = np.array([[(k + i) % 8 for i in (1, 2, 3, 4)] for k in range(8)])
        cases = draw_cases(labels, 8, 300, near if semantic else None, balanced, seed=3)
        assert cases.options.shape == (300, 5) and all(len(set(row)) == 5 for row in cases.options)
        assert (cases.options[np.arange(300), cases.answers] == labels[cases.rows]).all()
        assert np.bincount(cases.answers, minlength=5).min() > 35  # shuffled: 60 expected at each letter
        again, other = (
            draw_cases(labels, 8, 300, near if semantic else None, balanced, seed=seed) for seed in (3, 4)
        )
        assert all((a == b).all() for a, b in zip(cases, again, strict=True))
        assert any((a != b).any() for a, b in zip(cases, other, strict=True))

    def test_balanced_sets_tell_nothing_about_the_true_class(self):
        # the members of a set tell its centre
        near = np.array([[(k + i) % 10 for i in (1, 2, 3, 4)] for k in range(10)])
        labels = np.repeat(np.arange(10), 5)
        for balanced, share in ((False, 1.0), (True, 0.2)):
            cases = draw_cases(labels, 10, 2000, near, balanced)
            centres = [next(k for k in row if {*near[k], k} == set(row)) for row in cases.options.tolist()]
            assert cases.centres.tolist() == centres
            assert np.mean(np.array(centres) == labels[cases.rows]) == pytest.approx(share, abs=0.03)

    def test_no_image_is_drawn_twice_while_there_are_enough(self):
        cases = draw_cases(np.repeat(np.arange(6), 5), 6, 30)
        assert len(set(cases.rows.tolist())) == 30

    def test_too_few_classes_or_no_image_are_told(self):
        with pytest.raises(ValueError, match="4 classes and 4 images"):
            draw_cases(np.arange(4), 4, 3)
        with pytest.raises(ValueError, match="6 classes and 0 images"):
            draw_cases(np.array([], int), 6, 3)

    def test_a_class_without_images_is_never_the_answer_of_a_balanced_set(self):
        cases = draw_cases(np.arange(5), 8, 400, None, balanced=True)
        true = cases.options[np.arange(400), cases.answers]
        assert set(true.tolist()) == {0, 1, 2, 3, 4} and {5, 6, 7} <= set(cases.options.ravel().tolist())

    def test_tensor_labels_are_taken(self):
        assert draw_cases(torch.arange(6), 6, 4).rows.shape == (4,)

    @pytest.mark.parametrize("balanced", [False, True])
    def test_a_table_holds_the_cases_of_all_runs(self, balanced):
        names = [f"class {k}" for k in range(7)]
        labels, rows = np.repeat(np.arange(7), 4), np.arange(1, 28, 2)
        table = case_table(rows, labels, names, 9, balanced=balanced, seeds=[2, 5])
        assert table.seed.tolist() == [2] * 9 + [5] * 9 and table.case.tolist() == [*range(9)] * 2
        assert set(table.row) <= set(rows)
        for line in table.itertuples():
            assert line.options == [names[k] for k in line.candidates]
            assert line.options[line.position] == line.label == names[labels[line.row]]
            assert line.centre in line.options and (balanced or line.centre == line.label)
        assert balanced == (table.centre != table.label).any()
        drawn = draw_cases(labels[rows], 7, 9, balanced=balanced, seed=5)
        second = table[table.seed == 5]
        assert second.row.tolist() == rows[drawn.rows].tolist()
        assert second.candidates.tolist() == drawn.options.tolist()
        assert second.position.tolist() == drawn.answers.tolist()


class TestQuestions:
    def test_slow_mode_sees_concepts_and_options_only(self):
        found = choice_request("slow", OPTIONS, concepts=chain_prefix(CHAIN, 5))
        assert len(found.turns) == 1 and not found.turns[0].images and found.options == LETTERS
        said = found.turns[0].text
        assert chain_prefix(CHAIN, 5) in said and all(said.count(option) == 1 for option in OPTIONS)

    @pytest.mark.parametrize(
        "mode, given",
        [
            ("slow", {"image"}),
            ("slow", {"image", "concepts"}),
            ("slow", set()),
            ("fast", {"concepts"}),
            ("fast", {"image", "concepts"}),
            ("fast", set()),
            ("fused", {"image"}),
            ("fused", {"concepts"}),
            ("blind", {"image"}),
            ("blind", {"concepts"}),
        ],
    )
    def test_no_mode_is_given_what_it_must_not_see(self, mode, given):
        with pytest.raises(ValueError, match=f"{mode} mode sees"):
            choice_request(
                mode,
                OPTIONS,
                "concepts" if "concepts" in given else "",
                Image.new("RGB", (8, 8)) if "image" in given else None,
            )

    def test_nothing_of_the_image_or_name_reaches_the_judge_of_slow_mode(self, tmp_path):
        """The whole way: an annotator that sees image or name, and a judge that gets its chain."""
        Image.new("RGB", (8, 8)).save(tmp_path / "Cardinal_0001.png")
        annotator = Scripted(lambda one: json.dumps(CHAIN))
        chains = [
            *annotate_chains(annotator, images=[tmp_path / "Cardinal_0001.png"], progress=False).chains,
            *annotate_chains(annotator, names=["Cardinal"], progress=False).chains,
        ]
        judge = Scripted(lambda one: "E")
        texts = [chain_prefix(chain, t) for chain in chains for t in range(1, 6)]
        choose(judge, questions(concept_text=texts, mode="slow", position=4), progress=False)
        assert len(judge.asked) == 5  # both chains read alike: equal questions are asked once
        for one in judge.asked:
            assert not any(turn.images for turn in one.turns)
            # among the options, as every other class
            assert one.turns[0].text.count("Cardinal") == 1

    def test_a_line_of_a_table_reaches_the_model_as_its_mode_allows(self, tmp_path):
        for name, color in (("a.png", "red"), ("b.png", "blue")):
            Image.new("RGB", (8, 8), color).save(tmp_path / name)
        table = pd.concat(
            [
                questions(mode=["fast"], image=tmp_path / "a.png"),
                questions(mode=["slow"], concept_text="c1"),
                questions(mode=["fused"], image=tmp_path / "b.png", concept_text="c2"),
                questions(mode=["blind"]),
            ]
        )
        model = Scripted(lambda one: "A")
        rows = choose(model, table, progress=False)
        assert rows["mode"].tolist() == ["fast", "slow", "fused", "blind"] and rows.correct.all()
        shown = [(one.images, "c1" in one.turns[0].text, "c2" in one.turns[0].text) for one in model.asked]
        assert shown == [
            ([tmp_path / "a.png"], False, False),
            ([], True, False),
            ([tmp_path / "b.png"], False, True),
            ([], False, False),
        ]
        for mode, columns in (
            ("slow", {"concept_text": "c", "image": tmp_path / "a.png"}),
            ("blind", {"image": tmp_path / "a.png"}),
            ("blind", {"concept_text": "c"}),
            ("fast", {}),
            ("fast", {"concept_text": "c", "image": tmp_path / "a.png"}),
        ):
            with pytest.raises(ValueError, match=f"{mode} mode sees"):
                choose(model, questions(mode=[mode], **columns), progress=False)
        with pytest.raises(ValueError, match="unknown mode 'slowly'"):
            choose(model, questions(mode=["slowly"]), progress=False)
        assert len(model.asked) == 4

    def test_prompts_and_limit_are_those_given(self, tmp_path):
        (tmp_path / "own.txt").write_text("By {concepts}, which?\n{options}")
        model = Scripted(lambda one: "A")
        table = questions(mode=["slow", "blind"], concept_text=["red", ""])
        choose(model, table, {"slow": tmp_path / "own.txt"}, 99, progress=False)
        slow, blind = model.asked
        assert slow.turns[0].text.startswith("By red, which?\nA. Blue Jay")
        assert "By red" not in blind.turns[0].text and slow.max_tokens == blind.max_tokens == 99

    def test_options_must_be_five_and_different(self):
        for options in (OPTIONS[:4], [*OPTIONS[:4], "Blue Jay"]):
            with pytest.raises(ValueError, match="5 different options"):
                choice_request("blind", options)
        with pytest.raises(ValueError, match="unknown mode"):
            choice_request("slowly", OPTIONS)

    def test_invalid_answers_are_wrong_and_counted(self):
        said = iter(["A", "none", "C"])
        table = questions(
            mode="slow", concept_text=["c0", "c1", "c2", ""], position=[0, 1, 1, 3], sets=[*"wxyz"]
        )
        model = Scripted(lambda one: next(said))
        rows = choose(model, table, progress=False)
        assert len(model.asked) == 3, "where there are no concepts, nothing is asked"
        assert rows.correct.tolist() == [True, False, False, False]
        assert rows.invalid.tolist() == [False, True, False, True]
        assert rows.letter.dropna().tolist() == ["A", "C"]
        assert rows.sets.tolist() == [*"wxyz"] and rows.confidence.isna().all()

    def test_four_kinds_of_failure_are_told_apart(self):
        class Failing(Scripted):
            def answer(self, requests, seed, temperature):
                given = [
                    ask.Answer(error="no route to host"),
                    ask.Answer("The options are all", truncated=True),
                    ask.Answer("I'm sorry, I can't help with that."),
                    ask.Answer("a bird"),
                    ask.Answer("B"),
                ]
                yield from enumerate(given[: len(requests)])

        table = questions(mode="slow", concept_text=[*"vwxyz"], position=1)
        rows = choose(Failing(str), table, progress=False)
        assert rows.failure.tolist() == ["failed", "truncated", "refused", "unparsable", ""]
        assert rows.invalid.tolist() == [False, True, True, True, False]
        index = cri_table(rows.assign(seed=0), ["mode"]).iloc[0]
        assert (index.value, index.cases, index.invalid, index.failed) == (25, 4, 75, 20)

    def test_why_there_are_no_concepts_is_kept(self):
        table = questions(mode="slow", concept_text=["", "", "c"], concept_failure=["failed", "", ""])
        rows = choose(Scripted(lambda one: "A"), table, progress=False)
        assert rows.failure.tolist() == ["failed", "unparsable", ""]
        assert rows.invalid.tolist() == [False, True, False]

    def test_a_chain_that_was_cut_off_is_asked_for_once_more(self):
        class Long(Scripted):
            def answer(self, requests, seed, temperature):
                for position, one in enumerate(requests):
                    self.asked.append(one)
                    enough = one.max_tokens >= 40 and "Cardinal" not in one.turns[0].text
                    text = json.dumps(CHAIN) if enough else '{"Background": "a'
                    yield position, ask.Answer(text, truncated=not enough)

        model = Long(str)
        found = annotate_chains(model, names=["Blue Jay", "Cardinal"], max_tokens=10, progress=False)
        assert found.chains == [CHAIN, None] and found.failures == ["", "truncated"]
        assert [one.max_tokens for one in model.asked] == [10, 10, 40, 40]

    def test_what_was_cut_off_is_asked_again_unless_it_is_whole_all_the_same(self):
        class Long(Scripted):
            def answer(self, requests, seed, temperature):
                for position, one in enumerate(requests):
                    self.asked.append(one)
                    text = one.turns[0].text[: one.max_tokens]
                    yield position, ask.Answer(text, truncated=len(text) < len(one.turns[0].text))

        for is_whole, texts, limits in (
            (None, ["ab", "abcdefgh", "abcdefgh"], [2, 2, 2, 8, 8]),
            (lambda answer: answer.text == "ab", ["ab", "ab", "ab"], [2, 2, 2]),
        ):
            model = Long(str)
            requests = [ask.request(text, max_tokens=2) for text in ("ab", "abcdefgh", "abcdefghij")]
            found = ask.ask_whole(model, requests, is_whole, progress=False, seed=len(limits))
            assert [answer.text for answer in found] == texts
            assert [one.max_tokens for one in model.asked] == limits
            assert found[2].truncated  # once, and not again

    def test_the_prompts_of_chains_differ_by_one_sentence(self):
        """Else what notebook 32 says of the sentence would be about other words as well."""
        forbidding, free = (ask.prompt(name, entity="it") for name in ("fse_chain", "fse_chain_may_name"))
        assert forbidding.replace(", without naming its class", "", 1) == free != forbidding

    def test_confidence_is_the_probability_of_the_chosen_option(self):
        class Sure(Scripted):
            def answer(self, requests, seed, temperature):
                probabilities = dict(zip(LETTERS, (0.1, 0.6, 0.1, 0.1, 0.1), strict=True))
                for position, _ in enumerate(requests):
                    yield position, ask.Answer("ABn"[position], probabilities=probabilities)

        table = questions(mode="slow", concept_text=["x", "y", "z"])
        rows = choose(Sure(str), table, progress=False)
        assert rows.confidence[:2].tolist() == [0.1, 0.6] and np.isnan(rows.confidence[2])

    def test_a_leak_is_a_text_that_names_the_true_class(self):
        texts = ["a blue jay", "a green jay", "blue", "a green jay"]
        table = questions(mode="slow", concept_text=texts, position=[0, 0, 0, 1])
        rows = choose(Scripted(lambda one: "A"), table, progress=False)
        assert rows.leak.tolist() == [True, False, False, True]
        blind = choose(Scripted(lambda one: "A"), questions(mode=["blind"]), progress=False)
        assert blind.leak.tolist() == [False]

    def test_chains_come_from_images_or_names(self):
        model = Scripted(lambda one: json.dumps(CHAIN) if "a Blue Jay" in one.turns[0].text else "I cannot")
        found = annotate_chains(model, names=["Blue Jay", "Auklet"], progress=False)
        assert found.chains == [CHAIN, None] and found.failures == ["", "refused"]
        assert "an Auklet" in model.asked[1].turns[0].text
        with pytest.raises(ValueError, match="images or from names"):
            annotate_chains(model)


class TestLetters:
    @pytest.mark.parametrize(
        "text, letter",
        [
            # a letter by itself, or at the beginning
            ("B", "B"),
            ("B.", "B"),
            ("(C)", "C"),
            ("**E**", "E"),
            ('"C"', "C"),
            ("A. House", "A"),
            ("B) Green Jay", "B"),
            ("C: Mallard", "C"),
            ("D Gadwall", "D"),
            ("A Blue Jay", "A"),
            ("B - Green Jay", "B"),
            ("B. It has a crest, unlike A", "B"),
            # in a sentence
            ("Answer: D", "D"),
            ("Answer: **E**", "E"),
            ("Final answer: B", "B"),
            (r"\boxed{D}", "D"),
            ("The answer is C", "C"),
            ("It must be E!", "E"),
            ("I select B. It is a Horned Grebe", "B"),
            ("I select A. It is", "A"),
            ("I would choose (C), the mallard", "C"),
            ("My choice: option D", "D"),
            ("The bird is B, a Green Jay", "B"),
            ("B is the correct answer", "B"),
            ("A is the correct answer", "A"),
            ("Option B is best", "B"),
            ("Option A is best", "A"),
            ("option (A) best describes it", "A"),
            ("The correct option is B because it has a red crown", "B"),
            ("The answer is A because of its crest", "A"),
            ("E matches the description", "E"),
            ("Based on the concepts, D fits best", "D"),
            ("B, not because of the crest", "B"),
            # no letter of an option
            ("", None),
            ("house", None),
            ("F", None),
            ("a", None),
            ("b", None),
            ("A bird", None),
            ("A small bird with a red crown", None),
            ("Answer: A small bird", None),
            ("It is a house", None),
            ("I think it's a house", None),
            ("There is no answer. A description would be needed.", None),
            ("A's crown", None),
            ("Its tail is D-shaped", None),
            # refusals
            ("I'm sorry, but I can't help with that.", None),
            ("I cannot identify the bird in this image.", None),
            ("I am not able to choose.", None),
            ("None of the above", None),
            ("None of the options A, B, C, D or E fits", None),
            # several letters, and letters that are only rejected
            ("A or B", None),
            ("A and B", None),
            ("Either B or C", None),
            ("B. or C.", None),
            ("A) House or B) Car", None),
            ("A. House\nB. Car\nC. Boat", None),
            ("It cannot be C; it is D", None),
            ("not A, but B", None),
            ("It is not B", None),
            ("It isn't option C", None),
            ("I would not choose B", None),
            ("B is not correct", None),
            ("B isn't right", None),
            ("Option (B) is wrong.", None),
            ("B does not fit", None),
        ],
    )
    def test_five_options(self, text, letter):
        assert parse_letter(text) == letter

    @pytest.mark.parametrize(
        "text, letter",
        [
            ("N", "N"),
            ("L is right", "L"),
            ("I select H.", "H"),
            ("I think I know: it is K", "K"),
            ("I", "I"),
            ("(I)", "I"),
            ("I. Robin", "I"),
            ("I choose (I)", "I"),
            ("I choose option I", "I"),
            ("The answer is I.", "I"),
            ("I is the correct answer", "I"),
            ("It is **I**", "I"),
            ("I cannot say", None),
            ("I was not able to tell", None),
            ("I, as a model, cannot", None),
            ("(A) or (I)", None),
            ("Q", None),
        ],
    )
    def test_more_options_among_which_there_is_an_i(self, text, letter):
        assert parse_letter(text, "ABCDEFGHIJKLMNOP") == letter

    def test_fewer_options(self):
        assert parse_letter("C", "AB") is None and parse_letter("It is B, not C", "AB") == "B"

    @given(st.sampled_from(LETTERS), st.sampled_from(["{}", "({})", "{}.", "Answer: {}", "I choose {}."]))
    def test_no_letter_is_read_more_easily_than_another(self, letter, form):
        assert parse_letter(form.format(letter)) == letter

    @given(st.text(max_size=60))
    def test_only_letters_of_the_text_are_read(self, text):
        letter = parse_letter(text)
        assert letter is None or letter in text


class TestAnnotatedChains:
    def test_a_bird(self):
        shown = [
            "has_crown_color::red",
            "has_crown_color::black",
            "has_wing_color::black",
            "has_wing_color::white",
            "has_wing_pattern::striped",
            "has_shape::tree-clinging-like",
            "has_size::small_(5_-_9_in)",
            "has_bill_shape::dagger",
            "has_bill_length::longer_than_head",
            "has_bill_color::black",
            "has_leg_color::grey",
        ]
        found = chain_from_attributes(shown)
        assert found == {
            "Background": "not annotated",
            "Superclass": "tree-clinging-like bird",
            "SalientFeatures": "bill, crown, wings",
            "DetailedFeatures": "red and black crown, striped black and white wings, black long dagger bill",
            "AuxiliaryFeatures": "small size, grey legs",
        }
        assert chain_from_attributes(shown, seat="trunk")["Background"] == "a tree trunk"

    def test_chains_of_both_worlds_never_name_their_class(self):
        for label, name in enumerate(aviary.species_table()["name"]):
            bird = aviary.individual(5, label, label)
            chain = chain_from_attributes(shown(aviary.ATTRIBUTES, aviary.true_attributes(bird)), "branch")
            assert not mentions_class(" ".join(chain.values()), name)
        for n, name in enumerate(everyday.CATEGORIES):
            chain = chain_from_attributes(shown(everyday.ATTRIBUTES, thing_attributes(5, n, name)))
            assert "not annotated" not in chain.values()
            assert not mentions_class(" ".join(chain.values()), name), (name, chain)

    def test_chains_of_labels_leave_out_what_cannot_be_seen(self):
        everyday.ensure("few", images_per_class=2, jobs=1)
        data = load("few")
        chains = chains_from_labels(data, [0, 3])
        seen = thing_attributes(0, 3, list(everyday.CATEGORIES)[1])
        assert set(chains) == {0, 3}
        assert chains[3] == chain_from_attributes(shown(everyday.ATTRIBUTES, seen))
        data.attributes = None
        assert chains_from_labels(data, [0]) is None


def shown(attributes, present):
    """The attributes that are there."""
    return [attribute for attribute, there in zip(attributes, present, strict=True) if there]


def thing_attributes(*which):
    """What is true of a drawn thing, as far as it can be seen."""
    thing = everyday.thing(*which)
    return everyday.true_attributes(thing, everyday.draw(thing).parts)


def questions(**columns):
    """A table of questions about the OPTIONS, of which the first is the true one unless given."""
    columns = {"position": 0} | columns
    lengths = [len(values) for values in columns.values() if isinstance(values, list)]
    return pd.DataFrame(columns, index=range(lengths[0])).assign(options=[OPTIONS] * lengths[0])


class TestTablesOfAnswers:
    def test_shares_by_option_position(self):
        answers = pd.DataFrame(
            {
                "model": ["m"] * 5,
                "position": [0, 0, 1, 2, 3],
                "letter": ["A", "B", "A", None, None],
                "correct": [True, False, False, False, False],
                "failure": ["", "", "", "truncated", "failed"],  # the last could not be had: left out
                "invalid": [False, False, False, True, False],
            }
        )
        (row,) = position_table(answers, ["model"]).to_dict("records")
        assert (row["model"], row["cases"], row["invalid"]) == ("m", 4, 25)
        assert [row["right at A"], row["right at B"], row["right at C"]] == [50, 0, 0]
        assert np.isnan(row["right at D"])  # the true option never stands there
        assert [row[f"says {letter}"] for letter in LETTERS] == pytest.approx([200 / 3, 100 / 3, 0, 0, 0])

    def test_what_could_not_be_had_is_left_out_and_counted(self):
        answers = pd.DataFrame({"failure": ["", "failed", "refused", "failed"], "mode": list("aaab")})
        assert answered(answers).index.tolist() == [0, 2]
        first, second = failure_table(answers, ["mode"]).to_dict("records")
        assert first["failed (%)"] == first["refused (%)"] == pytest.approx(100 / 3)
        assert first["unparsable (%)"] == 0 and first["asked"] == 3
        assert (second["failed (%)"], second["asked"]) == (100, 1)
        assert list(failure_table(answers[:0], ["mode"])) == list(first)

    def test_what_failed_too_often_is_marked_by_name(self):
        """Three of a hundred are too many, two are not; a mean over data sets is marked with any of them."""
        parts = []
        for data, n_failed in (("birds", 3), ("cars", 2)):
            failures = ["failed"] * n_failed + [""] * (100 - n_failed)
            parts.append(pd.DataFrame({"model": "m", "data": data, "given": "", "failure": failures}))
        shares = failure_table(pd.concat(parts), ["model", "data", "given"])
        assert shares["mark"].tolist() == ["over 2 % failed", ""]
        note = failure_note(shares, ["model", "data", "given"])
        assert note == "More than 2 % of the answers could not be had: m, birds (3.0 % of 100)."
        assert failure_mark(shares, "m", "birds") == ", marked: up to 3 % failed"
        assert failure_mark(shares, "m", "mean of all") == failure_mark(shares) != ""
        assert failure_mark(shares, "m", "cars") == failure_mark(shares, "other", "birds") == ""
        assert failure_note(shares[1:], ["model", "data", "given"]) == ""

    def test_no_valid_answer_says_no_letter(self):
        answers = pd.DataFrame(
            {
                "model": ["m"],
                "position": [3],
                "letter": [None],
                "correct": [False],
                "failure": ["refused"],
                "invalid": [True],
            }
        )
        (row,) = position_table(answers, ["model"]).to_dict("records")
        assert [row[f"says {letter}"] for letter in LETTERS] == [0] * 5 and row["invalid"] == 100

    def test_a_case_in_lines(self):
        chain = CHAIN | {"Background": "x" * 300}
        heading, first, *_, options, choice = case_text("a jay", chain, OPTIONS, "chosen: A").splitlines()
        assert (heading, first, choice) == ("a jay", f"Background: {'x' * 240}", "chosen: A")
        assert options == "A Blue Jay  B Green Jay  C Mallard  D Gadwall  E Cardinal"
        with pytest.raises(ValueError):
            case_text("", CHAIN, OPTIONS[:4], "")


class TestSettings:
    def test_an_empty_list_or_count_is_named(self):
        require_some(models=["annotator"], n_cases=1)
        with pytest.raises(ParameterError, match="data is empty"):
            require_some(models=["annotator"], data=[])
        with pytest.raises(ParameterError, match="n_cases is 0"):
            require_some(n_cases=0)

    def test_one_answer_serves_every_seed_at_temperature_0(self):
        assert sampling(3, 0.0) == sampling(4, 0.0)
        assert sampling(3, 0.5) == {"temperature": 0.5, "seed": 3}
