"""scikit-learn's handwritten digits, the data set that needs no download."""

import numpy as np

from nas.fit.data.open import open_images


def test_digits_are_1797_images_of_10_classes_in_three_stratified_splits():
    images = open_images("digits", side=8, seed=0)

    assert images.classes == tuple("0123456789")
    counts = [np.bincount(split.labels) for split in (images.train, images.valid, images.test)]
    assert sum(counts).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert counts[1].tolist() == counts[2].tolist() == [18, 18, 18, 18, 18, 18, 18, 18, 17, 18]
    assert images.train.pixels.shape == (1439, 8, 8, 3)
    assert images.task.num_classes == 10
    assert images.task.image_side == 8


def test_the_seed_decides_what_is_drawn():
    first, again, other = (open_images("digits", side=8, seed=seed) for seed in (0, 0, 1))

    assert first.digest == again.digest
    assert first.digest != other.digest
