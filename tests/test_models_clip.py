"""CLIP: positions stretched as by Long-CLIP, folders and files of weights, embeddings cached and counted."""

import hashlib
import itertools
import json
import logging

import numpy as np
import open_clip
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from xaihelpers import models, paths
from xaihelpers.models import clip
from xaihelpers.models.clip_loading import CONFIG_FILE, WEIGHTS_FILE, stretch_positions

TINY = {
    "embed_dim": 16,
    "custom_text": True,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}
PREPROCESS = {"size": 32, "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")


def written(root, config):
    """A CLIP with random weights as a folder of open_clip; and the model."""
    torch.manual_seed(0)
    root.mkdir(exist_ok=True)
    (root / CONFIG_FILE).write_text(json.dumps({"model_cfg": config, "preprocess_cfg": PREPROCESS}))
    given = {key: value for key, value in config.items() if key != "custom_text"}
    model = open_clip.model.CustomTextCLIP(**given).eval()
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file(state, root / WEIGHTS_FILE)
    return root, model


@pytest.fixture
def folder(tmp_path):
    """A tiny CLIP with OpenAI's tokenizer."""
    return written(tmp_path / "tiny", TINY)[0]


def images(tmp_path, n=5):
    rng = np.random.default_rng(0)
    files = [tmp_path / f"{i}.png" for i in range(n)]
    for file in files:
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(file)
    return files


def test_stretch_worked_by_hand():
    positions = torch.arange(77.0)[:, None].repeat(1, 2)
    positions[:, 1] = positions[:, 0] ** 2
    long = stretch_positions(positions)
    assert long.shape == (248, 2)
    assert torch.equal(long[:20], positions[:20])
    for j, m in itertools.product((0, 1, 30, 55), range(4)):
        expected = ((4 - m) * positions[20 + j] + m * positions[21 + j]) / 4
        assert torch.allclose(long[20 + 4 * j + m], expected), (j, m)
    assert torch.allclose(long[244:, 0], torch.tensor([76.0, 76.25, 76.5, 76.75]))  # the last step goes on


def test_long_form_keeps_short_texts_and_takes_long_ones(folder):
    plain, long = clip.load_clip(str(folder)), clip.load_clip(str(folder), long=True)
    assert (plain.context, long.context) == (77, 248) and plain.identity != long.identity
    short, middle = "a red crown", "red crown, " * 60
    rows = [clip.embed_texts(one, [short]).rows for one in (plain, long)]
    assert torch.allclose(*rows, atol=1e-6)
    message = r"1 of 2 texts have more than .*77 tokens, the longest 182"
    with pytest.raises(models.ModelError, match=message):
        clip.embed_texts(plain, [short, middle])
    assert not clip.embed_texts(long, [middle]).truncated.any()
    assert long.tokenizer([middle]).shape == (1, 248)  # its own tokenizer knows the context, too


def test_long_clip_checkpoint(folder, tmp_path):
    """Two position tables of 248: the first 20 of the one, the rest of the other."""
    state = load_file(folder / WEIGHTS_FILE)
    positions = stretch_positions(state.pop("text.positional_embedding"))
    state["positional_embedding"], state["positional_embedding_res"] = positions, positions + 1
    torch.save({key.removeprefix("text."): value for key, value in state.items()}, tmp_path / "longclip.pt")
    with pytest.raises(models.ModelError, match="longclip.pt: made with QuickGELU.*set quick_gelu in the"):
        clip.load_clip(str(folder), weights=str(tmp_path / "longclip.pt"), long=True)
    quick, _ = written(tmp_path / "quick", TINY | {"quick_gelu": True})
    loaded = clip.load_clip(str(quick), weights=str(tmp_path / "longclip.pt"), long=True)
    assert loaded.context == 248
    assert torch.equal(loaded.model.text.positional_embedding[:20], positions[:20])
    assert torch.equal(loaded.model.text.positional_embedding[20:], positions[20:] + 1)


@pytest.fixture
def architecture(tmp_path, monkeypatch):
    """A file of weights of an architecture of open_clip's own tables."""

    def of(**more):
        config = {key: value for key, value in TINY.items() if key != "custom_text"}  # as most of them
        monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", config | more)
        root, model = written(tmp_path / "of a file", TINY)
        (root / CONFIG_FILE).unlink()
        return model, root / WEIGHTS_FILE

    return of


def test_a_file_of_which_nothing_says_what_it_sees_is_asked_for_it(architecture, tmp_path):
    files, (model, file) = images(tmp_path), architecture()
    with pytest.raises(models.ModelError, match="open_clip_config.json of its publisher.*name a tag"):
        clip.load_clip("tiny", str(file))
    beside = {"model_cfg": TINY, "preprocess_cfg": PREPROCESS | {"interpolation": "bilinear"}}
    file.with_name(CONFIG_FILE).write_text(json.dumps(beside))
    how = {key: beside["preprocess_cfg"][key] for key in ("mean", "std", "interpolation")}
    seen = open_clip.transform.image_transform(32, is_train=False, **how)
    with torch.inference_mode():  # by open_clip alone
        pixels = torch.stack([seen(Image.open(file)) for file in files])
        expected = model.encode_image(pixels, normalize=True)
    assert torch.allclose(clip.embed_images(clip.load_clip("tiny", str(file)), files), expected, atol=1e-5)


def test_openai_s_own_files_are_told_what_to_name(architecture, tmp_path):
    """A TorchScript archive, and its weights as torch has written them again."""
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "ViT-B-32.pt")
    message = (
        "TorchScript archive, which holds code.: name OpenAI's CLIPs by open_clip's tag openai.*state dict"
    )
    with pytest.raises(models.ModelError, match=message) as caught:
        clip.load_clip("ViT-B-32-quickgelu", str(tmp_path / "ViT-B-32.pt"))
    assert "weights_only" not in str(caught.value)
    _, file = architecture()
    state = {key.removeprefix("text."): value for key, value in load_file(file).items()}
    state |= {"input_resolution": torch.tensor(32), "vocab_size": torch.tensor(49408)}
    save_file(state, file)
    with pytest.raises(models.ModelError, match="made with QuickGELU.*name tiny-quickgelu"):
        clip.load_clip("tiny", str(file))
    architecture(quick_gelu=True)
    save_file(state, file)
    assert clip.load_clip("tiny", str(file)).model.visual.preprocess_cfg["mean"][0] == 0.48145466


def test_a_folder_that_does_not_say_what_it_sees_is_refused(folder):
    whole = json.loads((folder / CONFIG_FILE).read_text())
    for config in ({"model_cfg": TINY}, whole | {"preprocess_cfg": {"mean": [0.5] * 3}}, TINY):
        (folder / CONFIG_FILE).write_text(json.dumps(config))
        with pytest.raises(models.ModelError, match='needs "model_cfg" .*"preprocess_cfg" with mean and std'):
            clip.load_clip(str(folder))
    (folder / CONFIG_FILE).write_text(json.dumps(whole)[:-5])
    with pytest.raises(models.ModelError, match="open_clip_config.json: cannot be read"):
        clip.load_clip(str(folder))


def test_truncated_texts_keep_their_end(folder):
    plain = clip.load_clip(str(folder))
    text = "red crown, " * 60
    embedded = clip.embed_texts(plain, ["a bird", text, text], too_long="truncate")
    assert embedded.truncated.tolist() == [False, True, True]
    assert torch.equal(embedded.rows[1], embedded.rows[2])
    tokens = plain.tokenizer([text])  # open_clip's own tokenizer cuts and keeps the end, too
    with torch.inference_mode():
        assert torch.allclose(embedded.rows[1:2], plain.model.encode_text(tokens, normalize=True), atol=1e-6)


def test_each_text_and_image_once(folder, tmp_path, caplog):
    caplog.set_level(logging.INFO, "xaihelpers")
    tiny = clip.load_clip(str(folder))
    texts = [f"a bird with {i % 7} wings" for i in range(30)]
    first = clip.embed_texts(tiny, texts)
    again = clip.embed_texts(tiny, [*texts[::-1], "a new one"])
    assert "0 from the cache, 7 computed" in caplog.text and "7 from the cache, 1 computed" in caplog.text
    assert torch.equal(again.rows[:30], first.rows.flip(0))
    assert torch.allclose(first.rows.norm(dim=1), torch.ones(30), atol=1e-6)
    files = images(tmp_path)
    rows = clip.embed_images(tiny, [*files, files[0]])
    assert torch.equal(rows[0], rows[5]) and "0 from the cache, 5 computed" in caplog.text


def test_an_embedding_does_not_depend_on_its_batch(tmp_path, monkeypatch):
    """To the last bit: what is fitted to embeddings is the same whatever the cache held before."""
    shipped = clip.load_clip("aviary_clip", device="cpu")
    files = images(tmp_path, 20)
    texts = [f"a bird with {i} red wings and a {'long ' * (i % 5)}tail" for i in range(20)]
    rows = clip.embed_images(shipped, files), clip.embed_texts(shipped, texts).rows
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "another")
    monkeypatch.setattr(clip, "IMAGES", 7)
    monkeypatch.setattr(clip, "TEXTS", 5)
    for start in (17, 0):  # in other company, and in batches of other sizes
        assert torch.equal(clip.embed_images(shipped, files[start:]), rows[0][start:])
        assert torch.equal(clip.embed_texts(shipped, texts[start:]).rows, rows[1][start:])
    assert next(shipped.model.parameters()).dtype == torch.float32


def test_names_weights_and_texts_that_do_not_do(folder, tmp_path, monkeypatch):
    folder = folder.rename(folder.with_name("aviary_clip"))
    monkeypatch.setattr(paths, "models_home", lambda: folder.parent)
    monkeypatch.setattr(open_clip.factory, "download_pretrained", lambda *_, **__: "had")
    state = load_file(folder / WEIGHTS_FILE)
    save_file(state | {"text.text_projection": torch.zeros(16, 24)}, tmp_path / "other.safetensors")
    for name, weights, message in (
        ("aviary_clap", "", "There is no CLIP 'aviary_clap'.*Near: aviary_clip"),
        ("ViT-B-32", "", "'' of ViT-B-32 cannot be had .*open_clip's tags: openai"),
        ("ViT-B-32", "nowhere.pt", "'nowhere.pt' is not a known tag or valid file path.*: give a file"),
        ("ViT-B-32", "openai", "'openai' of ViT-B-32 cannot be had .QuickGELU mismatch"),
        ("aviary_clip", "other.safetensors", "not the weights of.*mismatch for text.text_projection.*16, 24"),
    ):
        with pytest.raises(models.ModelError, match=message):
            clip.load_clip(name, weights)
    tiny = clip.load_clip("aviary_clip")
    with pytest.raises(models.ModelError, match="at least one text"):
        clip.embed_texts(tiny, [])
    tiny.model.text.text_projection.fill_(torch.nan)
    with pytest.raises(models.ModelError, match="NaN or infinite values for this text, and 1 in all"):
        clip.embed_texts(tiny, ["a bird"])


def test_a_siglip_by_a_tower_of_timm_and_a_tokenizer_of_its_own(tmp_path):
    """SigLIP's form: a tower of timm, no causal mask, and pieces of sentences as tokens."""
    tower = {"image_size": 224, "timm_model_name": "vit_tiny_patch16_224", "timm_pool": "map"}
    tower |= {"timm_proj": "none", "timm_model_pretrained": False}
    text = {"context_length": 64, "vocab_size": 40, "width": 192, "heads": 2, "layers": 1}
    text |= {"hf_tokenizer_name": "this folder", "tokenizer_kwargs": {"clean": "canonicalize"}}
    text |= {"no_causal_mask": True, "proj_bias": True, "pool_type": "last", "norm_kwargs": {"eps": 1e-6}}
    config = {"embed_dim": 192, "init_logit_bias": -10, "custom_text": True}
    root, model = written(tmp_path / "siglip", config | {"vision_cfg": tower, "text_cfg": text})
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -5.0)]
    pieces += [(letter, -4.0) for letter in "abcdefghijklmnopqrstuvwxyz"] + [("▁bird", -1.0)]
    transformers.T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=300).save_pretrained(root)
    loaded, texts = clip.load_clip(str(root)), ["A bird.", "a red bird"]
    with torch.no_grad():
        expected = model.encode_text(loaded.tokenizer(texts), normalize=True)
    assert torch.allclose(clip.embed_texts(loaded, texts).rows, expected, atol=1e-5)
    assert torch.allclose(clip.embed_texts(loaded, texts[:1]).rows, expected[:1], atol=1e-5)
    assert clip.embed_images(loaded, images(tmp_path, 2)).shape == (2, 192)


@pytest.mark.parametrize("name, context", [("aviary_clip", 77), ("aviary_clip_long", 248)])
def test_shipped_weights_are_those_of_their_card_and_load_with_open_clip_alone(name, context, tmp_path):
    folder = paths.models_home() / name
    card = json.loads(folder.with_suffix(".json").read_text())
    assert hashlib.sha256((folder / WEIGHTS_FILE).read_bytes()).hexdigest() == card["sha256"]
    assert card["context"] == context
    model, preprocess = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}", context_length=context)
    ours = clip.load_clip("aviary_clip", long=context == 248)
    texts = ["a photo of a Cardinal", "a bird with a red crown, a black throat and a cone bill", "Vogel, 鳥"]
    files = images(tmp_path)
    pixels = torch.stack([preprocess(Image.open(file)) for file in files])
    with torch.inference_mode():
        said = model.eval().encode_text(tokenizer(texts), normalize=True)
        seen = model.encode_image(pixels, normalize=True)
    assert torch.allclose(clip.embed_texts(ours, texts).rows, said, atol=1e-5)
    assert torch.allclose(clip.embed_images(ours, files), seen, atol=1e-5)
