"""The parts of a bird, as CUB-200-2011 numbers them, and their numbers in the aviary's masks."""

# CUB's 15 parts; id = position + 1
PARTS = [
    "back",
    "beak",
    "belly",
    "breast",
    "crown",
    "forehead",
    "left eye",
    "left leg",
    "left wing",
    "nape",
    "right eye",
    "right leg",
    "right wing",
    "tail",
    "throat",
]
REST = 16  # mask value of the bird's pixels that belong to no part (cheek)
BACK, BEAK, BELLY, BREAST, CROWN, FOREHEAD = 1, 2, 3, 4, 5, 6
LEFT_EYE, LEFT_LEG, LEFT_WING = 7, 8, 9
NAPE, RIGHT_EYE, RIGHT_LEG, RIGHT_WING = 10, 11, 12, 13
TAIL, THROAT = 14, 15
