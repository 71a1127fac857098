"""A user's Python file with one function: what it gives, and what is said of what is wrong with it."""

import re

import pytest
import torch
from PIL import Image

from xaihelpers import datasets, own_model
from xaihelpers.bottlenecks import zoo
from xaihelpers.outputs import read_outputs
from xaihelpers.own_model import OwnModelError, load_function, main, outputs_of_data, outputs_of_file

GREY = """
import numpy as np

def outputs_of(images):
    light = np.array([np.asarray(image).mean() for image in images])[:, None] / 255
    values = np.concatenate([light, 1 - light], 1)
    return {"concepts": ["light", "dark"], "classes": ["day", "night"], "values": values,
            "logits": values, "class_weights": np.eye(2)}
"""


@pytest.fixture
def write(tmp_path):
    """A function: source -> a file with it."""

    def write(source, name="mine.py"):
        (tmp_path / name).write_text(source)
        return tmp_path / name

    return write


@pytest.fixture
def pictures(tmp_path):
    """Five grey images, the brightest last, as files without labels."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(5):
        Image.new("RGB", (8, 8), (50 * number,) * 3).save(folder / f"{number}.png")
    return folder


def test_rows_of_all_batches_are_the_same_asked_and_in_a_file(write, pictures, tmp_path, monkeypatch):
    """Half precision, also not in one piece of memory; by the command that writes the file, too."""
    monkeypatch.setattr(own_model, "BATCH_SIZE", 2)
    values = "np.concatenate([light, 1 - light], 1)"
    mine = write(GREY.replace(values, f"np.asfortranarray({values}.astype(np.float16))"))
    files = sorted(pictures.iterdir())
    asked = outputs_of_file(mine, files, [file.name for file in files])
    assert main([str(mine), "--data", str(pictures), "--out", str(tmp_path / "made" / "o.safetensors")]) == 0
    read = read_outputs(tmp_path / "made" / "o.safetensors")
    assert asked.image_ids == read.image_ids == [f"{number}.png" for number in range(5)]
    light = torch.arange(5) * 50 / 255
    torch.testing.assert_close(asked.values, torch.stack([light, 1 - light], 1), atol=1e-3, rtol=0)
    of_predicted = torch.where(torch.eye(2)[asked.predictions] > 0, asked.values, torch.zeros(5, 2))
    assert torch.equal(asked.contributions, of_predicted)  # θ is the identity
    for name in ("values", "contributions", "logits", "class_weights"):
        assert torch.equal(getattr(read, name), getattr(asked, name)), name


def test_a_file_of_that_name_among_data_is_not_run(write, tmp_path, monkeypatch):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.chdir("/")
    write("raise SystemExit('this must not run')")
    with pytest.raises(OwnModelError, match="no such Python file.*never looked for under XAI_DATA"):
        load_function("mine.py", "outputs_of")


WRONG = [
    ("x = 1\n\n1 / 0\n", r"mine.py, line 3, in <module>: 1 / 0\nZeroDivisionError"),
    ("def outputs_of(images:\n    pass", r"SyntaxError: .*mine.py, line 1"),
    ("def output_of(images): pass", "no function outputs_of: write def outputs_of"),
    ("def outputs_of(images):\n    raise KeyError('wing')", r"line 2, in outputs_of.*\nKeyError: 'wing'"),
    ("def outputs_of(images): return [1]", "It has to return ConceptOutputs"),
    (GREY.replace(', "class_weights": np.eye(2)', ""), "neither contributions nor class_weights"),
    (GREY.replace("in images]", "in images[1:]]"), "2 rows for 3 images"),
    (
        GREY.replace('["light", "dark"]', '["light", str(len(images))]'),
        "other concepts or classes for image 3",
    ),
    (GREY.replace("np.eye(2)", "np.eye(2) * len(images)"), "contributions are not values × class_weights"),
]


@pytest.mark.parametrize("source, message", WRONG)
def test_what_is_wrong_is_named(source, message, write, pictures, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(own_model, "BATCH_SIZE", 3)
    assert main([str(write(source)), "--data", str(pictures), "--out", str(tmp_path / "o")]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_zoo_asks_it_once_about_the_test_images(write, tmp_path):
    """Whatever the number of draws; a file of the same stem is another model of the same name."""
    for split in ("train", "test"):
        for name in ("day", "night"):
            (tmp_path / "data" / split / name).mkdir(parents=True)
            Image.new("RGB", (4, 4)).save(tmp_path / "data" / split / name / "1.png")
    counting = GREY.replace("def outputs_of(images):", "def outputs_of(images):\n    note(len(images))", 1)
    counting += f"\ndef note(n):\n    open({str(tmp_path / 'asked')!r}, 'a').write(str(n))\n"
    file, data = str(write(counting)), str(tmp_path / "data")
    dataset, draws = zoo.load_fits([file], 3, data=data)
    assert [list(outputs) for outputs in draws] == [["mine"]] * 3
    assert draws[0]["mine"].image_ids == dataset.test_ids and len(dataset.test_ids) == 2
    assert (tmp_path / "asked").read_text() == "21"  # two images, and the first by itself
    assert outputs_of_data(file, datasets.load(data)).image_ids == dataset.test_ids
    with pytest.raises(ValueError, match="two models are called mine"):
        zoo.load_fits([file, "elsewhere/mine.safetensors"], 1, data=data)
    write(GREY.replace('"day"', '"owl"'))
    with pytest.raises(ValueError, match="holds 2 classes, .'owl'. not among the data's"):
        zoo.load_fits([file], 1, data=data)


def test_a_model_that_sees_the_images_beside_it_is_said_once(write, pictures, caplog):
    """As by dropout, batch norm in training mode, or scaling by the batch."""
    files, said = sorted(pictures.iterdir()), "first 2 by themselves, it gives values up to"
    outputs_of_file(write(GREY), files, [file.name for file in files])
    assert said not in caplog.text
    beside = GREY.replace("[:, None] / 255", "[:, None]\n    light = light / (light.max() + 1)")
    mine = write(beside, "beside.py")
    for _ in range(2):
        outputs_of_file(mine, files, [file.name for file in files])
    assert caplog.text.count(said) == 1 and "call model.eval()" in caplog.text
