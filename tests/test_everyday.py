"""The everyday world: its vocabulary, its pictures pixel by pixel against what is said of them, and its folder."""
import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import binary_dilation, binary_erosion, center_of_mass, maximum_filter, minimum_filter

from xaihelpers import birds as B
from xaihelpers import everyday as E
from xaihelpers.birds import reading
from xaihelpers.everyday import folder as F
from xaihelpers.everyday.draw import _background
from xaihelpers.everyday.things import COLORS, PATTERNS, SETTINGS

PART = {name: number for number, name in enumerate(E.PARTS, 1)}
# sha256 of image, parts and points. They must change when, and only when, the renderer is meant to draw other things; then committed outputs and shipped weights,
# which were made from the old ones, have to be made anew too.
GOLDEN = {"house": "fa9d7a276b2f3787", "fish": "a00a11eb8e561259", "bicycle": "9438f036cea8b12a", "balloon": "1c547ffce6e4e049"}


@pytest.fixture(scope="module")
def some():
    """[(thing, picture), ...], three of each category."""
    found = [E.thing(0, 50 * k + i, name) for k, name in enumerate(E.CATEGORIES) for i in range(3)]
    return [(one, E.draw(one)) for one in found]


def digest(picture):
    return hashlib.sha256(picture.image.tobytes() + picture.parts.tobytes() + picture.points.tobytes()).hexdigest()[:16]


def pieces(category):
    return E.CATEGORIES[category].pieces(np.random.default_rng(0))


def colored(category, number):
    """The parts of a category all of whose pieces take the first (0) or second (1) colour."""
    return {p.part for p in pieces(category) if p.color == number} - {p.part for p in pieces(category) if p.color != number}


def where(picture, parts):
    return np.isin(picture.parts, [PART[part] for part in parts])


def allowed(picture, parts):
    """Where a change of `parts` may show: on them and their anti-aliased rim (up to 4 pixels at the ends of long ovals), and at seams, where a part that covers
    them ends with them."""
    return binary_dilation(where(picture, parts), iterations=4) | (maximum_filter(picture.parts, 3) != minimum_filter(picture.parts, 3))


def shown(one, picture):
    """{group: the values that a thing truly shows}."""
    true = iter(E.true_attributes(one, picture.parts))
    return {group: {value for value in values if next(true)} for group, values in E.GROUPS.items()}


# Vocabulary

def test_vocabulary():
    assert len(E.CATEGORIES) == 20 and len(E.ATTRIBUTES) == len(set(E.ATTRIBUTES)) == sum(map(len, E.GROUPS.values()))
    assert E.PARTS == sorted(set(E.PARTS)) and {piece.part for name in E.CATEGORIES for piece in pieces(name)} == set(E.PARTS)
    assert (E.ATTRIBUTES[0], E.ATTRIBUTES[-1]) == ("has_primary_color::red", "has_superclass::vessel")
    assert list(E.GROUPS) == ["primary_color", "secondary_color", "pattern", "setting", "part", "material", "superclass"]
    assert set(E.GROUPS["material"]) == {kind.material for kind in E.CATEGORIES.values()} and set(E.GROUPS["superclass"]) == {kind.superclass for kind in E.CATEGORIES.values()}
    for name, kind in E.CATEGORIES.items():
        assert kind.name == name and set(kind.settings) <= set(SETTINGS) and set(kind.colors) <= set(COLORS)
        assert {piece.color for piece in pieces(name)} >= {0, 1}, name


def test_parts_do_not_depend_on_the_individual():
    for name, kind in E.CATEGORIES.items():
        kinds = [{(piece.part, piece.color) for piece in kind.pieces(np.random.default_rng(seed))} for seed in range(5)]
        assert all(other == kinds[0] for other in kinds), name


# Drawing

def test_same_things_again_and_in_any_order(some):
    for one, picture in some[::-7]:
        again = E.thing(one.seed, one.index, one.category)
        assert again == one and digest(E.draw(again)) == digest(picture)
    assert len({digest(picture) for _, picture in some}) == len(some)
    other = E.draw(E.thing(1, some[0][0].index, some[0][0].category))
    assert (other.image != some[0][1].image).mean() > 0.5  # another world


def test_golden_pictures(some):
    assert {one.category: digest(picture) for one, picture in some[::3] if one.category in GOLDEN} == GOLDEN


def test_another_process_draws_the_same(some):
    code = ("import hashlib\nfrom xaihelpers import everyday as E\n"
            "for name, index in (('kite', 751), ('cup', 152)):\n    p = E.draw(E.thing(0, index, name))\n"
            "    print(hashlib.sha256(p.image.tobytes() + p.parts.tobytes() + p.points.tobytes()).hexdigest()[:16])")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [digest(picture) for one, picture in some if one.index in (751, 152)][::-1]


def test_pictures_are_whole(some):
    for _, picture in some:
        assert picture.image.shape == (224, 224, 3) and picture.image.dtype == picture.parts.dtype == np.uint8 and picture.parts.shape == (224, 224)
        assert picture.points.shape == (len(E.PARTS), 2) and picture.parts.max() <= len(E.PARTS)
        assert 0.015 < (picture.parts > 0).mean() < 0.6


def test_masks_agree_with_points_and_boxes(some):
    for one, picture in some:
        for part, number in PART.items():
            if (picture.parts == number).any():
                y, x = center_of_mass(picture.parts == number)
                np.testing.assert_allclose(picture.points[number - 1], (x + .5, y + .5), atol=1e-9, err_msg=f"{one.category} {part}")
            else:
                assert np.isnan(picture.points[number - 1]).all()
        x, y, w, h = map(int, picture.box)
        assert (picture.parts[y:y + h, x:x + w] > 0).sum() == (picture.parts > 0).sum()
        assert all(edge.any() for edge in (picture.parts[y], picture.parts[y + h - 1], picture.parts[:, x], picture.parts[:, x + w - 1]))


def test_every_part_of_every_category_is_seen(some):
    for one, picture in some:
        area = np.bincount(picture.parts.ravel(), minlength=len(E.PARTS) + 1)
        wanted = {piece.part for piece in pieces(one.category)}
        assert {part for part, number in PART.items() if area[number]} == wanted, one
        assert min(area[PART[part]] for part in wanted) >= 12, one


def test_masks_are_just_where_the_thing_is(some):
    """Outside the mask, but for its anti-aliased rim, lies the background that is drawn without the thing; inside, something else."""
    inside = []
    for one, picture in some:
        rng = np.random.default_rng([one.seed, one.index, 1])
        E.CATEGORIES[one.category].pieces(rng)
        background = (_background(one.setting, rng) * 255).round().astype(np.uint8)
        mask = picture.parts > 0
        outside = ~binary_dilation(mask, iterations=4)
        assert np.array_equal(picture.image[outside], background[outside]), one
        inside.append((picture.image[mask] != background[mask]).any(-1).mean())
    assert min(inside) > 0.97


def test_colors_in_the_picture_are_the_attributes():
    """The mean colour of the parts of one colour, in even light (a thing's shading averages 0.9), is nearest to the colour that its attribute names:
    for 97 % of plain things (white in the shade is near pink, yellow near orange), and among the nearest two for all but one in 250."""
    names, values = list(COLORS), np.array(list(COLORS.values()))
    rank = []
    for k, category in enumerate(E.CATEGORIES):
        for one in (E.thing(3, 100 * k + i, category) for i in range(12)):
            if one.pattern != "plain":
                continue
            picture = E.draw(one)
            assert shown(one, picture)["primary_color"] == {one.colors[0]} and shown(one, picture)["secondary_color"] == {one.colors[1]}
            for number in (0, 1):
                if (mask := where(picture, colored(category, number))).sum() >= 60:
                    order = np.linalg.norm(picture.image[mask].mean(0) / 255 / .9 - values, axis=1).argsort()
                    rank.append([names[i] for i in order].index(one.colors[number]))
    assert len(rank) > 200 and np.mean(np.array(rank) == 0) > 0.95 and np.mean(np.array(rank) <= 1) > 0.99


@pytest.mark.parametrize("number", [0, 1])
def test_another_color_changes_just_its_parts(some, number):
    for one, picture in some[1::3]:
        one = replace(one, pattern="plain")
        colors = list(one.colors)
        colors[number] = "blue" if one.colors[number] != "blue" else "red"
        before, after = E.draw(one), E.draw(replace(one, colors=tuple(colors)))
        assert np.array_equal(before.parts, after.parts) and np.array_equal(before.parts, picture.parts)
        changed = (before.image != after.image).any(-1)
        assert changed.any() and not (changed & ~allowed(before, {piece.part for piece in pieces(one.category) if piece.color == number})).any(), one
        alone = where(before, colored(one.category, number))
        assert changed[binary_erosion(alone)].all(), one


def test_patterns_lie_on_the_first_color_in_the_second(some):
    for one, _ in some[2::3]:
        plain, striped, dotted = (E.draw(replace(one, colors=("yellow", "blue"), pattern=pattern)) for pattern in PATTERNS)
        parts = {piece.part for piece in pieces(one.category) if piece.color == 0}
        assert np.array_equal(plain.parts, striped.parts) and np.array_equal(plain.parts, dotted.parts)
        for picture, low, high in ((striped, .25, .75), (dotted, .1, .75)):
            changed = (picture.image != plain.image).any(-1)
            assert not (changed & ~allowed(plain, parts)).any(), one
            mask = binary_erosion(where(plain, colored(one.category, 0)))
            if mask.sum() > 500:
                bluer = picture.image[mask].astype(int)[:, 2] > picture.image[mask].astype(int)[:, 0]
                assert low < bluer.mean() < high, (one, bluer.mean())


# What is true of a thing

def test_attributes_by_hand():
    tree = E.Thing("tree", 0, 5, ("green", "red"), "plain", "street")
    picture = E.draw(tree)
    assert shown(tree, picture) == {"primary_color": {"green"}, "secondary_color": {"red"}, "pattern": {"plain"}, "setting": {"street"}, "part": {"trunk", "crown", "fruit"},
                                    "material": {"wood"}, "superclass": {"plant"}}
    bare = picture._replace(parts=np.where(picture.parts == PART["fruit"], PART["crown"], picture.parts))
    assert shown(tree, bare)["part"] == {"trunk", "crown"} and shown(tree, bare)["secondary_color"] == set()  # only its fruit were red
    assert shown(replace(tree, pattern="striped"), bare)["secondary_color"] == {"red"}  # so are its stripes
    trunk = picture._replace(parts=np.where(picture.parts == PART["trunk"], picture.parts, 0))
    assert shown(tree, trunk)["primary_color"] == set()


def test_attributes_agree_with_masks(some):
    for one, picture in some:
        assert shown(one, picture)["part"] == {E.PARTS[number - 1] for number in np.unique(picture.parts) if number}
        of_group = shown(one, picture)
        assert all(len(of_group[group]) == 1 for group in ("pattern", "setting", "material", "superclass"))


def test_usual_colors_and_settings():
    things = [E.thing(5, 200 * k + i, name) for k, name in enumerate(E.CATEGORIES) for i in range(200)]
    assert all(one.colors[0] in E.CATEGORIES[one.category].colors and one.colors[0] != one.colors[1] for one in things)
    unusual = np.mean([one.setting not in E.CATEGORIES[one.category].settings for one in things])
    expected = np.mean([1 - len(kind.settings) / len(SETTINGS) for kind in E.CATEGORIES.values()]) / 8
    assert abs(unusual - expected) < 0.02 and 0.06 < unusual
    assert abs(np.mean([one.pattern == "plain" for one in things]) - .6) < 0.03


def test_shuffled_keeps_the_category():
    rng, fish = np.random.default_rng(1), E.thing(0, 100, "fish")
    others = [E.shuffled(fish, rng) for _ in range(300)]
    assert {(one.category, one.seed, one.index) for one in others} == {("fish", 0, 100)}
    assert all(one.colors[0] != one.colors[1] for one in others)
    assert {one.setting for one in others} == set(SETTINGS) and {one.pattern for one in others} == set(PATTERNS)
    assert {one.colors[0] for one in others} == {one.colors[1] for one in others} == set(COLORS)
    assert np.array_equal(E.draw(others[0]).parts, E.draw(fish).parts)  # the same shape in the same place
    assert E.shuffled(fish, np.random.default_rng(1)) == others[0]


# The folder

@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """An everyday world of three things a category, on disk."""
    home = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XAI_DATA", str(home))
        root = E.ensure("few", images_per_class=3, seed=7, jobs=1)
        assert root == home / "few" and json.loads((root / "everyday.json").read_text())["images_per_class"] == 3
        assert B.load_birds("few").root == root  # one of another size, by its name
    return root


def test_folder_is_read_as_birds(world):
    birds = B.load_birds(world, check_files=True)
    assert (len(birds.images), len(birds.classes), len(birds.attributes), len(birds.parts)) == (60, 20, len(E.ATTRIBUTES), len(E.PARTS))
    assert birds.classes["name"].tolist() == [f"{k:03d}.{name}" for k, name in enumerate(E.CATEGORIES, 1)]
    assert birds.attributes["name"].tolist() == E.ATTRIBUTES and birds.parts == E.PARTS
    assert (birds.images.groupby("class_id")["train"].sum() == 2).all()  # 60 % of three, rounded
    assert birds.labels.tolist() == [k for k in range(20) for _ in range(3)]


def test_tables_hold_what_is_drawn(world):
    birds = B.load_birds(world)
    for row in range(60):
        one = E.thing(7, row, list(E.CATEGORIES)[row // 3])
        picture, path = E.draw(one), birds.images["path"].iloc[row]
        parts = E.part_mask(world, "/".join(path.split("/")[-2:]))
        assert np.array_equal(parts, picture.parts)
        assert np.abs(np.asarray(Image.open(path)).astype(float) - picture.image).mean() < 6  # JPEG, and the grain that it smoothes
        assert np.array_equal(birds.present[row].numpy(), E.true_attributes(one, parts))
        np.testing.assert_allclose(birds.part_locations[row].numpy(), picture.points, atol=0.0501)  # one digit in the table
        assert birds.part_visible[row].tolist() == [bool((parts == number).any()) for number in PART.values()]
        assert birds.images[["x", "y", "width", "height"]].iloc[row].tolist() == list(picture.box)
    assert (birds.certainty == 4).all()


def test_class_percentages(world):
    birds = B.load_birds(world)
    wanted = [birds.present[birds.labels == label].float().mean(0).numpy() for label in range(20)]
    np.testing.assert_allclose(birds.class_attributes.numpy(), wanted, atol=1e-6)


# What `ensure` takes for a whole world. The pictures do not matter here: one is drawn, and taken for all.

@pytest.fixture
def quick(tmp_path, monkeypatch, some):
    """An empty data folder and a quick renderer; the value is a list that grows with every thing drawn."""
    drawn = []
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    monkeypatch.setattr(F, "draw", lambda one: drawn.append(one) or some[0][1])
    return drawn


def test_drawn_at_first_use(quick, tmp_path, monkeypatch):
    assert reading.DRAWN["everyday"] is E.ensure
    monkeypatch.setitem(reading.DRAWN, "everyday", partial(E.ensure, images_per_class=1, jobs=1))
    for _ in range(2):
        assert B.load_birds("everyday", check_files=True).root == tmp_path / "everyday" and len(quick) == 20
    assert [(one.category, one.index) for one in quick] == [(name, k) for k, name in enumerate(E.CATEGORIES)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["everyday", "everyday.lock"]


def test_killed_drawing_is_no_world(quick, tmp_path):
    code = ("import os, signal\nimport numpy as np\nfrom xaihelpers.everyday import folder, draw, PARTS\nfrom xaihelpers.aviary import Picture\ncount = []\n"
            "def fake(one):\n    count.append(1)\n    if len(count) == 10: os.kill(os.getpid(), signal.SIGKILL)\n"
            "    return Picture(np.zeros((224, 224, 3), np.uint8), np.zeros((224, 224), np.uint8), np.full((len(PARTS), 2), np.nan), (0., 0., 0., 0.))\n"
            "folder.draw = fake\nfolder.ensure(images_per_class=1, jobs=1)")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "XAI_DATA": str(tmp_path)}, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert not (tmp_path / "everyday").exists() and len(list(tmp_path.rglob("*.jpg"))) == 9
    assert len(B.load_birds(E.ensure(images_per_class=1, jobs=1), check_files=True).images) == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["everyday", "everyday.lock"]


def test_other_settings_are_refused(quick):
    root = E.ensure(images_per_class=1, jobs=1)
    for settings in ({"images_per_class": 2}, {"images_per_class": 1, "seed": 1}):
        with pytest.raises(ValueError, match="holds an everyday world of other settings"):
            E.ensure(jobs=1, **settings)
    assert len(quick) == 20 and json.loads((root / "everyday.json").read_text())["images_per_class"] == 1


def test_world_of_an_older_renderer_is_drawn_again(quick):
    root = E.ensure(images_per_class=1, jobs=1)
    written = json.loads((root / "everyday.json").read_text())
    (root / "everyday.json").write_text(json.dumps({**written, "renderer": "an older one"}))
    assert E.ensure(images_per_class=1, jobs=1) == root and len(quick) == 40
    assert json.loads((root / "everyday.json").read_text()) == written


def test_folder_of_another_world_is_left_alone(quick, tmp_path):
    (tmp_path / "aviary").mkdir()
    (tmp_path / "aviary/aviary.json").write_text("{}")
    with pytest.raises(ValueError, match=r"aviary exists and is no everyday world \(no whole everyday.json in it\)"):
        E.ensure("aviary", images_per_class=1, jobs=1)
    assert (tmp_path / "aviary/aviary.json").read_text() == "{}" and not quick
