"""Generated images as files, and benchmarks in the published SUB's layout."""
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tiny_pipelines import SIZE, flux

from xaihelpers import birds, paths, substitute
from xaihelpers.substitute import Job, SubstituteError, generate_files, read_sub, write_sub
from xaihelpers.substitute.files import identity

ATTRIBUTES, BIRDS = ["has_crown_color--yellow", "has_bill_shape--needle"], ["Blue Jay", "Western Grebe"]
SETTINGS = {"steps": 2, "size": SIZE}
JOBS = [Job(("a photo of a bird",), 1), Job(("a photo of a blue jay", "a photo of a bird"), 1), Job(("a photo of a blue jay", "a photo of a bird"), 2, (1.0, 0.1, 0.6)), Job(("a photo of a bird",), 2)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    return tmp_path


def tiny():
    torch.manual_seed(0)
    pipe = flux()
    pipe.set_progress_bar_config(disable=True)
    return pipe


def noise(n, seed=0):
    return [Image.fromarray(pixels) for pixels in np.random.default_rng(seed).integers(256, size=(n, 8, 8, 3), dtype=np.uint8)]


def test_each_image_is_made_once(home, capsys, monkeypatch):
    pipe = tiny()
    files = generate_files(pipe, JOBS, **SETTINGS)
    assert [len(of) for of in files] == [1, 2, 2, 1] and all(file.exists() for of in files for file in of) and len({file for of in files for file in of}) == 6
    assert "4 generated images or pairs, 0 of them from the cache" in capsys.readouterr().out
    alone = substitute.generate(pipe, ["a photo of a bird"], [2], **SETTINGS)[0]
    assert np.array_equal(np.asarray(Image.open(files[3][0])), np.asarray(alone))
    monkeypatch.setattr(substitute.files, "generate", None)  # would fail if it were needed
    monkeypatch.setattr(substitute.files, "generate_pairs", None)
    assert generate_files(pipe, [*JOBS, JOBS[0]], **SETTINGS) == [*files, files[0]]
    assert "4 of them from the cache" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["steps", "seed", "tie", "prompt", "weights"])
def test_what_an_image_depends_on(home, change):
    pipe, job, settings = tiny(), JOBS[1], dict(SETTINGS)
    before = generate_files(pipe, [job], **settings)[0]
    if change == "steps":
        settings["steps"] = 3
    elif change == "weights":
        next(pipe.transformer.parameters()).data.add_(0.1)
    else:
        job = job._replace(**{"seed": {"seed": 9}, "tie": {"tie": (10.0, 0.2, 0.6)}, "prompt": {"prompts": ("a photo of a bird", "a photo of a bird")}}[change])
    assert not set(before) & set(generate_files(pipe, [job], **settings)[0])


def test_a_full_disk_loses_only_the_image_in_hand(home, monkeypatch):
    pipe, own, written = tiny(), paths.write_whole, []

    def full(file, content):
        written.append(file)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        return own(file, content)

    monkeypatch.setattr(paths, "write_whole", full)
    jobs = [Job(("a photo of a bird",), seed) for seed in range(6)]
    with pytest.raises(SubstituteError, match="No space left on device.*make room.*every other image is kept, 1 of the batch in hand are lost"):
        generate_files(pipe, jobs, batch_size=4, **SETTINGS)
    assert len(list((home / "cache" / "generated").rglob("*.png"))) == 3 and not list(home.rglob("*.tmp"))
    monkeypatch.setattr(paths, "write_whole", own)
    assert all(file.exists() for of in generate_files(pipe, jobs, **SETTINGS) for file in of)


def test_parts_that_are_off_loaded(home):
    """Weights on no device still tell what an image depends on, and latents go where the parts work."""
    from accelerate import cpu_offload

    pipe = tiny()
    pipe._fingerprint = identity(pipe)
    before = generate_files(pipe, JOBS[:2], **SETTINGS)
    cpu_offload(pipe.transformer, torch.device("cpu"))
    assert next(pipe.transformer.parameters()).device.type == "meta" and generate_files(pipe, JOBS[:2], **SETTINGS) == before


def test_killed_at_any_point_it_goes_on(home):
    code = f"""import sys; sys.path.insert(0, {str(paths.PROJECT / 'tests')!r})
import torch; from tiny_pipelines import SIZE, flux; from xaihelpers.substitute import Job, generate_files
torch.manual_seed(0); pipe = flux(); print("ready", flush=True)
generate_files(pipe, [Job(("a photo of a bird",), seed) for seed in range(200)], batch_size=1, steps=2, size=SIZE)"""
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"XAI_DATA": str(home)}, stdout=subprocess.PIPE)
    process.stdout.readline()
    folder = home / "cache" / "generated"
    while len(list(folder.rglob("*.png"))) < 3 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = list(folder.rglob("*.png"))
    assert 3 <= len(there) < 200 and all(Image.open(file).size == (SIZE, SIZE) for file in there)
    generate_files(tiny(), [Job(("a photo of a bird",), seed) for seed in range(len(there) + 2)], **SETTINGS)
    assert len(list(folder.rglob("*.png"))) == len(there) + 2  # nothing was made twice


def test_shards_read_as_one(home):
    images = noise(5)
    for shard, chosen in enumerate(([0, 1, 2], [3, 4])):
        write_sub(home / "mine", [images[i] for i in chosen], [ATTRIBUTES[i % 2] for i in chosen], ["053.Western_Grebe" if i == 3 else "Blue_Jay" for i in chosen], ATTRIBUTES, BIRDS, shard, 2)
    assert sorted(file.name for file in (home / "mine" / "data").iterdir()) == ["test-00000-of-00002.parquet", "test-00001-of-00002.parquet"]
    frame = read_sub("mine")
    assert frame.attribute.tolist() == [ATTRIBUTES[i % 2].replace("--", "::") for i in range(5)] and frame.bird.tolist() == ["Blue Jay"] * 3 + ["Western Grebe", "Blue Jay"]
    assert all(np.array_equal(np.asarray(birds.load_image(path)), np.asarray(image)) for path, image in zip(frame.path, images))
    assert read_sub(home / "mine" / "data" / "test-00001-of-00002.parquet").bird.tolist() == ["Western Grebe", "Blue Jay"]


def test_what_the_writer_of_a_benchmark_has_to_say(home):
    write_sub(home / "mine", noise(1), ATTRIBUTES[:1], BIRDS[:1], ATTRIBUTES, BIRDS, 0, 2, "rejected in the check by people")
    write_sub(home / "mine", noise(1), ATTRIBUTES[:1], BIRDS[:1], ATTRIBUTES, BIRDS, 1, 2)
    assert read_sub("mine").attrs["note"] == "rejected in the check by people"


def test_shards_of_two_runs_and_missing_ones(home):
    for shard in (0, 1):
        write_sub(home / "mine", noise(1), ATTRIBUTES[:1], BIRDS[:1], ATTRIBUTES, BIRDS, shard, 2)
    other = write_sub(home / "mine", noise(1), ATTRIBUTES[:1], BIRDS[:1], ATTRIBUTES, BIRDS)
    with pytest.raises(SubstituteError, match="3 parquet files of a benchmark in 1 and in 2 shards: remove those of another run"):
        read_sub("mine")
    other.unlink()
    assert len(read_sub("mine")) == 2
    next((home / "mine" / "data").glob("*00001-of*")).unlink()
    with pytest.raises(SubstituteError, match="1 parquet files of a benchmark in 2 shards.*make those that are missing"):
        read_sub("mine")
    write_sub(home / "mine", [], [], [], ATTRIBUTES, BIRDS, 1, 2)  # a shard that kept nothing
    assert len(read_sub("mine")) == 1


def test_labels_that_cannot_be_written(home):
    with pytest.raises(SubstituteError, match=r"2 images with 1 labels in attr_label"):
        write_sub(home, noise(2), ATTRIBUTES[:1], BIRDS, ATTRIBUTES, BIRDS)
    with pytest.raises(SubstituteError, match=r"\['Cardinal'\] are not among the 2 names given"):
        write_sub(home, noise(1), ATTRIBUTES[:1], ["Cardinal"], ATTRIBUTES, BIRDS)


def test_columns_are_the_published_ones(home):
    import pyarrow.parquet as pq

    file = write_sub(home / "mine", noise(2), ATTRIBUTES, BIRDS, ATTRIBUTES, BIRDS)
    table = pq.read_table(file)
    assert table.column_names == ["image", "attr_label", "bird_label"] and table["attr_label"].to_pylist() == [0, 1]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features == {"image": {"_type": "Image"}, "attr_label": {"names": ATTRIBUTES, "_type": "ClassLabel"}, "bird_label": {"names": BIRDS, "_type": "ClassLabel"}}


def stored(home, **columns):
    picture = {"bytes": substitute.folder._bytes(noise(1)[0]), "path": None}
    file = home / "given" / "part.parquet"
    file.parent.mkdir(exist_ok=True)
    pd.DataFrame({"image": [picture], "attr_label": ["has_crown_color--yellow"], "bird_label": ["Blue_Jay"]} | columns).drop(columns=[name for name, v in columns.items() if v is None]).to_parquet(file)
    return file.parent


def test_labels_may_be_names(home):
    assert read_sub(stored(home)).iloc[0, 1:].tolist() == ["has_crown_color::yellow", "Blue Jay"]


@pytest.mark.parametrize("columns, message", [
    ({"attr_label": None}, "the column 'attr_label' is missing; a substitution benchmark has image, attr_label, bird_label"),
    ({"attr_label": ["has_crown_color--yelow"]}, "attr_label: unknown attribute 'has_crown_color::yelow'.*did you mean 'has_crown_color::yellow'.*none of CUB's 312"),
    ({"bird_label": [3]}, "bird_label holds numbers, but the file's metadata do not name them"),
    ({"image": [{"bytes": None, "path": "a.png"}]}, "row 0 has no image"),
])
def test_bad_files_are_named(home, columns, message):
    with pytest.raises(SubstituteError, match=message):
        read_sub(stored(home, **columns))


def test_no_damaged_and_unnamed_files(home):
    (home / "empty").mkdir()
    with pytest.raises(SubstituteError, match="empty: no parquet file there.*Notebook 52"):
        read_sub("empty")
    (home / "broken.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(SubstituteError, match="broken.parquet: cannot be read as parquet"):
        read_sub(home / "broken.parquet")
    file = write_sub(home / "mine", noise(1), ATTRIBUTES[:1], BIRDS[:1], ATTRIBUTES, BIRDS)
    content = file.read_bytes()
    file.write_bytes(content[:-30])
    with pytest.raises(SubstituteError, match="cut short or damaged"):
        read_sub(home / "mine")
