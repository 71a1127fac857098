"""The parts of a bird, as CUB-200-2011 numbers them, and their numbers in the aviary's masks."""

# CUB's 15 parts; id = position + 1
PARTS = (
    "back,beak,belly,breast,crown,forehead,left eye,left leg,left wing,nape,right eye,right leg,right wing,"
    "tail,throat"
).split(",")
BACK, BEAK, BELLY, BREAST, CROWN, FOREHEAD, LEFT_EYE, LEFT_LEG, LEFT_WING = range(1, 10)
NAPE, RIGHT_EYE, RIGHT_LEG, RIGHT_WING, TAIL, THROAT = range(10, 16)
REST = 16  # mask value of the bird's pixels that belong to no part (cheek)
