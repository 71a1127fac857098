"""The renderer of the aviary: an individual in, a 224×224 picture with the true place of every part out.

Everything is a field over the pixels. A body, neck, bill or leg is a chain of round cones given by its signed
distance; a wing or tail is a plane shape in its own coordinates (p along, q across). Distances give
anti-aliased edges and the roundness of the light, the coordinates carry plumage and markings. All arithmetic
is float64, and all chance comes from numpy generators seeded by (seed, index), so a bird is the same in every
process.
"""

import numpy as np

from worlds.aviary.body import paint_body
from worlds.aviary.individuals import Individual
from worlds.aviary.limbs import paint_bill, paint_eye, paint_legs, paint_tail, paint_wing
from worlds.aviary.parts import LEFT_EYE, LEFT_LEG, LEFT_WING, PARTS, REST, RIGHT_EYE, RIGHT_LEG, RIGHT_WING
from worlds.aviary.plumage import individual_tones
from worlds.aviary.pose import Pose
from worlds.aviary.scene import background, flower, occluder, seat, surface
from worlds.canvas import Canvas, Picture


def draw(bird: Individual, free_scene: bool = False) -> Picture:
    """Draw one individual. Parts are those of the finished picture: what is hidden has no point.

    free_scene: as of `Pose`.
    """

    def stream(number):
        return np.random.default_rng([bird.seed, bird.index, number])

    pose = Pose(bird, free_scene)
    tones, light_rng = individual_tones(stream(3)), stream(4)
    light = light_rng.uniform(0.82, 1.12) * (1 + light_rng.uniform(-0.05, 0.05) * np.array([1, 0, -1]))
    canvas = Canvas(background(bird, pose.seat, stream(2)))
    if pose.seat == "air":
        flower(canvas, pose, tones, stream(5))
    feet = seat(canvas, pose, stream(6))
    if pose.wing_raised:
        paint_wing(canvas, pose, bird, tones, light, near=False)
    paint_tail(canvas, pose, bird, tones, light)
    paint_legs(canvas, pose, tones, feet)
    paint_bill(canvas, pose, tones, light)
    paint_body(canvas, pose, bird, tones, light, stream(7))
    paint_eye(canvas, pose, tones)
    paint_wing(canvas, pose, bird, tones, light, near=True)
    if pose.seat == "water":
        water_line = pose.at(0.0, 0.15 * pose.plumpness)[1]
        surface(canvas, water_line, "water", stream(8), over=True)
    occluder(canvas, pose, stream(9))
    image, parts = canvas.color, canvas.parts
    if pose.flip:  # now it faces left: left and right change places
        image, parts = image[:, ::-1], parts[:, ::-1]
        swap = np.arange(REST + 1, dtype=np.uint8)
        left, right = [LEFT_EYE, LEFT_LEG, LEFT_WING], [RIGHT_EYE, RIGHT_LEG, RIGHT_WING]
        swap[left + right] = right + left
        parts = swap[parts]
    contrast, gain = light_rng.uniform(0.88, 1.10), light_rng.uniform(0.92, 1.06)
    image = np.clip((image - 0.5) * contrast + 0.5, 0, 1) * gain
    image *= 255
    image += light_rng.uniform(-3, 3, image.shape)
    image = np.clip(np.round(image, out=image), 0, 255, out=image).astype(np.uint8)
    return Picture(image, parts, *_places(parts))


def _places(parts: np.ndarray):
    """Centres of the visible parts (their own pixel nearest to the centroid), (15, 2), and the bird's box."""
    points = np.full((len(PARTS), 2), np.nan)
    ys, xs = np.nonzero(parts)
    numbers = parts[ys, xs]
    for number in range(1, REST):
        px, py = xs[numbers == number], ys[numbers == number]
        if len(px) >= (4 if number in (LEFT_EYE, RIGHT_EYE) else 12):
            nearest = np.argmin((px - px.mean()) ** 2 + (py - py.mean()) ** 2)
            points[number - 1] = px[nearest], py[nearest]
    if len(xs) == 0:
        return points, (0.0, 0.0, 0.0, 0.0)
    width, height = xs.max() - xs.min() + 1, ys.max() - ys.min() + 1
    return points, (float(xs.min()), float(ys.min()), float(width), float(height))
