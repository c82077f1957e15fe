"""Images of several splits, gathered by their positions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nas.fit.data.image_set import class_weights
from nas.fit.training.augmented.batches import DeviceImages


def test_resident_images_are_those_of_the_memory_maps(brightness):
    splits = [brightness.train, brightness.valid]
    streamed, resident = (DeviceImages(splits, torch.device("cpu")) for _ in range(2))
    resident._upload()
    which = torch.tensor([259, 0, 199, 200])

    for content, expected in zip(resident.gather(which), streamed.gather(which), strict=True):
        assert torch.equal(content, expected)
    assert streamed.gather(which)[1][0] == brightness.valid.labels[-1]


@pytest.mark.parametrize(
    ("counts", "weights"),
    [([30, 20], [1, 1]), ([60, 20], [2 / 3, 2]), ([45, 0, 15], [2 / 3, 0, 2]), ([9], [1])],
)
def test_classes_that_differ_much_in_size_count_alike(counts, weights):
    labels = np.repeat(np.arange(len(counts)), counts)

    weighted = class_weights(labels)

    present = np.array(counts) > 0
    assert weighted[present] == pytest.approx(np.array(weights)[present])
    assert weighted[labels].mean() == pytest.approx(1)


def test_images_of_uneven_classes_are_drawn_equally_often(brightness):
    labels = np.repeat([0, 1], [190, 10])
    source = DeviceImages([replace(brightness.train, labels=labels)], torch.device("cpu"))

    drawn = source.order(1000, torch.Generator().manual_seed(0))

    assert labels[drawn].mean() == pytest.approx(0.5, abs=0.05)
