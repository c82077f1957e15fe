"""Synthetic scenes: CIFAR-10 objects pasted on blurred backgrounds, with masks and COCO boxes.

No photo of the world looks like them; they are to compare networks with, where no data set can be had.
Each object is cut out of its image by a super-ellipse, resized and pasted once; a later one hides the
earlier, whose box is that of its visible pixels.

    $ python -m benchmarks.scenes cifar10-jpeg.parquet scenes/ --count 5000

writes images/*.jpg, masks/*.png (0: background, then the class) and annotations.json.
"""

import argparse
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image, ImageFilter

SIDES = (128, 160)
OBJECTS = (1, 4)
"""Fewest and most objects of a scene."""

SHARES = (0.22, 0.5)
"""Smallest and largest side of an object, as a share of the scene's."""

_LEAST_VISIBLE = 0.4
"""Share of an object that is visible, or it is left out."""


def compose(chosen):
    """Write scenes of the training images of a Parquet file (split, label, name, jpeg)."""
    parquet, out, count, seed = chosen.parquet, chosen.out, chosen.count, chosen.seed
    table = pq.read_table(
        parquet, filters=[("split", "=", "train"), ("label", "<", chosen.classes)]
    )
    labels = table["label"].to_numpy().astype(int)
    names = dict(zip(labels.tolist(), table["name"].to_pylist(), strict=True))
    jpegs, rng = table["jpeg"], np.random.default_rng(seed)
    supply = iter(
        np.tile(rng.permutation(len(labels)), 1 + count * (OBJECTS[1] + 1) // len(labels))
    )
    for folder in ("images", "masks"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for number in range(count):
        side = int(rng.choice(chosen.sides))
        scene = _background(_decoded(jpegs, next(supply)), side, rng)
        classes = np.zeros((side, side), np.uint8)
        owners = np.zeros((side, side), np.uint8)
        areas = []
        for owner in range(1, rng.integers(OBJECTS[0], OBJECTS[1] + 1) + 1):
            at = next(supply)
            size = int(side * rng.uniform(*SHARES))
            top, left = rng.integers(0, side - size + 1, 2)
            shape = _shape(size, rng)
            place = (slice(top, top + size), slice(left, left + size))
            hidden = [(owners[place][shape] == other).sum() for other in range(1, owner)]
            visible = [(owners == other).sum() for other in range(1, owner)]
            if any(
                v - h < _LEAST_VISIBLE * a for v, h, a in zip(visible, hidden, areas, strict=True)
            ):
                areas.append(0)
                continue
            picture = _decoded(jpegs, at).resize((size, size), Image.Resampling.BICUBIC)
            scene[place][shape] = np.asarray(picture)[shape]
            owners[place][shape], classes[place][shape] = owner, labels[at] + 1
            areas.append(int(shape.sum()))
        name = f"{number:05d}"
        Image.fromarray(scene).save(out / "images" / f"{name}.jpg", quality=92)
        Image.fromarray(classes).save(out / "masks" / f"{name}.png")
        images.append({"id": number, "file_name": f"{name}.jpg", "width": side, "height": side})
        for owner in np.unique(owners[owners > 0]).tolist():
            rows, columns = np.nonzero(owners == owner)
            left, top = int(columns.min()), int(rows.min())
            width, height = int(columns.max()) - left + 1, int(rows.max()) - top + 1
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": int(classes[rows[0], columns[0]]),
                    "bbox": [left, top, width, height],
                    "area": len(rows),
                    "iscrowd": 0,
                }
            )
    categories = [{"id": label + 1, "name": names[label]} for label in sorted(names)]
    info = {"description": f"Synthetic scenes of CIFAR-10 objects, seed {seed}"}
    content = {"info": info, "images": images, "annotations": annotations, "categories": categories}
    (out / "annotations.json").write_text(json.dumps(content))
    lines = ["background", *(names[label] for label in sorted(names))]
    (out / "classes.txt").write_text("\n".join(lines) + "\n")


def _decoded(jpegs, at):
    return Image.open(io.BytesIO(jpegs[int(at)].as_py())).convert("RGB")


def _background(image, side, rng):
    """Colours of an image without its shapes, with noise."""
    blurred = image.filter(ImageFilter.GaussianBlur(5)).resize((side, side))
    noise = rng.normal(0, 12, (side // 4, side // 4, 3)).repeat(4, 0).repeat(4, 1)
    fine = rng.normal(0, 6, (side, side, 3))
    return np.clip(np.asarray(blurred) + noise + fine, 0, 255).astype(np.uint8)


def _shape(size, rng):
    """A super-ellipse that fills its square."""
    at = np.linspace(-1, 1, size)
    exponent = rng.uniform(2, 6)
    return np.abs(at[:, None]) ** exponent + np.abs(at) ** exponent <= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parquet", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES)
    parser.add_argument("--classes", type=int, default=10)
    compose(parser.parse_args())


if __name__ == "__main__":
    main()
