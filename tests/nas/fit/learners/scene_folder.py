"""A few small scenes: a square of a class on a background, with masks and COCO's JSON."""

import json

import numpy as np
from PIL import Image

SIDE = 48


def write_scenes(folder, count=20, classes=2):
    rng = np.random.default_rng(0)
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    images, annotations = [], []
    for number in range(count):
        label, size = 1 + number % classes, int(rng.integers(12, 25))
        left, top = rng.integers(0, SIDE - size, 2).tolist()
        pixels = rng.integers(90, 110, (SIDE, SIDE, 3)).astype(np.uint8)
        mask = np.zeros((SIDE, SIDE), np.uint8)
        pixels[top : top + size, left : left + size, label - 1] = 250
        mask[top : top + size, left : left + size] = label
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        Image.fromarray(mask).save(folder / "masks" / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "width": SIDE, "height": SIDE})
        annotations.append(
            {
                "id": number,
                "image_id": number,
                "category_id": label,
                "bbox": [left, top, size, size],
            }
        )
    categories = [{"id": number, "name": f"class {number}"} for number in range(1, classes + 1)]
    write_annotations(folder, images, annotations, categories)
    return folder


def write_annotations(folder, images, annotations, categories):
    info = {"description": "Synthetic squares"}
    content = {"info": info, "images": images, "annotations": annotations, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(content))
