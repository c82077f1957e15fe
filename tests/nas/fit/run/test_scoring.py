"""Scores of parts of a trained network, which is adapted to the images in the folder of a fit."""

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
from nas.fit.run.scoring import inherited_scores
from nas.fit.training.trial import proxy_batch


def images(classes=("no", "yes")):
    """Sixteen images to train on, eight to judge by, eight to test."""
    pixels = np.random.default_rng(0).integers(0, 255, (32, 8, 8, 3)).astype(np.uint8)
    labels = np.arange(32) % 2
    splits = [Images(pixels[a:b], labels[a:b]) for a, b in ((0, 16), (16, 24), (24, 32))]
    return ImageSet("noise", "Noise", classes, *splits, (0.5,) * 3, (0.3,) * 3, "digest", ())


@pytest.mark.usefixtures("one_thread")
def test_a_network_is_adapted_once_and_scores_its_parts_by_what_they_inherit(tmp_path):
    pytest.importorskip("torch_pruning")
    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - of an extra

    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    space = elastic_space(nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 2)), side=8)
    path, console = tmp_path / "supernet.safetensors", Console(quiet=True)
    rows = space.sample(np.random.default_rng(0), 2)

    def scores(images):
        return inherited_scores(space, images, path, console, seed=0, seconds=0.0, check=print)

    first = list(scores(images()).each(rows))
    again = list(scores(images()).each(rows))

    assert first == again
    assert all(0 <= accuracy <= 1 for (accuracy,) in first)
    with pytest.raises(UserError, match="supernet"):
        scores(images(("a", "b", "c")))


@pytest.mark.usefixtures("one_thread")
def test_a_trained_network_has_the_statistics_of_the_images_before_its_parts_are_judged(tmp_path):
    """Training would normalise by them; those of 0 and 1 are of weights with folded normalisation."""
    pytest.importorskip("torch_pruning")
    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - of an extra

    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    trained = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 2))
    path, space = tmp_path / "supernet.safetensors", elastic_space(trained, side=8)

    inherited_scores(space, images(), path, Console(quiet=True), seed=0, seconds=0.0, check=print)

    weights = load_file(path)
    (variance,) = (value for name, value in weights.items() if name.endswith("1.running_var"))
    batch = proxy_batch(images(), 16)
    assert torch.allclose(variance, trained[0](batch).var((0, 2, 3)), rtol=1e-3)


@pytest.mark.usefixtures("one_thread")
def test_a_trained_network_whose_adaptation_diverges_is_scored_as_it_was(tmp_path, monkeypatch):
    pytest.importorskip("torch_pruning")
    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - of an extra
    from nas.fit.starts.elastic.shared import SharedElastic  # noqa: PLC0415 - loaded when needed

    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    trained = nn.Sequential(*layers, nn.Linear(16, 2))
    space, path = elastic_space(trained, side=8), tmp_path / "supernet.safetensors"
    harmful = replace(SharedElastic.recipe, lr=1e30, clip=None)
    monkeypatch.setattr(SharedElastic, "recipe", harmful)
    monkeypatch.setattr(scoring, "seconds_of_epoch", lambda *_, **__: 1.0)
    console = Console(file=StringIO())

    inherited_scores(space, images(), path, console, seed=0, seconds=1e4, check=lambda: None)

    weights = load_file(path)
    assert torch.equal(weights["network.0.weight"], trained[0].weight)
    assert "diverged" in console.file.getvalue()
