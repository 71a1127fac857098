"""Chains, cases and questions of the Fast and Slow Effect, on cases worked out by hand.

Above all the rule that slow mode sees neither the image nor the class's name.
"""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from xaihelpers import ask, fastslow
from xaihelpers.ask.reading import named_option
from xaihelpers.fastslow.candidates import Pool
from xaihelpers.fastslow.lookalikes import Dictionary

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
    def test_a_whole_chain_is_found_amid_other_words_however_it_is_written(self):
        for form in ("Here it is:\n```json\n{}\n```\nDone.", "A {{set}} first. {}"):
            assert fastslow.parse_chain(form.format(json.dumps(CHAIN))) == CHAIN
        said = {
            "background": "a lake",
            "super_class": "duck",
            "Salient Features": ["head", "bill"],
            "detailedFeatures": {"head": "green", "size": 50},
            "AUXILIARYFEATURES": "quacks",
        }
        texts = ("a lake", "duck", "head, bill", "head: green, size: 50", "quacks")
        assert fastslow.parse_chain(json.dumps(said)) == dict(zip(fastslow.STAGES, texts, strict=True))
        for text in ("no JSON", json.dumps(CHAIN)[:-3], json.dumps(CHAIN | {"Superclass": None}), "[1, 2]"):
            assert fastslow.parse_chain(text) is None, text
        other = CHAIN | {"Superclass": "duck"}
        drafted = f"{json.dumps(CHAIN)} No, it is: {json.dumps(other)}"
        assert fastslow.parse_chain(drafted) == other, "the last of several"
        assert fastslow.parse_chain(drafted[:-3]) is None, "of which the last is cut off"
        for before, found in (("", CHAIN), ("```json\n", CHAIN), ("Well, it may be ", None)):
            assert fastslow.parse_chain(f"{before}{json.dumps(CHAIN)} But", cut=True) == found
        twice = json.dumps(CHAIN)[:-1] + ', "Background": "a lake"}'
        assert fastslow.parse_chain(twice) is None
        first = json.loads(fastslow.chain_prefix(dict(reversed(CHAIN.items())), 3))
        assert list(first.items()) == list(CHAIN.items())[:3]

    def test_five_phrases(self):
        assert fastslow.parse_list('Sure: ["a", " b ", "c", "d", "e"].') == list("abcde")
        assert fastslow.parse_list('["a", "b", "c", "d", "e"] or ["f", "g", "h", "i", "j"]') == list("fghij")
        for text in ('["a", "b"]', '["a", "b", "c", "d", 5]', '["a", "b", "c", "d", " "]', "a, b, c, d, e"):
            assert fastslow.parse_list(text) is None

    def test_steps_and_five_segments_of_a_reasoning(self):
        assert fastslow.reasoning_steps("> one. > two > three") == ["one.", "two", "three"]
        assert fastslow.reasoning_steps("> red -> blue > n >= 3") == ["red -> blue", "n >= 3"]
        tag = "Look.</think> Look again."  # a tag is no mark
        assert fastslow.reasoning_steps(f"{tag}\n\nSecond.\n\n") == [tag, "Second."]
        for text, segments in (
            (" ".join(f"> s{n}" for n in range(7)), ["s0 s1", "s2 s3", "s4", "s5", "s6"]),
            ("> A b. C d. > E f. G h. I j.", ["A b.", "C d.", "E f.", "G h.", "I j."]),
            ("a b c d e f", ["a b", "c", "d", "e", "f"]),
        ):
            found = fastslow.segment_reasoning(text)
            assert list(found) == list(fastslow.STAGES) and list(found.values()) == segments
        assert fastslow.segment_reasoning("only four words here") is None

    def test_a_leak_is_the_whole_name(self):
        for text, name, leaks in (
            ("a Painted Bunting sings", "Painted Bunting", True),
            ("painted_buntings", "Painted_Bunting", True),
            ("a painted wall, a bunting", "Painted Bunting", False),
            ("the cup's rim", "cup", True),
            ("a cupboard", "cup", False),
            ("a Chuck-will’s-widow", "Chuck will Widow", True),
            ("an Arctic Tern", "Artic_Tern", True),
            ("an arctic turn", "Artic_Tern", False),
            ("a red winged black bird", "Red winged Blackbird", True),
            ("two canaries", "canary", True),
            ("a red house", "horse", False),
            ("two wolves", "wolf", True),
            ("a trunk", "truck", False),
            ("これはツバメです", "ツバメ", True),
            ("これはスズメです", "ツバメ", False),
        ):
            assert fastslow.mentions_class(text, name) is leaks, text


def pool_of(n_classes=8, n_images=6, scores=None):
    """A pool of as many images of each class; a class's look-alikes are the next four."""
    labels = np.arange(n_classes).repeat(n_images)
    near = np.array([[(k + i) % n_classes for i in (1, 2, 3, 4)] for k in range(n_classes)])
    files = pd.DataFrame({"path": [f"{row}.png" for row in range(len(labels))]})
    names = [f"class {k}" for k in range(n_classes)]
    data = SimpleNamespace(labels=SimpleNamespace(numpy=lambda: labels), images=files, class_names=names)
    return Pool("drawn", data, np.arange(len(labels)), Dictionary(near, "probe", scores), {})


class TestCases:
    @pytest.mark.parametrize("sets", ["class", "balanced", "random"])
    def test_every_set_holds_the_true_class_once_at_any_letter(self, sets):
        table = fastslow.case_table(pool_of(), sets, 300, [3])
        assert all(len(set(options)) == 5 for options in table.options)
        true = [row.options[row.position] for row in table.itertuples()]
        assert true == [*table.label]
        assert table.position.value_counts().min() > 35  # 60 expected at each

    def test_an_image_s_own_set_holds_its_four_highest_wrong_classes(self):
        digits = "915432 150234 431205 239150 112349 543210"  # of an image of each class
        pool = pool_of(6, 1, np.array([[int(digit) for digit in row] for row in digits.split()]))
        table = fastslow.case_table(pool, "image").sort_values("row")
        left_out = [set(range(6)) - set(candidates) for candidates in table.candidates]
        assert left_out == [{1}, {2}, {4}, {5}, {1}, {4}]  # the lowest wrong one; of equal ones the last
        assert (table.centre == table.label).all()

    def test_a_class_without_images_is_an_option_but_never_the_true_one(self):
        table = fastslow.case_table(pool_of(), "balanced", 400, rows=np.arange(30))
        assert set(table.label) == {f"class {k}" for k in range(5)}
        assert set(sum(table.candidates, [])) == {*range(8)}

    def test_what_cannot_be_drawn_is_told(self):
        with pytest.raises(ValueError, match="no image to ask about"):
            fastslow.case_table(pool_of(), rows=[])
        with pytest.raises(ValueError, match="class, image, balanced, random, not 'hard'"):
            fastslow.case_table(pool_of(), "hard")
        for about in ({"count": -5}, {"seeds": []}):
            with pytest.raises(ValueError, match="name 1 run or more, and 1 case or more, or 0 for all"):
                fastslow.case_table(pool_of(), **about)


class TestQuestions:
    def test_no_mode_is_given_what_it_must_not_see(self):
        for mode, kinds in (
            ("slow", ["image", "image concepts", ""]),
            ("fast", ["concepts", "image concepts", ""]),
            ("fused", ["image", "concepts"]),
            ("blind", ["image", "concepts"]),
        ):
            for kind in kinds:
                image = Image.new("RGB", (8, 8)) if "image" in kind else None
                concepts = "concepts" if "concepts" in kind else ""
                with pytest.raises(ValueError, match=f"{mode} mode sees"):
                    fastslow.choice_request(mode, OPTIONS, concepts, image)
        for options in (OPTIONS[:4], [*OPTIONS[:4], "Blue Jay"]):
            with pytest.raises(ValueError, match="5 different options"):
                fastslow.choice_request("blind", options)

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

    def test_answers_without_a_letter_are_wrong_and_told_apart(self):
        class Failing(Scripted):
            def answer(self, requests, seed, temperature):
                assert len(requests) == 5, "where there are no concepts, nothing is asked"
                yield 0, ask.Answer(error="no route to host")
                yield 1, ask.Answer("The options are all", truncated=True)
                texts = ("I'm sorry, I can't help with that.", "a bird", "B")
                yield from enumerate((ask.Answer(text) for text in texts), 2)

        texts = ["v", "w", "x", "a green jay", "a blue jay", "", ""]
        table = pd.DataFrame({"concept_text": texts, "concept_failure": [""] * 6 + ["failed"]})
        table = table.assign(mode="slow", position=1, options=[OPTIONS] * 7)
        rows = fastslow.choose(Failing(str), table.assign(sets=[*"abcdefg"]), progress=False)
        kinds = ["failed", "truncated", "refused", "unparsable", "", "unparsable", "failed"]
        assert rows.failure.tolist() == kinds and rows.correct.tolist() == [kind == "" for kind in kinds]
        assert rows.invalid.tolist() == [kind not in ("", "failed") for kind in kinds]
        assert rows.letter.dropna().tolist() == ["B"] and rows.sets.tolist() == [*"abcdefg"]
        assert rows.leak.tolist() == [False, False, False, True, False, False, False]
        assert fastslow.answered(rows).index.tolist() == [1, 2, 3, 4, 5]

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

    def test_chains_come_from_images_or_names(self, tmp_path):
        model = Scripted(lambda one: json.dumps(CHAIN) if "a Blue Jay" in one.text else "I cannot")
        found = fastslow.annotate_chains(model, names=["Blue Jay", "Auklet"], progress=False)
        assert found.chains == [CHAIN, None] and found.failures == ["", "refused"]
        assert "an Auklet" in model.asked[1].text
        pool, said = pool_of(), iter([json.dumps(CHAIN), "a bird"])
        for row, color in ((3, "red"), (9, "blue")):
            pool.data.images.loc[row, "path"] = str(tmp_path / f"{row}.png")
            Image.new("RGB", (8, 8), color).save(pool.paths[row])
        found, why = fastslow.describe(Scripted(lambda one: next(said)), pool, [9, 3, 9], progress=False)
        assert (found, why) == ({3: CHAIN, 9: None}, {3: "", 9: "unparsable"})  # each image once


def letter_of(text, names=(), cut=False):
    return named_option(text, fastslow.LETTERS, names, cut)


def test_the_letter_of_an_answer():
    for letter, texts in (
        ("A", "I select A. It is|Option A is best|(A)|A – Blue Jay|The answer is A because of its crest"),
        ("B", "B|B) Green Jay|B. It has a crest, unlike A|Final answer: B|The bird is B, a Green Jay"),
        ("B", "B, not because of the crest|B. It rules out A and C.|B\n\nA crest like this one is rare."),
        ("B", 'A Clark Nutcracker: B|{"reason": "A is red", "answer": "B"}|A or C? \\boxed{B}'),
        ("B", "答案是B。|选B|（Ｂ）|正解はBです|คำตอบคือB|정답은 B입니다"),
        ("D", "D Gadwall|My choice: option D|Based on the concepts, D fits best|**D**|It must be D!"),
        # no letter of an option
        (None, "|house|F|a|A small bird with a red crown|A's crown|A **Green Jay**|Its tail is D-shaped"),
        (None, "The answer is A small bird|None of the options A, B, C, D or E fits"),
        # several letters, and letters that are only rejected
        (
            None,
            "A or B|Either B or C|A) House or B) Car|B. Wait, C.|B\nFinal answer: C|\\boxed{A} \\boxed{B}",
        ),
        (None, "A is right. No, B is right.|tell A from B|答案是A或B|" + '{"answer": "A"} {"answer": "B"}'),
        (None, "It cannot be C; it is D|not A, but B|It isn't option C|unlike B|不是B|Option (B) is wrong."),
    ):
        for text in texts.split("|"):
            assert letter_of(text) == letter, text
    for text, letter in (("A Blue Jay", "A"), ("A blue jay, it seems", "A"), ("A Green Jay", None)):
        assert letter_of(text, OPTIONS) == letter, (
            "an article before the name of its own option is that letter"
        )
    for text, letter in (("B", "B"), ("B. Gre", "B"), ("First I look at B", None), ("A Clark", None)):
        assert letter_of(text, cut=True) == letter, "of what was cut off, what it begins with alone"


def test_a_chain_of_a_bird_s_attributes():
    present = "crown_color::red crown_color::black wing_color::black wing_color::white wing_pattern::striped "
    present += "shape::tree-clinging-like size::small_(5_-_9_in) bill_shape::dagger "
    present += "bill_length::longer_than_head bill_color::black leg_color::grey"
    present = [f"has_{name}" for name in present.split()]
    assert fastslow.chain_from_attributes(present, seat="trunk") == {
        "Background": "a tree trunk",
        "Superclass": "tree-clinging-like bird",
        "SalientFeatures": "bill, crown, wings",
        "DetailedFeatures": "red and black crown, striped black and white wings, black long dagger bill",
        "AuxiliaryFeatures": "small size, grey legs",
    }
    assert fastslow.chain_from_attributes(present)["Background"] == "not annotated"


def test_a_chain_of_labels_takes_the_form_of_an_annotator_s():
    """What nobody annotated is said as of another class: neither form nor a code tells whose chain it is."""
    about = {"attributes": pd.DataFrame({"name": ["has_crown_color::red"]}), "attribute_level": "image"}
    about |= {"present": torch.ones(3, 1, dtype=torch.bool), "certainty": torch.full((3, 1), 4)}
    data = SimpleNamespace(labels=torch.tensor([0, 0, 1]), **about)
    own = {row: dict.fromkeys(fastslow.STAGES, f"code {row}") for row in range(3)}
    bare, full = (fastslow.chains_from_labels(data, range(3), of) for of in (None, own))
    assert {chain["Background"] for chain in bare.values()} == {"not annotated"}
    assert [chain["Background"] for chain in full.values()] == ["code 2", "code 2", "code 0"]
    assert {chain["DetailedFeatures"] for chain in full.values()} == {"red crown"}


def test_what_failed_too_often_is_marked_by_name(caplog):
    """Three of a hundred are too many, two are not."""
    parts = []
    for data, n_failed in (("birds", 3), ("cars", 2)):
        failures = ["failed"] * n_failed + [""] * (100 - n_failed)
        parts.append(pd.DataFrame({"model": "m", "data": data, "given": "", "failure": failures}))
    keys = ["model", "data", "given"]
    with caplog.at_level(logging.INFO):
        assert fastslow.failure_mark(pd.concat(parts), keys) == ", marked: up to 3 % failed"
    assert "More than 2 % of the answers could not be had: m, birds (3.0 %)." in caplog.text
    assert fastslow.failure_mark(parts[1], keys) == ""
