"""Scores by a supernet that is trained into the folder of a search."""

import numpy as np
import pytest
from rich.console import Console

from common.types.errors import UserError
from nas.accuracy.images.image_set import Images, ImageSet
from nas.search.own_images.scoring import supernet_scores
from nas.spaces.mobilenet_v3.plugin import MobileNetV3Space

SPACE = MobileNetV3Space("narrow", 0.25, None)


def images(classes=("no", "yes")):
    """Sixteen images to train on, eight to judge by, eight to test."""
    pixels = np.random.default_rng(0).integers(0, 255, (32, 8, 8, 3)).astype(np.uint8)
    labels = np.arange(32) % 2
    splits = [Images(pixels[a:b], labels[a:b]) for a, b in ((0, 16), (16, 24), (24, 32))]
    return ImageSet("noise", "Noise", classes, *splits, (0.5,) * 3, (0.3,) * 3, "digest", ())


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_supernet_is_trained_once_and_scores_networks_by_what_they_inherit(tmp_path):
    path, console = tmp_path / "supernet.safetensors", Console(quiet=True)
    rows = SPACE.sample(np.random.default_rng(0), 2)
    checks = []

    def scores():
        return supernet_scores(
            SPACE, images(), None, path, console, seed=0, seconds=0.0,
            check=lambda: checks.append(1),
        )  # fmt: skip

    first = list(scores().each(rows))
    again = list(scores().each(rows))

    assert first == again
    assert all(0 <= accuracy <= 1 for (accuracy,) in first)
    assert len(checks) == 1  # one epoch in all, although there is no time for it
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "supernet.safetensors",
        "tensorboard",
    ]
    with pytest.raises(UserError, match="space=narrow"):
        supernet_scores(
            SPACE, images(("a", "b", "c")), None, path, console, seed=0, seconds=0.0, check=print
        )
