"""Advice after a fit, by models of photos that have not learnt them."""

import numpy as np
import pytest
from torch import nn

from nas.fit.data.image_set import Images, ImageSet
from nas.fit.data.names import Names
from nas.fit.run import advice
from nas.fit.training.trained_folder import Judged


@pytest.fixture
def images():
    """Dark and bright images in three splits; one training and one test image have the other label."""
    rng = np.random.default_rng(0)
    labels = np.arange(260) % 2
    noise = rng.integers(0, 100, (260, 8, 8, 3))
    pixels = (noise + 150 * labels[:, None, None, None]).astype(np.uint8)
    given = labels.copy()
    given[[5, 203]] = 1 - given[[5, 203]]
    parts = (Images(pixels[a:b], given[a:b]) for a, b in ((0, 180), (180, 200), (200, 260)))
    train, valid, test = parts
    return ImageSet(
        "lamps", "Lamps", ("off", "on"), train, valid, test, (0.5,) * 3, (0.25,) * 3, "digest", ()
    )


def test_wrong_labels_are_found_in_every_split_of_the_images_that_are_looked_at(
    images, monkeypatch
):
    network = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(12, 2))

    steps = advice.advise(images, Judged(0.9, 60), network, seconds=1e9)

    assert [each.position for each in steps.doubtful][:2] in ([5, 203], [203, 5])
    assert {each.likely for each in steps.doubtful if each.position == 5} == {"on"}
    monkeypatch.setattr(advice, "_MOST_IMAGES", 160)
    assert "160 of 260 photos" in advice.advise(images, Judged(0.9, 60), network, 1e9).left_out[0]


def test_photos_that_are_all_nearly_equal_get_no_advice_on_labels(images, monkeypatch):
    names = Names(tuple(map(str, range(260))), (0,) * 260)
    monkeypatch.setattr(advice, "names_of", lambda _: names)

    steps = advice.advise(images, Judged(0.9, 60), None, seconds=1e9)

    assert (steps.doubtful, steps.more) == ((), ())
    assert "4 different ones" in steps.left_out[0]


def test_a_class_of_one_clip_which_no_model_has_learnt_is_not_doubted(images, monkeypatch):
    labels = np.concatenate([each.labels for each in (images.train, images.valid, images.test)])
    # all bright images are one clip, and all dark ones are groups of their own
    groups = tuple(np.where(labels == 1, 0, 1 + np.arange(260)).tolist())
    names = Names(tuple(map(str, range(260))), groups)
    monkeypatch.setattr(advice, "names_of", lambda _: names)
    network = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(12, 2))

    steps = advice.advise(images, Judged(0.9, 60), network, seconds=1e9)

    assert not [each for each in steps.doubtful if each.given == "on"]
    assert steps.more[0].photos == 100
    clips = Names(names.files, tuple(np.where(labels == 1, 0, 1 + np.arange(260) // 90).tolist()))
    monkeypatch.setattr(advice, "names_of", lambda _: clips)
    advice.advise(images, Judged(0.9, 60), network, seconds=1e9)
