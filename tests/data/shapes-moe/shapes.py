"""Draws images of eight shapes, the data of the bundled vision model: `python3 shapes.py DIR COUNT SEED` writes a folder per class.

Image i of a seed is the same on every machine and whatever the count. Position, size, angle and colours are random, and noise makes some
images ambiguous, so that no model is right about all of them.
"""
import math
import pathlib
import random
import sys

SIDE = 32  # pixels
CLASSES = ("circle", "ring", "square", "frame", "triangle", "cross", "bars", "star")
NOISE = 90  # of 255: the range of the noise of a channel


def inside(shape, x, y):
    """Whether a point is in a shape of radius 1 around the origin."""
    length = math.hypot(x, y)
    if shape == "circle":
        return length < 0.9
    if shape == "ring":
        return 0.5 < length < 0.95
    if shape == "square":
        return max(abs(x), abs(y)) < 0.75
    if shape == "frame":
        return 0.42 < max(abs(x), abs(y)) < 0.8
    if shape == "triangle":
        return y < 0.6 and 1.6 * abs(x) - 1 < y
    if shape == "cross":
        return min(abs(x), abs(y)) < 0.26 and length < 1
    if shape == "bars":
        return max(abs(x), abs(y)) < 0.85 and abs(x) % 0.68 > 0.34
    return length < 0.62 + 0.33 * math.cos(5 * math.atan2(x, y))


def draw(seed, index):
    """The class of image `index` and its pixels, 3 bytes each, row by row."""
    # Multiplied apart, so that seeds and indices share no images.
    chance = random.Random(seed * 1_000_003 + index)
    label = chance.randrange(len(CLASSES))
    radius = chance.uniform(8, 12)
    middle = [SIDE / 2 + chance.uniform(-3, 3) for _ in range(2)]
    angle = chance.uniform(-0.25, 0.25)
    back = [chance.randrange(40, 216) for _ in range(3)]
    contrast = chance.uniform(0.25, 1)
    fore = [round(b + contrast * ((b + chance.randrange(90, 166)) % 256 - b)) for b in back]
    cosine, sine = math.cos(angle) / radius, math.sin(angle) / radius
    noise = chance.randbytes(3 * SIDE * SIDE)
    pixels = bytearray()
    for y in range(SIDE):
        for x in range(SIDE):
            dx, dy = x - middle[0], y - middle[1]
            color = fore if inside(CLASSES[label], dx * cosine + dy * sine, dy * cosine - dx * sine) else back
            at = len(pixels)
            pixels += bytes(min(max(color[i] + (noise[at + i] - 128) * NOISE // 255, 0), 255) for i in range(3))
    return label, bytes(pixels)


def write(folder, count, seed, first=0):
    """Writes images [first, first + count) of a seed as FOLDER/CLASS/INDEX.ppm."""
    for name in CLASSES:
        (pathlib.Path(folder) / name).mkdir(parents=True, exist_ok=True)
    for index in range(first, first + count):
        label, pixels = draw(seed, index)
        path = pathlib.Path(folder) / CLASSES[label] / f"{index:06}.ppm"
        path.write_bytes(b"P6\n%d %d\n255\n" % (SIDE, SIDE) + pixels)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
