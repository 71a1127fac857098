"""Chains, cases and questions of the Fast and Slow Effect, on cases worked out by hand; the rule that slow mode sees neither image nor class name."""
import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from xaihelpers import ask as asking
from xaihelpers import aviary, everyday
from xaihelpers.ask.prompts import prompt
from xaihelpers.objects import Objects, load_objects
from xaihelpers.sufficiency import (LETTERS, STAGES, Cases, annotated_chain, choice, cri_table, cut_reasoning, decide, draw_cases, first_stages, gather_chains, label_chains, letter_of, names_class,
                                    neighbours_in, paper_names, parse_chain, parse_list, reasoning_steps, similarity_dictionary)

CHAIN = dict(zip(STAGES, ("a branch", "perching bird", "crown, wings", "red crown", "small")))
OPTIONS = ["Blue Jay", "Green Jay", "Mallard", "Gadwall", "Cardinal"]


class Scripted:
    """A model whose answers a function gives; it keeps every request that reached it."""

    name = identity = "scripted"

    def __init__(self, say):
        self.say, self.asked, self.told = say, [], {}

    def answer(self, requests, seed, temperature):
        for position, one in enumerate(requests):
            self.asked.append(one)
            yield position, asking.Answer(self.say(one))


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))


class TestChains:
    @pytest.mark.parametrize("form", ["{}", "Here it is:\n```json\n{}\n```\nDone.", "A {{set}} first. {}", "{} {{\"Background\": 1}}"])
    def test_a_chain_is_found_amid_other_words(self, form):
        assert parse_chain(form.format(json.dumps(CHAIN))) == CHAIN

    def test_keys_may_be_written_otherwise_and_values_nested(self):
        said = {"background": "a lake", "super_class": "duck", "Salient Features": ["head", "bill"], "detailedFeatures": {"head": "green", "size": 50}, "AUXILIARYFEATURES": "quacks"}
        assert parse_chain(json.dumps(said)) == dict(zip(STAGES, ("a lake", "duck", "head, bill", "head: green, size: 50", "quacks")))

    @pytest.mark.parametrize("text", ["", "no JSON", "{", json.dumps(CHAIN)[:-3], json.dumps({**CHAIN, "Superclass": ""}), json.dumps({**CHAIN, "Superclass": None}),
                                      json.dumps({k: v for k, v in CHAIN.items() if k != "Background"}), "[1, 2]", '{"a": 1}'])
    def test_no_whole_chain_is_none(self, text):
        assert parse_chain(text) is None

    def test_first_stages_are_in_order(self):
        assert list(json.loads(first_stages(dict(reversed(CHAIN.items())), 3))) == list(STAGES[:3])
        for t in (0, 6):
            with pytest.raises(ValueError, match=f"t is {t}"):
                first_stages(CHAIN, t)

    def test_five_phrases(self):
        assert parse_list('Sure: ["a", " b ", "c", "d", "e"].') == list("abcde")
        assert parse_list('["a", "b"]') is None and parse_list('["a", "b", "c", "d", 5]') is None and parse_list("a, b, c, d, e") is None

    def test_steps_are_counted_by_the_mark(self):
        assert reasoning_steps("> one. > two > three") == ["one.", "two", "three"]
        assert reasoning_steps("First.\n\nSecond.\n\n") == ["First.", "Second."]
        assert reasoning_steps("Look.</think> Look again.") == ["Look.</think> Look again."]  # a tag is no mark

    def test_seven_steps_fall_into_five_segments(self):
        found = cut_reasoning(" ".join(f"> s{n}" for n in range(7)))
        assert found == dict(zip(STAGES, ("s0 s1", "s2 s3", "s4", "s5", "s6")))

    def test_too_few_steps_are_cut_by_sentences_then_words(self):
        assert list(cut_reasoning("> A b. C d. > E f. G h. I j.").values()) == ["A b.", "C d.", "E f.", "G h.", "I j."]
        assert list(cut_reasoning("a b c d e f").values()) == ["a b", "c", "d", "e", "f"]
        assert cut_reasoning("only four words here") is None
        with pytest.raises(ValueError, match="'steps' or 'words'"):
            cut_reasoning("a b c d e", by="lines")

    @given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=5, max_size=40), st.sampled_from(["steps", "words"]))
    def test_a_cut_loses_no_word(self, words, by):
        found = cut_reasoning(" ".join(words), by)
        assert " ".join(found.values()).split() == words
        if by == "words":
            sizes = [len(part.split()) for part in found.values()]
            assert max(sizes) - min(sizes) <= 1

    @pytest.mark.parametrize("text, name, leaks", [("a Painted Bunting sings", "Painted Bunting", True), ("painted_buntings", "Painted_Bunting", True), ("a painted wall, a bunting", "Painted Bunting", False),
                                                   ("the cup's rim", "cup", True), ("a cupboard", "cup", False), ("two boxes", "box", True), ("Black-and-white warbler", "Black and white Warbler", True)])
    def test_a_leak_is_the_whole_name(self, text, name, leaks):
        assert names_class(text, name) is leaks


class TestCases:
    def test_the_dictionary_counts_the_highest_wrong_classes(self):
        scores = np.array([[9, 5, 4, 3, 2, 1], [9, 5, 4, 3, 1, 2], [0, 9, 5, 4, 3, 2], [5, 4, 9, 3, 2, 1], [5, 4, 3, 9, 2, 1], [5, 4, 3, 2, 9, 1], [5, 4, 3, 2, 1, 9]])
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
        labels, near = np.repeat(np.arange(8), 6), np.array([[(k + i) % 8 for i in (1, 2, 3, 4)] for k in range(8)])
        cases = draw_cases(labels, 8, 300, near if semantic else None, balanced, seed=3)
        assert cases.options.shape == (300, 5) and all(len(set(row)) == 5 for row in cases.options)
        assert (cases.options[np.arange(300), cases.answers] == labels[cases.rows]).all()
        assert np.bincount(cases.answers, minlength=5).min() > 35  # shuffled: 60 expected at each letter
        again = draw_cases(labels, 8, 300, near if semantic else None, balanced, seed=3)
        assert all((a == b).all() for a, b in zip(cases, again))
        assert any((a != b).any() for a, b in zip(cases, draw_cases(labels, 8, 300, near if semantic else None, balanced, seed=4)))

    def test_balanced_sets_tell_nothing_about_the_true_class(self):
        near = np.array([[(k + i) % 10 for i in (1, 2, 3, 4)] for k in range(10)])  # the centre of a set is told by its members
        labels = np.repeat(np.arange(10), 5)
        for balanced, share in ((False, 1.0), (True, 0.2)):
            cases = draw_cases(labels, 10, 2000, near, balanced)
            centres = [next(k for k in row if {*near[k], k} == set(row)) for row in cases.options.tolist()]
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

    def test_neighbours_need_both_splits(self):
        data = Objects(None, pd.DataFrame({"path": ["a", "b"], "label": [0, 1], "train": [True, True]}), pd.DataFrame({"name": ["a", "b"], "label": [0, 1]}))
        data.root = type("Root", (), {"name": "one split"})()
        with pytest.raises(ValueError, match="only one split"):
            neighbours_in(data, None)


class TestQuestions:
    def test_slow_mode_sees_concepts_and_options_only(self):
        found = choice("slow", OPTIONS, concepts=first_stages(CHAIN, 5))
        assert len(found.turns) == 1 and not found.turns[0].images and found.options == LETTERS
        said = found.turns[0].text
        assert first_stages(CHAIN, 5) in said and all(said.count(option) == 1 for option in OPTIONS)

    @pytest.mark.parametrize("mode, given", [("slow", {"image"}), ("slow", {"image", "concepts"}), ("slow", set()), ("fast", {"concepts"}), ("fast", {"image", "concepts"}), ("fast", set()),
                                             ("fused", {"image"}), ("fused", {"concepts"}), ("blind", {"image"}), ("blind", {"concepts"})])
    def test_no_mode_is_given_what_it_must_not_see(self, mode, given):
        with pytest.raises(ValueError, match=f"{mode} mode sees"):
            choice(mode, OPTIONS, "concepts" if "concepts" in given else "", Image.new("RGB", (8, 8)) if "image" in given else None)

    def test_nothing_of_the_image_or_name_reaches_the_judge_of_slow_mode(self, tmp_path):
        """The whole way: an annotator that sees image or name, and a judge that gets its chain."""
        Image.new("RGB", (8, 8)).save(tmp_path / "Cardinal_0001.png")
        annotator = Scripted(lambda one: json.dumps(CHAIN))
        chains = gather_chains(annotator, images=[tmp_path / "Cardinal_0001.png"], progress=False) + gather_chains(annotator, names=["Cardinal"], progress=False)
        judge = Scripted(lambda one: "E")
        decide(judge, [choice("slow", OPTIONS, first_stages(chain, t)) for chain in chains for t in range(1, 6)], Cases(np.zeros(10, int), np.zeros((10, 5), int), np.full(10, 4)), progress=False)
        assert len(judge.asked) == 5  # both chains read alike: equal questions are asked once
        for one in judge.asked:
            assert not any(turn.images for turn in one.turns) and one.turns[0].text.count("Cardinal") == 1  # among the options, as every other class

    def test_options_must_be_five_and_different(self):
        for options in (OPTIONS[:4], [*OPTIONS[:4], "Blue Jay"]):
            with pytest.raises(ValueError, match="5 different options"):
                choice("blind", options)
        with pytest.raises(ValueError, match="unknown mode"):
            choice("slowly", OPTIONS)

    @pytest.mark.parametrize("text, letter", [("B", "B"), ("B.", "B"), ("(C)", "C"), ("Answer: D", "D"), ("**E**", "E"), ("A. House", "A"), ("I select B. It is a Horned Grebe", "B"), ("The answer is C", "C"),
                                              ("A bird", None), ("house", None), ("A or B", None), ("", None), ("F", None), ("It cannot be C; it is D", None), ("I select A. It is", "A"), ("a", None)])
    def test_letters(self, text, letter):
        assert letter_of(text) == letter

    def test_invalid_answers_are_wrong_and_counted(self):
        said = iter(["A", "none", "C"])
        questions = [choice("slow", OPTIONS, concepts=f"c{n}") for n in range(3)]
        rows = decide(Scripted(lambda one: next(said)), [*questions, None], Cases(np.arange(4), np.zeros((4, 5), int), np.array([0, 1, 1, 3])), progress=False)
        assert rows.correct.tolist() == [True, False, False, False] and rows.invalid.tolist() == [False, True, False, True]
        table = cri_table(rows.assign(seed=[0, 0, 1, 1], mode="slow"), ["mode"]).iloc[0]
        assert (table.value, table.invalid, table.cases) == (25.0, 50.0, 4) and table.sd == pytest.approx(np.std([50, 0], ddof=1)) and table.low <= 25 <= table.high
        with pytest.raises(ValueError, match="3 questions for 4 cases"):
            decide(Scripted(str), questions, Cases(np.arange(4), np.zeros((4, 5), int), np.zeros(4, int)))

    def test_chains_come_from_images_or_names(self):
        model = Scripted(lambda one: json.dumps(CHAIN) if "a Blue Jay" in one.turns[0].text else "I cannot")
        assert gather_chains(model, names=["Blue Jay", "Auklet"], progress=False) == [CHAIN, None]
        assert "an Auklet" in model.asked[1].turns[0].text
        with pytest.raises(ValueError, match="images or from names"):
            gather_chains(model)


class TestPrompts:
    def test_braces_that_are_no_fields_stay(self, tmp_path):
        (tmp_path / "own.txt").write_text('Describe {entity} as {"Background": "…"}.\n')
        assert prompt(tmp_path / "own.txt", entity="a {jay}") == 'Describe a {jay} as {"Background": "…"}.'

    def test_errors_name_file_and_field(self, tmp_path):
        (tmp_path / "own.txt").write_text("No place.")
        with pytest.raises(asking.AskError, match=r"own.txt: the prompt has no place for \{entity\}"):
            prompt(tmp_path / "own.txt", entity="x")
        with pytest.raises(asking.AskError, match="no prompt that can be read.*fse_chain"):
            prompt("fse_chian", entity="x")

    @pytest.mark.parametrize("kind", ["masked", "heat"])
    @pytest.mark.parametrize("length", ["", "_short", "_long"])
    def test_judgement_prompts_hold_scale_and_form(self, kind, length):
        text = prompt(f"autoxplain_{kind}{length}", object="Blue Jay")
        assert "Blue Jay" in text and all(f"{word}:" in text for word in ("Evaluation", "Justification", "Score")) and "{" not in text
        assert "0" in text and "5" in text


class TestAnnotatedChains:
    def test_a_bird(self):
        shown = ["has_crown_color::red", "has_crown_color::black", "has_wing_color::black", "has_wing_color::white", "has_wing_pattern::striped", "has_shape::tree-clinging-like",
                 "has_size::small_(5_-_9_in)", "has_bill_shape::dagger", "has_bill_length::longer_than_head", "has_bill_color::black", "has_leg_color::grey"]
        found = annotated_chain(shown)
        assert found == {"Background": "not annotated", "Superclass": "tree-clinging-like bird", "SalientFeatures": "bill, crown, wings", "DetailedFeatures":
                         "red and black crown, striped black and white wings, black long dagger bill", "AuxiliaryFeatures": "small size, grey legs"}
        assert annotated_chain(shown, seat="trunk")["Background"] == "a tree trunk"

    def test_chains_of_both_worlds_never_name_their_class(self):
        for label, name in enumerate(aviary.species_table()["name"]):
            bird = aviary.individual(5, label, label)
            shown = [a for a, there in zip(aviary.ATTRIBUTES, aviary.true_attributes(bird)) if there]
            assert not names_class(" ".join(annotated_chain(shown, "branch").values()), name)
        for n, name in enumerate(everyday.CATEGORIES):
            one = everyday.thing(5, n, name)
            shown = [a for a, there in zip(everyday.ATTRIBUTES, everyday.true_attributes(one, everyday.draw(one).parts)) if there]
            chain = annotated_chain(shown)
            assert "not annotated" not in chain.values() and not names_class(" ".join(chain.values()), name), (name, chain)


def test_tensor_labels_are_taken():
    assert draw_cases(torch.arange(6), 6, 4).rows.shape == (4,)


def test_names_of_the_paper():
    assert paper_names("server:gpt-4o", "CUB_200_2011") == ("GPT-4o", "CUB-Bird") and paper_names("Qwen/Qwen2-VL-7B-Instruct", "/where/flowers102") == ("QwenVL2-7b", "Flower")
    assert paper_names("annotator", "/where/my_birds") == ("annotator", "my_birds")


def test_chains_of_labels_leave_out_what_cannot_be_seen():
    everyday.ensure("few", images_per_class=2, jobs=1)
    data = load_objects("few")
    chains = label_chains(data, [0, 3])
    thing = everyday.thing(0, 3, list(everyday.CATEGORIES)[1])
    assert set(chains) == {0, 3} and chains[3] == annotated_chain(a for a, there in zip(everyday.ATTRIBUTES, everyday.true_attributes(thing, everyday.draw(thing).parts)) if there)
    data.root = data.root.parent
    assert label_chains(data, [0]) is None


def test_one_model_at_a_time_is_held_beside_the_judge(monkeypatch):
    loaded = []
    monkeypatch.setattr("xaihelpers.ask.asking.load_annotator", lambda name, device: loaded.append(name) or name.upper())
    of = asking.annotators("cpu", keep="judge")
    assert [of(name) for name in ("a", "judge", "a", "b", "judge", "a")] == ["A", "JUDGE", "A", "B", "JUDGE", "A"] and loaded == ["a", "judge", "b", "a"]
