"""Models of Hugging Face on this machine, stock classes with random weights."""

import json
import shutil
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import tiny_vlms
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_vlms import TEMPLATE, WORDS

from xaihelpers import ask, paths
from xaihelpers.ask import local_model, logits


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    return tiny_vlms.saved(tiny_vlms.llava, tmp_path_factory.mktemp("models") / "llava")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return tiny_vlms.saved(tiny_vlms.llama, tmp_path_factory.mktemp("models") / "llama", seed=2)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def copied(folder, place):
    return Path(shutil.copytree(folder, place))


def pictures():
    rng, sizes = np.random.default_rng(0), ((30, 40), (24, 24), (50, 20), (40, 40))
    return [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for h, w in sizes]


def requests(sees):
    """Of many lengths, with and without images and options."""
    rng, images = np.random.default_rng(1), pictures()
    made = []
    for i in range(14):
        words = " ".join(rng.choice(WORDS[7:], size=1 + 3 * (i % 5)))
        shown = images[i % 4 : i % 4 + 1 + (i == 4)] if sees and i % 3 else ()
        made.append(ask.request(words, shown, WORDS[2:] if i % 2 else (), 1 if i % 7 == 3 else 8))
    return made + [ask.request("two of them", images[:2], max_tokens=limit) for limit in (8, 4) if sees]


def answered(model, asked, seed=0, temperature=0.0):
    """Answers of the model itself, without the cache."""
    answers = dict(model.answer(asked, seed, temperature))
    assert sorted(answers) == list(range(len(asked)))
    return [answers[i] for i in range(len(asked))]


def same(one, other):
    for name in ("text", "reasoning", "tokens_in", "tokens_out", "truncated"):
        assert getattr(one, name) == getattr(other, name)
    assert (one.probabilities is None) == (other.probabilities is None)
    if one.probabilities:  # float32, other shapes of the products
        assert other.probabilities == pytest.approx(one.probabilities, abs=1e-4)


@pytest.mark.parametrize(
    "kind, temperature", [("llava", 0.0), ("qwen", 0.7), ("llama", 0.7), ("llama_vision", 0.0)]
)
def test_batches_answer_as_single_requests_do(kind, temperature, tmp_path):
    folder = tiny_vlms.saved(getattr(tiny_vlms, kind), tmp_path / kind)
    asked = requests(kind != "llama")
    together = answered(ask.load_vlm(str(folder)), asked, temperature=temperature)
    alone = answered(ask.load_vlm(str(folder), batch_size=1), asked, temperature=temperature)
    by_three = ask.load_vlm(str(folder), batch_size=3)
    backwards = answered(by_three, asked[::-1], temperature=temperature)[::-1]
    for first, second, third in zip(together, alone, backwards, strict=True):
        same(first, second)
        same(first, third)
    assert len({answer.text for answer in together}) > 8, "the model says different things"
    pair = [ask.request("a long tail", picture, WORDS[2:], max_tokens=1) for picture in pictures()[:2]]
    if kind != "llama":
        first, second = answered(by_three, pair)
        assert first.probabilities != second.probabilities, "it sees the pictures"
    assert {answer.truncated for answer in together} == {True, False}
    assert all(1 <= answer.tokens_out <= one.max_tokens for answer, one in zip(together, asked, strict=True))


def test_answers_are_those_of_transformers_own_loop(llava):
    """Greedy words and the options' probabilities, worked out one forward pass at a time."""
    model = ask.load_vlm(str(llava))
    image, tokenizer = pictures()[0], model.tokenizer
    (answer,) = answered(model, [ask.request("what is this", image, max_tokens=6)])
    options = [answer.text.split()[0], *[word for word in WORDS[2:] if word not in answer.text][:2]]
    (first_word,) = answered(model, [ask.request("what is this", image, options, max_tokens=1)])
    ids = tokenizer(f"<user>{' <image>' * 9} what is this <bot>")["input_ids"]
    assert answer.tokens_in == len(ids) == 1 + 9 + 3 + 1
    pixels = model.processor.image_processor(image, return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        first = model.model(input_ids=torch.tensor([ids]), pixel_values=pixels).logits[0, -1]
        expected = first[[tokenizer.convert_tokens_to_ids(word) for word in options]].softmax(0)
        said = []
        while len(said) < 6 and 1 not in said:
            step = model.model(input_ids=torch.tensor([ids + said]), pixel_values=pixels)
            said.append(int(step.logits[0, -1].argmax()))
    assert answer.text == tokenizer.decode(said, skip_special_tokens=True) and answer.tokens_out == len(said)
    assert list(first_word.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_sampling_is_by_the_seed_and_in_the_model_s_proportions(llama):
    model, asked = ask.load_vlm(str(llama)), [ask.request("the red house", max_tokens=1)]
    once, again = (answered(model, asked, seed=3, temperature=1.0)[0].text for _ in range(2))
    assert once == again
    (options,) = answered(model, [ask.request("the red house", options=tuple(WORDS[2:]), max_tokens=1)])
    best = options.choice
    with torch.inference_mode():
        chances = model.model(**model._inputs(asked)).logits[0, -1].softmax(0)
    share = float(chances[model.tokenizer.convert_tokens_to_ids(best)])
    n = 200
    hits = sum(answered(model, asked, seed=seed, temperature=1.0)[0].text == best for seed in range(n))
    assert abs(hits / n - share) < 4 * (share * (1 - share) / n) ** 0.5 and 0.02 < share < 0.98


def forced(monkeypatch, script):
    """Make a model, at a temperature, say these tokens."""

    class Forced(transformers.LogitsProcessor):
        def __init__(self, *given):
            self.steps = iter(script)

        def __call__(self, ids, scores):
            scores[:, next(self.steps)] += 1e4
            return scores

    monkeypatch.setattr(local_model, "GumbelNoise", Forced)


def test_reasoning_stands_apart_and_options_count_after_it(llama, monkeypatch):
    model = ask.load_vlm(str(llama))
    script = model.tokenizer("<think> the A is red </think> B <end>")["input_ids"]
    forced(monkeypatch, script)
    (answer,) = answered(model, [ask.request("which", options="AB", max_tokens=20)], temperature=1.0)
    assert (answer.text, answer.reasoning) == ("B", "the A is red")
    assert answer.tokens_out == len(script) and not answer.truncated
    prompt = model._inputs([ask.request("which")])["input_ids"][0].tolist()
    with torch.inference_mode():
        found = model.model(input_ids=torch.tensor([prompt + script[:6]])).logits[0, -1]
    expected = found[[model.tokenizer.convert_tokens_to_ids(letter) for letter in "AB"]].softmax(0)
    assert list(answer.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    (answer,) = answered(model, [ask.request("which", options="AB", max_tokens=4)], temperature=1.0)
    assert answer.truncated and answer.probabilities is None
    assert (answer.text, answer.reasoning) == ("", "the A is")


def test_a_thought_that_the_chat_template_opens_gives_no_answer_where_it_is_cut(llama, tmp_path, monkeypatch):
    own = copied(llama, tmp_path / "opens")
    template = TEMPLATE.replace("'<bot>' if m", "'bot' if m").replace(
        "<bot>{% endif", "<bot> <think> {% endif"
    )
    (own / "chat_template.jinja").write_text(template)
    model = ask.load_vlm(str(own))
    forced(monkeypatch, model.tokenizer("the A is red </think> B <end>")["input_ids"])
    for limit, text, reasoning, choice in ((20, "B", "the A is red", True), (3, "", "the A is", False)):
        (answer,) = answered(model, [ask.request("which", options="AB", max_tokens=limit)], temperature=1.0)
        assert (answer.text, answer.reasoning, answer.probabilities is not None) == (text, reasoning, choice)


def test_marks_of_thoughts_that_are_special_tokens_are_seen(llama, tmp_path, monkeypatch):
    """As of Magistral and gpt-oss; a tokenizer's other special tokens are left out of a text."""
    own = copied(llama, tmp_path / "marked")
    tokenizer = transformers.AutoTokenizer.from_pretrained(own)
    for old, new in (("long", "[THINK]"), ("short", "[/THINK]")):
        text = (own / "tokenizer.json").read_text().replace(f'"{old}"', f'"{new}"')
        (own / "tokenizer.json").write_text(text)
    tokenizer = transformers.AutoTokenizer.from_pretrained(own)
    tokenizer.add_special_tokens({"additional_special_tokens": ["[THINK]", "[/THINK]"]})
    tokenizer.save_pretrained(own)
    model = ask.load_vlm(str(own))
    script = model.tokenizer("[THINK] the A is red [/THINK] B <bot> <end>")["input_ids"]
    assert len(script) == 9
    forced(monkeypatch, script)
    (answer,) = answered(model, [ask.request("which", options="AB", max_tokens=20)], temperature=1.0)
    assert (answer.text, answer.reasoning) == ("B", "the A is red")


def test_temperature_0_is_the_most_probable_token_whatever_the_model_ships(llama, tmp_path):
    """A model's own penalties, which make greedy search take another token, are not applied."""
    asked = [ask.request(f"bird {word}", max_tokens=24) for word in "ABCDE"]
    file = copied(llama, tmp_path / "shy") / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"repetition_penalty": 1.8}))
    plain, shy = (answered(ask.load_vlm(str(place)), asked) for place in (llama, file.parent))
    assert [answer.text for answer in shy] == [answer.text for answer in plain]


def test_what_cannot_be_taken_is_the_error_of_its_own_request(llama, tmp_path):
    """Too long, or of a shape that the processor refuses."""
    asked = [ask.request("bird " * n, max_tokens=8) for n in (5, 200, 7)]
    first, long, last = answered(ask.load_vlm(str(llama)), asked)
    assert "too long: 202 tokens and 8 for the answer" in long.error and not first.error + last.error
    model, good = ask.load_vlm(str(tiny_vlms.saved(tiny_vlms.qwen, tmp_path / "qwen"))), pictures()[0]
    Image.new("RGB", (4, 900)).save(tmp_path / "narrow.png")
    asked = [ask.request("what", shown, max_tokens=8) for shown in (good, tmp_path / "narrow.png", good)]
    first, narrow, last = ask.ask(model, asked)
    assert "narrow.png (ValueError: absolute aspect ratio" in narrow.error and not narrow.text
    assert first == last and not first.error


def test_a_batch_too_large_for_the_memory_is_asked_one_by_one(llava, monkeypatch, caplog):
    model, asked = ask.load_vlm(str(llava), batch_size=8), requests(True)
    whole, generate = answered(model, asked), model.model.generate

    def small(input_ids, **more):
        if len(input_ids) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(input_ids=input_ids, **more)

    monkeypatch.setattr(model.model, "generate", small)
    for one, other in zip(answered(model, asked), whole, strict=True):
        same(one, other)
    assert "are asked one by one (OutOfMemoryError: CUDA out of memory)" in caplog.text


def test_models_that_cannot_be_asked(llava, llama, tmp_path):
    message = "'no/such-model' cannot be loaded .*a folder as save_pretrained writes it.*server:NAME"
    with pytest.raises(ask.AskError, match=message):
        ask.load_vlm("no/such-model")
    with pytest.raises(ask.AskError, match="reads text only, but a request holds an image"):
        answered(ask.load_vlm(str(llama)), [ask.request("what", pictures()[0])])
    lacking = copied(llava, tmp_path / "lacking")
    weights = load_file(lacking / "model.safetensors")
    del weights[next(key for key in weights if "q_proj" in key)]
    save_file(weights, lacking / "model.safetensors", {"format": "pt"})
    with pytest.raises(ask.AskError, match="lacks weights .1, .*q_proj"):
        ask.load_vlm(str(lacking))
    half = copied(llava, tmp_path / "half")
    (half / "model.safetensors").write_bytes((half / "model.safetensors").read_bytes()[:5000])
    with pytest.raises(ask.AskError, match="half' cannot be loaded"):
        ask.load_vlm(str(half))
    ids = {"blue A": [5, 2], " blue A": [1, 5, 2], "blue B": [5, 3], " blue B": [1, 5, 3]}
    with pytest.raises(ask.AskError, match="blue A, blue B begin with the same token .* letter them"):
        logits.first_tokens(lambda text, **more: {"input_ids": ids[text]}, ["blue A", "blue B"])


def test_a_folder_whose_pictures_would_not_reach_the_model_is_told_what_it_lacks(llava, tmp_path):
    for number, (file, change, message) in enumerate(
        (
            ("processor_config.json", {"image_processor": None}, "has no processor .*with image_processor"),
            (
                "tokenizer_config.json",
                {"image_token": "<picture>"},
                "take a picture .*<picture>.*fetch them",
            ),
            ("config.json", {"image_token_index": None, "image_token_id": None}, "without its pictures"),
        )
    ):
        wrong = copied(llava, tmp_path / f"wrong{number}") / file
        held = {key: value for key, value in json.loads(wrong.read_text()).items() if key not in change}
        wrong.write_text(json.dumps(held | {key: value for key, value in change.items() if value}))
        with pytest.raises(ask.AskError, match=message):
            ask.load_vlm(str(wrong.parent))


def test_identity_is_the_name_and_the_files_not_their_place(llama, tmp_path, monkeypatch):
    here, there = copied(llama, tmp_path / "here" / "llama"), copied(llama, tmp_path / "there" / "llama")
    identity = ask.load_vlm(str(here)).identity
    assert ask.load_vlm(str(there)).identity == identity and str(tmp_path) not in identity
    monkeypatch.chdir(here)
    assert ask.load_vlm(".").identity == identity, "however the folder is named"
    assert ask.load_vlm(str(copied(llama, tmp_path / "there" / "other"))).identity != identity
    (there / "README.md").write_text("a card")
    assert ask.load_vlm(str(there)).identity == identity, "a card changes no answer"
    (there / "chat_template.jinja").write_text(TEMPLATE.replace("<bot>{% endif", "<bot> {% endif"))
    assert ask.load_vlm(str(there)).identity != identity


def test_a_copied_folder_of_answers_replays_where_the_model_is_not(llama, monkeypatch, tmp_path):
    asked = [ask.request(f"bird {word}", max_tokens=4) for word in "ABC"]
    own = copied(llama, tmp_path / "own_llama")
    first = ask.ask(ask.load_vlm(str(own)), asked)
    shutil.rmtree(own)
    shutil.copytree(tmp_path / "cache", tmp_path / "there")
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "there")
    kept = ask.load_vlm("own_llama")
    assert ask.ask(kept, asked) == first
    with pytest.raises(ask.AskError, match="not among the answers kept of it in .*cannot be loaded"):
        ask.ask(kept, [*asked, ask.request("another")])
    with pytest.raises(ask.AskError, match="'other' cannot be loaded"):
        ask.load_vlm("other")


def test_one_model_is_loaded_at_a_time_beside_the_one_that_is_kept(llama, llava):
    load = ask.vlm_loader(keep=str(llama))
    judge, first = load(str(llama)), load(str(llava))
    load("annotator")
    assert first.model is None and judge.model is not None and load(str(llama)) is judge
