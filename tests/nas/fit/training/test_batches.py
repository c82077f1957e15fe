"""Images of several splits, gathered by their positions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nas.fit.data.image_set import class_weights
from nas.fit.training.batches import DeviceImages, Draws, augment, images_of_epoch
from nas.fit.training.rand_augment import CHOICES, apply_rand_augment
from nas.fit.training.recipe import RECIPES

PLAIN = replace(RECIPES["nas_bench_201"], flip=False, crop=False)


@pytest.fixture
def pixels():
    return torch.randint(1, 256, (40, 16, 16, 3), generator=torch.Generator().manual_seed(0)).to(
        torch.uint8
    )


@pytest.fixture
def draws():
    return Draws.draw(40, 16, torch.Generator().manual_seed(1))


def test_a_recipe_without_augmentation_leaves_the_images(pixels, draws):
    assert torch.equal(augment(pixels, draws, PLAIN), pixels)


def test_about_half_of_the_images_are_flipped(pixels, draws):
    out = augment(pixels, draws, replace(PLAIN, flip=True))

    for image, before, is_flipped in zip(out, pixels, draws.flip, strict=True):
        assert torch.equal(image, before.flip(1) if is_flipped else before)
    assert 10 < draws.flip.sum() < 30


def test_a_crop_is_the_image_moved_by_at_most_an_eighth_of_its_side(pixels, draws):
    out = augment(pixels, draws, replace(PLAIN, crop=True))

    padded = torch.nn.functional.pad(pixels, (0, 0, 2, 2, 2, 2))
    for image, before, y, x in zip(out, padded, draws.shift_y, draws.shift_x, strict=True):
        assert torch.equal(image, before[y : y + 16, x : x + 16])
    assert set(draws.shift_x.tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("operation", range(CHOICES))
def test_each_operation_of_rand_augment_changes_the_images_but_the_first(pixels, operation):
    operations = torch.full((40, 1), operation)

    outs = [apply_rand_augment(pixels, operations, torch.full((40, 1), sign)) for sign in (-1, 1)]

    for out in outs:
        assert torch.equal(out, pixels) is (operation == 0)
        mean_change = (out.float() - pixels.float()).abs().mean()
        assert mean_change < 128  # still the same picture


def test_rand_augment_treats_each_image_alone(pixels, draws):
    whole = apply_rand_augment(pixels, draws.operations, draws.signs)
    alone = apply_rand_augment(pixels[7:8], draws.operations[7:8], draws.signs[7:8])

    assert torch.equal(whole[7:8], alone)


def test_a_shift_moves_the_image_and_leaves_black():
    image = torch.full((1, 16, 16, 3), 200, dtype=torch.uint8)
    shift_x = 4

    out = apply_rand_augment(image, torch.tensor([[shift_x]]), torch.tensor([[1]]))

    assert torch.equal(out[0, :, :14], image[0, :, :14])
    assert (out[0, :, 14:] == 0).all()


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


def test_uneven_classes_are_drawn_by_the_square_root_of_their_images(brightness):
    labels = np.repeat([0, 1], [190, 10])
    source = DeviceImages([replace(brightness.train, labels=labels)], torch.device("cpu"))

    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([source.order(200, generator) for _ in range(20)])

    share = 10**0.5 / (10**0.5 + 190**0.5)
    assert labels[drawn].mean() == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(
    ("labelled", "others", "images"),
    [(1200, 5000, 2400), (1200, 300, 1500), (120, 5000, 1120), (120, 0, 120)],
)
def test_an_epoch_has_as_many_images_without_a_label_as_with_one_or_a_thousand(
    labelled, others, images
):
    assert images_of_epoch(labelled, others) == images
