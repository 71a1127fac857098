"""What a world gives away: planted leaks are found, and nothing else is; scenes that are free say nothing."""

import json

import numpy as np
import pytest
from PIL import Image

from xaihelpers import datasets
from xaihelpers.worlds import audit, aviary, free_scenes, telling
from xaihelpers.worlds.aviary import aviary_files, bird_renderer
from xaihelpers.worlds.aviary.pose import PLANS, SCALE, Pose

N, LABELS = 240, 20
CLASSES = np.repeat(np.arange(24), 10)


@pytest.fixture(scope="module")
def world():
    """Noise for features (240, 30), and twenty labels that have nothing to do with it."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 30)), (rng.random((N, LABELS)) < 0.3).astype(float)


# How well labels are told


def test_an_area_worked_out_by_hand():
    """Of the four pairs of a picture with the label and one without it, three are in order."""
    scores = np.tile([0.1, 0.4, 0.35, 0.8], 8)[:, None]
    labels = np.tile([0, 0, 1, 1], 8)[:, None]
    assert telling.areas(scores, labels) == pytest.approx([0.75])
    assert telling.areas(np.zeros_like(scores), labels) == pytest.approx([0.5])  # ties count half
    terms = telling.area_terms(scores, labels)[:, 0]
    # with the label: half and all of the others lie below; without it: all and half lie above
    assert terms[:4] == pytest.approx(0.75 + np.array([0.25, -0.25, -0.25, 0.25]) / 0.5)
    assert np.isnan(telling.areas(scores, np.eye(32)[:, :1])).all()  # a single picture has the label


def test_terms_have_the_area_as_mean_and_delongs_variance():
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(90, 1)), (np.arange(90) < 30).astype(float)[:, None]
    terms = telling.area_terms(scores, labels)
    assert terms.mean(0) == pytest.approx(telling.areas(scores, labels))
    with_label, without = scores[:30, 0], scores[30:, 0]
    wins = with_label[:, None] > without  # (30, 60)
    delong = wins.mean(1).var() / 30 + wins.mean(0).var() / 60
    assert terms[:, 0].var() / 90 == pytest.approx(delong)


def test_nothing_is_told_of_labels_that_have_nothing_to_do_with_the_source(world):
    features, labels = world
    found = telling.told(features, labels, CLASSES)
    assert found.terms.shape == (N, LABELS) and found.shuffled.shape == (19, LABELS)
    assert abs(found.areas.mean() - 0.5) < 0.03 and abs(found.shuffled.mean() - 0.5) < 0.02
    assert found.terms.mean(0) == pytest.approx(found.areas)
    assert found.beyond.sum() <= 1  # one run in twenty has one


@pytest.mark.parametrize("kind", ["one column", "bent", "faint in all columns"])
def test_a_planted_leak_is_found_and_only_that(world, kind):
    features, labels = world[0].copy(), world[1]
    sign = 2 * labels[:, 3] - 1
    if kind == "one column":
        features[:, 7] = sign + 0.3 * features[:, 7]
    elif kind == "bent":  # far from the middle on either side
        features = np.where(labels[:, 3:4] > 0, 3, 0.5) * features[:, :2]
    else:
        features += 0.4 * sign[:, None]
    found = telling.told(features, labels, CLASSES)
    assert found.beyond[3] and found.areas[3] > 0.8
    assert np.delete(found.beyond, 3).sum() <= 1 and abs(np.delete(found.areas, 3).mean() - 0.5) < 0.03


def test_a_source_that_never_varies_tells_nothing(world):
    for features in (np.ones((N, 3)), np.full((N, 2), np.nan)):
        found = telling.told(features, world[1], CLASSES)
        assert (found.areas == 0.5).all() and not found.beyond.any()


def test_the_order_of_files_gives_the_class_away():
    order = audit.file_order(np.arange(N), N, 24)
    assert order.shape == (N, 24) and (order.argmax(1) == CLASSES).all()
    of_class = (CLASSES[:, None] == np.arange(24)).astype(float)
    assert (telling.told(order, of_class, CLASSES).areas > 0.99).all()


def test_rows_that_do_not_match_are_named(world):
    with pytest.raises(ValueError, match="have 239, 240 and 240 rows"):
        telling.told(world[0][1:], world[1], CLASSES)


# What pictures give


def save_bird(file, color, breast=(200, 30, 30), corner=None, place=(80, 60)):
    """A picture of a square bird: breast (part 4) beside wing (part 13), on grey noise; and its mask."""
    rng = np.random.default_rng(int(file.stem))
    image = rng.integers(90, 160, (224, 224, 3), dtype=np.uint8)
    parts = np.zeros((224, 224), np.uint8)
    top, left = place
    parts[top : top + 64, left : left + 40], parts[top : top + 64, left + 40 : left + 100] = 4, 13
    image[parts == 4], image[parts == 13] = breast, color
    if corner is not None:
        image[:8, :8] = corner
    Image.fromarray(image).save(file)
    return parts


def test_what_a_picture_gives(tmp_path):
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    parts = save_bird(first, (10, 20, 30))
    seen = audit.look(first, parts)
    assert seen["position"] == pytest.approx([(60 + 50) / 224, (80 + 32) / 224])
    assert seen["extent"] == pytest.approx([100 / 224, 64 / 224])
    assert seen["parts seen"].nonzero()[0].tolist() == [3, 12]
    assert seen["silhouette"].shape == (256,) and (seen["silhouette"] == 1).all()  # it fills its box
    colors = seen["part colors"].reshape(-1, 4)
    assert colors[[3, 12]] == pytest.approx(np.array([[200, 30, 30, 0], [10, 20, 30, 0]]), abs=1e-4)
    assert np.isnan(np.delete(colors, [3, 12], 0)).all()
    assert seen["file size"].tolist() == [first.stat().st_size, 0, 0]  # a PNG is not quantised
    assert not np.isnan(seen["background"]).any()
    empty = audit.look(first, np.zeros_like(parts))
    assert np.isnan(empty["position"]).all() and not empty["silhouette"].any()
    with pytest.raises(ValueError, match="a mask of .10, 224. pixels for an image of .224, 224."):
        audit.look(first, parts[:10])
    again = audit.look(first, save_bird(first, (240, 250, 20), breast=(0, 0, 255)))
    assert (again["background"] == seen["background"]).all()  # it has not seen the bird
    assert (audit.look(second, save_bird(second, (10, 20, 30)))["background"] != seen["background"]).any()


def test_a_planted_corner_is_found_in_pictures(tmp_path):
    """Through files and back, as JPEG: the corner is 60 levels apart, everything else is the same noise."""
    present = np.arange(60) % 2
    seen = {0: [], 60: []}
    for strength, of_strength in seen.items():
        for number, has_it in enumerate(present):
            file = tmp_path / f"{number}.jpg"
            of_strength.append(audit.look(file, save_bird(file, (9, 9, 9), corner=90 + strength * has_it)))
    areas = {}
    for strength, of_strength in seen.items():
        background = audit.stacked(of_strength)["background"]
        areas[strength] = telling.told(background, present[:, None], np.arange(60) // 10)
    assert areas[60].beyond.all() and areas[60].areas[0] > 0.95
    assert not areas[0].beyond.any() and areas[0].areas[0] < 0.8


def test_other_parts_are_told_from_without_the_part_that_shows_it():
    """The wing's color repeats the breast's: told by others, until the wing is that of the label itself."""
    rng = np.random.default_rng(2)
    present = (rng.random(N) < 0.5).astype(float)
    colors = rng.normal(size=(N, 16, 4))
    colors[:, [8, 12]] += 3 * present[:, None, None]  # the wings
    labels = np.stack([present] * 3, 1)
    groups = ["has_wing_color", "has_breast_color", "has_size"]
    found = audit.told_by_others(colors.reshape(N, -1), labels, groups, CLASSES)
    assert found.areas[1] > 0.95 and found.beyond.tolist() == [False, True, False]
    assert abs(found.areas[0] - 0.5) < 0.15 and np.isnan(found.areas[2])
    assert np.isnan(found.terms[:, 2]).all() and found.terms.shape == (N, 3)


def test_which_parts_show_a_group():
    assert audit.shown_on("has_wing_color") == ("left wing", "right wing")
    assert audit.shown_on("underparts_color") == ("belly", "breast")
    assert set(audit.shown_on("head_pattern")) > {"crown", "rest", "beak"}
    assert len(audit.shown_on("size")) == 16
    with pytest.raises(ValueError, match="unknown attribute group 'hat'"):
        audit.shown_on("hat")


# What the renderer gives


@pytest.mark.parametrize("name", ["Cardinal", "Downy_Woodpecker", "Anna_Hummingbird", "Horned_Puffin"])
def test_the_background_does_not_see_a_substituted_color(name):
    """All birds but those under water, through which the belly shines."""
    bird = aviary.individual(0, 500, name)
    pictures = [aviary.draw(b) for b in (bird, aviary.substitute(bird, "has_belly_color::pink"))]
    beside = np.logical_and(*[audit.outside(picture.parts) for picture in pictures])
    assert beside.mean() > 0.3
    assert (pictures[0].image[beside] == pictures[1].image[beside]).all()
    assert (pictures[0].image != pictures[1].image).any()


@pytest.mark.parametrize("name", ["at random", "free"])
def test_birds_are_made_again_as_they_were_drawn(name, monkeypatch, tmp_path):
    """Their true attributes are the labels on disk, where all parts can be seen."""
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    usual = aviary.draw(aviary.individual(0, 5, "Song_Sparrow"))
    whole = usual._replace(points=np.zeros((15, 2)))
    drawn = []
    monkeypatch.setattr(aviary_files, "draw", lambda bird: drawn.append(bird) or whole)
    monkeypatch.setattr(free_scenes, "draw_free", lambda bird: drawn.append(bird) or whole)
    ensure = free_scenes.ensure if name == "free" else aviary.ensure
    root = ensure(name, 1, seed=3, decorrelated=0.7, jobs=1)
    settings, labels = audit.settings_of(root), datasets.load(root).present
    for number in (0, 20, 47):
        bird, pose = audit.individual_at(settings, number)
        assert bird == drawn[number]
        assert (aviary.true_attributes(bird) == labels[number].numpy()).all()
        assert type(pose) is (free_scenes.FreePose if name == "free" else Pose)
    assert audit.settings_of(tmp_path) is None


def test_the_place_of_a_bird():
    pose = Pose(aviary.individual(0, 3, "Mallard"))
    place = audit.place_of(pose)
    assert place["seat"].sum() == 1 and audit.SEATS[place["seat"].argmax()] == "water"
    assert place["leaf scale"] == pytest.approx(1 / SCALE["medium"] ** 2)
    assert place["pose"].tolist() == [pose.flip, pose.tilt, pose.nod, pose.wing_raised, pose.tail_swing]


def test_the_seed_says_nothing():
    birds = [aviary.individual(0, index, int(species)) for index, species in enumerate(CLASSES)]
    numbers = np.array([audit.random_numbers(bird) for bird in birds])
    assert numbers.shape == (N, 18) and len(np.unique(numbers)) == numbers.size
    of_class = (CLASSES[:, None] == np.arange(24)).astype(float)
    found = telling.told(numbers, of_class, CLASSES)
    assert abs(found.areas.mean() - 0.5) < 0.04 and found.beyond.sum() <= 1


# Free scenes


def test_the_renderer_of_free_scenes_is_the_renderer(monkeypatch):
    """With the usual pose it draws the very same picture."""
    bird = aviary.individual(0, 7, "Mallard")
    monkeypatch.setitem(free_scenes.draw_free.__globals__, "Pose", Pose)
    first, second = aviary.draw(bird), free_scenes.draw_free(bird)
    assert (first.image == second.image).all() and (first.parts == second.parts).all()
    assert bird_renderer.Pose is Pose


def test_a_free_scene_follows_from_the_number_alone():
    seats, scales = set(), set()
    for index in range(60):
        duck, wren = (aviary.individual(4, index, name) for name in ("Mallard", "Song_Sparrow"))
        wren = aviary.substitute(wren, "has_size::very_large_(32_-_72_in)")
        poses = [free_scenes.FreePose(bird) for bird in (duck, wren)]
        assert poses[0].seat == poses[1].seat and poses[0].grain == poses[1].grain
        seats.add(poses[0].seat)
        scales.add(round(poses[0].grain, 6))
    assert seats == set(free_scenes.FREE_SEATS) < {plan.seat for plan in PLANS.values()}
    assert len(scales) == len(SCALE)


def test_legs_are_seen_on_every_free_seat():
    legs = [number for number, name in enumerate(aviary.PARTS, 1) if name.endswith("leg")]
    seen = {seat: [] for seat in free_scenes.FREE_SEATS}
    for index in range(14):
        duck = aviary.individual(4, index, "Mallard")
        parts = free_scenes.draw_free(duck).parts
        seen[free_scenes.FreePose(duck).seat].append(np.isin(parts, legs).any())
    assert all(np.mean(of_seat) > 0.5 for of_seat in seen.values() if of_seat)
    water = aviary.draw(aviary.individual(4, 0, "Mallard")).parts
    assert not np.isin(water, legs).any()


def test_a_usual_aviary_is_not_drawn_over(monkeypatch, tmp_path):
    monkeypatch.setenv("XAI_DATA", str(tmp_path))
    picture = aviary.draw(aviary.individual(0, 5, "Song_Sparrow"))
    monkeypatch.setattr(aviary_files, "draw", lambda bird: picture)
    monkeypatch.setattr(free_scenes, "draw_free", lambda bird: picture)
    root = aviary.ensure("birds", 1, decorrelated=1.0, jobs=1)
    with pytest.raises(ValueError, match="of other settings"):
        free_scenes.ensure("birds", 1, jobs=1)
    assert "scenes" not in json.loads((root / "aviary.json").read_text())
    free = free_scenes.ensure("free", 1, jobs=1)
    assert datasets.load(free).drawn and free_scenes.ensure("free", 1, jobs=1) == free
