"""Classes that a mirror makes into each other are found by their mean images."""

import numpy as np

from nas.fit.data.mirrors import mirrored_pairs, mirrors_text


def left_arrows(count, rng):
    """An arrow's head on one side of a bar, at any height."""
    images = rng.integers(60, 80, (count, 16, 16))
    for image in images:
        top = rng.integers(3, 10)
        image[top + 1, 2:14] = 200
        image[top - 1 : top + 4, 2:4] = 200
    return images.astype(np.uint8)


def test_left_and_right_arrows_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    other = rng.integers(0, 255, (40, 16, 16)).astype(np.uint8)
    symmetric = (other // 2 + other[:, :, ::-1] // 2).astype(np.uint8)
    symmetric[:, 4:12, 4:12] = 255
    right = left_arrows(40, rng)[:, :, ::-1]
    images = np.concatenate([left_arrows(40, rng), right, other, symmetric])
    labels = np.repeat([0, 1, 2, 3], 40)

    pairs = mirrored_pairs(images, labels)

    assert pairs == [(0, 1)]
    (line,) = mirrors_text(pairs, ["left", "right", "x", "y"])
    assert "left and right" in line
    assert "augment=crop" in line


def test_digits_have_no_mirrored_pair(opened):
    digits = opened("digits")

    pairs = mirrored_pairs(np.asarray(digits.train.pixels)[..., 0], digits.train.labels)

    assert pairs == []
