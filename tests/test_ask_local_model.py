"""Models of Hugging Face on this machine, stock classes with random weights.

Batches answer as single requests do, and as the same model behind `transformers serve`.
"""

import json
import shutil
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from xaihelpers import ask, paths
from xaihelpers.ask import local_model

SPECIAL = ["<pad>", "<end>", "<unk>", "<system>", "<user>", "<bot>", "<image>", "<video>"]
WORDS = [
    "<think>",
    "</think>",
    *"ABCDE",
    *"the a red green blue bird house boat wing tail is not of and what which this".split(),
    *"long short old new one two three".split(),
]
TEMPLATE = (
    "{% for m in messages %}{{ '<bot>' if m.role == 'assistant' else '<' + m.role + '>' }}"
    "{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for c in m.content %}{{ '<image>' if c.type == 'image' else c.text }}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}"
)


def tokenizer_of(template=None):
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.add_special_tokens(SPECIAL)
    special = {"pad_token": "<pad>", "eos_token": "<end>", "unk_token": "<unk>"}
    of_media = {"image_token": "<image>", "video_token": "<video>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, extra_special_tokens=of_media, chat_template=template, **special
    )


def text_sizes(**more):
    sizes = {"vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"max_position_embeddings": 160, "initializer_range": 0.6, "tie_word_embeddings": False}
    return sizes | {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1} | more


def saved(model, processor, folder):
    """Random weights, large enough for the answers to depend on all that is read.

    No special token but the end is generated, and that sometimes.
    """
    with torch.no_grad():
        head = model.get_output_embeddings().weight
        head[[0, *range(2, len(SPECIAL) + 2)]] = 0
        head[1] *= 1.5
    model.generation_config = transformers.GenerationConfig(eos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    torch.manual_seed(0)
    tower = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = transformers.CLIPVisionConfig(**tower, image_size=24, patch_size=8, initializer_factor=3.0)
    config = transformers.LlavaConfig(
        vision_config=vision,
        text_config=transformers.LlamaConfig(**text_sizes()),
        image_token_index=SPECIAL.index("<image>"),
        image_seq_length=9,
        vision_feature_layer=-1,
        tie_word_embeddings=False,
    )
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24}
    )
    processor = transformers.LlavaProcessor(
        images,
        tokenizer_of(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )
    model = transformers.LlavaForConditionalGeneration(config)
    with torch.no_grad():
        model.model.multi_modal_projector.linear_2.weight *= 20
    return saved(model, processor, tmp_path_factory.mktemp("models") / "llava")


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    torch.manual_seed(1)
    tokenizer = tokenizer_of()
    ids = {f"{kind}_token_id": SPECIAL.index(f"<{kind}>") for kind in ("image", "video")}
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
    vision |= {"patch_size": 8, "spatial_merge_size": 2, "initializer_range": 0.3}
    rotary = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    config = transformers.Qwen2VLConfig(
        text_config=text_sizes(rope_parameters=rotary),
        vision_config=vision,
        **ids,
        vision_start_token_id=SPECIAL.index("<system>"),
        vision_end_token_id=SPECIAL.index("<bot>"),
        tie_word_embeddings=False,
    )
    sizes = {"patch_size": 8, "merge_size": 2, "size": {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}}
    processor = transformers.Qwen2VLProcessor(
        transformers.Qwen2VLImageProcessor(**sizes),
        tokenizer,
        transformers.Qwen2VLVideoProcessor(**sizes),
        chat_template=TEMPLATE.replace("'<image>'", "'<system><image><bot>'"),
    )
    model = transformers.Qwen2VLForConditionalGeneration(config)
    return saved(model, processor, tmp_path_factory.mktemp("models") / "qwen")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    torch.manual_seed(2)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**text_sizes()))
    return saved(model, tokenizer_of(TEMPLATE), tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def pictures():
    rng, sizes = np.random.default_rng(0), ((30, 40), (24, 24), (50, 20), (40, 40))
    return [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for h, w in sizes]


def requests(sees):
    """Of many lengths, with and without images, options, a system turn and an answer before."""
    rng, images = np.random.default_rng(1), pictures()
    made = []
    for i in range(14):
        words = " ".join(rng.choice(WORDS[7:], size=1 + 3 * (i % 5)))
        shown = images[i % 4 : i % 4 + 1 + (i == 4)] if sees and i % 3 else ()
        system, limit = "the long one" if i % 4 == 1 else "", 1 if i % 7 == 3 else 8
        made.append(ask.request(words, shown, "ABCDE" if i % 2 else (), system, limit))
    said = [("user", "what is this"), ("assistant", "a bird"), ("user", "which bird")]
    turns = tuple(ask.Turn(role, text) for role, text in said)
    return [*made, ask.Request(turns, tuple("AB"), 8)]


def answered(model, asked, **more):
    """Answers of the model itself, without the cache."""
    answers = dict(model.answer(asked, more.get("seed", 0), more.get("temperature", 0.0)))
    assert sorted(answers) == list(range(len(asked)))
    return [answers[i] for i in range(len(asked))]


def same(one, other):
    for name in ("text", "reasoning", "tokens_in", "tokens_out", "truncated"):
        assert getattr(one, name) == getattr(other, name)
    assert (one.probabilities is None) == (other.probabilities is None)
    if one.probabilities:  # float32, other shapes of the products
        assert other.probabilities == pytest.approx(one.probabilities, abs=1e-4)


@pytest.mark.parametrize("kind, temperature", [("llava", 0.0), ("qwen", 0.7), ("llama", 0.7)])
def test_batches_answer_as_single_requests_do(kind, temperature, request):
    folder, asked = request.getfixturevalue(kind), requests(kind != "llama")
    model = ask.load_vlm(str(folder))
    together = answered(model, asked, temperature=temperature)
    model.batch_size = 1
    for one, other in zip(answered(model, asked, temperature=temperature), together, strict=True):
        same(one, other)
    backwards = ask.load_vlm(str(folder), batch_size=4)
    reversed_answers = answered(backwards, asked[::-1], temperature=temperature)[::-1]
    for one, other in zip(reversed_answers, together, strict=True):
        same(one, other)
    assert len({answer.text for answer in together}) > 8, "the model says different things"
    assert {answer.truncated for answer in together} == {True, False}
    assert all(1 <= answer.tokens_out <= one.max_tokens for answer, one in zip(together, asked, strict=True))


def test_answers_are_those_of_transformers_own_loop(llava):
    """Greedy words and the options' probabilities, worked out one forward pass at a time."""
    model = ask.load_vlm(str(llava))
    image, tokenizer = pictures()[0], model.tokenizer
    (answer,) = answered(model, [ask.request("what is this", image, "ABC", max_tokens=6)])
    ids = tokenizer(f"<user>{' <image>' * 9} what is this <bot>")["input_ids"]
    assert answer.tokens_in == len(ids) == 1 + 9 + 3 + 1
    pixels = model.processor.image_processor(image, return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        first = model.model(input_ids=torch.tensor([ids]), pixel_values=pixels).logits[0, -1]
        expected = first[[tokenizer.convert_tokens_to_ids(letter) for letter in "ABC"]].softmax(0)
        said = []
        while len(said) < 6 and 1 not in said:
            step = model.model(input_ids=torch.tensor([ids + said]), pixel_values=pixels)
            said.append(int(step.logits[0, -1].argmax()))
    assert answer.text == tokenizer.decode(said, skip_special_tokens=True) and answer.tokens_out == len(said)
    assert list(answer.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_sampling_is_by_the_seed_and_in_the_model_s_proportions(llama):
    model, asked = ask.load_vlm(str(llama)), [ask.request("what is this", max_tokens=1)]
    once, again = (answered(model, asked, seed=3, temperature=1.0)[0].text for _ in range(2))
    assert once == again
    (options,) = answered(model, [ask.request("what is this", options=tuple(WORDS[2:]), max_tokens=1)])
    best, p = max(options.probabilities.items(), key=lambda pair: pair[1])
    with torch.inference_mode():
        logits = model.model(**model._inputs(asked)).logits[0, -1].softmax(0)
    share = float(logits[model.tokenizer.convert_tokens_to_ids(best)])
    n = 200
    hits = sum(answered(model, asked, seed=seed, temperature=1.0)[0].text == best for seed in range(n))
    assert abs(hits / n - share) < 4 * (share * (1 - share) / n) ** 0.5 and 0.02 < share < 0.98


def test_reasoning_stands_apart_and_options_count_after_it(llama, monkeypatch):
    model = ask.load_vlm(str(llama))
    script = model.tokenizer("<think> the A is red </think> B <end>")["input_ids"]
    steps = iter(script)

    class Forced(transformers.LogitsProcessor):
        def __init__(self, *given):
            pass

        def __call__(self, ids, scores):
            scores[:, next(steps)] += 1e4
            return scores

    monkeypatch.setattr(local_model, "_GumbelNoise", Forced)
    (answer,) = answered(model, [ask.request("which", options="AB", max_tokens=20)], temperature=1.0)
    assert (answer.text, answer.reasoning) == ("B", "the A is red")
    assert answer.tokens_out == len(script) and not answer.truncated
    prompt = model._inputs([ask.request("which")])["input_ids"][0].tolist()
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([prompt + script[:6]])).logits[0, -1]
    expected = logits[[model.tokenizer.convert_tokens_to_ids(letter) for letter in "AB"]].softmax(0)
    assert list(answer.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    steps = iter(script)
    (answer,) = answered(model, [ask.request("which", options="AB", max_tokens=4)], temperature=1.0)
    assert answer.truncated and answer.probabilities is None
    assert (answer.text, answer.reasoning) == ("", "the A is")


def test_what_is_too_long_is_this_request_s_error(llama):
    asked = [ask.request("bird " * n, max_tokens=8) for n in (5, 200, 7)]
    answers = answered(ask.load_vlm(str(llama)), asked)
    assert [bool(answer.error) for answer in answers] == [False, True, False]
    assert "too long: 202 tokens and 8 for the answer" in answers[1].error
    assert "room for 160" in answers[1].error


def test_batches_are_halved_for_want_of_memory(llava, monkeypatch):
    model, asked = ask.load_vlm(str(llava), batch_size=8), requests(True)
    whole, generate, sizes = answered(model, asked), model.model.generate, []

    def small(input_ids, **more):
        sizes.append(len(input_ids))
        if len(input_ids) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(input_ids=input_ids, **more)

    monkeypatch.setattr(model.model, "generate", small)
    for one, other in zip(ask.ask(model, asked), whole, strict=True):
        same(one, other)
    assert max(sizes) > 3 and model.batch_size == 2
    assert model.warnings == {"batches of 4, for want of memory": 1, "batches of 2, for want of memory": 1}

    def no_memory(**more):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(model.model, "generate", no_memory)
    with pytest.raises(ask.AskError, match="One request alone does not fit into the memory of cpu"):
        answered(model, asked)


def test_models_that_cannot_be_asked(llava, llama, tmp_path):
    message = "'no/such-model' cannot be loaded .*a folder as save_pretrained writes it.*server:NAME"
    with pytest.raises(ask.AskError, match=message):
        ask.load_vlm("no/such-model")
    with pytest.raises(ask.AskError, match="reads text only, but a request holds an image"):
        answered(ask.load_vlm(str(llama)), [ask.request("what", pictures()[0])])
    lacking = Path(shutil.copytree(llava, tmp_path / "lacking"))
    weights = load_file(lacking / "model.safetensors")
    gone = next(key for key in weights if "q_proj" in key)
    del weights[gone]
    save_file(weights, lacking / "model.safetensors", {"format": "pt"})
    with pytest.raises(ask.AskError, match="lacks weights .1, .*q_proj"):
        ask.load_vlm(str(lacking))
    half = Path(shutil.copytree(llava, tmp_path / "half"))
    (half / "model.safetensors").write_bytes((half / "model.safetensors").read_bytes()[:5000])
    with pytest.raises(ask.AskError, match="half' cannot be loaded"):
        ask.load_vlm(str(half))
    mute = Path(shutil.copytree(llama, tmp_path / "mute"))
    (mute / "chat_template.jinja").unlink()
    with pytest.raises(ask.AskError, match="no chat template: take one that was trained to answer"):
        ask.load_vlm(str(mute))
    strict = Path(shutil.copytree(llama, tmp_path / "strict"))
    (strict / "chat_template.jinja").write_text(
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn here') }}{% endif %}"
        + TEMPLATE
    )
    asked = [ask.request("what", system="Be short.", max_tokens=4), ask.request("what", max_tokens=4)]
    refused, taken = answered(ask.load_vlm(str(strict)), asked)
    assert "no system turn here" in refused.error and not taken.error
    tokens = {"blue A": [5, 2], " blue A": [1, 5, 2], "blue B": [5, 3], " blue B": [1, 5, 3]}
    bare = object.__new__(ask.LocalModel)
    bare.name, bare.tokenizer = "m", lambda text, add_special_tokens: {"input_ids": tokens[text]}
    with pytest.raises(ask.AskError, match="blue A, blue B begin with the same token .* letter them"):
        bare._first_tokens(["blue A", "blue B"])


def test_identity_is_the_name_and_the_files_not_their_place(llama, tmp_path, monkeypatch):
    here = Path(shutil.copytree(llama, tmp_path / "here" / "llama"))
    there = Path(shutil.copytree(llama, tmp_path / "there" / "llama"))
    identity = ask.load_vlm(str(here)).identity
    assert ask.load_vlm(str(there)).identity == identity and str(tmp_path) not in identity
    monkeypatch.chdir(here)
    assert ask.load_vlm(".").identity == identity, "however the folder is named"
    renamed = Path(shutil.copytree(llama, tmp_path / "there" / "other"))
    assert ask.load_vlm(str(renamed)).identity != identity
    (there / "README.md").write_text("a card")
    assert ask.load_vlm(str(there)).identity == identity, "a card changes no answer"
    (there / "chat_template.jinja").write_text(TEMPLATE.replace("<bot>{% endif", "<bot> {% endif"))
    assert ask.load_vlm(str(there)).identity != identity


def test_temperature_0_is_the_most_probable_token_whatever_the_model_ships(llama, tmp_path):
    """A model's own penalties, which make greedy search take another token, are not applied."""
    asked, shy = [ask.request(f"bird {word}", max_tokens=24) for word in "ABCDE"], {}
    for name, shipped in (("penalty", {"repetition_penalty": 1.8}), ("ngrams", {"no_repeat_ngram_size": 1})):
        shy[name] = Path(shutil.copytree(llama, tmp_path / name))
        file = shy[name] / "generation_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | shipped))
    expected = [answer.text for answer in answered(ask.load_vlm(str(llama)), asked)]
    for name, folder in shy.items():
        model = ask.load_vlm(str(folder))
        assert [answer.text for answer in answered(model, asked)] == expected, name


def test_what_a_processor_cannot_take_is_the_error_of_its_request(qwen, tmp_path):
    model, good = ask.load_vlm(str(qwen)), pictures()[0]
    Image.new("RGB", (4, 900)).save(tmp_path / "narrow.png")
    asked = [ask.request("what", shown, max_tokens=8) for shown in (good, tmp_path / "narrow.png", good)]
    first, narrow, last = ask.ask(model, asked)
    assert "narrow.png (ValueError: absolute aspect ratio" in narrow.error and not narrow.text
    assert first == last and not first.error
    same(first, answered(model, asked[:1])[0])


@pytest.mark.parametrize("lacking", ["patch_size", "num_additional_image_tokens"])
def test_a_folder_whose_processor_is_incomplete(lacking, llava, tmp_path):
    """Its processor fails, or its model does: the one counts no image tokens, the other one too few."""
    folder = Path(shutil.copytree(llava, tmp_path / "llava"))
    file = folder / "processor_config.json"
    settings = json.loads(file.read_text())
    del settings[lacking]
    file.write_text(json.dumps(settings))
    asked = [
        ask.request(text, shown, max_tokens=8)
        for text, shown in (("what", pictures()[0]), ("which bird", ()))
    ]
    shown, text = ask.ask(ask.load_vlm(str(folder)), asked)
    assert "cannot take" in shown.error and not shown.text
    assert not text.error
    same(text, answered(ask.load_vlm(str(llava)), asked[1:])[0])


def test_a_copied_folder_of_answers_replays_where_the_model_is_not(llama, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "here")
    asked = [ask.request(f"bird {word}", max_tokens=4) for word in "ABC"]
    own = Path(shutil.copytree(llama, tmp_path / "own_llama"))
    first = ask.ask(ask.load_vlm(str(own)), asked)
    shutil.rmtree(own)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "there")
    kept = ask.load_vlm("own_llama")
    assert ask.ask(kept, asked) == first and all(answer.cached for answer in ask.ask(kept, asked))
    with pytest.raises(ask.AskError, match="1 answers are not among those kept of it in .*cannot be loaded"):
        ask.ask(kept, [*asked, ask.request("another")])
    with pytest.raises(ask.AskError, match="'other' cannot be loaded"):
        ask.load_vlm("other")
