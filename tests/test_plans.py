"""What `--plan` says that the points of a grid lack, on caches and folders planted here."""

import nbformat
import pytest

from xaihelpers import downloads, plans
from xaihelpers import run as runner
from xaihelpers.grids import Point
from xaihelpers.paths import PROJECT

PARAMETERS = """seed: int = 0
data: list[str] = ["aviary"]
backbone: str = "aviary_resnet"
weights: str = ""
clip: str = "aviary_clip"
clip_weights: str = ""
models: list[str] = ["cbm", "annotator"]
pipeline: str = "studio_flux"
concept_file: str = ""
quantise: str = ""
spend_at_most: float = 0.0
prices: str = ""
device: str = "auto"
"""
OPENAI = "timm--vit_base_patch32_clip_224.openai"
FETCHED = "(fetched from the internet when it runs)"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Empty caches and data, no server, and a notebook."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XAI_DATA", "TORCH_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(downloads.constants, "HF_HUB_CACHE", str(tmp_path / "hub_of_hf"))
    (tmp_path / "notebooks").mkdir()
    cell = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "notebooks/11_tiny.ipynb")
    return tmp_path


def missing(home, on_cluster=True, **changed):
    return plans.missing(Point(home / "notebooks/11_tiny.ipynb", changed, home, home), on_cluster)


def hub_file(repository):
    return f"hub_of_hf/models--{repository}/snapshots/1/model.safetensors"


def plant(file):
    file.parent.mkdir(parents=True)
    file.touch()


def test_what_ships_or_is_drawn_is_there(home):
    assert missing(home) == missing(home, data=["studio"], backbone="reader/aviary_reader") == ""


def test_data_and_files_that_are_not_there(home):
    asked = {"data": ["CUB_200_2011", "cifar10", "imagenet"], "concept_file": "sets/cub.txt"}
    said = missing(home, **asked)
    assert said == f"data CUB_200_2011, imagenet; data cifar10 {FETCHED}; file sets/cub.txt"
    for folder in ("CUB_200_2011", "cifar10", "downloads/imagenet"):
        (home / folder).mkdir(parents=True)
    plant(home / "sets/cub.txt")
    assert missing(home, **asked) == ""


@pytest.mark.parametrize(
    "changed, file",
    [
        ({"backbone": "torchvision/resnet18"}, "hub/checkpoints/resnet18-f37072fd.pth"),
        ({"backbone": "pytorchcv/resnet18_cub"}, ".torch/models/resnet18_cub-2333-da78be33.pth"),
        ({"backbone": "timm/resnet50_clip.openai"}, hub_file("timm--resnet50_clip.openai")),
        ({"backbone": "resnet18"}, hub_file("timm--resnet18.a1_in1k")),
        ({"clip": "ViT-B-32-quickgelu", "clip_weights": "openai"}, hub_file(OPENAI)),
        ({"models": ["Qwen/Qwen2-VL-7B-Instruct"]}, hub_file("Qwen--Qwen2-VL-7B-Instruct")),
    ],
)
def test_weights_that_were_not_downloaded(home, changed, file):
    said = missing(home, **changed)
    assert said.startswith("weights of ") and said.endswith(FETCHED)
    plant(home / file)
    assert missing(home, **changed) == ""


def test_open_clips_table_is_read_as_open_clip_reads_it():
    from open_clip import pretrained

    read = downloads.clip_repositories()
    for name, tags in pretrained._PRETRAINED.items():
        for tag, about in tags.items():
            assert about["hf_hub"] == read[name.removesuffix("-quickgelu")].get(tag, "")


def test_servers_need_a_key_money_and_a_price(home, monkeypatch):
    models = ["server:gpt-4o", "server:unheard"]
    said = missing(home, models=models)
    assert said == (
        "OPENAI_BASE_URL or OPENAI_API_KEY in the environment; spend_at_most above 0 for gpt-4o; "
        "a price of unheard (see the parameter prices)"
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    assert missing(home, models=models) == ""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example/v1")
    assert missing(home, models=models[:1], spend_at_most=5.0) == "OPENAI_API_KEY in the environment"
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert missing(home, models=models[:1], spend_at_most=5.0) == ""


def test_extras_that_are_not_installed(home, monkeypatch):
    monkeypatch.setattr(plans, "find_spec", lambda name: None)
    how = "pip install -c constraints.txt -e '.[{}]'"
    assert f"package ray ({how.format('cluster')})" == missing(home)
    said = missing(home, backbone="pytorchcv/resnet18_cub", quantise="8bit")
    assert f"package pytorchcv ({how.format('paper')}), bitsandbytes ({how.format('paper')}), ray" in said
    assert "efficientnet" not in missing(home, backbone="efficientnet-lite2")


def test_a_gpu_counts_where_the_points_run(home, monkeypatch):
    monkeypatch.setattr(plans.Path, "glob", lambda place, pattern: [])
    assert missing(home, False, device="cuda", quantise="").startswith("a GPU for device cuda")
    assert "GPU" not in missing(home, True, device="cuda") + missing(home, False)
    points = [
        Point(home / "notebooks/11_tiny.ipynb", {"device": name}, home, home) for name in ("cpu", "auto")
    ]
    assert plans.wants_gpu(points) and not plans.wants_gpu(points[:1])


def test_neighbours_that_lack_the_same_share_a_line(home, capsys):
    place = ["--notebooks", str(home / "notebooks"), "--results", str(home / "results"), "--plan"]
    assert runner.main(["11", "-p", "seed=0,1,2", "-p", "data=[aviary],[no_such]", *place]) == 0
    shown = [f"never run: 11_tiny{seed}" for seed in ("", ", seed = 1", ", seed = 2")]
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if "missing" not in line] == shown
    runner.main(["11", "-p", "seed=0,1,2", "-p", "data=no_such", *place])
    (line,) = capsys.readouterr().out.splitlines()
    assert (
        line == "never run: 11_tiny, data = ['no_such'] … and 2 more with other seed — missing: data no_such"
    )


def test_all_papers_are_told_in_a_line_for_each_entry(home, capsys):
    assert runner.main([str(PROJECT / "papers.yaml"), "--plan"]) == 0
    said = capsys.readouterr().out.splitlines()
    (shards,) = [line for line in said if line.startswith("never run: 52_")]
    assert len(said) == 22 and "… and 63 more with other shard" in shards
