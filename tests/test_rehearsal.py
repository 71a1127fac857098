"""Presets of the paper's size on stand-ins: the quickest to their ends, and every architecture and format.

All presets are `make rehearse`, which takes longer than tests may. Here every stand-in that they need passes
through the door that a preset takes it through, and the presets of CORE run to their ends.
"""

import collections
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from notebook_nets import FOLDER, PATHS, code_cells
from rehearsal import photographs, stand_ins
from rehearsal.presets import REHEARSALS, parameters_of, preset_of

from xaihelpers import ask, datasets, models, paths, substitute
from xaihelpers.models import clip
from xaihelpers.parameters import declared_parameters
from xaihelpers.paths import PROJECT

CORE = ["12", "42", "99"]  # CUB and a published network; ImageNet, MaxViT and a server; the report of both
VISION_LANGUAGE = ["Qwen/Qwen2-VL-7B-Instruct", "meta-llama/Llama-3.2-11B-Vision-Instruct"]
VISION_LANGUAGE += ["OpenGVLab/InternVL2_5-8B-MPO-hf", "llava-hf/llava-1.5-7b-hf"]
PIPELINES = [name for name, (module, _) in stand_ins.WRITERS.items() if module == "pipelines"]


@pytest.fixture(scope="module")
def folder():
    return paths.cache_home() / "rehearsal"


@pytest.fixture
def stand_in(folder, monkeypatch):
    """A function that makes stand-ins and lets this process see them in place of data and models."""

    def ready(*names):
        stand_ins.prepare(folder, names)
        for key in ("XAI_DATA", "TORCH_HOME"):
            monkeypatch.setenv(key, stand_ins.environment(folder)[key])

    return ready


def test_every_preset_is_rehearsed():
    presets = {path.name[:2] for path in FOLDER.glob("*.paper.yaml")}
    assert presets == {name[:2] for name in REHEARSALS}


@pytest.mark.parametrize("name", REHEARSALS)
def test_a_rehearsal_changes_parameters_that_there_are(name):
    """And few of them: what it does not name is the preset's."""
    declared = declared_parameters(code_cells(PATHS[name[:2]])[0].source)
    rehearsal, preset = REHEARSALS[name], yaml.safe_load(preset_of(name).read_text())
    changed = {**rehearsal.sizes, **rehearsal.names, **rehearsal.more}
    assert set(parameters_of(name)) <= set(declared) and set(changed) <= set(declared)
    assert {key: parameters_of(name)[key] for key in preset if key not in changed} == {
        key: value for key, value in preset.items() if key not in changed
    }
    assert all(changed[key] != preset.get(key) for key in changed)  # none of them is idle


@pytest.mark.parametrize("name", VISION_LANGUAGE)
def test_vision_language_models_of_the_papers_answer(name, stand_in):
    stand_in(name)
    pictures = [photographs.noise(photographs.np.random.default_rng(n), 90, 70) for n in range(2)]
    asked = [ask.request("which bird is this", picture, "ABCDE", max_tokens=6) for picture in pictures]
    asked.append(ask.request("which bird is this", (), "AB", max_tokens=6))
    model = ask.load_vlm(name, batch_size=2)
    answers = dict(model.answer(asked, 0, 0.0))
    first, second, blind = (answers[i] for i in range(3))
    assert not any(answer.error for answer in answers.values())
    assert first.probabilities != second.probabilities and set(blind.probabilities) == {"A", "B"}
    alone = ask.load_vlm(name, batch_size=1)
    (same,) = dict(alone.answer(asked[:1], 0, 0.0)).values()
    assert same.probabilities == pytest.approx(first.probabilities, abs=1e-4)


@pytest.mark.parametrize("name", stand_ins.CLIP_NAMES)
def test_clips_of_the_papers_embed(name, stand_in, folder):
    stand_in(name, "cats_and_dogs")
    one = clip.load_clip(name)
    texts = clip.embed_texts(one, ["a photo of a bird with a red crown", "a photo of a blue bird"]).rows
    files = sorted((folder / "data/cats_and_dogs/test/cat").iterdir())[:2]
    images = clip.embed_images(one, files)
    assert texts.shape == images.shape == (2, one.width)
    for rows in (texts, images):
        assert rows.norm(dim=1).allclose(rows.new_ones(2), atol=1e-4) and not rows[0].equal(rows[1])


def test_a_long_clip_reads_248_tokens(stand_in):
    stand_in("ViT-B-16-quickgelu", "longclip-B.pt")
    one = clip.load_clip("ViT-B-16-quickgelu", "longclip-B.pt", long=True)
    words = "a bird with a red crown and a long bill " * 20
    assert one.context == 248
    assert not clip.embed_texts(one, [words]).truncated.any()


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_of_the_papers_draw_tied_pairs(name, stand_in):
    stand_in(name)
    pipe = substitute.load_pipeline(name, offload="auto")
    pairs = substitute.substitute(pipe, "Cardinal", "has_crown_color::blue", n=1, steps=2, size=32)
    assert pairs.references[0].size == (32, 32) and pairs.guides[0].tobytes() != b""


SETS = {
    "CUB_200_2011": (200, 600),
    "imagenet": (1000, 2000),
    "flowers102": (102, 306),
    "stanford_cars": (196, 588),
    "cifar100": (100, 300),
    "caltech101": (101, 303),
    "SUB": (33, 33 * 33),
}


@pytest.mark.parametrize("name", SETS)
def test_data_of_the_papers_are_read(name, stand_in, monkeypatch):
    for module in ("flowers102", "cifar", "imagenet"):
        place = getattr(photographs.torchvision.datasets, module)
        monkeypatch.setattr(place, "check_integrity", lambda path, md5=None: os.path.isfile(path))
    made = {"flowers102": "downloads/flowers-102", "CUB_200_2011": "CUB_200_2011", "SUB": "SUB"}
    stand_in(made.get(name, f"downloads/{name}"))
    world = datasets.load(name)
    assert (len(world.class_names), len(world.images)) == SETS[name]
    if name == "CUB_200_2011":
        assert world.attribute_level == "image" and world.present.shape == (600, 312)
    if name == "SUB":
        assert world.images.attribute.nunique() == 33


def test_published_networks_are_read_where_their_libraries_keep_them(stand_in):
    stand_in("efficientnet_b1", "resnet18_cub.safetensors")
    assert models.load_target("torchvision/efficientnet_b1").n_classes == 1000
    network = models.load_backbone("pytorchcv/resnet18_cub", "resnet18_cub.safetensors")
    assert (network.n_classes, network.n_features) == (200, 512)


def command(folder, *names):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "tests")])}
    arguments = [sys.executable, "-m", "rehearsal", *names, "--folder", str(folder)]
    given = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(arguments, start_new_session=True, **given)


@pytest.mark.notebooks
@pytest.mark.xdist_group("rehearsal")
def test_presets_run_to_their_ends_and_go_on_after_a_kill(folder, drawn_birds):
    """42 is killed while it asks its judge; the second run asks for nothing that was answered."""
    requests = folder / "requests.txt"
    requests.unlink(missing_ok=True)
    first = command(folder, *CORE)
    while first.poll() is None and not (requests.exists() and requests.read_text().count("\n") > 30):
        time.sleep(0.05)
    assert first.poll() is None, first.stdout.read()
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    begun = set(requests.read_text().split())
    second = command(folder, *CORE, "--go-on")
    output, _ = second.communicate(timeout=900)
    assert second.returncode == 0, output
    lines = {line.split()[0]: line for line in output.splitlines() if "to its end" in line}
    assert set(lines) == {"42", "99"}, output  # 12 was at its end before the kill
    asked = collections.Counter(requests.read_text().split())
    assert len(asked) > len(begun)
    twice = sum(count - 1 for count in asked.values())
    assert twice <= 16, "only what was under way at the kill is asked again"
    (record,) = (folder / "results").glob("42-*/run.json")
    assert json.loads(record.read_text())["parameters"]["judges"] == ["server:gpt-4o-mini"]


def test_an_unknown_rehearsal_is_named(folder, tmp_path):
    process = command(tmp_path, "32b")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2 and "no rehearsal 32b; there are: 00 11 12" in output
