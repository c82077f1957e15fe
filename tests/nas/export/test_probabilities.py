"""Probabilities of an exported file, and the threshold of `none of these`."""

import numpy as np
import pytest
from PIL import Image

from edgenas_core.types.errors import UserError
from nas.export.probabilities import (
    Probabilities,
    best_threshold,
    calibration_error,
    error_by_chance,
    fitted_temperature,
    probabilities_of,
    read_none,
    softened,
)
from nas.fit.data.image_set import Images, ImageSet


def image_set(valid, test):
    """Black images with these labels."""
    of_valid, of_test = (
        Images(np.zeros((len(labels), 8, 8, 3), np.uint8), labels) for labels in (valid, test)
    )
    grey = (0.5,) * 3
    return ImageSet("set", "set", ("a", "b", "c"), of_valid, of_valid, of_test, grey, grey, "0", ())


@pytest.fixture(scope="module")
def drawn():
    """Logits of three classes that are three times as large as their labels bear out."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 1.5, (6000, 3))
    draws = rng.random((6000, 1)) < softened(logits, 1.0).cumsum(1)
    return (3 * logits).astype(np.float32), draws.argmax(1)


def test_the_temperature_of_outputs_that_are_too_sure_is_found(drawn):
    logits, labels = drawn

    temperature = fitted_temperature(logits, labels)

    assert temperature == pytest.approx(3, rel=0.1)
    assert calibration_error(softened(logits, 1.0), labels) > 0.15
    assert calibration_error(softened(logits, temperature), labels) < 0.03


def test_the_calibration_error_is_the_mean_gap_of_bins():
    probabilities = np.array([[0.9, 0.1]] * 10 + [[0.4, 0.6]] * 10)
    labels = np.array([0] * 8 + [1] * 12)  # 80 % right where 90 % is said, all where 60 % is

    assert calibration_error(probabilities, labels) == pytest.approx(0.5 * 0.1 + 0.5 * 0.4)
    assert 0.1 < error_by_chance(probabilities) < 0.3


def test_one_of_twenty_validation_images_is_below_the_threshold(drawn):
    logits, labels = drawn
    images = image_set(labels[:3000], labels[3000:])

    found = probabilities_of(images, logits[:3000], logits[3000:])

    assert found.false_alarms == pytest.approx(0.05, abs=0.02)
    assert found.none_found is None
    assert f"none of the classes below {found.none_below:.0%}" in found.text


def test_photos_of_nothing_known_choose_the_threshold_between_both():
    known, unknown = np.linspace(0.6, 1, 50), np.linspace(0.2, 0.55, 50)

    assert best_threshold(known, unknown) == pytest.approx(0.6)


def test_a_threshold_close_to_1_is_not_rounded_to_it():
    sure = Probabilities(0.3, None, 0.999963, None, None, from_none=False)

    assert sure.text == "none of the classes below 99.9963%"


def test_a_folder_of_few_photos_is_refused(tmp_path):
    images = image_set(np.zeros(3, np.int64), np.zeros(3, np.int64))
    for number in range(9):
        Image.new("RGB", (10, 12), "red").save(tmp_path / f"{number}.png")
    with pytest.raises(UserError, match="has 9 photos that can be read; 10 or more"):
        read_none(tmp_path, images)

    Image.new("RGB", (10, 12), "red").save(tmp_path / "9.png")

    (tmp_path / "broken.jpg").write_bytes(b"no photo")

    photos, report = read_none(tmp_path, images)

    assert photos.pixels.shape == (10, 8, 8, 3)
    assert report.endswith("10 photos of 11; 1 unreadable, such as broken.jpg")
