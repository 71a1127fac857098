"""Data that contradict themselves are refused with what they look like; slips of a few images are counted."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from xaihelpers import datasets
from xaihelpers.datasets import DatasetError, load

PER_CLASS, CLASSES, ATTRIBUTES = 15, 4, 40
N = PER_CLASS * CLASSES
WIDTH, HEIGHT = 60, 40


@pytest.fixture
def birds(tmp_path):
    """Sixty pictures of four classes, each with a box, two parts, a mask, and labels drawn by shares."""
    rng, root = np.random.default_rng(0), tmp_path / "birds"
    shares = rng.choice([0.05, 0.1, 0.5, 0.9], (CLASSES, ATTRIBUTES), p=[0.4, 0.3, 0.1, 0.2])
    tables = {
        "classes.txt": [f"{k} {k:03d}.Bird_{'ABCD'[k - 1]}" for k in range(1, CLASSES + 1)],
        "parts/parts.txt": ["1 beak", "2 tail"],
        "attributes/attributes.txt": [f"{a} has_sign::{a}" for a in range(1, ATTRIBUTES + 1)],
        "attributes/class_attribute_labels_continuous.txt": [
            " ".join(f"{100 * share:.1f}" for share in row) for row in shares
        ],
    }
    for number in range(1, N + 1):
        label, place = (number - 1) // PER_CLASS, f"{number}.png"
        width, height = rng.integers(20, 50), rng.integers(14, 34)
        x, y = rng.integers(0, WIDTH - width + 1), rng.integers(0, HEIGHT - height + 1)
        present = rng.random(ATTRIBUTES) < shares[label]
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask[y : y + height, x : x + width] = 1
        for folder, pixels in (
            ("images", rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)),
            ("masks", mask),
        ):
            (root / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(root / folder / place)
        for name, lines in {
            "images.txt": [f"{number} {place}"],
            "image_class_labels.txt": [f"{number} {label + 1}"],
            "train_test_split.txt": [f"{number} {number % 2}"],
            "bounding_boxes.txt": [f"{number} {x} {y} {width} {height}"],
            "parts/part_locs.txt": [
                f"{number} {part} {x + share * width} {y + share * height} 1"
                for part, share in ((1, 0.1), (2, 0.9))
            ],
            "attributes/image_attribute_labels.txt": [
                f"{number} {a} {int(one)} 4 1.0" for a, one in enumerate(present, 1)
            ],
        }.items():
            tables.setdefault(name, []).extend(lines)
    for name, lines in tables.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("".join(f"{line}\n" for line in lines))
    return root


def numbers(file):
    return np.loadtxt(file, ndmin=2)


def change(root, name, keys, what):
    """Rewrite what follows the first columns of a table, for each row."""
    table = numbers(root / name)
    rows = [[*row[:keys], *what(row[keys:])] for row in table]
    (root / name).write_text("".join(" ".join(f"{value:g}" for value in row) + "\n" for row in rows))


def asked(root):
    """Boxes and points, as notebooks ask for them."""
    data = load(root)
    return datasets.boxes(data, range(N)), datasets.part_points(data, range(N))


def resize(root, size):
    for file in (root / "images").iterdir():
        Image.open(file).resize(size).save(file)


def test_what_fits_is_read_as_it_stands(birds, caplog):
    boxes, points = asked(birds)
    assert torch.equal(boxes, torch.tensor(numbers(birds / "bounding_boxes.txt")[:, 1:]).float())
    assert torch.equal(
        points.reshape(-1, 2), torch.tensor(numbers(birds / "parts/part_locs.txt")[:, 2:4]).float()
    )
    assert (load(birds).part_mask(7) > 0).sum() == boxes[7, 2:].prod() and not caplog.text


def test_pictures_of_another_size_than_their_boxes(birds):
    """Smaller, larger, cut, larger on one side."""
    shutil.rmtree(birds / "masks")
    for size in ((30, 20), (120, 80), (40, 40), (45, 40)):
        shutil.copytree(birds, other := birds.parent / str(size))
        resize(other, size)
        with pytest.raises(
            DatasetError, match="boxes .*(resized or cut|enlarged): use those.*, or change boxes, too"
        ):
            asked(other)
    for file in (birds / "images").iterdir():
        Image.open(file).crop((15, 10, 45, 30)).save(file)
    for ask in (datasets.boxes, datasets.part_points):
        with pytest.raises(DatasetError, match="leave their picture; they look like those .* resized or cut"):
            ask(load(birds), [0, 1])


def test_pictures_enlarged_on_one_side_are_doubted(birds, caplog):
    shutil.rmtree(birds / "masks")
    resize(birds, (60, 80))
    asked(birds)
    assert "boxes lie on average at 5" in caplog.text and "enlarged: is that right?" in caplog.text


def test_boxes_of_another_form(birds):
    for form, message in (
        (lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]), "corners, x1, y1, x2, y2: write x, y, width"),
        (lambda b: (b[1], b[0], b[3], b[2]), "y before x in one of them: write x first"),
        (
            lambda b: (b[0] + b[2] / 2, b[1] + b[3] / 2, b[2], b[3]),
            "or with a box's centre for its corner",
        ),
        (lambda b: (b[0] / 60, b[1] / 40, b[2] / 60, b[3] / 40), "boxes are of 0 to 1: write pixels"),
        (lambda b: (b[0] + b[2], b[1] + b[3], -b[2], -b[3]), "image 1: a side is negative: write x, y"),
        (lambda b: b * 2, "contradict each other, as of pictures of another size"),
    ):
        shutil.copytree(birds, other := birds.parent / "other", dirs_exist_ok=True)
        shutil.rmtree(other / "masks")
        change(other, "bounding_boxes.txt", 1, form)
        with pytest.raises(DatasetError, match=message):
            asked(other)


def test_points_of_another_form(birds):
    for form, message in (
        (lambda p: (p[1], p[0], p[2]), "y before x in one of them: write x first"),
        (lambda p: (p[0] / 60, p[1] / 40, p[2]), "points in shares of the picture, of 0 to 1: write pixels"),
        (lambda p: (p[0] * 1.5, p[1] * 1.5, p[2]), "of pictures of another size, of other images, or with"),
    ):
        shutil.copytree(birds, other := birds.parent / "other", dirs_exist_ok=True)
        change(other, "parts/part_locs.txt", 2, form)
        with pytest.raises(DatasetError, match=f"parts lie outside of their object's box.*{message}"):
            load(other)


def test_boxes_and_points_that_are_wrong_alike(birds):
    """Pictures as wide as high: y before x in both leaves no picture, and only masks tell."""
    for folder in ("images", "masks"):
        for file in (birds / folder).iterdir():
            image = Image.open(file)
            square = Image.new(image.mode, (WIDTH, WIDTH))
            square.paste(image)
            square.save(file)
    load(birds)
    change(birds, "bounding_boxes.txt", 1, lambda b: (b[1], b[0], b[3], b[2]))
    change(birds, "parts/part_locs.txt", 2, lambda p: (p[1], p[0], p[2]))
    with pytest.raises(DatasetError, match="of what 15 part masks show.*other images, or boxes and points"):
        load(birds)


def test_masks_of_another_size_than_their_pictures(birds):
    data = load(birds)
    file = data.mask_file(3)
    Image.open(file).resize((30, 20)).save(file)
    with pytest.raises(DatasetError, match=r"4.png: mask of \(30, 20\) pixels for an image of \(60, 40\)"):
        data.part_mask(3)


def test_few_boxes_that_leave_their_picture_are_cut_and_counted(birds, caplog):
    def moved(lines):
        table = numbers(birds / "bounding_boxes.txt")
        for number, x in lines.items():
            table[number - 1, 1:] = x, 2, 30, 30
        np.savetxt(birds / "bounding_boxes.txt", table, "%g")

    shutil.rmtree(birds / "masks")
    change(birds, "parts/part_locs.txt", 2, lambda p: (0, 0, 0))
    moved({7: 34, 9: -3, 12: 30.4})
    data = load(birds)
    assert datasets.boxes(data, [6, 8, 11]).tolist() == pytest.approx(
        np.array([[34, 2, 26, 30], [0, 2, 27, 30], [30.4, 2, 30, 30]])
    )
    datasets.boxes(data, range(N))
    assert caplog.text.count("2 of 3 boxes leave their picture: cut to it") == 1
    moved({7: 50})
    assert len(datasets.boxes(load(birds), [0, 1])) == 2
    with pytest.raises(DatasetError, match="7.png: most of its box lies outside of the picture"):
        datasets.boxes(load(birds), [6])
    moved({number: 34 for number in range(1, 5)})
    with pytest.raises(DatasetError, match="leave their picture"):
        datasets.boxes(load(birds), [40])  # the set is wrong, though this box is not


def test_labels_of_other_images(birds, caplog):
    """A subset numbered anew beside the whole's labels, classes in another order, and attributes."""
    file, labels = (
        "attributes/image_attribute_labels.txt",
        numbers(birds / "attributes/image_attribute_labels.txt"),
    )
    shares = "attributes/class_attribute_labels_continuous.txt"
    kept = np.arange(N).reshape(CLASSES, PER_CLASS)[:, :7].ravel()  # of each class, 7 images
    subset = birds.parent / "subset"
    shutil.copytree(birds, subset)
    for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt", "bounding_boxes.txt"):
        rows = [line.split(" ", 1)[1] for line in (birds / name).read_text().splitlines()]
        (subset / name).write_text("".join(f"{n} {rows[old]}\n" for n, old in enumerate(kept, 1)))
    places = [line.split(" ", 2) for line in (birds / "parts/part_locs.txt").read_text().splitlines()]
    lines = [
        f"{n} {part} {place}\n"
        for n, old in enumerate(kept, 1)
        for number, part, place in places
        if int(number) == old + 1
    ]
    (subset / "parts/part_locs.txt").write_text("".join(lines))
    with pytest.raises(DatasetError, match=f"{file}: the labels of ..\\.. % of the images are nearer"):
        load(subset)
    assert "rows of 32 other images are passed over: right where images.txt keeps the ids" in caplog.text
    own = labels.reshape(N, ATTRIBUTES, -1)[kept]
    own[..., 0] = np.arange(1, len(kept) + 1)[:, None]
    np.savetxt(subset / file, own.reshape(-1, labels.shape[1]), "%g")
    assert load(subset).present.shape == (28, ATTRIBUTES)

    whole = (birds / shares).read_text()
    for wrong in (
        whole.splitlines()[1:] + whole.splitlines()[:1],
        [" ".join(line.split()[1:] + line.split()[:1]) for line in whole.splitlines()],
    ):
        (birds / shares).write_text("\n".join(wrong))
        with pytest.raises(DatasetError, match="of the images are nearer to the percentages of their class"):
            load(birds)


def test_labels_that_are_noisy_or_say_nothing_of_the_class_are_read(birds):
    """Three tenths of the labels are wrong; or all classes are alike, as in birds of all colours."""
    file = birds / "attributes/image_attribute_labels.txt"
    rng, labels = np.random.default_rng(1), numbers(file)
    labels[:, 2] = (labels[:, 2] > 0) ^ (rng.random(len(labels)) < 0.3)
    np.savetxt(file, labels, "%g")
    load(birds)
    labels[:, 2] = rng.random(len(labels)) < 0.3
    np.savetxt(file, labels, "%g")
    own = 100 * labels[:, 2].reshape(CLASSES, PER_CLASS, ATTRIBUTES).mean(1)
    np.savetxt(birds / "attributes/class_attribute_labels_continuous.txt", own, "%.4f")
    load(birds)


def test_percentages_of_another_scale(birds):
    file = birds / "attributes/class_attribute_labels_continuous.txt"
    whole = numbers(file)
    unit = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    one_row = np.concatenate([whole[:2], whole[2:3] / 100, whole[3:]])
    for values, message in (
        (whole / 100, "line 1: no percentage is above 1, as in shares of 0 to 1"),
        (unit, "line 1: no percentage is above 1.*rows of unit length: write percentages"),
        (one_row, "line 3: no percentage is above 1"),
        (whole / 10, "by the percentages of their classes images would have 0.1 times the attributes"),
    ):
        np.savetxt(file, values, "%.6f")
        with pytest.raises(DatasetError, match=f"txt.*{message}"):
            load(birds)


def test_percentages_of_which_none_is_large_are_doubted(birds, caplog):
    file = birds / "attributes/class_attribute_labels_continuous.txt"
    (birds / "attributes/image_attribute_labels.txt").unlink()
    np.savetxt(file, numbers(file) / 10, "%.6f")
    load(birds)
    assert "no percentage is above 9: is nothing in most images of any class?" in caplog.text


def test_rows_of_the_whole_set_beside_classes_numbered_anew(birds):
    file = birds / "attributes/class_attribute_labels_continuous.txt"
    (birds / "attributes/image_attribute_labels.txt").unlink()
    rows = file.read_text()
    file.write_text(rows + rows)
    load(birds)  # the first four of eight
    names = (birds / "classes.txt").read_text()
    (birds / "classes.txt").write_text(names.replace("4 004", "4 007"))
    with pytest.raises(DatasetError, match="8 rows for 4 classes.*007.Bird_D has the id 4: keep the ids"):
        load(birds)
    file.write_text(rows)
    load(birds)  # as many rows as classes: theirs


def test_pictures_for_testing_that_are_for_training(birds, tmp_path, caplog):
    """In CUB's format, in folders, in a table; as other files, and as links."""
    root = tmp_path / "folders"
    for number, file in enumerate(sorted((birds / "images").iterdir())):
        for split in ("train", "test"):
            target = root / split / "ab"[number % 2] / f"{split}{number}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    with pytest.raises(DatasetError, match="60 of 60 test images are also for training, byte for byte"):
        load(root)
    rows = [
        f"{path.relative_to(root)},{path.parent.name},{path.parents[1].name}" for path in root.glob("*/*/*")
    ]
    (root / "table.csv").write_text("\n".join(["file,label,split", *rows]))
    with pytest.raises(DatasetError, match="table: 60 of 60 test images are also for training"):
        load(root / "table.csv")
    shutil.rmtree(root / "test")
    (root / "test").symlink_to(root / "train")
    with pytest.raises(DatasetError, match="folders: 60 of 60 test images .*: take other images for testing"):
        load(root)
    assert "training" not in caplog.text
    for number in (2, 4, 6):
        shutil.copy(birds / "images/1.png", birds / f"images/{number}.png")
    load(birds)
    assert "birds: 3 of 30 test images are also for training, byte for byte, 2.png first" in caplog.text
