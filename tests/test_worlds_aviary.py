"""The aviary: its vocabulary and species against CUB's, its pictures, its counterfactuals, and its folder."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import binary_dilation

from xaihelpers import datasets
from xaihelpers.worlds import aviary
from xaihelpers.worlds.aviary import aviary_files
from xaihelpers.worlds.aviary.individuals import FOLLOWS, MARKED

# CUB class ids of the 33 reference birds of SUB (paper sub, appendix A).
REFERENCE = (
    "15 16 17 19 35 36 46 47 48 53 67 69 70 73 75 76 77 80 "
    "81 86 87 94 101 106 107 129 136 138 159 186 188 189 192"
)
PART = {name: number for number, name in enumerate(aviary.PARTS, 1)}
LEFT_RIGHT = [("left eye", "right eye"), ("left leg", "right leg"), ("left wing", "right wing")]
# Birds of every seat (branch, trunk, water, air, rock), of both directions, some of them covered or cut.
SOME = [
    ("Song Sparrow", 5),
    ("Downy Woodpecker", 1),
    ("Mallard", 7),
    ("Anna Hummingbird", 3),
    ("Horned Puffin", 11),
    ("Cardinal", 12),
    ("Barn Swallow", 2),
    ("White Pelican", 4),
    ("Blue Jay", 9),
    ("Common Raven", 6),
    ("Cedar Waxwing", 10),
    ("Green Kingfisher", 8),
]
# sha256 of image, parts and points of the first four of SOME. They must change when, and only when, the
# renderer or the species table is meant to draw other birds; then committed outputs and shipped weights, that
# were made from the old ones, are to be made anew too.
GOLDEN = {
    "Song Sparrow": "16e6c127f2072d98",
    "Downy Woodpecker": "9c132d9e4b5a6930",
    "Mallard": "7da8578c96915bdf",
    "Anna Hummingbird": "6355c79109ef708e",
}


@pytest.fixture(scope="module")
def some():
    """[(individual, picture), ...] of SOME."""
    birds = [aviary.individual(0, index, name) for name, index in SOME]
    return [(bird, aviary.draw(bird)) for bird in birds]


def digest(picture):
    return hashlib.sha256(
        picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes()
    ).hexdigest()[:16]


def shown(bird):
    """{group: the values that a bird truly shows}."""
    true = iter(aviary.true_attributes(bird))
    return {group: {value for value in values if next(true)} for group, values in aviary.GROUPS.items()}


# Vocabulary and species


def test_vocabulary():
    assert len(aviary.GROUPS) == 28 and len(aviary.ATTRIBUTES) == len(set(aviary.ATTRIBUTES)) == 312
    assert [aviary.ATTRIBUTES[k] for k in (0, 23, 311)] == [
        "has_bill_shape::curved_(up_or_down)",
        "has_wing_color::buff",
        "has_wing_pattern::multi-colored",
    ]
    assert datasets.cbm_concepts()["name"].tolist() == [
        aviary.ATTRIBUTES[k - 1] for k in datasets.cbm_concepts()["attribute_id"]
    ]
    assert len(aviary.PARTS) == 15


def test_vocabulary_is_cubs(real_data):
    root = real_data("CUB_200_2011")
    assert [
        line.split()[1] for line in (root / "attributes/attributes.txt").read_text().splitlines()
    ] == aviary.ATTRIBUTES
    assert [
        line.split(" ", 1)[1] for line in (root / "parts/parts.txt").read_text().splitlines()
    ] == aviary.PARTS


def test_species_table():
    table = aviary.species_table()
    assert (
        len(table) >= 40
        and table["name"].is_unique
        and table["cub_class"].is_unique
        and table["cub_class"].between(1, 200).all()
    )
    assert sorted(table["cub_class"][table["reference"] == 1]) == [
        int(number) for number in REFERENCE.split()
    ]
    for group, allowed in aviary.GROUPS.items():
        if group in FOLLOWS:
            assert group not in table
            continue
        for name, cell in zip(table["name"], table[group], strict=True):
            values = cell.split("/")
            assert set(values) <= set(allowed), (name, group, cell)
            assert len(values) == len(set(values)) in (1, 2), (name, group, cell)
    assert set(table["face"]) <= {"", *aviary.GROUPS["wing_color"]}


def test_species_are_cubs(real_data):
    """Classes bear CUB's names, and look as most of its annotators said.

    99.3 % of species and groups have a value among CUB's two most voted ones.
    """
    root, table = real_data("CUB_200_2011"), aviary.species_table()
    names = dict(line.split(" ", 1) for line in (root / "classes.txt").read_text().splitlines())
    assert [names[str(k)].split(".")[1] for k in table["cub_class"]] == table["name"].tolist()
    votes = np.loadtxt(root / "attributes/class_attribute_labels_continuous.txt")[table["cub_class"] - 1]
    agrees = {}  # group -> whether a species' value is CUB's first, and among its first two: (2, species)
    for group, values in aviary.GROUPS.items():
        if group in FOLLOWS:
            continue
        first = aviary.ATTRIBUTES.index(f"has_{group}::{values[0]}")
        best = np.argsort(-votes[:, first : first + len(values)], axis=1, kind="stable")
        rows = []
        for cell, order in zip(table[group], best, strict=True):
            # Of the two values of a head pattern either may be the voted one (a crest goes with a mask).
            ours = cell.split("/") if group == "head_pattern" else cell.split("/")[:1]
            rows.append([any(values[k] in ours for k in order[:top]) for top in (1, 2)])
        agrees[group] = np.transpose(rows)
    first, second = np.mean(list(agrees.values()), axis=(0, 2))
    assert first > 0.96 and second > 0.99
    assert min(np.mean(rows[1]) for rows in agrees.values()) > 0.95  # in every group


def test_unknown_names_suggest_the_nearest():
    bird = aviary.individual(0, 0, "Blue Jay")
    with pytest.raises(ValueError, match="unknown species 'Blu Jay'.*'Blue_Jay'"):
        aviary.individual(0, 0, "Blu Jay")
    for wrong, right in (
        ("has_crown_colour::red", "has_crown_color::red"),
        ("crown_color::red", "has_crown_color::red"),
        ("has_wing_shape::pointd-wings", "has_wing_shape::pointed-wings"),
    ):
        with pytest.raises(ValueError, match=f"unknown attribute '{wrong}'.*{right}"):
            aviary.substitute(bird, wrong)
    assert aviary.species_id("Black and white Warbler") == aviary.species_id("Black_and_white_Warbler") == 1


# Drawing


def test_same_birds_again_and_in_any_order(some):
    for (bird, picture), (name, index) in reversed(list(zip(some, SOME, strict=True))):
        again = aviary.individual(0, index, aviary.species_id(name))
        assert again == bird and digest(aviary.draw(again)) == digest(picture)
    assert len({digest(picture) for _, picture in some}) == len(SOME)
    other = aviary.draw(aviary.individual(1, SOME[0][1], SOME[0][0]))
    assert (other.image != some[0][1].image).mean() > 0.5  # another world


def test_golden_pictures(some):
    first = zip(SOME[:4], some[:4], strict=True)
    assert {name: digest(picture) for (name, _), (_, picture) in first} == GOLDEN


def test_same_birds_in_another_process():
    """Other hash seed, other threads, the instruction set of an older machine, other birds drawn first."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    code = (
        "import hashlib, json\nfrom xaihelpers.worlds import aviary as A\n"
        "def digest(p):\n"
        "    content = p.image.tobytes() + p.parts.tobytes() + p.points.tobytes()\n"
        "    return hashlib.sha256(content).hexdigest()[:16]\n"
        f"birds = {{name: A.individual(0, index, name) for name, index in {SOME[3::-1]}}}\n"
        "print(json.dumps({name: digest(A.draw(bird)) for name, bird in birds.items()}))"
    )
    plain = {
        "PYTHONHASHSEED": "4711",
        "OMP_NUM_THREADS": "3",
        "NPY_DISABLE_CPU_FEATURES": " ".join(f for f in __cpu_dispatch__ if __cpu_features__[f]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **plain}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == GOLDEN


def test_places_agree_with_the_mask(some):
    hidden = 0
    for _, picture in some:
        assert picture.image.shape == (224, 224, 3) and picture.image.dtype == picture.parts.dtype == np.uint8
        assert picture.parts.shape == (224, 224) and picture.points.shape == (15, 2)
        ys, xs = np.nonzero(picture.parts)
        x, y, width, height = picture.box
        assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == (x, y, x + width, y + height)
        assert picture.parts.max() <= 16
        for number, (px, py) in enumerate(picture.points, 1):
            own = picture.parts == number
            if np.isnan(px):
                assert np.isnan(py) and own.sum() < 12  # not there, or too little to be seen
                hidden += 1
            else:
                assert own[int(py), int(px)]
                oy, ox = np.nonzero(own)
                from_centroid = np.hypot(ox - ox.mean(), oy - oy.mean())
                assert np.hypot(px - ox.mean(), py - oy.mean()) == pytest.approx(from_centroid.min())
    assert hidden > 10  # the far eye at least, in every picture


def test_left_and_right(some):
    """A bird that faces left shows its left side: its left eye, with the bill further left."""
    facing = {"left": 0, "right": 0}
    for _, picture in some:
        beak = picture.points[PART["beak"] - 1, 0]
        eyes = {side: picture.points[PART[f"{side} eye"] - 1, 0] for side in facing}
        seen = [side for side in facing if not np.isnan(eyes[side])]
        assert len(seen) <= 1  # never both
        if seen and not np.isnan(beak):
            assert (beak < eyes[seen[0]]) == (seen[0] == "left")
            facing[seen[0]] += 1
            wings = [PART[f"{side} wing"] for side in (seen[0], "right" if seen[0] == "left" else "left")]
            near, far = ((picture.parts == wing).sum() for wing in wings)
            assert near > far  # the near wing is of the same side
    assert min(facing.values()) >= 3


def test_individuals_deviate_from_their_species():
    table = aviary.species_table()
    rows = [
        (table.iloc[k], aviary.individual(3, 50 * k + i, k)) for k in range(len(table)) for i in range(10)
    ]
    differs = np.array([["/".join(bird.values[g]) != row[g] for g in bird.values] for row, bird in rows])
    assert 0.02 < differs.mean() < 0.08
    plain = np.mean(
        [bird.values["head_pattern"] == ("plain",) for row, bird in rows if row["head_pattern"] != "plain"]
    )
    assert 1 / 8 < plain < 1 / 4  # one bird in six
    assert all(
        set(values) <= set(aviary.GROUPS[group]) for _, bird in rows for group, values in bird.values.items()
    )


def test_usual_individual_has_the_values_of_its_species():
    """Also of a species whose first bird is a plain morph or deviates."""
    table = aviary.species_table()
    for label in range(len(table)):
        bird = aviary.usual_individual(label)
        assert bird.species == label
        assert all("/".join(values) == table.at[label, group] for group, values in bird.values.items())
    assert aviary.usual_individual("Cardinal") == aviary.usual_individual(aviary.species_id("Cardinal"))
    with pytest.raises(ValueError, match="the nearest is 'Cardinal'"):
        aviary.usual_individual("Cardinel")


# Substitution


def follows_from(group):
    """The groups whose truth may change when `group` is substituted."""
    direct = {group}
    if group in FOLLOWS:
        direct |= {MARKED[region][0] for region in FOLLOWS[group]}
    for color, pattern, _ in MARKED.values():
        if group == pattern:
            direct.add(color)  # the markings' colour comes to be seen, or goes
    return direct | {
        derived for derived, regions in FOLLOWS.items() if direct & {MARKED[region][0] for region in regions}
    }


def test_every_attribute_can_be_substituted():
    for name, index in SOME[:3]:
        bird = aviary.individual(0, index, name)
        before = shown(bird)
        assert all(before.values())
        for attribute in aviary.ATTRIBUTES:
            group, value = attribute.removeprefix("has_").split("::")
            other = aviary.substitute(bird, attribute)
            now = shown(other)
            assert value in now[group] and all(now.values())
            assert {g for g in aviary.GROUPS if now[g] != before[g]} <= follows_from(group), attribute
            for field in ("species", "seed", "index", "born", "face"):
                assert getattr(other, field) == getattr(bird, field)
        assert shown(bird) == before  # the bird itself is as it was


def test_substitutions_can_be_drawn(some):
    bird, picture = some[0]
    assert np.isnan(picture.points[:, 0]).sum() <= 2  # a bird of which nearly all is seen
    drawn = [
        *aviary.ATTRIBUTES[3::9],
        *(f"has_{group}::{values[-1]}" for group, values in aviary.GROUPS.items() if "color" not in group),
    ]
    for attribute in drawn:
        image = aviary.draw(aviary.substitute(bird, attribute)).image
        if attribute.startswith("has_size"):
            continue  # the size belongs to the place in the picture, which stays
        new = not aviary.true_attributes(bird)[aviary.ATTRIBUTES.index(attribute)]
        assert (image != picture.image).any() == new, attribute


@pytest.mark.parametrize(
    "group, parts",
    [
        ("eye_color", ["left eye", "right eye"]),
        ("bill_color", ["beak"]),
        ("leg_color", ["left leg", "right leg"]),
        ("wing_color", ["left wing", "right wing"]),
        ("breast_color", ["breast"]),
        ("crown_color", ["crown"]),
        ("belly_color", ["belly"]),
    ],
)
def test_substituted_colour_stays_in_its_region(some, group, parts):
    """What has an edge changes nothing beyond its anti-aliased edge.

    Plumage fades into its neighbours, so of it a little shows further off, within the bird.
    """
    for bird, before in (some[0], some[5], some[8]):
        region = np.isin(before.parts, [PART[part] for part in parts])
        value = next(v for v in ("blue", "red") if v not in bird.values[group])
        after = aviary.draw(aviary.substitute(bird, f"has_{group}::{value}"))
        change = np.abs(after.image.astype(int) - before.image).max(-1)
        assert (change > 0)[region].mean() > 0.4  # the markings keep their own colour
        away = ~binary_dilation(region, np.ones((3, 3)), iterations=3)
        if group in ("breast_color", "crown_color", "belly_color"):
            assert change[away].sum() < 0.02 * change.sum() and change[away].max() < 40
        else:
            assert not change[away].any()
        assert not change[~binary_dilation(before.parts > 0, np.ones((3, 3)), iterations=2)].any()
        assert np.array_equal(after.parts, before.parts) and after.box == before.box


def test_substituted_shape_keeps_the_picture(some):
    bird, before = some[5]
    after = aviary.draw(aviary.substitute(bird, "has_bill_shape::needle"))
    changed = (after.image != before.image).any(-1)
    beak = (before.parts == PART["beak"]) | (after.parts == PART["beak"])
    assert changed.any() and not (changed & ~binary_dilation(beak, iterations=3)).any()
    assert (before.parts == PART["beak"]).sum() > 2 * (after.parts == PART["beak"]).sum() > 0
    forked, squared = (
        aviary.draw(aviary.substitute(bird, f"has_tail_shape::{shape}_tail"))
        for shape in ("forked", "squared")
    )
    assert not np.array_equal(forked.parts == PART["tail"], squared.parts == PART["tail"])
    assert np.array_equal(forked.image[:20], before.image[:20])


# What follows


def test_derived_groups_follow():
    bird = aviary.individual(0, 5, "Cardinal")
    for group in ("wing", "back", "breast", "belly"):
        for attribute in (f"has_{group}_pattern::solid", f"has_{group}_color::red"):
            bird = aviary.substitute(bird, attribute)
    assert all(shown(bird)[group] == {"red"} for group in FOLLOWS)
    white = aviary.substitute(bird, "has_belly_color::white")
    assert shown(white)["underparts_color"] == {"red", "white"}
    assert shown(white)["upperparts_color"] == {"red"}
    assert shown(white)["primary_color"] == {"red"}  # red 0.62 of the bird's side, white 0.24
    both = aviary.substitute(white, "has_wing_color::white")
    assert shown(both)["upperparts_color"] == {"red", "white"}
    assert shown(both)["primary_color"] == {"white"}  # white 0.56, red 0.30: below 0.6 of it
    green = aviary.substitute(both, "has_primary_color::green")
    assert all(
        shown(green)[group] == {"green"}
        for group in ("wing_color", "back_color", "breast_color", "belly_color", *FOLLOWS)
    )
    assert shown(green)["crown_color"] == shown(bird)["crown_color"]
    assert shown(aviary.substitute(green, "has_upperparts_color::blue"))["underparts_color"] == {"green"}


def test_markings_are_seen_only_where_there_are_some():
    bird = aviary.substitute(aviary.individual(0, 5, "Song Sparrow"), "has_breast_pattern::striped")
    assert bird.values["breast_color"] == ("white", "brown")
    assert shown(bird)["breast_color"] == {"white", "brown"}
    assert shown(aviary.substitute(bird, "has_breast_pattern::solid"))["breast_color"] == {"white"}
    assert shown(aviary.substitute(bird, "has_breast_color::red"))["breast_color"] == {"red", "brown"}


# The folder


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """An aviary of two birds a species, on disk."""
    home = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XAI_DATA", str(home))
        root = aviary.ensure(images_per_class=2, seed=7, jobs=1)
        assert root == home / "aviary" and aviary.ensure(images_per_class=2, seed=7) == root
    return root


def test_folder_has_cubs_files(world):
    files = {str(path.relative_to(world)) for path in world.rglob("*") if path.is_file()}
    names = [line.split()[1] for line in (world / "images.txt").read_text().splitlines()]
    tables = [
        "images.txt",
        "classes.txt",
        "image_class_labels.txt",
        "train_test_split.txt",
        "bounding_boxes.txt",
        "parts/parts.txt",
        "parts/part_locs.txt",
        *(
            f"attributes/{name}.txt"
            for name in (
                "attributes",
                "certainties",
                "image_attribute_labels",
                "class_attribute_labels_continuous",
            )
        ),
    ]
    assert files == {
        "aviary.json",
        *tables,
        *(f"images/{name}" for name in names),
        *(f"masks/{name[:-4]}.png" for name in names),
    }
    assert sorted(path.name for path in world.parent.iterdir()) == ["aviary", "aviary.lock"]
    lines = {
        "images.txt": r"\d+ \d{3}\.\w+/\w+_\d{4}_\d+\.jpg",
        "classes.txt": r"\d+ \d{3}\.\w+",
        "image_class_labels.txt": r"\d+ \d+",
        "train_test_split.txt": r"\d+ [01]",
        "bounding_boxes.txt": r"\d+( \d+\.\d){4}",
        "parts/part_locs.txt": r"\d+ \d+ (0\.0 0\.0 0|\d+\.\d \d+\.\d 1)",
        "attributes/image_attribute_labels.txt": r"\d+ \d+ [01] [1-4] \d+\.\d+",
        "attributes/class_attribute_labels_continuous.txt": r"\d+(\.\d+)?( \d+(\.\d+)?){311}",
    }
    for name, pattern in lines.items():
        assert re.fullmatch(f"({pattern}\n)+", (world / name).read_text()), name
    for name, count in {
        "images.txt": 96,
        "classes.txt": 48,
        "parts/parts.txt": 15,
        "parts/part_locs.txt": 96 * 15,
        "attributes/attributes.txt": 312,
        "attributes/image_attribute_labels.txt": 96 * 312,
        "attributes/class_attribute_labels_continuous.txt": 48,
    }.items():
        assert (world / name).read_text().count("\n") == count


def test_small_files_are_cubs(world, real_data):
    root = real_data("CUB_200_2011")
    for name in ("parts/parts.txt", "attributes/attributes.txt", "attributes/certainties.txt"):
        assert [line.split() for line in (world / name).read_text().splitlines()] == [
            line.split() for line in (root / name).read_text().splitlines()
        ]


def visible_parts(birds):
    return (~birds.part_locations.isnan().any(-1)).numpy()


def test_folder_is_read_as_a_data_set(world):
    birds = datasets.load(world, check_files=True)
    assert (len(birds.images), len(birds.classes)) == (96, 48)
    assert (len(birds.attributes), len(birds.parts)) == (312, 15)
    assert birds.classes["name"].str[4:].tolist() == aviary.species_table()["name"].tolist()
    assert (birds.images.groupby("class_id")["train"].sum() == 1).all()  # 60 % of two, rounded
    assert birds.labels.tolist() == [k for k in range(48) for _ in range(2)]
    assert birds.mask_names == [*aviary.PARTS, "rest of the body"]
    for row in range(0, 96, 7):
        points, visible = birds.part_locations[row].numpy(), visible_parts(birds)[row]
        parts = birds.part_mask(row)
        size = np.bincount(parts.ravel(), minlength=17)[1:16]
        assert (size[visible] >= 4).all() and (size[~visible] < 12).all()
        assert all(parts[int(y), int(x)] == k for k, (x, y) in enumerate(points, 1) if visible[k - 1])
        x, y, width, height = birds.images[["x", "y", "width", "height"]].iloc[row].astype(int)
        assert (parts[y : y + height, x : x + width] > 0).sum() == (parts > 0).sum()
        assert parts[y].any() and parts[:, x].any()


def test_files_hold_what_is_drawn(world):
    birds = datasets.load(world)
    for row in (0, 50, 95):
        bird = aviary.individual(7, row, row // 2)
        picture, path = aviary.draw(bird), birds.images["path"].iloc[row]
        on_disk = np.asarray(Image.open(path)).astype(float)
        assert np.abs(on_disk - picture.image).mean() < 6  # JPEG, and the grain that it smoothes
        assert np.array_equal(birds.part_mask(row), picture.parts)
        true, seen = aviary.true_attributes(bird), birds.certainty[row].numpy() > 1
        assert np.array_equal(birds.present[row].numpy(), true & seen)


def test_visible_attributes_are_those_written_to_the_folder(world):
    birds = datasets.load(world)
    for row in (0, 50, 95):
        bird = aviary.individual(7, row, row // 2)
        visible = aviary.visible_attributes(bird, aviary.draw(bird), np.random.default_rng([7, row, 10]))
        assert np.array_equal(birds.present[row].numpy(), visible)


def test_labels_know_what_is_visible(world):
    birds = datasets.load(world)
    present, certainty, visible = birds.present.numpy(), birds.certainty.numpy(), visible_parts(birds)
    groups = birds.attributes["group"]
    for group in groups.unique():
        of_group = (groups == group).to_numpy()
        parts = [birds.parts.index(part) for part in datasets.parts_of(group)]
        of_image = certainty[:, of_group]
        assert (of_image == of_image[:, :1]).all()  # one certainty a group
        hidden = ~visible[:, parts].any(1) if parts else np.zeros(96, bool)
        assert ((of_image[:, 0] == 1) == hidden).all(), group
        assert not present[hidden][:, of_group].any()
        assert present[~hidden][:, of_group].any(1).all(), group  # what is seen has a value
    assert set(np.unique(certainty)) == {1, 3, 4} and (certainty == 4).mean() > 0.6


def test_class_percentages(world):
    birds = datasets.load(world)
    present, seen = birds.present.numpy().astype(float), birds.certainty.numpy() > 1
    for label in range(48):
        rows = birds.labels.numpy() == label
        wanted = [
            present[rows, a].sum() / seen[rows, a].sum() if seen[rows, a].any() else 0 for a in range(312)
        ]
        np.testing.assert_allclose(birds.class_attributes[label], wanted, atol=1e-6)
    # Birds deviate, so an image's labels are not always its class's.
    assert 0 < (birds.class_attributes[birds.labels].numpy().round() != present)[seen].mean() < 0.1


# What `ensure` takes for a whole aviary. The pictures do not matter here: one is drawn, and taken for all.


@pytest.fixture
def quick(tmp_path, monkeypatch, some):
    """An empty data folder and a quick renderer; the value is a list that grows with every bird drawn."""
    drawn = []
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.setattr(aviary_files, "draw", lambda bird: drawn.append(bird) or some[0][1])
    return drawn


def test_drawn_once(quick, tmp_path):
    root = aviary.ensure("small", images_per_class=1, jobs=1)
    assert root == tmp_path / "small" and len(quick) == 48
    assert aviary.ensure("small", images_per_class=1, jobs=1) == root and len(quick) == 48
    assert [(bird.species, bird.index) for bird in quick] == [(k, k) for k in range(48)]


def test_interrupted_drawing_is_no_aviary(quick, tmp_path, monkeypatch):
    whole = aviary_files._draw_to

    def interrupted(root, numbers, *settings, **more):
        if numbers[0] >= 32:
            raise KeyboardInterrupt
        return whole(root, numbers, *settings, **more)

    monkeypatch.setattr(aviary_files, "_draw_to", interrupted)
    with pytest.raises(KeyboardInterrupt):
        aviary.ensure(images_per_class=1, jobs=1)
    assert not (tmp_path / "aviary").exists() and len(quick) == 32
    leftover = next(tmp_path.glob("*.partial-*")) / "images/999.Ghost/ghost.jpg"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    monkeypatch.setattr(aviary_files, "_draw_to", whole)
    birds = datasets.load(aviary.ensure(images_per_class=1, jobs=1), check_files=True)
    assert len(birds.images) == 48 and len(quick) == 32 + 48
    assert not list(tmp_path.rglob("*host*")) and not list(tmp_path.glob("*.partial-*"))


def test_killed_drawing_is_no_aviary(quick, tmp_path):
    code = """
import os, signal
import numpy as np
from xaihelpers.worlds.aviary import aviary_files
from xaihelpers.worlds.canvas import Picture

drawn = []

def draw(bird):
    drawn.append(bird)
    if len(drawn) == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    blank = np.zeros((224, 224, 3), np.uint8)
    return Picture(blank, blank[..., 0], np.full((15, 2), np.nan), (0.0, 0.0, 0.0, 0.0))

aviary_files.draw = draw
aviary_files.ensure(images_per_class=1, jobs=1)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "XAI_DATA": str(tmp_path)}, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert not (tmp_path / "aviary").exists() and len(list(tmp_path.rglob("*.jpg"))) == 19
    assert len(datasets.load(aviary.ensure(images_per_class=1, jobs=1), check_files=True).images) == 48


def test_other_settings_are_refused(quick):
    root = aviary.ensure(images_per_class=1, jobs=1)
    for settings in ({"images_per_class": 2}, {"images_per_class": 1, "seed": 1}):
        with pytest.raises(ValueError, match="other settings"):
            aviary.ensure(jobs=1, **settings)
    assert len(quick) == 48 and json.loads((root / "aviary.json").read_text())["images_per_class"] == 1


def test_aviary_of_an_older_renderer_is_drawn_again(quick):
    root = aviary.ensure(images_per_class=1, jobs=1)
    written = json.loads((root / "aviary.json").read_text())
    (root / "aviary.json").write_text(json.dumps({**written, "renderer": "an older one"}))
    (root / "images/from_then.jpg").touch()
    assert aviary.ensure(images_per_class=1, jobs=1) == root and len(quick) == 96
    assert json.loads((root / "aviary.json").read_text()) == written
    assert not (root / "images/from_then.jpg").exists()


def test_foreign_folder_is_left_alone(quick, tmp_path):
    (tmp_path / "aviary").mkdir()
    (tmp_path / "aviary/thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="is no aviary"):
        aviary.ensure(images_per_class=1, jobs=1)
    assert (tmp_path / "aviary/thesis.txt").read_text() == "years of work" and not quick


def test_decorrelated_birds(monkeypatch, tmp_path):
    """Where every group is set at random, the species says little of its attributes."""
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    by_share = {}
    for share in (0.0, 1.0):
        folder = aviary.ensure(f"birds_{share:g}", images_per_class=4, seed=3, decorrelated=share)
        by_share[share] = datasets.load(folder)
    agreement = {}
    for share, world in by_share.items():
        of_class = world.present.float().view(48, 4, -1)
        agreement[share] = (
            (of_class[:, 0] == of_class[:, 1]).float().mean(0)[of_class.mean((0, 1)) > 0.1].mean()
        )
    assert agreement[0.0] > 0.85 and agreement[1.0] < agreement[0.0] - 0.1
    assert by_share[0.0].image_ids == by_share[1.0].image_ids
    with pytest.raises(ValueError, match="of other settings"):
        aviary.ensure("birds_1", images_per_class=4, seed=3, decorrelated=0.5)
