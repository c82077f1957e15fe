"""What tests of images are given."""

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def picture():
    """Makes an RGB image of random pixels, another one for each seed."""

    def make(seed, size=(12, 10)):
        pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
        return Image.fromarray(pixels)

    return make


@pytest.fixture
def class_folders(tmp_path, picture):
    """Writes PNG images into `<folder>/<each path>/<number>.png`, all of them different."""
    written = iter(range(10**6))

    def write(counts, folder="pets"):
        for path, count in counts.items():
            where = tmp_path / folder / path
            where.mkdir(parents=True, exist_ok=True)
            for _ in range(count):
                seed = next(written)
                picture(seed).save(where / f"{seed}.png")
        return tmp_path / folder

    return write


@pytest.fixture
def opened(tmp_path):
    """Opens a data set of small images, with a cache of its own."""
    from nas.fit.data.open import open_images  # noqa: PLC0415 - after the import hook

    def open_small(data, **settings):
        return open_images(str(data), **{"side": 8, "cache": tmp_path / "cache", **settings})

    return open_small
