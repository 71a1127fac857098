"""Models of Hugging Face on this machine, stock classes with random weights.

Batches answer as single requests do, and as the same model behind `transformers serve`.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
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
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unk>",
        extra_special_tokens={"image_token": "<image>", "video_token": "<video>"},
        chat_template=template,
    )


def text_sizes(**more):
    return {
        "vocab_size": len(SPECIAL) + len(WORDS),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 160,
        "initializer_range": 0.6,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 1,
        **more,
    }


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
    vision = transformers.CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=24,
        patch_size=8,
        initializer_factor=3.0,
    )
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
    vision = {
        "depth": 1,
        "embed_dim": 32,
        "hidden_size": 32,
        "num_heads": 2,
        "mlp_ratio": 2,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "initializer_range": 0.3,
    }
    config = transformers.Qwen2VLConfig(
        text_config=text_sizes(
            rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
        ),
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
    return saved(
        transformers.Qwen2VLForConditionalGeneration(config),
        processor,
        tmp_path_factory.mktemp("models") / "qwen",
    )


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    torch.manual_seed(2)
    return saved(
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**text_sizes())),
        tokenizer_of(TEMPLATE),
        tmp_path_factory.mktemp("models") / "llama",
    )


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def pictures():
    rng = np.random.default_rng(0)
    return [
        Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8))
        for h, w in ((30, 40), (24, 24), (50, 20), (40, 40))
    ]


def requests(sees):
    """Of many lengths, with and without images, options, a system turn and an answer before."""
    rng, images = np.random.default_rng(1), pictures()
    made = []
    for i in range(14):
        words = " ".join(rng.choice(WORDS[7:], size=1 + 3 * (i % 5)))
        made.append(
            ask.request(
                words,
                images[i % 4 : i % 4 + 1 + (i == 4)] if sees and i % 3 else (),
                "ABCDE" if i % 2 else (),
                "the long one" if i % 4 == 1 else "",
                1 if i % 7 == 3 else 8,
            )
        )
    made.append(
        ask.Request(
            (
                ask.Turn("user", "what is this"),
                ask.Turn("assistant", "a bird"),
                ask.Turn("user", "which bird"),
            ),
            tuple("AB"),
            8,
        )
    )
    return made


def answered(model, asked, **more):
    """Answers of the model itself, without the cache."""
    answers = dict(model.answer(asked, more.get("seed", 0), more.get("temperature", 0.0)))
    assert sorted(answers) == list(range(len(asked)))
    return [answers[i] for i in range(len(asked))]


def same(one, other):
    assert (one.text, one.reasoning, one.tokens_in, one.tokens_out, one.truncated) == (
        other.text,
        other.reasoning,
        other.tokens_in,
        other.tokens_out,
        other.truncated,
    )
    assert (one.probabilities is None) == (other.probabilities is None)
    if one.probabilities:
        assert other.probabilities == pytest.approx(
            one.probabilities, abs=1e-4
        )  # float32, other shapes of the products


def test_samples_do_not_depend_on_where_the_model_lies(llama, tmp_path):
    shutil.copytree(llama, tmp_path / "elsewhere")
    here, elsewhere = (
        answered(ask.load_vlm(str(folder)), requests(False), temperature=0.7)
        for folder in (llama, tmp_path / "elsewhere")
    )
    for one, other in zip(here, elsewhere, strict=True):
        same(one, other)


@pytest.mark.parametrize("kind", ["llava", "qwen", "llama"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
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
    assert {answer.truncated for answer in together} == {True, False} and all(
        1 <= answer.tokens_out <= one.max_tokens for answer, one in zip(together, asked, strict=True)
    )


@pytest.mark.parametrize("shipped", ["annotator", "judge"])
def test_the_shipped_models_answer_the_same_in_batches_of_any_size(shipped):
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)) for _ in range(4)]
    asked = [
        ask.request("what is shown here", image, "AB" if n % 2 else (), max_tokens=6)
        for n, image in enumerate(images)
    ]
    model = ask.load_vlm(shipped)
    single, *others = [answered(one_size(model, size), asked) for size in (1, 3, 4)]
    for answers in others:
        for one, other in zip(single, answers, strict=True):
            same(one, other)


def one_size(model, size):
    model.batch_size = size
    return model


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
            said.append(
                int(
                    model.model(input_ids=torch.tensor([ids + said]), pixel_values=pixels)
                    .logits[0, -1]
                    .argmax()
                )
            )
    assert answer.text == tokenizer.decode(said, skip_special_tokens=True) and answer.tokens_out == len(said)
    assert list(answer.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_the_image_is_seen(llava, qwen):
    for folder in (llava, qwen):
        answers = answered(
            ask.load_vlm(str(folder)),
            [ask.request("what is this", image, "AB", max_tokens=4) for image in pictures()],
        )
        assert len({answer.probabilities["A"] for answer in answers}) == 4


def test_sampling_is_by_the_seed_and_in_the_model_s_proportions(llama):
    model, asked = ask.load_vlm(str(llama)), [ask.request("what is this", max_tokens=1)]
    assert (
        answered(model, asked, seed=3, temperature=1.0)[0].text
        == answered(model, asked, seed=3, temperature=1.0)[0].text
    )
    (options,) = answered(model, [ask.request("what is this", options=tuple(WORDS[2:]), max_tokens=1)])
    best, p = max(options.probabilities.items(), key=lambda pair: pair[1])
    with torch.inference_mode():
        logits = model.model(**model._inputs(asked)).logits[0, -1].softmax(0)
    share = float(logits[model.tokenizer.convert_tokens_to_ids(best)])
    n = 400
    hits = sum(answered(model, asked, seed=seed, temperature=1.0)[0].text == best for seed in range(n))
    assert abs(hits / n - share) < 4 * (share * (1 - share) / n) ** 0.5 and 0.02 < share < 0.98


def test_reasoning_stands_apart_and_options_count_after_it(llama, monkeypatch):
    model = ask.load_vlm(str(llama))
    script = model.tokenizer("<think> the A is red </think> B <end>")["input_ids"]
    steps = iter(script)

    def forced(ids, scores):
        scores[:, next(steps)] += 1e4
        return scores

    class Forced(transformers.LogitsProcessor):
        def __init__(self, *given):
            pass

        def __call__(self, ids, scores):
            return forced(ids, scores)

    monkeypatch.setattr(local_model, "_GumbelNoise", Forced)
    (answer,) = answered(model, [ask.request("which", options="AB", max_tokens=20)], temperature=1.0)
    assert (answer.text, answer.reasoning, answer.tokens_out, answer.truncated) == (
        "B",
        "the A is red",
        len(script),
        False,
    )
    prompt = model._inputs([ask.request("which")])["input_ids"][0].tolist()
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([prompt + script[:6]])).logits[0, -1]
    expected = logits[[model.tokenizer.convert_tokens_to_ids(letter) for letter in "AB"]].softmax(0)
    assert list(answer.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    steps = iter(script)
    (answer,) = answered(model, [ask.request("which", options="AB", max_tokens=4)], temperature=1.0)
    assert (
        answer.truncated
        and answer.text == ""
        and answer.reasoning == "the A is"
        and answer.probabilities is None
    )


def test_what_is_too_long_is_this_request_s_error(llama):
    answers = answered(
        ask.load_vlm(str(llama)), [ask.request("bird " * n, max_tokens=8) for n in (5, 200, 7)]
    )
    assert [bool(answer.error) for answer in answers] == [False, True, False]
    assert (
        "too long: 202 tokens and 8 for the answer" in answers[1].error and "room for 160" in answers[1].error
    )


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


def test_options_that_a_space_begins():
    """Where a space is a token of its own, " A" and " B" begin alike, "A" and "B" do not."""
    tokens = {
        "A": [4],
        " A": [1, 2],
        "B": [3],
        " B": [1, 3],
        "blue A": [5, 2],
        " blue A": [1, 5, 2],
        "blue B": [5, 3],
        " blue B": [1, 5, 3],
    }
    bare = object.__new__(ask.LocalModel)
    bare.name = "m"
    bare.tokenizer = lambda text, add_special_tokens: {"input_ids": tokens[text]}
    assert bare._first_tokens(["A", "B"]) == [[4], [3]]
    with pytest.raises(ask.AskError, match="blue A, blue B begin with the same token .* letter them"):
        bare._first_tokens(["blue A", "blue B"])


def test_models_that_cannot_be_asked(llava, llama, tmp_path):
    with pytest.raises(
        ask.AskError,
        match="'no/such-model' cannot be loaded .*a folder as save_pretrained writes it.*server:NAME",
    ):
        ask.load_vlm("no/such-model")
    with pytest.raises(ask.AskError, match="reads text only, but a request holds an image"):
        answered(ask.load_vlm(str(llama)), [ask.request("what", pictures()[0])])
    lacking = Path(shutil.copytree(llava, tmp_path / "lacking"))
    weights = load_file(lacking / "model.safetensors")
    gone = next(key for key in weights if "q_proj" in key)
    save_file(
        {key: value for key, value in weights.items() if key != gone},
        lacking / "model.safetensors",
        {"format": "pt"},
    )
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
    with pytest.raises(ask.AskError, match="refuses a request .no system turn here"):
        answered(ask.load_vlm(str(strict)), [ask.request("what", system="Be short.")])


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


def test_a_model_of_the_hub_goes_by_its_full_name(llama, monkeypatch):
    """Two makers may give their models the same last name."""
    load = local_model.LocalModel._load

    def from_the_hub(self, source, dtype):
        config = load(self, str(llama), dtype)
        config._commit_hash = "0a1b"
        return config

    monkeypatch.setattr(local_model.LocalModel, "_load", from_the_hub)
    one, other = ask.load_vlm("somebody/llama"), ask.load_vlm("another/llama")
    assert one.identity == "somebody/llama 0a1b torch.float32" and other.identity != one.identity


def test_the_shipped_annotator_keeps_its_answers():
    """Its identity is part of every answer's key."""
    model = ask.load_vlm("annotator")
    files = local_model.files_hash(paths.models_home() / "annotator")
    assert model.identity == f"annotator {files} {model.model.dtype}"


def test_a_copy_of_a_model_has_its_answers(llama, tmp_path):
    requests_asked = requests(False)[:3]
    here = Path(shutil.copytree(llama, tmp_path / "here" / "llama"))
    there = Path(shutil.copytree(llama, tmp_path / "there" / "llama"))
    ask.ask(ask.load_vlm(str(here)), requests_asked)
    assert all(answer.cached for answer in ask.ask(ask.load_vlm(str(there)), requests_asked))


def test_shipped_models_go_by_their_name(llava, monkeypatch):
    monkeypatch.setattr(paths, "models_home", lambda: llava.parent)
    model = ask.load_vlm(llava.name)
    assert (
        model.name == "llava"
        and model.identity.startswith("llava ")
        and str(llava.parent) not in model.identity
    )


@pytest.fixture(scope="module")
def transformers_serve(tmp_path_factory):
    """The real server on loopback, in a process of its own; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    command = [
        str(Path(sys.executable).with_name("transformers")),
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
        "--dtype",
        "float32",
    ]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        )
    opener, end = urllib.request.build_opener(urllib.request.ProxyHandler({})), time.monotonic() + 120
    try:
        while True:
            try:
                opener.open(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, log.read_text()[-3000:]
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("kind", ["llava", "llama"])
def test_the_same_model_behind_transformers_serve(kind, request, transformers_serve, monkeypatch, tmp_path):
    folder = request.getfixturevalue(kind)
    monkeypatch.setenv("OPENAI_BASE_URL", transformers_serve)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = requests(kind == "llava")
    if kind == "llava":
        for i, image in enumerate(pictures()):
            image.save(tmp_path / f"{i}.png")
        asked.append(ask.request("what is this", [tmp_path / "0.png", tmp_path / "3.png"], max_tokens=8))
    served = ask.ask(ask.load_vlm(f"server:{folder}"), asked)
    for remote, here in zip(served, answered(ask.load_vlm(str(folder)), asked), strict=True):
        assert not remote.error
        assert (remote.text, remote.reasoning, remote.tokens_in, remote.tokens_out) == (
            here.text,
            here.reasoning,
            here.tokens_in,
            here.tokens_out,
        )
        assert remote.probabilities is None, "this server gives none"
    assert all(answer.cached for answer in ask.ask(ask.load_vlm(f"server:{folder}"), asked))
