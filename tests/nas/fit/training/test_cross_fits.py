"""Answers by models that have not learnt an image, and what they tell."""

import numpy as np
import pytest

from nas.fit.training.cross_fits import (
    SHARES,
    USUAL_EXPONENT,
    cross_fits,
    doubtful,
    learning_exponent,
    on_features,
    on_pixels,
)


@pytest.fixture(scope="module")
def blobs():
    """Features of three classes that hardly overlap, 8 % of the labels swapped, and which those are."""
    rng = np.random.default_rng(0)
    labels = np.arange(240) % 3
    features = rng.normal(size=(240, 5)).astype(np.float32)
    features[:, :3] += 4 * np.eye(3)[labels]
    swapped = rng.choice(240, 19, replace=False)
    given = labels.copy()
    given[swapped] = (labels[swapped] + 1) % 3
    return features, labels, given, swapped


def test_swapped_labels_are_the_first_doubtful_ones(blobs):
    features, labels, given, swapped = blobs

    fits = cross_fits(on_features(features, given, 3), given, np.arange(240), 3)
    found = doubtful(fits.probabilities[1.0], given)

    first = [at for at, _ in found[:15]]
    assert set(first) <= set(swapped.tolist())
    assert all(likely == labels[at] for at, likely in found[:15])


def test_an_image_is_answered_by_models_that_learnt_none_of_its_group():
    learnt = []

    def learn(part, asked):
        learnt.append((part, asked))
        return np.full((len(asked), 2), 0.5, np.float32)

    groups = np.repeat(np.arange(10), 4)
    cross_fits(learn, np.arange(40) % 2, groups, 2)

    assert sorted(np.concatenate([asked for _, asked in learnt[::3]])) == list(range(40))
    for part, asked in learnt:
        assert not set(groups[part]) & set(groups[asked])
    for small, half, whole in zip(learnt[::3], learnt[1::3], learnt[2::3], strict=True):
        assert set(small[0]) < set(half[0]) < set(whole[0])


def test_the_exponent_of_a_power_law_is_found():
    wrong = np.array([[0.4 * share**-0.35 for share in SHARES], [0.3] * 3])

    assert learning_exponent(wrong) * 2 - USUAL_EXPONENT == pytest.approx([0.35, 0.0])


def test_a_small_network_learns_colours_from_pixels():
    rng = np.random.default_rng(0)
    labels = np.arange(48) % 2
    pixels = rng.integers(0, 80, (48, 8, 8, 3)).astype(np.uint8)
    pixels[..., 0] += (150 * labels[:, None, None]).astype(np.uint8)

    answers = on_pixels(pixels, labels, 2)(np.arange(32), np.arange(32, 48))

    assert (answers.argmax(1) == labels[32:]).all()
