"""Generated images as files: each made once, found again, and nothing lost."""

import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from accelerate import cpu_offload
from PIL import Image
from tiny_pipelines import SIZE, flux

from xaihelpers import paths
from xaihelpers.substitute import (
    GenerationJob,
    SubstituteError,
    generate,
    generate_averaged,
    generate_files,
    generated_files,
)
from xaihelpers.substitute.generation import pipeline_identity

SETTINGS = {"steps": 2, "size": SIZE}
JOBS = [
    GenerationJob(("a photo of a bird",), 1),
    GenerationJob(("a photo of a blue jay", "a photo of a bird"), 1),
    GenerationJob(("a photo of a blue jay", "a photo of a bird"), 2, (1.0, 0.1, 0.6)),
    GenerationJob(("a photo of a bird",), 2),
]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    return tmp_path


def tiny():
    torch.manual_seed(0)
    pipe = flux()
    pipe.set_progress_bar_config(disable=True)
    return pipe


def all_files(files_of_jobs):
    return [file for job_files in files_of_jobs for file in job_files]


def test_each_image_is_made_once(home, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("xaihelpers"), "propagate", True)  # caplog listens at the root
    caplog.set_level(logging.INFO, "xaihelpers")
    pipe = tiny()
    files = generate_files(pipe, JOBS, **SETTINGS)
    assert [len(job_files) for job_files in files] == [1, 2, 2, 1]
    assert all(file.exists() for file in all_files(files)) and len(set(all_files(files))) == 6
    assert "4 generated images or pairs, 0 of them from the cache" in caplog.text
    alone = generate(pipe, ["a photo of a bird"], [2], **SETTINGS)[0]
    assert np.array_equal(np.asarray(Image.open(files[3][0])), np.asarray(alone))
    monkeypatch.setattr(generated_files, "generate", None)  # would fail if it were needed
    monkeypatch.setattr(generated_files, "generate_pairs", None)
    assert generate_files(pipe, [*JOBS, JOBS[0]], **SETTINGS) == [*files, files[0]]
    assert "4 of them from the cache" in caplog.text


@pytest.mark.parametrize("change", ["steps", "seed", "tie", "prompt", "weights"])
def test_what_an_image_depends_on(home, change):
    pipe, job, settings = tiny(), JOBS[1], dict(SETTINGS)
    (before,) = generate_files(pipe, [job], **settings)
    if change == "steps":
        settings["steps"] = 3
    elif change == "weights":
        next(pipe.transformer.parameters()).data.add_(0.1)
    elif change == "seed":
        job = job._replace(seed=9)
    elif change == "tie":
        job = job._replace(tie=(10.0, 0.2, 0.6))
    else:
        job = job._replace(prompts=("a photo of a bird", "a photo of a bird"))
    (after,) = generate_files(pipe, [job], **settings)
    assert not set(before) & set(after)


@pytest.mark.parametrize("side", [0, 1])
def test_a_damaged_image_is_made_anew(home, side):
    pipe = tiny()
    files = all_files(generate_files(pipe, JOBS[1:3], **SETTINGS))
    contents = [file.read_bytes() for file in files]
    files[side].write_bytes(contents[side][:-20])
    files[2].write_bytes(b"")
    assert all_files(generate_files(pipe, JOBS[1:3], **SETTINGS)) == files
    assert [file.read_bytes() for file in files] == contents
    for file in (files[side], files[2]):
        assert file.with_name(f"{file.name}.damaged").exists()


def test_a_full_disk_loses_only_the_image_in_hand(home, monkeypatch):
    pipe, write_whole, written = tiny(), paths.write_whole, []

    def full(file, content):
        written.append(file)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        return write_whole(file, content)

    monkeypatch.setattr(paths, "write_whole", full)
    jobs = [GenerationJob(("a photo of a bird",), seed) for seed in range(6)]
    message = "No space left on device.*make room.*every other image is kept, 1 of the batch in hand are lost"
    with pytest.raises(SubstituteError, match=message):
        generate_files(pipe, jobs, batch_size=4, **SETTINGS)
    assert len(list((home / "cache" / "generated").rglob("*.png"))) == 3 and not list(home.rglob("*.tmp"))
    monkeypatch.setattr(paths, "write_whole", write_whole)
    assert all(file.exists() for file in all_files(generate_files(pipe, jobs, **SETTINGS)))


def test_parts_that_are_off_loaded(home):
    """Weights on no device still tell what an image depends on, and latents go where the parts work."""
    pipe = tiny()
    pipe._fingerprint = pipeline_identity(pipe)
    before = generate_files(pipe, JOBS[:2], **SETTINGS)
    cpu_offload(pipe.transformer, torch.device("cpu"))
    assert next(pipe.transformer.parameters()).device.type == "meta"
    assert generate_files(pipe, JOBS[:2], **SETTINGS) == before


def test_killed_at_any_point_it_goes_on(home):
    code = f"""
import sys

sys.path.insert(0, {str(paths.PROJECT / "tests")!r})
import torch
from tiny_pipelines import SIZE, flux
from xaihelpers.substitute import GenerationJob, generate_files

torch.manual_seed(0)
pipe = flux()
print("ready", flush=True)
jobs = [GenerationJob(("a photo of a bird",), seed) for seed in range(200)]
generate_files(pipe, jobs, batch_size=1, steps=2, size=SIZE)
"""
    environment = os.environ | {"XAI_DATA": str(home)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    process.stdout.readline()
    folder = home / "cache" / "generated"
    while len(list(folder.rglob("*.png"))) < 3 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = list(folder.rglob("*.png"))
    assert 3 <= len(there) < 200 and all(Image.open(file).size == (SIZE, SIZE) for file in there)
    jobs = [GenerationJob(("a photo of a bird",), seed) for seed in range(len(there) + 2)]
    generate_files(tiny(), jobs, **SETTINGS)
    assert len(list(folder.rglob("*.png"))) == len(there) + 2  # nothing was made twice


def test_rivals_of_the_tie_have_files_of_their_own(home):
    """By what is no tie there is one image; rules and weights have their own, a tie's stays where it was."""
    pipe, (prompts, seed, tie, *_) = tiny(), JOBS[2]
    jobs = [
        JOBS[2],
        GenerationJob(prompts, seed, tie, "tied noise"),
        GenerationJob(prompts, seed, tie, "averaged"),
    ]
    jobs += [GenerationJob(prompts, seed, tie, "swapped")]
    jobs += [GenerationJob(prompts, seed, tie, "weighted", weight) for weight in (1.0, 3.0)]
    files = generate_files(pipe, jobs, **SETTINGS)
    assert [len(job_files) for job_files in files] == [2, 2, 1, 1, 1, 1]
    assert len(set(all_files(files))) == 8
    averaged = generate_averaged(pipe, [prompts], [seed], **SETTINGS)[0]
    assert np.array_equal(np.asarray(Image.open(files[2][0])), np.asarray(averaged))
    weighted = [np.asarray(Image.open(job_files[0])) for job_files in files[4:]]
    assert not np.array_equal(*weighted)
    assert generate_files(pipe, [GenerationJob(prompts, seed, tie)], **SETTINGS) == files[:1]
    # one prompt alone knows no rule
    assert generate_files(pipe, [JOBS[0]], **SETTINGS) == generate_files(
        pipe, [JOBS[0]._replace(weight=2.0)], **SETTINGS
    )
