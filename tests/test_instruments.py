"""The shipped annotator and judge: they answer in the form that is asked for, and say what they see."""

import hashlib
import itertools
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from recipes.annotator import write_reader
from recipes.annotator_training.lesson_pictures import drawn_bird
from xaihelpers import ask, datasets, fastslow, instruments, paths
from xaihelpers.instruments.annotator import WordReader, five_of, rating, seen_chain
from xaihelpers.instruments.attention_judge import judgement, measured
from xaihelpers.instruments.eye import GROUPS, PARTS, SPECIES, THINGS, Look, first_named
from xaihelpers.saliency import judging
from xaihelpers.yardsticks import statements

HOME = paths.models_home()


@pytest.fixture(scope="module")
def annotator():
    return instruments.Annotator(HOME / "annotator", torch.device("cpu"))


@pytest.fixture(scope="module")
def drawn():
    return drawn_bird(77, 3, 1.0)


def seen_as(name="Cardinal", sure=0.9, **values):
    """A look at a bird of which these values are seen, each with this probability, and all else is open."""
    of_world = {}
    for world, groups in GROUPS.items():
        of_world[world] = {}
        for group, named in groups.items():
            chances = dict.fromkeys(named, 1 / len(named))
            if world == "birds" and group in values:
                chances = dict.fromkeys(named, (1 - sure) / (len(named) - 1)) | {values[group]: sure}
            of_world[world][group] = chances
    visible = {world: dict.fromkeys(groups, 1.0) for world, groups in GROUPS.items()}
    return Look(of_world, visible, dict.fromkeys(SPECIES + THINGS, 0.0) | {name: 1.0}, 0.0)


def test_each_prompt_is_answered_in_its_form(annotator, drawn):
    bird = Image.fromarray(drawn.image)
    options = ask.lettered_options(SPECIES[:5])
    concepts = fastslow.chain_prefix(dict.fromkeys(fastslow.STAGES, "a red crown"), 5)
    asked = [
        ask.request(ask.prompt("fse_chain", entity=fastslow.THE_IMAGE), bird),
        ask.request(ask.prompt("fse_chain_paper", entity=fastslow.THE_IMAGE), bird),
        ask.request(ask.prompt("fse_top5"), bird),
        ask.request(ask.prompt("fse_name"), bird),
        ask.request(ask.prompt("fse_choose_both", concepts=concepts, options=options), bird, "ABCDE"),
        ask.request(ask.prompt("fse_choose_nothing", options=options), options="ABCDE"),
        ask.request(
            ask.prompt("conceptscore_rating", prediction="x", features="red crown: 0.8"), bird, "1234"
        ),
        ask.request(ask.prompt("fse_chain", entity=datasets.with_article(SPECIES[0]))),
        ask.request(ask.prompt("fse_reasoning", entity=datasets.with_article(SPECIES[0]))),
    ]
    chain, of_paper, five, name, both, nothing, rated, of_class, reasoning = annotator.answer(asked)
    assert fastslow.parse_chain(chain.text) == fastslow.parse_chain(of_paper.text) is not None
    assert len(fastslow.parse_list(five.text)) == 5 and name.text in SPECIES + THINGS
    assert set(both.probabilities) == set("ABCDE") and both.text == both.choice
    assert set(nothing.probabilities.values()) == {0.2}, "who sees nothing knows nothing"
    assert rated.text in "1234" and fastslow.parse_chain(of_class.text)
    assert fastslow.segment_reasoning(reasoning.reasoning)


def test_an_answer_ends_where_max_tokens_says(annotator):
    text = ask.prompt("fse_reasoning", entity=datasets.with_article(SPECIES[0]))
    whole, cut = annotator.answer([ask.request(text), ask.request(text, max_tokens=5)])
    assert cut.truncated and not whole.truncated and not cut.text
    assert cut.reasoning == whole.reasoning[: len("> Its place is")] + " " + whole.reasoning.split()[4]
    assert first_named("What of the Cardinal, like an estate car?") == "Cardinal"
    assert first_named("Describe what you see, a scarf.") == ""


def test_what_is_sure_is_said_the_name_says_nothing_and_a_rating_is_by_what_is_seen():
    chain = seen_chain(seen_as(crown_color="red", sure=0.6))
    assert chain["DetailedFeatures"] == "red crown"
    assert set(seen_chain(seen_as(crown_color="red", sure=0.45)).values()) == {fastslow.UNKNOWN}
    assert seen_chain(seen_as("Blue Jay", crown_color="red")) == seen_chain(seen_as(crown_color="red"))
    assert five_of(chain)[0] == "red crown"
    seen = seen_as(crown_color="red", wing_color="blue", sure=0.99)
    assert rating("red crown: 0.90, yellow wing: 0.10", seen).text == "4"
    assert rating("red crown: 0.10, yellow wing: -0.90", seen).text == "1"
    assert rating("nothing known: 1.00", seen).probabilities["2"] == rating("x: 1", seen).probabilities["3"]


def test_a_reader_of_words_knows_words(tmp_path):
    texts = ["a red crown", "a red wing", "blue legs", "blue eyes", "a grey bill", "grey feet"] * 10
    write_reader(texts, ["one", "one", "two", "two", "three", "three"] * 10, tmp_path / "reader.safetensors")
    reader = WordReader(tmp_path / "reader.safetensors")
    assert set(reader.read("nothing of it").values()) == {1 / 3}
    found = reader.read("blue")
    assert max(found, key=found.get) == "two"


def test_a_judgement_says_what_was_measured_and_scores_what_it_says():
    names, on_parts = torch.zeros(len(SPECIES + THINGS)), torch.full([len(PARTS)], 400.0)
    names[0] = 1.0
    for covered, precise in itertools.product(np.linspace(0.01, 1, 34), np.linspace(0, 1, 21)):
        text = judgement(SPECIES[0], covered, precise, names, on_parts)
        score = judging.parse_judgement(text)
        said = statements.check_statements(text, covered, precise, {"belly": covered}, score)
        assert all(one.true for one in said if one.kind != "part") and said[-1].kind == "score", text
        assert measured(text) == pytest.approx((covered, precise), abs=0.006)
        assert judging.parse_judgement(judgement("bird", covered, precise, names, on_parts)) == score
        for other in (SPECIES[1], "teapot"):
            assert judging.parse_judgement(judgement(other, covered, precise, names, on_parts)) == 0
    assert measured(judgement("teapot", 1.0, 1.0, names, on_parts))[0] == 0
    assert np.isnan(measured("It covers most of the object.")).all()


def test_a_judge_reads_the_name_and_needs_the_picture(drawn):
    judge = ask.load_vlm("judge")
    pixels = torch.from_numpy(drawn.image).permute(2, 0, 1)[None]
    (shown,) = judging.judge_images(pixels, torch.from_numpy(np.float32(drawn.parts > 0))[None])
    for length in ("", "_long"):
        about = {"file": f"autoxplain_masked{length}"}
        found = judging.judge(judge, [shown, shown, None], ["bird", "teapot", "bird"], **about)
        assert found.score[0] > 3 and found.score[1] == 0 and np.isnan(found.score[2])


def test_the_answers_that_ship_are_those_of_the_annotator(tmp_path, monkeypatch, caplog):
    """A sample, asked again. One may differ: a probability of ½ turns with a processor's last digits.

    It is drawn by the number of the weights, those of their card: another one whenever these change. Reading
    the answers leaves their file as it is.
    """
    for name in ("annotator", "judge"):
        for file, content in json.loads((HOME / f"{name}.json").read_text())["sha256"].items():
            assert hashlib.sha256((HOME / file).read_bytes()).hexdigest() == content
    caplog.set_level("INFO")
    ready = tmp_path / "ready answers, 5 %"
    shutil.copytree(paths.answers_home(), ready)
    monkeypatch.setattr(paths, "answers_home", lambda: ready)
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path)
    before = {file.name: file.read_bytes() for file in ready.iterdir()}
    model = ask.load_vlm("annotator")
    images = datasets.load("aviary").images["path"]
    some_birds = images.sample(20, random_state=int(model.identity.split()[-1][:8], 16)).tolist()
    shipped = fastslow.annotate_chains(model, some_birds).chains
    assert "0 asked, 0 from the cache, 20 that ship" in caplog.text
    monkeypatch.setenv("XAI_RECORD_AGAIN", "1")
    again = fastslow.annotate_chains(model, some_birds).chains
    assert "20 asked, 0 from the cache" in caplog.text
    assert sum(one != other for one, other in zip(shipped, again, strict=True)) <= 1
    assert {file.name: file.read_bytes() for file in ready.iterdir()} == before
