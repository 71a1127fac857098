"""ICC profiles made by hand: spaces by their primaries and gamma, a grey, and an ink with a table."""

import struct

import numpy as np
from PIL import ImageCms

WHITE = (0.9642, 1, 0.8249)


def fixed(*values):
    return b"".join(struct.pack(">i", round(65536 * value)) for value in values)


def colour(values):
    return b"XYZ " + bytes(4) + fixed(*values)


def curve(gamma):
    return b"curv" + bytes(4) + struct.pack(">IHH", 1, round(256 * gamma), 0)


def text(words):
    said = words.encode() + b"\0"
    return b"desc" + bytes(4) + struct.pack(">I", len(said)) + said + bytes(78)


def profile(space, tags, kind=b"mntr", connection=b"XYZ "):
    tags = {b"desc": text("made by hand"), b"wtpt": colour(WHITE)} | tags
    table, body = struct.pack(">I", len(tags)), b""
    for name, content in tags.items():
        content += bytes(-len(content) % 4)
        table += name + struct.pack(">II", 132 + 12 * len(tags) + len(body), len(content))
        body += content
    size = 128 + len(table) + len(body)
    head = struct.pack(">I4sI", size, b"    ", 0x02400000) + kind + space + connection + bytes(12) + b"acsp"
    return head + bytes(28) + fixed(*WHITE) + bytes(48) + table + body


def of_primaries(gamma, *primaries):
    tags = {b"rgb"[n : n + 1] + b"XYZ": colour(one) for n, one in enumerate(primaries)}
    return profile(b"RGB ", tags | {b"rgb"[n : n + 1] + b"TRC": curve(gamma) for n in range(3)})


def of_ink():
    """Cyan, magenta, yellow, black by a table of two levels each, to lightness and two colours."""
    c, m, y, k = np.indices((2, 2, 2, 2)).reshape(4, -1)
    light = 255 * (1 - k) * (1 - 0.3 * c - 0.3 * m - 0.1 * y)
    table = np.stack([light, 128 - 60 * c + 60 * m, 128 + 70 * y - 30 * c], -1).clip(0, 255)
    curves = bytes(range(256))
    content = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    content += 4 * curves + table.astype(np.uint8).tobytes() + 3 * curves
    return profile(b"CMYK", {b"A2B0": content}, b"prtr", b"Lab ")


P3 = of_primaries(2.2, (0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841))
ADOBE = of_primaries(2.2, (0.6097, 0.3111, 0.0195), (0.2053, 0.6257, 0.0609), (0.1492, 0.0632, 0.7446))
PROPHOTO = of_primaries(1.8, (0.7977, 0.2880, 0), (0.1352, 0.7119, 0), (0.0313, 0.0001, 0.8249))
GREY = profile(b"GRAY", {b"kTRC": curve(1)})
INK = of_ink()
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
