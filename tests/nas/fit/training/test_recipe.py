"""Recipes."""

import math
from dataclasses import replace

import pytest

from edgenas_core.types.errors import UserError
from nas.fit.training.recipe import RECIPES, recipe_named, usual_recipe, with_augmentation


def test_the_learning_rate_of_nas_bench_201_changes_from_epoch_to_epoch():
    recipe = replace(RECIPES["nas_bench_201"], epochs=12)

    rates = [recipe.lr_at(step, 12 * 97) for step in range(12 * 97)]

    published = [0.1 * (1 + math.cos(math.pi * epoch / 12)) / 2 for epoch in range(12)]
    assert rates[::97] == pytest.approx(published)
    assert rates[96::97] == pytest.approx(published)


def test_the_learning_rate_of_modern_rises_and_falls_to_0():
    recipe = RECIPES["modern"]

    rates = [recipe.lr_at(step, 1000) for step in range(1000)]

    assert max(rates) == rates[50] == recipe.lr
    assert rates[:51] == sorted(rates[:51])
    assert rates[50:] == sorted(rates[50:], reverse=True)
    assert 0 < rates[0] < 0.003
    assert rates[-1] < 1e-6


@pytest.mark.parametrize(
    ("images", "batch"), [(5, 5), (100, 8), (1258, 78), (4096, 256), (50_000, 256)]
)
def test_a_small_training_set_has_small_batches(images, batch):
    assert RECIPES["modern"].batch_of(images) == batch


@pytest.mark.parametrize(
    ("name", "augment", "data", "applied"),
    [
        ("fine_tuning", "auto", "photos", ("flip", "crop")),
        ("modern", "auto", "digits", ("crop", "rand_augment")),
        ("fine_tuning", "none", "photos", ()),
        ("modern:flip", "crop,rand_augment", "digits", ("crop", "rand_augment")),
    ],
)
def test_augmentation_is_a_setting(name, augment, data, applied):
    recipe = recipe_named(with_augmentation(name, augment, data))

    assert recipe.augmentation == applied
    assert recipe.lr == recipe_named(name).lr


@pytest.mark.parametrize(("epochs", "applied"), [(12, False), (100, True)])
def test_random_initialisation_has_strong_augmentation_in_long_trainings_only(epochs, applied):
    recipe = replace(RECIPES["from_scratch"], epochs=epochs)

    assert ("rand_augment" in recipe.augmentation) is applied


@pytest.mark.parametrize(
    ("space", "name"), [("residual", "from_scratch"), ("nas_bench_201", "nas_bench_201")]
)
def test_only_networks_of_a_benchmark_have_its_protocol(space, name):
    assert usual_recipe(space) == name


@pytest.mark.parametrize(
    ("text", "problem"), [("best", "recipe=best"), ("modern:flip,blur", "augment=blur")]
)
def test_an_unknown_recipe_or_augmentation_is_refused(text, problem):
    with pytest.raises(UserError, match=problem):
        recipe_named(text)


@pytest.mark.parametrize(
    ("name", "images", "batch", "times"),
    [
        ("fine_tuning", 128, 8, 0.25),
        ("fine_tuning", 511, 31, 31 / 32),
        ("fine_tuning", 512, 32, 1),
        ("fine_tuning", 4_500, 32, 1),
        ("fine_tuning", 45_000, 224, 7),
        ("fine_tuning", 1_000_000, 256, 8),
        ("adamw", 1_000_000, 256, 8**0.5),
        ("adamw", 256, 16, 0.5**0.5),
        ("modern", 1_000_000, 256, 1),
    ],
)
def test_images_are_tuned_in_batches_of_their_number_with_a_rate_in_proportion(
    name, images, batch, times
):
    recipe = recipe_named(name)

    fitted = recipe.for_images(images)

    assert (fitted.batch_of(images), fitted.lr) == (batch, pytest.approx(times * recipe.lr))
