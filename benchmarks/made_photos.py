"""Made photos in class folders: synthetic, to measure what needs a known truth. No photo of the world looks like them.

A class is a shape with a hue, a stripe and a size of its own; place, turn, light, clutter and proportions vary.
Sets of other seeds have other classes. `hard` from 0 to 1 is how near the classes lie to each other.

    $ python -m benchmarks.made_photos photos/ --seed 3 --count 600 --classes 6
"""

from __future__ import annotations

import argparse
import colorsys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SIDE = 96


def photo(rng, style, hard):
    """One photo of a class."""
    corners, hue, stripe, turn, size = style
    width, height = SIDE, SIDE
    if rng.random() < 0.7:
        width, height = rng.permutation([SIDE, int(SIDE * rng.uniform(1.1, 1.5))]).tolist()
    light = rng.uniform(0.4, 1.0)
    ground = rng.uniform(0, 255, (4, 4, 3)) * light
    image = Image.fromarray(ground.astype(np.uint8)).resize((width, height), 3)
    draw = ImageDraw.Draw(image)
    for _ in range(rng.integers(2, 6)):  # clutter
        x, y, r = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(4, 14)
        draw.ellipse((x - r, y - r, x + r, y + r), fill=tuple(rng.integers(0, 255, 3).tolist()))
    reach = SIDE * size * rng.uniform(0.75, 1.2) / 2
    x = rng.uniform(reach, max(reach, width - reach) + 1)
    y = rng.uniform(reach, max(reach, height - reach) + 1)
    angle = turn + rng.normal(0, 0.25 + hard)
    around = angle + np.arange(2 * corners) * np.pi / corners
    radii = np.where(np.arange(2 * corners) % 2, reach, reach * 0.55) if stripe > 0.5 else reach
    points = np.stack([x + radii * np.cos(around), y + radii * np.sin(around)], 1)
    shade = colorsys.hsv_to_rgb((hue + rng.normal(0, 0.03 + 0.12 * hard)) % 1, 0.75, light)
    draw.polygon([tuple(each) for each in points.tolist()], fill=tuple(int(255 * c) for c in shade))
    noise = rng.normal(0, 8 + 20 * hard, (height, width, 3))
    blurred = np.asarray(image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 1.2))))
    return Image.fromarray(np.clip(blurred + noise, 0, 255).astype(np.uint8))


def styles(seed, classes):
    """What each class looks like."""
    rng = np.random.default_rng([seed, 7])
    return [
        (
            int(rng.integers(3, 7)),
            (at / classes + rng.normal(0, 0.05)) % 1,
            rng.random(),
            rng.uniform(0, np.pi),
            rng.uniform(0.45, 0.75),
        )
        for at in range(classes)
    ]


def write(folder, *, seed, count, classes=6, hard=0.5, first=0):
    """Write photos, the same of one seed; `first` skips some, for test photos of the same classes."""
    looks = styles(seed, classes)
    for number in range(first, first + count):
        rng = np.random.default_rng([seed, 8, number])
        at = int(rng.integers(classes))
        path = Path(folder) / f"class{at}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(rng, looks[at], hard).save(path, quality=90)
    return Path(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--hard", type=float, default=0.5)
    chosen = parser.parse_args()
    write(
        chosen.folder,
        seed=chosen.seed,
        count=chosen.count,
        classes=chosen.classes,
        hard=chosen.hard,
    )
