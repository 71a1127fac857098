"""Chains, cases and questions of the Fast and Slow Effect, on cases worked out by hand.

Above all the rule that slow mode sees neither the image nor the class's name.
"""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from xaihelpers import ask, fastslow
from xaihelpers.parameters import ParameterError
from xaihelpers.scores.fse import cri_table

TEXTS = ("a branch", "perching bird", "crown, wings", "red crown", "small")
CHAIN = dict(zip(fastslow.STAGES, TEXTS, strict=True))
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

    def test_first_stages_and_five_phrases(self):
        assert list(json.loads(fastslow.chain_prefix(dict(reversed(CHAIN.items())), 3))) == list(
            fastslow.STAGES[:3]
        )
        assert fastslow.chain_prefix(None, 3) == ""
        for t in (0, 6):
            with pytest.raises(ValueError, match=f"t is {t}"):
                fastslow.chain_prefix(CHAIN, t)
        assert fastslow.parse_list('Sure: ["a", " b ", "c", "d", "e"].') == list("abcde")
        for text in ('["a", "b"]', '["a", "b", "c", "d", 5]', "a, b, c, d, e"):
            assert fastslow.parse_list(text) is None

    def test_steps_and_segments(self):
        assert fastslow.reasoning_steps("> one. > two > three") == ["one.", "two", "three"]
        assert fastslow.reasoning_steps("First.\n\nSecond.\n\n") == ["First.", "Second."]
        tag = "Look.</think> Look again."  # a tag is no mark
        assert fastslow.reasoning_steps(tag) == [tag]
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
        for text, name, other, hints in (
            ("серый ястреб", "ястреб тетеревятник", "воробей", True),
            ("一只燕子在飞", "家燕子", "家麻雀", True),
            ("一只麻雀在飞", "家燕子", "家麻雀", False),
        ):
            assert fastslow.hints_at_class(text, name, [other]) is hints, text


class TestCases:
    def test_the_dictionary_counts_the_highest_wrong_classes(self):
        rows = "954321 954312 095432 549321 543921 543291 543219"
        scores = np.array([[int(digit) for digit in row] for row in rows.split()])
        found = fastslow.similarity_dictionary(scores, [0, 0, 1, 2, 3, 4, 5])
        assert found[0].tolist() == [1, 2, 3, 4]  # 1, 2, 3 twice; 4 and 5 once each: the lower index
        assert found[1].tolist() == [2, 3, 4, 5] and found[5].tolist() == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="class 2 has no sample, and 2 such"):
            fastslow.similarity_dictionary(np.eye(6), [0, 1, 3, 4])
        with pytest.raises(ValueError, match="at least 5"):
            fastslow.similarity_dictionary(np.eye(4), [0, 1, 2, 3])

    @pytest.mark.parametrize("balanced", [False, True])
    def test_every_set_holds_the_true_class_once(self, balanced):
        labels = np.repeat(np.arange(8), 6)
        near = np.array([[(k + i) % 8 for i in (1, 2, 3, 4)] for k in range(8)])
        for neighbours in (near, None):
            cases = fastslow.draw_cases(torch.from_numpy(labels), 8, 300, neighbours, balanced, seed=3)
            assert cases.options.shape == (300, 5) and all(len(set(row)) == 5 for row in cases.options)
            assert (cases.options[np.arange(300), cases.answers] == labels[cases.rows]).all()
            assert np.bincount(cases.answers, minlength=5).min() > 35  # shuffled: 60 expected at each letter
            once = fastslow.draw_cases(
                labels, 8, 48, neighbours, balanced
            )  # no image twice while there are enough
            assert balanced or len(set(once.rows.tolist())) == 48

    def test_too_few_classes_or_no_image_are_told(self):
        with pytest.raises(ValueError, match="4 classes and 4 images"):
            fastslow.draw_cases(np.arange(4), 4, 3)
        with pytest.raises(ValueError, match="6 classes and 0 images"):
            fastslow.draw_cases(np.array([], int), 6, 3)
        cases = fastslow.draw_cases(np.arange(5), 8, 400, None, balanced=True)  # three classes without images
        true = cases.options[np.arange(400), cases.answers]
        assert set(true.tolist()) == {0, 1, 2, 3, 4} and {5, 6, 7} <= set(cases.options.ravel().tolist())

    def test_a_table_holds_the_cases_of_all_runs(self):
        names, labels = [f"class {k}" for k in range(7)], np.repeat(np.arange(7), 4)
        rows = np.arange(1, 28, 2)
        table = fastslow.case_table(rows, labels, names, 9, balanced=True, seeds=[2, 5])
        assert table.seed.tolist() == [2] * 9 + [5] * 9 and table.case.tolist() == [*range(9)] * 2
        for line in table.itertuples():
            assert line.options == [names[k] for k in line.candidates] and line.centre in line.options
            assert line.options[line.position] == line.label == names[labels[line.row]]
        drawn, second = fastslow.draw_cases(labels[rows], 7, 9, balanced=True, seed=5), table[table.seed == 5]
        assert second.row.tolist() == rows[drawn.rows].tolist()
        assert second.candidates.tolist() == drawn.options.tolist()


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

    def test_a_line_of_a_table_reaches_the_model_as_its_mode_allows(self, tmp_path):
        a, b = tmp_path / "a.png", tmp_path / "b.png"
        for file, color in ((a, "red"), (b, "blue")):
            Image.new("RGB", (8, 8), color).save(file)
        parts = [questions(mode=["fast"], image=a), questions(mode=["slow"], concept_text="c1")]
        parts += [questions(mode=["fused"], image=b, concept_text="c2"), questions(mode=["blind"])]
        model = Scripted(lambda one: "A")
        rows = fastslow.choose(model, pd.concat(parts), progress=False)
        assert rows["mode"].tolist() == ["fast", "slow", "fused", "blind"] and rows.correct.all()
        shown = [(one.images, "c1" in one.turns[0].text, "c2" in one.turns[0].text) for one in model.asked]
        assert shown == [([a], False, False), ([], True, False), ([b], False, True), ([], False, False)]
        for mode, columns in (
            ("slow", {"concept_text": "c", "image": a}),
            ("blind", {"image": a}),
            ("blind", {"concept_text": "c"}),
            ("fast", {}),
            ("fast", {"concept_text": "c", "image": a}),
        ):
            with pytest.raises(ValueError, match=f"{mode} mode sees"):
                fastslow.choose(model, questions(mode=[mode], **columns), progress=False)
        with pytest.raises(ValueError, match="unknown mode 'slowly'"):
            fastslow.choose(model, questions(mode=["slowly"]), progress=False)
        assert len(model.asked) == 4

    def test_options_must_be_five_and_different(self):
        for options in (OPTIONS[:4], [*OPTIONS[:4], "Blue Jay"]):
            with pytest.raises(ValueError, match="5 different options"):
                fastslow.choice_request("blind", options)
        with pytest.raises(ValueError, match="unknown mode"):
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
        assert rows.sets.tolist() == [*"vwxyz"] and rows.confidence.isna().all()

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
        index = cri_table(rows.assign(seed=0), ["mode"]).iloc[0]
        assert (index.value, index.cases, index.invalid, index.failed) == (25, 4, 75, 20)

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

    def test_confidence_and_leaks_of_answers(self):
        class Sure(Scripted):
            def answer(self, requests, seed, temperature):
                probabilities = dict(zip(fastslow.LETTERS, (0.1, 0.6, 0.1, 0.1, 0.1), strict=True))
                for position, _ in enumerate(requests):
                    yield position, ask.Answer("ABn"[position], probabilities=probabilities)

        table = questions(mode="slow", concept_text=["x", "y", "z"])
        rows = fastslow.choose(Sure(str), table, progress=False)
        assert rows.confidence[:2].tolist() == [0.1, 0.6] and np.isnan(rows.confidence[2])
        texts = ["a blue jay", "a green jay", "blue", "a green jay"]
        table = questions(mode="slow", concept_text=texts, position=[0, 0, 0, 1])
        rows = fastslow.choose(Scripted(lambda one: "A"), table, progress=False)
        assert rows.leak.tolist() == [True, False, False, True]
        blind = fastslow.choose(Scripted(lambda one: "A"), questions(mode=["blind"]), progress=False)
        assert blind.leak.tolist() == [False]

    def test_chains_come_from_images_or_names(self):
        model = Scripted(lambda one: json.dumps(CHAIN) if "a Blue Jay" in one.turns[0].text else "I cannot")
        found = fastslow.annotate_chains(model, names=["Blue Jay", "Auklet"], progress=False)
        assert found.chains == [CHAIN, None] and found.failures == ["", "refused"]
        assert "an Auklet" in model.asked[1].turns[0].text
        with pytest.raises(ValueError, match="images or from names"):
            fastslow.annotate_chains(model)


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

    def test_other_numbers_of_options(self):
        assert (
            fastslow.parse_letter("C", "AB") is None and fastslow.parse_letter("It is B, not C", "AB") == "B"
        )
        for letter, texts in (
            ("I", "I|(I)|I. Robin|I choose (I)|I choose option I|The answer is I.|It is **I**"),
            ("K", "I think I know: it is K|K is right|I select K.|K"),
            (None, "I cannot say|I was not able to tell|I, as a model, cannot|(A) or (I)|Q"),
        ):
            for text in texts.split("|"):
                assert fastslow.parse_letter(text, "ABCDEFGHIJKLMNOP") == letter, text


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


class TestTablesOfAnswers:
    def test_shares_by_option_position(self):
        answers = pd.DataFrame({"model": ["m"] * 5, "position": [0, 0, 1, 2, 3]})
        answers["letter"] = ["A", "B", "A", None, None]
        answers["correct"] = [True, False, False, False, False]
        answers["failure"] = ["", "", "", "truncated", "failed"]  # the last could not be had: left out
        answers["invalid"] = [False, False, False, True, False]
        says = [f"says {letter}" for letter in fastslow.LETTERS]
        (row,) = fastslow.position_table(answers, ["model"]).to_dict("records")
        assert (row["model"], row["cases"], row["invalid"]) == ("m", 4, 25)
        assert [row["right at A"], row["right at B"], row["right at C"]] == [50, 0, 0]
        assert np.isnan(row["right at D"])  # the true option never stands there
        assert [row[letter] for letter in says] == pytest.approx([200 / 3, 100 / 3, 0, 0, 0])
        (row,) = fastslow.position_table(answers[3:4], ["model"]).to_dict("records")
        assert [row[letter] for letter in says] == [0] * 5 and row["invalid"] == 100  # no valid answer

    def test_what_could_not_be_had_is_left_out_and_counted(self):
        answers = pd.DataFrame({"failure": ["", "failed", "refused", "failed"], "mode": list("aaab")})
        assert fastslow.answered(answers).index.tolist() == [0, 2]
        first, second = fastslow.failure_table(answers, ["mode"]).to_dict("records")
        assert first["failed (%)"] == first["refused (%)"] == pytest.approx(100 / 3)
        assert first["unparsable (%)"] == 0 and first["asked"] == 3
        assert (second["failed (%)"], second["asked"]) == (100, 1)
        assert list(fastslow.failure_table(answers[:0], ["mode"])) == list(first)

    def test_what_failed_too_often_is_marked_by_name(self):
        """Three of a hundred are too many, two are not; a mean over data sets is marked with any of them."""
        keys, parts = ["model", "data", "given"], []
        for data, n_failed in (("birds", 3), ("cars", 2)):
            failures = ["failed"] * n_failed + [""] * (100 - n_failed)
            parts.append(pd.DataFrame({"model": "m", "data": data, "given": "", "failure": failures}))
        shares, mark = fastslow.failure_table(pd.concat(parts), keys), fastslow.failure_mark
        assert shares["mark"].tolist() == ["over 2 % failed", ""]
        note = "More than 2 % of the answers could not be had: m, birds (3.0 % of 100)."
        assert fastslow.failure_note(shares, keys) == note and fastslow.failure_note(shares[1:], keys) == ""
        assert mark(shares, "m", "birds") == ", marked: up to 3 % failed"
        assert mark(shares, "m", "mean of all") == mark(shares) != ""
        assert mark(shares, "m", "cars") == mark(shares, "other", "birds") == ""


class TestSettings:
    def test_an_empty_list_or_count_is_named(self):
        fastslow.require_some(models=["annotator"], n_cases=1)
        with pytest.raises(ParameterError, match="data is empty"):
            fastslow.require_some(models=["annotator"], data=[])
        with pytest.raises(ParameterError, match="n_cases is 0"):
            fastslow.require_some(n_cases=0)

    def test_a_case_in_lines_has_five_options(self):
        *_, options, _ = fastslow.case_text("a jay", CHAIN, OPTIONS, "chosen: A").splitlines()
        assert options == "A Blue Jay  B Green Jay  C Mallard  D Gadwall  E Cardinal"
        with pytest.raises(ValueError, match="shorter"):
            fastslow.case_text("", CHAIN, OPTIONS[:4], "")
