"""Generated images as files: each made once, found again, and nothing lost."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_pipelines import SIZE, flux

from xaihelpers import paths, substitute

SETTINGS = {"steps": 2, "size": SIZE}
BLUE = "has_breast_color::blue"
JOBS = [
    substitute.GenerationJob("Cardinal", 1),
    substitute.GenerationJob("Cardinal", 1, BLUE),
    substitute.GenerationJob("Cardinal", 2, BLUE, tie=(1.0, 0.1, 0.6)),
    substitute.GenerationJob("Cardinal", 2),
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


def test_each_image_is_made_once(home, monkeypatch):
    pipe = tiny()
    files = substitute.generate_files(pipe, JOBS, **SETTINGS)
    assert [len(job_files) for job_files in files] == [1, 2, 2, 1]
    assert all(file.exists() for file in all_files(files)) and len(set(all_files(files))) == 6
    alone = substitute.generate(pipe, ["a photo of a Cardinal"], [2], **SETTINGS)[0]
    assert np.array_equal(np.asarray(Image.open(files[3][0])), np.asarray(alone))
    monkeypatch.setattr(substitute.generated_files, "generate", None)  # would fail if it were needed
    monkeypatch.setattr(substitute.generated_files, "generate_pairs", None)
    assert substitute.generate_files(pipe, [*JOBS, JOBS[0]], **SETTINGS) == [*files, files[0]]


def test_what_an_image_depends_on(home):
    pipe, job = tiny(), JOBS[1]
    before = substitute.generate_files(pipe, [job], **SETTINGS)
    others = [substitute.generate_files(pipe, [job], **SETTINGS | {"steps": 3})]
    drawn = substitute.DrawnPipeline()
    for change in ({"seed": 9}, {"tie": (10.0, 0.2, 0.6)}, {"bird": "Blue_Jay"}, {"rule": "tied anywhere"}):
        others.append(substitute.generate_files(pipe, [job._replace(**change)], **SETTINGS))
    next(pipe.transformer.parameters()).data.add_(0.1)
    others.append(substitute.generate_files(pipe, [job], **SETTINGS))
    assert len({file for files in (before, *others) for file in all_files(files)}) == 2 * 7
    (alone,), (twice,) = (substitute.generate_files(drawn, [job._replace(tie=tie)]) for tie in ((), (1.0,)))
    assert alone == twice and len(alone) == 1  # the drawn generator knows no ties


def test_a_damaged_image_is_made_anew(home):
    pipe = tiny()
    files = all_files(substitute.generate_files(pipe, JOBS[1:3], **SETTINGS))
    contents = [file.read_bytes() for file in files]
    files[1].write_bytes(contents[1][:-20])
    files[2].write_bytes(b"")
    assert all_files(substitute.generate_files(pipe, JOBS[1:3], **SETTINGS)) == files
    assert [file.read_bytes() for file in files] == contents
    for file in files[1:3]:
        assert file.with_name(f"{file.name}.damaged").exists()


def test_killed_at_any_point_it_goes_on(home):
    code = """
from test_substitute_generated_files import SETTINGS, substitute, tiny

jobs = [substitute.GenerationJob("Cardinal", seed) for seed in range(200)]
substitute.generate_files(tiny(), jobs, batch_size=1, **SETTINGS)
"""
    tests = str(paths.PROJECT / "tests")
    environment = os.environ | {"XAI_DATA": str(home), "PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    folder = home / "cache" / "generated"
    while len(list(folder.rglob("*.png"))) < 3 and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()
    there = list(folder.rglob("*.png"))
    assert 3 <= len(there) < 200 and all(Image.open(file).size == (SIZE, SIZE) for file in there)
    jobs = [substitute.GenerationJob("Cardinal", seed) for seed in range(len(there) + 2)]
    substitute.generate_files(tiny(), jobs, **SETTINGS)
    assert len(list(folder.rglob("*.png"))) == len(there) + 2  # nothing was made twice
