"""Scores by a supernet that is trained into the folder of a search."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import Images, ImageSet
from nas.fit.run import scoring
from nas.fit.run.scoring import supernet_scores
from nas.fit.training.trial import proxy_batch
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


@pytest.mark.usefixtures("one_thread")
def test_a_trained_network_has_the_statistics_of_the_images_before_its_parts_are_judged(tmp_path):
    """Training would normalise by them; those of 0 and 1 are of weights with folded normalisation."""
    pytest.importorskip("torch_pruning")
    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - of an extra

    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    trained = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 2))
    path, space = tmp_path / "supernet.safetensors", elastic_space(trained, side=8)

    supernet_scores(
        space, images(), None, path, Console(quiet=True), seed=0, seconds=0.0, check=print
    )

    weights = load_file(path)
    (variance,) = (value for name, value in weights.items() if name.endswith("1.running_var"))
    batch = proxy_batch(images(), 16)
    assert torch.allclose(variance, trained[0](batch).var((0, 2, 3)), rtol=1e-3)


@pytest.mark.usefixtures("one_thread")
def test_a_trained_network_whose_adaptation_diverges_is_scored_as_it_was(tmp_path, monkeypatch):
    pytest.importorskip("torch_pruning")
    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - of an extra
    from nas.fit.starts.elastic.shared import SharedElastic  # noqa: PLC0415 - as above

    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    trained = nn.Sequential(*layers, nn.Linear(16, 2))
    space, path = elastic_space(trained, side=8), tmp_path / "supernet.safetensors"
    harmful = replace(SharedElastic.recipe, lr=1e30, clip=None)
    monkeypatch.setattr(SharedElastic, "recipe", harmful)
    monkeypatch.setattr(scoring, "seconds_of_epoch", lambda *_, **__: 1.0)
    console = Console(file=StringIO())

    supernet_scores(space, images(), None, path, console, seed=0, seconds=1e4, check=lambda: None)

    weights = load_file(path)
    assert torch.equal(weights["network.0.weight"], trained[0].weight)
    assert "diverged" in console.file.getvalue()
