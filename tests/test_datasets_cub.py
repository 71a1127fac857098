"""Data in CUB's format: a tiny folder, broken in every way, and the real annotations where they are."""

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from worlds.aviary import PARTS
from xaihelpers import datasets
from xaihelpers.datasets import DatasetError

ATTRIBUTES = ["has_bill_shape::needle", "has_wing_color::blue"]
ATTRIBUTES += ["has_size::small_(5_-_9_in)", "has_eye_color::black"]
IMAGES = {5: "003.Red_Bird/a.jpg", 9: "003.Red_Bird/b.jpg"}
IMAGES |= {12: "003.Red_Bird/c.jpg", 20: "007.Blue_Jay-bird/d.jpg"}
CLASS = {5: 3, 9: 3, 12: 3, 20: 7}  # ids with gaps, as in a subset of CUB
TRAIN = {5: 1, 9: 1, 12: 0, 20: 1}
# (present, certainty) of the four attributes
LABELS = {5: ["1 4", "1 3", "0 1", "0 4"], 9: ["0 4", "0 3", "0 1", "0 2"]}
LABELS |= {12: ["0 4", "0 4", "0 4", "1 1"], 20: ["1 2", "0 1", "1 4", "1 1"]}


@pytest.fixture
def cub(tmp_path):
    root = tmp_path / "cub"
    for folder in ("attributes", "parts"):
        (root / folder).mkdir(parents=True)

    def write(name, lines):
        (root / name).write_text("".join(f"{line}\n" for line in lines))

    write("images.txt", [f"{key} {name}" for key, name in IMAGES.items()])
    write("classes.txt", ["3 003.Red_Bird", "7 007.Blue_Jay-bird"])
    # another order than images.txt
    write("image_class_labels.txt", [f"{key} {CLASS[key]}" for key in reversed(IMAGES)])
    write("train_test_split.txt", [f"{key} {TRAIN[key]}" for key in IMAGES])
    write("bounding_boxes.txt", [f"{key} 1.0 2.0 30.0 {key}.5" for key in IMAGES])
    write("parts/parts.txt", [f"{k} {name}" for k, name in enumerate(PARTS, 1)])
    places = [f"{key} {k} {k}.0 {key}.0 {int(k != 3)}" for key in IMAGES for k in range(1, 16)]
    write("parts/part_locs.txt", places)
    write("attributes/attributes.txt", [f"{k} {name}" for k, name in enumerate(ATTRIBUTES, 1)])
    percentages = [f"{k}.0 50.0 {10 * k}.0 0.0" for k in range(1, 8)]
    write("attributes/class_attribute_labels_continuous.txt", percentages)
    labels = [f"{key} {k} {label} 1.5" for key in IMAGES for k, label in enumerate(LABELS[key], 1)]
    write("attributes/image_attribute_labels.txt", labels)
    for key, name in IMAGES.items():
        path = root / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(key).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(path)
    return root


def edit(path, change):
    """Apply `change` to the list of the file's lines."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    change(lines)
    path.write_text("".join(f"{line}\n" for line in lines))


def set_line(number, text):
    def change(lines):
        lines[number - 1] = text

    return change


def test_tables(cub):
    birds = datasets.load(cub)
    assert birds.images.index.tolist() == [5, 9, 12, 20]
    assert birds.labels.tolist() == [0, 0, 0, 1] and birds.labels.dtype == torch.int64
    assert birds.images["train"].tolist() == [True, True, False, True]
    assert birds.images.loc[9, ["x", "y", "width", "height"]].tolist() == [1, 2, 30, 9.5]
    assert birds.classes["name"].to_dict() == {3: "003.Red_Bird", 7: "007.Blue_Jay-bird"}
    assert birds.attributes.loc[3].tolist() == ["has_size::small_(5_-_9_in)", "has_size", "small_(5_-_9_in)"]
    assert birds.part_locations.shape == (4, 15, 2) and birds.part_locations[1, 3].tolist() == [4, 9]
    visible = ~birds.part_locations.isnan().any(-1)
    assert birds.part_locations[:, 2].isnan().all() and visible.sum() == 56
    shares = torch.tensor([[0.03, 0.5, 0.3, 0], [0.07, 0.5, 0.7, 0]])
    torch.testing.assert_close(birds.class_attributes, shares)


def test_labels_by_hand(cub):
    birds = datasets.load(cub)
    present, certainty = datasets.image_attributes(birds)
    assert present.dtype == torch.bool and certainty.dtype == torch.int8
    assert present.int().tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 1, 1]]
    assert certainty[0].tolist() == [4, 3, 1, 4]
    assert datasets.concept_labels(birds, ATTRIBUTES).tolist() == present.float().tolist()
    soft = datasets.concept_labels(birds, ATTRIBUTES, kind="soft")
    assert soft.tolist() == [[1, 0.75, 0, 0], [0, 0.25, 0, 0.5], [0, 0, 0, 0], [0.5, 0, 1, 0]]
    # class 3: one vote each way twice (ties 1), nobody saw the third (tie 1), two against the fourth;
    # image 12 is for testing
    hard = datasets.class_concepts(birds, ATTRIBUTES, "hard")
    assert hard.T.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert torch.equal(datasets.class_concepts(birds, ATTRIBUTES, "soft"), birds.class_attributes.T)
    assert torch.equal(datasets.concept_labels(birds, ATTRIBUTES, level="class"), hard.T[birds.labels])
    assert torch.equal(
        datasets.concept_labels(birds, ["has_size--small_(5_-_9_in)", ATTRIBUTES[0]], "class", "soft"),
        birds.class_attributes[birds.labels][:, [2, 0]],
    )


def test_class_level(cub):
    as_class = datasets.load(cub, attributes="class")
    assert torch.equal(
        datasets.concept_labels(as_class, ATTRIBUTES),
        datasets.class_concepts(as_class, ATTRIBUTES, "hard").T[as_class.labels],
    )
    present, certainty = datasets.image_attributes(as_class)
    assert present.int().tolist() == [[1, 1, 1, 0]] * 3 + [[1, 1, 1, 1]] and (certainty == 4).all()

    (cub / "attributes/image_attribute_labels.txt").unlink()
    birds = datasets.load(cub)
    assert birds.present is None and birds.certainty is None and birds.attribute_level == "class"
    share_of_half = [[0, 1, 0, 0], [0, 1, 1, 0]]
    assert datasets.class_concepts(birds, ATTRIBUTES, "hard").T.tolist() == share_of_half
    assert datasets.concept_labels(birds, [ATTRIBUTES[2]], kind="soft")[:, 0].tolist() == pytest.approx(
        [0.3, 0.3, 0.3, 0.7]
    )


def test_formats_that_are_accepted(cub):
    # attributes.txt one folder up, as in CUB's archive; a byte order mark; DOS line ends; a blank end; too
    # many fields; rows of other images
    (cub / "attributes/attributes.txt").rename(cub.parent / "attributes.txt")
    labels = cub / "attributes/image_attribute_labels.txt"
    before = datasets.image_attributes(datasets.load(cub))
    edit(labels, set_line(6, "9 2 0 3 0 0.6 1"))
    edit(labels, lambda lines: lines.insert(0, "1 1 1 1 2.0"))
    percentages = cub / "attributes/class_attribute_labels_continuous.txt"
    files = [cub / "images.txt", cub / "bounding_boxes.txt", cub / "classes.txt", labels, percentages]
    for path in (*files, cub.parent / "attributes.txt", cub / "parts/parts.txt"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    after = datasets.image_attributes(datasets.load(cub))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    edit(cub / "train_test_split.txt", set_line(4, "20 0"))
    with pytest.raises(DatasetError, match="007.Blue_Jay-bird.*no training image"):
        datasets.class_concepts(datasets.load(cub), ATTRIBUTES[:1], "hard")


FILES = (
    "images classes image_class_labels train_test_split bounding_boxes parts/parts parts/part_locs "
    "attributes/attributes attributes/class_attribute_labels_continuous attributes/image_attribute_labels"
).split()


def test_a_missing_an_empty_and_a_cut_file_are_named(cub):
    for name in FILES:
        file = cub / f"{name}.txt"
        text = file.read_text()
        for cut in (text[: text[:-1].rindex("\n") + 1], ""):
            file.write_text(cut)
            with pytest.raises(DatasetError, match=r"\.txt.*(truncated|none of|needed|empty|No columns)"):
                datasets.load(cub)
        file.unlink()
        with pytest.raises(ValueError, match=f"{name}.txt (is missing|cannot be read)"):
            datasets.load(cub, attributes="image")
        file.write_text(text)


FAULTS = [
    ("images.txt", 2, "x9 b.jpg", "line 2: '<id> <name>' expected, with ids from 1, found x9 b.jpg"),
    ("images.txt", 2, "5 003.Red_Bird/b.jpg", "line 2: an id for the second time"),
    ("images.txt", 4, "20 007.Blue_Jay-bird/d.j", "images.txt 20: the name of an image file"),
    ("images.txt", 4, "20 003.Red_Bird/b.jpg", "line 4: a name for the second time"),
    ("images.txt", 2, "9 ../../secret.jpg", "images.txt 9: a path within images/.*found ../../secret.jpg"),
    ("image_class_labels.txt", 1, "20 8", "line 1: class_id is none of classes.txt, found 8"),
    ("image_class_labels.txt", 2, "12 three", "line 2: 2 numbers expected, found three"),
    ("train_test_split.txt", 2, "9 2", "line 2: train is none of .0, 1."),
    ("train_test_split.txt", 2, "9 True", "line 2: 2 numbers expected, found True"),
    ("parts/part_locs.txt", 17, "9 1 1.0 1.0 1", "line 17: the image id and part id for the second time"),
    ("attributes/attributes.txt", 2, "3 has_wing_color::blue", "line (2|3): .*(1, 2, 3|second time)"),
    ("attributes/class_attribute_labels_continuous.txt", 5, "nan nan nan nan", "line 5: 4 numbers expected"),
    ("attributes/class_attribute_labels_continuous.txt", 5, "1.0 2.0 3.0 101.0", "4 percentages, of 0 to"),
    ("attributes/image_attribute_labels.txt", 7, "9 5 0 1 1.5", "line 7: attribute id is none of attributes"),
    ("attributes/image_attribute_labels.txt", 7, "9 3 2 1 1.5", "line 7: is_present is none of .0, 1."),
]


def test_wrong_lines_are_named(cub):
    for name, line, text, message in FAULTS:
        whole = (cub / name).read_text()
        edit(cub / name, set_line(line, text))
        with pytest.raises(DatasetError, match=f"{name}.*{message}.*(Unpack|delete)"):
            datasets.load(cub)
        (cub / name).write_text(whole)
    (cub / "train_test_split.txt").write_text("5 True\n9 True\n12 False\n20 True\n")
    with pytest.raises(DatasetError, match="train_test_split.txt, line 1: 2 numbers expected, found True"):
        datasets.load(cub)


def test_two_names_never_become_one(cub):
    for file, line, text in (
        ("attributes/attributes.txt", 2, "2 has_bill_shape--needle"),
        ("parts/parts.txt", 3, "3 Beak"),
    ):
        whole = (cub / file).read_text()
        edit(cub / file, set_line(line, text))
        with pytest.raises(ValueError, match=f"{file}: .* would be one and the same: rename one"):
            datasets.load(cub)
        (cub / file).write_text(whole)
    for classes in (["3 003.Red_Bird", "7 007.red bird"], ["3 003.Mo\u0308we", "7 007.M\u00f6we"]):
        (cub / "classes.txt").write_text("\n".join(classes))
        with pytest.raises(ValueError, match="classes.txt: '003.*' and '007.*' would be one and the same"):
            datasets.load(cub)
    (cub / "classes.txt").write_text("3 003.Red_Bird\n7 007.Red-Bird")
    birds = datasets.load(cub)
    with pytest.raises(DatasetError, match="class 'red bird' may be 'Red Bird' or 'Red-Bird'.*: rename one"):
        datasets.class_label(birds, "red bird")
    with pytest.raises(DatasetError, match="cub has no part masks: give a folder of them"):
        birds.part_mask(0)


def test_concepts_of_a_file(cub, tmp_path):
    birds = datasets.load(cub)
    file = tmp_path / "concepts.txt"
    file.write_bytes("\ufeffhas_eye_color--black\r\n\r\n has_bill_shape::needle \r\n".encode())
    assert datasets.choose_concepts(birds, file) == [ATTRIBUTES[3], ATTRIBUTES[0]]
    file.write_text("Blue wings\nneedle bill shape\n")
    assert datasets.choose_concepts(birds, file) == [ATTRIBUTES[1], ATTRIBUTES[0]]
    file.write_text("1. **Blue wings**,\n2. needle bill shape,\n")
    assert datasets.choose_concepts(birds, file) == [ATTRIBUTES[1], ATTRIBUTES[0]]
    file.write_text("has_eye_color::black\nblack eyes\n")
    with pytest.raises(ValueError, match="would be one and the same"):
        datasets.choose_concepts(birds, file)
    with pytest.raises(DatasetError, match="concepts 'cmb' are none of cbm, all and auto"):
        datasets.choose_concepts(birds, "cmb")


def test_misspelt_names_get_the_nearest(cub):
    birds = datasets.load(cub)
    for message, call, *given in (
        ("did you mean 'has_bill_shape::needle'", datasets.concept_labels, birds, ["has_bil_shape--needle"]),
        ("class 'Blue Jey'; did you mean 'Blue Jay-bird'", datasets.class_label, birds, "Blue Jey"),
        ("did you mean 'has_bill_shape'", datasets.parts_of, "has_bil_shape::cone"),
        ("'hard', 'soft'", datasets.class_concepts, birds, ATTRIBUTES[:1], "harder"),
        ("'auto', 'image', 'class', not 'images'", datasets.load, cub, "images"),
    ):
        with pytest.raises(DatasetError, match=message):
            call(*given)
    names = ("003.Red_Bird", "Red Bird", "blue_jay-bird")
    assert [datasets.class_label(birds, name) for name in names] == [0, 0, 1]
    names = ["Blue_breast", "a blue breast", "has_breast_color--blue", "a red breast"]
    assert datasets.find_attributes(names, ["has_breast_color::blue"]) == ["has_breast_color::blue"] * 3 + [
        ""
    ]
    assert datasets.find_attributes(["blue wing"], ["has_wing_color::blue", "has_wing::blue"]) == [""]


def test_parts_of_attributes():
    assert datasets.parts_of("has_head_pattern--eyebrow") == ("forehead",)
    assert datasets.parts_of("has_primary_color::red") == ()
    assert datasets.parts_of("has_part::wheel", ["door", "wheel"]) == ("wheel",)  # of other data than CUB


def test_images_are_read_when_they_are_asked_for(cub):
    birds = datasets.load(cub)
    assert datasets.image_sizes(birds, range(4)).tolist() == [[60, 40]] * 4
    (cub / "images" / IMAGES[5]).write_bytes((cub / "images" / IMAGES[5]).read_bytes()[:900])
    (cub / "images" / IMAGES[12]).unlink()
    for key, message in ((5, "a.jpg: image cannot be read.*truncated"), (12, "c.jpg: image file missing")):
        with pytest.raises(DatasetError, match=message):
            datasets.load_image(birds.images.loc[key, "path"])


def test_part_points_by_hand(cub):
    """Left and right apart, NaN where a part is not visible or cropped away; images are of 60 x 40 pixels."""
    birds = datasets.load(cub)
    points = datasets.part_points(birds, [3, 0], resize=(80, 60))  # (height, width)
    assert points.shape == (2, 15, 2)
    assert points[1, PARTS.index("left wing")].tolist() == [9, 10]
    assert points[1, PARTS.index("right wing")].tolist() == [13, 10]
    assert points[:, 2].isnan().all()
    birds.part_locations = torch.tensor([[[0.0, 0.0], [30, 20], [59, 39], [10, 20]]]).expand(4, 4, 2)
    assert torch.equal(datasets.part_points(birds, [1]), birds.part_locations[:1])
    (placed,) = datasets.part_points(birds, [1], 80, 80)  # to 120 x 80, then 20 cut off on either side
    assert placed[1].tolist() == [40, 40] and placed[3].tolist() == [0, 40]
    assert placed.isnan().all(-1).tolist() == [True, False, True, False]
    assert datasets.part_points(birds, [1], 0, 50)[0, 1].tolist() == [25, 25]  # 5 rows of padding above


def test_real_counts(real_data):
    root = real_data("CUB_200_2011")
    birds = datasets.load(root, attributes="class")
    assert (len(birds.classes), len(birds.images)) == (200, 11_788)
    assert (len(birds.attributes), len(birds.parts)) == (312, 15)
    assert birds.parts == PARTS and birds.images["train"].sum() == 5_994
    concepts = datasets.cbm_concepts()
    assert birds.attributes["name"].loc[concepts["attribute_id"]].tolist() == concepts["name"].tolist()
    path = real_data("cub_cbm_112") / "class_concepts_200x112.csv"
    published = pd.read_csv(path, index_col=["class_id", "class_name"]).to_numpy()
    ours = datasets.class_concepts(birds, concepts.name, "hard").T.numpy()
    assert (ours == published).mean() == pytest.approx(0.955, abs=0.001)


def test_crop_to_box_by_hand():
    image = Image.new("RGB", (100, 60))
    image.putpixel((99, 0), (255, 0, 0))
    corner = datasets.crop_to_box(image, (80, 0, 20, 20))  # moved to lie within the image
    assert corner.size == (24, 24) and corner.getpixel((23, 0)) == (255, 0, 0)
    assert datasets.crop_to_box(image, (0, 0, 100, 60)).size == (60, 60)
