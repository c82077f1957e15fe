"""A user's network is tried before anything is timed: one step of training, a cut, an export; and its scaling."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from edgenas_core.inference.formats.onnx_export import OPSET, onnx_bytes
from edgenas_core.inference.outputs import first_line, tensors_of
from edgenas_core.types.errors import UserError, gpu_memory_line
from nas.fit.data.groups import Scaling
from nas.fit.data.image_set import ImageSet, Target
from nas.fit.learners.data import TrainingData
from nas.fit.starts.elastic.space import ElasticSpace
from nas.fit.training.evaluation import accuracy_of

_OPSET = 13
"""Version of ONNX's operators that live devices are sent; it is raised where a network needs it."""

_EVALUATED = 200
"""Validation images on which scalings are compared."""

SCALINGS: dict[str, Scaling] = {
    "mean=0 std=1 (pixels / 255)": ((0.0,) * 3, (1.0,) * 3),
    "mean=0.5 std=0.5 (-1 to 1)": ((0.5,) * 3, (0.5,) * 3),
    "ImageNet's mean and std": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "mean=0 std=0.00392 (0 to 255)": ((0.0,) * 3, (1 / 255,) * 3),
}
"""Usual means and standard deviations of images, fractions of 255, by their names."""


def rehearse(space: ElasticSpace, data: TrainingData) -> None:
    """Train the whole and the smallest sub-network for one step, and export both.

    Raises:
      UserError: if the outputs are not those of a classifier of images, the images have another number of
        channels, or a step or the export fails.
    """
    name = type(space.whole).__name__
    if isinstance(data, ImageSet):
        _require_image_classifier(space, data, name)
    task = replace(data.task, channels=space.channels)
    for row in (space.largest, space.smallest()):
        network, example = space.network(row, task), space.example_input(row, task, 2)
        try:
            outputs = tensors_of(network.train()(example.clone()))
            torch.stack([each.float().mean() for each in outputs]).sum().backward()
        except Exception as error:  # the author's code
            if isinstance(error, RuntimeError) and gpu_memory_line(error) is not None:
                raise
            raise UserError(
                f"network={name} cannot be trained: {first_line(error)}; its sub-network was "
                f"{space.text(row)}"
            ) from error
        if isinstance(data, ImageSet) and len(outputs) != 1:
            raise UserError(
                f"network={name} returns {len(outputs)} tensors in training; to learn classes of images it "
                f"returns one, (images, classes), so leave out auxiliary heads, or write a learner="
            )
        try:
            onnx_bytes(network.eval(), [example[:1]], opset=_OPSET, latest_opset=OPSET)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"network={name}: {error}") from error


def _require_image_classifier(space: ElasticSpace, data: ImageSet, name: str) -> None:
    if space.channels != data.task.channels:
        raise UserError(
            f"network={name} takes images of {space.channels} channels, and images are read with "
            f"{data.task.channels} ({data.channels}); give it its images by a learner="
        )
    task = space.tasks[space.default_task]
    with torch.no_grad():
        outputs = space.whole(space.example_input(space.largest, task, 1))
    if not isinstance(outputs, torch.Tensor) and space.structure.classes is not None:
        raise UserError(
            f"network={name} returns its tensor in a {type(outputs).__name__}; to learn from images it returns that tensor "
            f"alone, or write a learner= with a loss for its outputs"
        )
    if space.structure.classes is None and data.target is Target.classification:
        raise UserError(
            f"network={name}: to learn classes of images it returns one tensor, (images, classes); return "
            f"that one alone, or write a learner= with a loss for its outputs"
        )


def usual_scalings(channels: str) -> dict[str, Scaling]:
    """Usual scalings of images with these channels, by their names."""
    scalings = {}
    for words, (mean, sd) in SCALINGS.items():
        if channels == "bgr":
            scalings[words] = mean[::-1], sd[::-1]
        elif channels == "rgb":
            scalings[words] = mean, sd
        elif len(set(mean)) == 1:  # a colour has no mean of grey
            scalings[words] = mean[:1], sd[:1]
    return scalings


def choose_scaling(space: ElasticSpace, data: TrainingData) -> str | None:
    """Give the space the scaling of images by which its network is most accurate, where it knows the classes.

    Its author may have divided pixels by 255, or used ImageNet's mean. A usual scaling is taken where it is
    more accurate on validation images than the mean and standard deviation of the training images.

    Returns:
      A sentence on the scaling; None where nothing was compared.
    """
    network = space.original(data.task)
    if (
        network is None
        or not isinstance(data, ImageSet)
        or data.target is not Target.classification
    ):
        return None
    if space.pretrained_normalisation is not None:
        return None
    own, usual = "those of the training images", usual_scalings(data.channels)
    accuracies = {
        words: _accuracy(network, replace(data, mean=mean, sd=sd))
        for words, (mean, sd) in {own: (data.mean, data.sd), **usual}.items()
    }
    best = max(accuracies, key=lambda words: (accuracies[words], words == own))
    if best != own:
        space.pretrained_normalisation = usual[best]
    others = ", ".join(
        f"{words} {value:.1%}" for words, value in accuracies.items() if words != best
    )
    return (
        f"images are scaled by {best}, with which the network is most accurate on validation images, "
        f"{accuracies[best]:.1%} ({others}); mean= and std= name another scaling"
    )


def _accuracy(network: nn.Module, data: ImageSet) -> float:
    return accuracy_of(network, data.valid.first(_EVALUATED), data)
