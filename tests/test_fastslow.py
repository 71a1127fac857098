"""Chains, cases and questions of the Fast and Slow Effect, on cases worked out by hand.

Above all the rule that slow mode sees neither the image nor the class's name.
"""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from xaihelpers import ask, fastslow
from xaihelpers.fastslow.dictionary import Dictionary

TEXTS = ("a branch", "perching bird", "crown, wings", "red crown", "small")
CHAIN = dict(zip(fastslow.STAGES, TEXTS, strict=True))
MODES = ["fast", "slow", "fused", "blind"]
OPTIONS = ["Blue Jay", "Green Jay", "Mallard", "Gadwall", "Cardinal"]


class Scripted:
    """A model whose answers a function gives; it keeps every request that reached it."""

    name = identity = "scripted"

    def __init__(self, say):
        self.say, self.asked = say, []

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
        assert fastslow.parse_chain(form.format(json.dumps(CHAIN))) == CHAIN

    def test_keys_may_be_written_otherwise_and_values_nested(self):
        said = {
            "background": "a lake",
            "super_class": "duck",
            "Salient Features": ["head", "bill"],
            "detailedFeatures": {"head": "green", "size": 50},
            "AUXILIARYFEATURES": "quacks",
        }
        texts = ("a lake", "duck", "head, bill", "head: green, size: 50", "quacks")
        assert fastslow.parse_chain(json.dumps(said)) == dict(zip(fastslow.STAGES, texts, strict=True))

    def test_no_whole_chain_is_none(self):
        without = {k: v for k, v in CHAIN.items() if k != "Background"}
        chains = [without, CHAIN | {"Superclass": ""}, CHAIN | {"Superclass": None}, [1, 2]]
        for text in ["", "no JSON", "{", json.dumps(CHAIN)[:-3], *map(json.dumps, chains)]:
            assert fastslow.parse_chain(text) is None, text

    def test_the_first_stages_come_in_their_order(self):
        first = json.loads(fastslow.chain_prefix(dict(reversed(CHAIN.items())), 3))
        assert list(first.items()) == list(CHAIN.items())[:3]
        assert fastslow.chain_prefix(None, 3) == ""
        for t in (0, 6):
            with pytest.raises(ValueError, match=f"t is {t}"):
                fastslow.chain_prefix(CHAIN, t)

    def test_five_phrases(self):
        assert fastslow.parse_list('Sure: ["a", " b ", "c", "d", "e"].') == list("abcde")
        for text in ('["a", "b"]', '["a", "b", "c", "d", 5]', "a, b, c, d, e"):
            assert fastslow.parse_list(text) is None

    def test_steps_of_a_reasoning(self):
        assert fastslow.reasoning_steps("> one. > two > three") == ["one.", "two", "three"]
        assert fastslow.reasoning_steps("First.\n\nSecond.\n\n") == ["First.", "Second."]
        tag = "Look.</think> Look again."  # a tag is no mark
        assert fastslow.reasoning_steps(tag) == [tag]

    def test_five_segments_of_a_reasoning(self):
        found = fastslow.segment_reasoning(" ".join(f"> s{n}" for n in range(7)))
        assert list(found) == list(fastslow.STAGES)
        assert list(found.values()) == ["s0 s1", "s2 s3", "s4", "s5", "s6"]
        found = fastslow.segment_reasoning("> A b. C d. > E f. G h. I j.")
        assert list(found.values()) == ["A b.", "C d.", "E f.", "G h.", "I j."]
        assert list(fastslow.segment_reasoning("a b c d e f").values()) == ["a b", "c", "d", "e", "f"]
        assert fastslow.segment_reasoning("only four words here") is None
        with pytest.raises(ValueError, match="'steps' or 'words'"):
            fastslow.segment_reasoning("a b c d e", by="lines")

    def test_a_leak_is_the_whole_name(self):
        for text, name, leaks in (
            ("a Painted Bunting sings", "Painted Bunting", True),
            ("painted_buntings", "Painted_Bunting", True),
            ("a painted wall, a bunting", "Painted Bunting", False),
            ("the cup's rim", "cup", True),
            ("a cupboard", "cup", False),
            ("two boxes", "box", True),
            ("Black-and-white warbler", "Black and white Warbler", True),
            ("it may be Brewer's Blackbird", "Brewer_Blackbird", True),
            ("a Chuck-will’s-widow", "Chuck will Widow", True),
            ("brewers' blackbirds", "Brewer Blackbird", True),
            ("a brewer and a blackbird", "Brewer Blackbird", False),
            ("an Arctic Tern", "Artic_Tern", True),
            ("an arctic turn", "Artic_Tern", False),
            ("a red winged black bird", "Red winged Blackbird", True),
            ("two canaries", "canary", True),
            ("a red house", "horse", False),
            ("two wolves", "wolf", True),
            ("kitchen knives", "knife", True),
            ("a trunk", "truck", False),
            ("a skatebord", "skateboard", True),
            ("the houses", "house", True),
            ("这是一只家燕。", "家燕", True),
            ("これはツバメです", "ツバメ", True),
            ("これはスズメです", "ツバメ", False),
            ("это домовый воробей", "Домовый воробей", True),
        ):
            assert fastslow.mentions_class(text, name) is leaks, text

    def test_words_of_four_letters_or_more_or_pairs_of_a_script_without_spaces(self):
        assert fastslow.content_words("A red Crown, two crowns") == {"crown", "crowns"}
        assert fastslow.content_words("家燕子") == {"家燕", "燕子"}


def pool_of(n_classes=8, n_images=6, scores=None):
    """A pool of as many images of each class; a class's look-alikes are the next four."""
    labels = np.arange(n_classes).repeat(n_images)
    near = np.array([[(k + i) % n_classes for i in (1, 2, 3, 4)] for k in range(n_classes)])
    files = pd.DataFrame({"path": [f"{row}.png" for row in range(len(labels))]})
    names = [f"class {k}" for k in range(n_classes)]
    data = SimpleNamespace(labels=SimpleNamespace(numpy=lambda: labels), images=files, class_names=names)
    return fastslow.Pool("drawn", data, np.arange(len(labels)), Dictionary(near, "probe", scores))


class TestCases:
    def test_the_dictionary_counts_the_highest_wrong_classes(self):
        rows = "954321 954312 095432 549321 543921 543291 543219"
        scores = np.array([[int(digit) for digit in row] for row in rows.split()])
        found = fastslow.similarity_dictionary(scores, [0, 0, 1, 2, 3, 4, 5])
        assert found[0].tolist() == [1, 2, 3, 4]  # 1, 2, 3 twice; 4 and 5 once each: the lower index
        assert found[1].tolist() == [2, 3, 4, 5] and found[5].tolist() == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="class 2 has no sample.*2 such"):
            fastslow.similarity_dictionary(np.eye(6)[[0, 1, 3, 4]], [0, 1, 3, 4])

    @pytest.mark.parametrize("sets", ["class", "balanced", "random"])
    def test_every_set_holds_the_true_class_once_at_any_letter(self, sets):
        table = fastslow.case_table(pool_of(), sets, 300, [3])
        assert all(len(set(options)) == 5 for options in table.options)
        true = [row.options[row.position] for row in table.itertuples()]
        assert true == [*table.label]
        assert table.position.value_counts().min() > 35  # 60 expected at each

    def test_every_image_is_asked_about_once_unless_a_count_is_given(self):
        assert sorted(fastslow.case_table(pool_of()).row) == [*range(48)]
        assert sorted(fastslow.case_table(pool_of(), rows=[3, 9, 40]).row) == [3, 9, 40]

    def test_an_image_s_own_set_holds_its_four_highest_wrong_classes(self):
        digits = "915432 150234 431205 239150 112349 543210"  # of an image of each class
        pool = pool_of(6, 1, np.array([[int(digit) for digit in row] for row in digits.split()]))
        table = fastslow.case_table(pool, "image").sort_values("row")
        left_out = [set(range(6)) - set(candidates) for candidates in table.candidates]
        assert left_out == [{1}, {2}, {4}, {5}, {1}, {4}]  # the lowest wrong one; of equal ones the last
        assert (table.centre == table.label).all()

    def test_images_without_scores_have_no_set_of_their_own(self):
        table = fastslow.case_table(pool_of(), "image")
        assert table.empty and [*table] == [*fastslow.case_table(pool_of())]
        with pytest.raises(ValueError, match="take test images"):
            fastslow.case_table(pool_of(6, 1, np.full((6, 6), np.nan)), "image")

    def test_sets_are_built_around_other_labels_where_these_are_given(self):
        pool = pool_of()
        table = fastslow.case_table(pool, "class", labels=(pool.labels + 1) % 8)
        assert [*table.label] == [f"class {k}" for k in (pool.labels[table.row] + 1) % 8]

    def test_a_run_is_the_same_alone_and_beside_others(self):
        both = fastslow.case_table(pool_of(), "balanced", 9, [2, 5])
        assert both.seed.tolist() == [2] * 9 + [5] * 9 and both.case.tolist() == [*range(9)] * 2
        alone = fastslow.case_table(pool_of(), "balanced", 9, [5])
        pd.testing.assert_frame_equal(both[9:].reset_index(drop=True), alone)

    def test_a_class_without_images_is_an_option_but_never_the_true_one(self):
        table = fastslow.case_table(pool_of(), "balanced", 400, rows=np.arange(30))
        assert set(table.label) == {f"class {k}" for k in range(5)}
        assert set(sum(table.candidates, [])) == {*range(8)}

    def test_what_cannot_be_drawn_is_told(self):
        with pytest.raises(ValueError, match="4 classes and 24 images"):
            fastslow.case_table(pool_of(4))
        with pytest.raises(ValueError, match="8 classes and 0 images"):
            fastslow.case_table(pool_of(), rows=[])
        with pytest.raises(ValueError, match="class, image, balanced, random, not 'hard'"):
            fastslow.case_table(pool_of(), "hard")


class TestQuestions:
    @pytest.mark.parametrize(
        "mode, kinds",
        [
            ("slow", ["image", "image concepts", ""]),
            ("fast", ["concepts", "image concepts", ""]),
            ("fused", ["image", "concepts"]),
            ("blind", ["image", "concepts"]),
        ],
    )
    def test_no_mode_is_given_what_it_must_not_see(self, mode, kinds):
        for kind in kinds:
            image = Image.new("RGB", (8, 8)) if "image" in kind else None
            with pytest.raises(ValueError, match=f"{mode} mode sees"):
                fastslow.choice_request(mode, OPTIONS, "concepts" if "concepts" in kind else "", image)

    def test_each_mode_is_shown_its_own_and_nothing_else(self, tmp_path):
        files = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
        for file, color in zip(files, ("red", "blue"), strict=True):
            Image.new("RGB", (8, 8), color).save(file)
        cases = pd.DataFrame({"row": [40, 7], "file": files, "options": [OPTIONS] * 2, "position": 0})
        tables = [fastslow.questions(mode, cases, {40: "c1", 7: "c2"}, t=3) for mode in MODES]
        model = Scripted(lambda one: "A")
        rows = fastslow.choose(model, pd.concat(tables), progress=False)
        assert rows["mode"].tolist() == np.repeat(MODES, 2).tolist()
        assert rows.correct.all() and (rows.t == 3).all()
        shown = [(list(one.images), "c1" in one.text, "c2" in one.text) for one in model.asked]
        a, b = ([file] for file in files)
        assert shown[:4] == [(a, False, False), (b, False, False), ([], True, False), ([], False, True)]
        # the two questions with nothing but names are the same, and asked once
        assert shown[4:] == [(a, True, False), (b, False, True), ([], False, False)]

    def test_a_chain_is_given_stage_by_stage(self):
        cases = pd.DataFrame({"row": [40, 7], "options": [OPTIONS] * 2, "position": 0})
        table = fastslow.questions_by_stage(cases, {40: CHAIN, 7: None}, {7: "refused"}, (1, 5), given="own")
        first, last = (fastslow.chain_prefix(CHAIN, t) for t in (1, 5))
        columns = ["row", "t", "concept_text", "concept_failure"]
        expected = [[40, 1, first, ""], [7, 1, "", "refused"], [40, 5, last, ""], [7, 5, "", "refused"]]
        assert table[columns].values.tolist() == expected and (table.given == "own").all()

    def test_a_table_that_shows_more_than_its_mode_may_see_is_refused(self):
        model = Scripted(lambda one: "A")
        for mode, columns in (
            ("slow", {"concept_text": "c", "image": "a.png"}),
            ("blind", {"concept_text": "c"}),
            ("fast", {"concept_text": "c", "image": "a.png"}),
            ("fast", {}),
        ):
            with pytest.raises(ValueError, match=f"{mode} mode sees"):
                fastslow.choose(model, questions(mode=[mode], **columns), progress=False)
        assert not model.asked

    def test_options_must_be_five_and_different(self):
        for options in (OPTIONS[:4], [*OPTIONS[:4], "Blue Jay"]):
            with pytest.raises(ValueError, match="5 different options"):
                fastslow.choice_request("blind", options)
        with pytest.raises(ValueError, match="unknown mode 'slowly'"):
            fastslow.choice_request("slowly", OPTIONS)

    def test_invalid_answers_are_wrong_and_counted(self):
        said = iter(["A", "none", "C"])
        table = questions(mode="slow", concept_text=["c0", "c1", "c2", "", ""], position=[0, 1, 1, 3, 3])
        table["concept_failure"] = ["", "", "", "", "failed"]
        model = Scripted(lambda one: next(said))
        rows = fastslow.choose(model, table.assign(sets=[*"vwxyz"]), progress=False)
        assert len(model.asked) == 3, "where there are no concepts, nothing is asked"
        assert rows.correct.tolist() == [True, False, False, False, False]
        assert rows.invalid.tolist() == [False, True, False, True, False]
        assert rows.failure.tolist() == ["", "unparsable", "", "unparsable", "failed"]
        assert rows.letter.dropna().tolist() == ["A", "C"]
        assert rows.sets.tolist() == [*"vwxyz"]

    def test_four_kinds_of_failure_are_told_apart(self):
        class Failing(Scripted):
            def answer(self, requests, seed, temperature):
                yield 0, ask.Answer(error="no route to host")
                yield 1, ask.Answer("The options are all", truncated=True)
                texts = ("I'm sorry, I can't help with that.", "a bird", "B")
                yield from enumerate((ask.Answer(text) for text in texts), 2)

        table = questions(mode="slow", concept_text=[*"vwxyz"], position=1)
        rows = fastslow.choose(Failing(str), table, progress=False)
        assert rows.failure.tolist() == ["failed", "truncated", "refused", "unparsable", ""]
        assert rows.invalid.tolist() == [False, True, True, True, False]
        assert fastslow.answered(rows).index.tolist() == [1, 2, 3, 4]

    def test_what_was_cut_off_is_asked_again_unless_it_is_whole_all_the_same(self):
        class Long(Scripted):
            def answer(self, requests, seed, temperature):
                for position, one in enumerate(requests):
                    self.asked.append(one)
                    text = one.text[: one.max_tokens]
                    yield position, ask.Answer(text, truncated=len(text) < len(one.text))

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

    def test_concepts_that_name_the_true_class_are_a_leak(self):
        texts = ["a blue jay", "a green jay", "blue", "a green jay"]
        table = questions(mode="slow", concept_text=texts, position=[0, 0, 0, 1])
        rows = fastslow.choose(Scripted(lambda one: "A"), table, progress=False)
        assert rows.leak.tolist() == [True, False, False, True]

    def test_no_questions_may_stand_beside_others(self):
        table, model = questions(mode=["blind"] * 2), Scripted(lambda one: "A")
        parts = [fastslow.choose(model, part, progress=False) for part in (table, table[:0])]
        assert (~pd.concat(parts).correct).tolist() == [False, False]

    def test_chains_come_from_images_or_names(self):
        model = Scripted(lambda one: json.dumps(CHAIN) if "a Blue Jay" in one.text else "I cannot")
        found = fastslow.annotate_chains(model, names=["Blue Jay", "Auklet"], progress=False)
        assert found.chains == [CHAIN, None] and found.failures == ["", "refused"]
        assert "an Auklet" in model.asked[1].text
        with pytest.raises(ValueError, match="images or from names"):
            fastslow.annotate_chains(model)

    def test_each_image_is_described_once(self, tmp_path):
        pool = pool_of()
        for row, color in ((3, "red"), (9, "blue")):
            pool.data.images.loc[row, "path"] = str(tmp_path / f"{row}.png")
            Image.new("RGB", (8, 8), color).save(pool.paths[row])
        said = iter([json.dumps(CHAIN), "a bird"])
        found, why = fastslow.describe(Scripted(lambda one: next(said)), pool, [9, 3, 9], progress=False)
        assert (found, why) == ({3: CHAIN, 9: None}, {3: "", 9: "unparsable"})


class TestLetters:
    @pytest.mark.parametrize(
        "letter, texts",
        [
            ("A", "A. House|A Blue Jay|I select A. It is|A is the correct answer|Option A is best"),
            ("A", "option (A) best describes it|The answer is A because of its crest"),
            ("B", "B|B.|B) Green Jay|B - Green Jay|B. It has a crest, unlike A|Final answer: B"),
            ("B", "I select B. It is a Horned Grebe|The bird is B, a Green Jay|B is the correct answer"),
            ("B", "The correct option is B because it has a red crown|B, not because of the crest"),
            ("C", '(C)|"C"|C: Mallard|The answer is C|I would choose (C), the mallard'),
            ("D", r"D Gadwall|Answer: D|\boxed{D}|My choice: option D|Based on the concepts, D fits best"),
            ("B", "答案是B。|选B|（Ｂ）|正解はBです|คำตอบคือB"),
            (None, "不是B|答案是A或B|Bではない"),
            ("E", "**E**|Answer: **E**|It must be E!|E matches the description"),
            # no letter of an option
            (None, "|house|F|a|b|A bird|A small bird with a red crown|It is a house|A's crown"),
            (None, "Answer: A small bird|I think it's a house|Its tail is D-shaped"),
            (None, "There is no answer. A description would be needed."),
            # refusals
            (None, "I'm sorry, but I can't help with that.|I cannot identify the bird in this image."),
            (None, "I am not able to choose.|None of the above|None of the options A, B, C, D or E fits"),
            # several letters, and letters that are only rejected
            (None, "A or B|A and B|Either B or C|B. or C.|A) House or B) Car|A. House\nB. Car\nC. Boat"),
            (None, "It cannot be C; it is D|not A, but B|It is not B|It isn't option C|I would not choose B"),
            (None, "B is not correct|B isn't right|Option (B) is wrong.|B does not fit"),
        ],
    )
    def test_five_options(self, letter, texts):
        for text in texts.split("|"):
            assert fastslow.parse_letter(text) == letter, text


class TestAnnotatedChains:
    def test_a_bird(self):
        present = (
            "crown_color::red crown_color::black wing_color::black wing_color::white wing_pattern::striped "
        )
        present += "shape::tree-clinging-like size::small_(5_-_9_in) bill_shape::dagger "
        present += "bill_length::longer_than_head bill_color::black leg_color::grey"
        present = [f"has_{name}" for name in present.split()]
        found = fastslow.chain_from_attributes(present)
        assert found == {
            "Background": "not annotated",
            "Superclass": "tree-clinging-like bird",
            "SalientFeatures": "bill, crown, wings",
            "DetailedFeatures": "red and black crown, striped black and white wings, black long dagger bill",
            "AuxiliaryFeatures": "small size, grey legs",
        }
        assert fastslow.chain_from_attributes(present, seat="trunk")["Background"] == "a tree trunk"


def questions(**columns):
    """A table of questions about the OPTIONS, of which the first is the true one unless given."""
    columns = {"position": 0} | columns
    lengths = [len(values) for values in columns.values() if isinstance(values, list)]
    return pd.DataFrame(columns, index=range(lengths[0])).assign(options=[OPTIONS] * lengths[0])


def test_what_failed_too_often_is_marked_by_name(caplog):
    """Three of a hundred are too many, two are not."""
    parts = []
    for data, n_failed in (("birds", 3), ("cars", 2)):
        failures = ["failed"] * n_failed + ["refused"] + [""] * (99 - n_failed)
        parts.append(pd.DataFrame({"model": "m", "data": data, "given": "", "t": 0, "failure": failures}))
    keys = ["model", "data", "given", "t"]
    with caplog.at_level(logging.INFO):
        assert fastslow.failure_mark(pd.concat(parts), keys) == ", marked: up to 3 % failed"
    assert "Of 200 answers 2.5 % failed, 0.0 % truncated, 1.0 % refused" in caplog.text
    assert "More than 2 % of the answers could not be had: m, birds, 0 (3.0 %)." in caplog.text
    assert fastslow.failure_mark(pd.concat(parts), ["model"]) == ", marked: up to 2 % failed"
    assert fastslow.failure_mark(parts[1], keys) == ""
