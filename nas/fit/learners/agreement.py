"""To answer as a trained network answers: images without labels, or a loader of any inputs.

The trained network is the teacher. No label is read; the metric is agreement with its answers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, final

import cloudpickle
import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn
from torch.nn import functional

from edgenas_core.inference.outputs import first_line, tensors_of
from edgenas_core.types.errors import UserError, not_one_of
from nas.fit.data.class_folders import SPLITS as FOLDERS
from nas.fit.data.groups import DataOptions, Scaling
from nas.fit.data.splits import ImagePart
from nas.fit.learners.base import LearnerDescription, Metric, blamed, mean_metric
from nas.fit.learners.data import LearnerData, first_tensor
from nas.fit.learners.functions import FunctionLearner
from nas.fit.learners.scenes import ScenePixels, Scenes, image_files, title_of, unchanged

METRICS = {
    "classes": "top-1 agreement",
    "boxes": "agreement of boxes",
    "error": "agreement, 1 - relative error",
}
"""Names of the metrics, by the values of `metric=`."""

_FLOOR = 0.05
"""Least standard deviation of a channel of answers, as a share of that of the whole output, in the loss."""

_SURE, _LEAST_PIXELS = 0.3, 3
"""Value from which a map shows an object (Liao et al., "DB", AAAI 2020), and least pixels of one."""

_SAME = 0.5
"""Intersection over union from which two boxes are the same."""


@final
class Frames:
    """All images of a folder and those below, as a network takes them; folders train, val and test are splits."""

    def __init__(
        self,
        data: str,
        side: int,
        mean: tuple[float, ...],
        sd: tuple[float, ...],
    ) -> None:
        """Reads the images.

        Raises:
          UserError: if there is no such folder, or there are too few, or too many.
        """
        self._folder, self._side = Path(DataOptions.of(data).data).expanduser(), side
        if not self._folder.is_dir():
            raise UserError(f"data={data}: there is no such folder; name one with images")
        files = image_files(self._folder)
        images = ScenePixels.of(files, side, data)
        inside = [file.relative_to(self._folder).parts[0].casefold() for file in images.files]
        parts = np.array([FOLDERS.get(name, ImagePart.train) for name in inside], np.int8)
        targets = torch.zeros(len(parts), dtype=torch.uint8)
        scenes = Scenes.of(images, targets, parts, self._folder, data)
        self._scenes = replace(scenes, mean=mean, sd=sd)

    def batches(self, split: str) -> Iterable[Any]:
        """Images, those to train on in random order."""
        return self._scenes.batches(split, unchanged)

    def example_input(self) -> Tensor:
        """Noise in the shape of an image."""
        return torch.randn(1, self._scenes.pixels.shape[-1], self._side, self._side)

    def describe(self) -> LearnerDescription:
        """The images."""
        return self._scenes.described(title_of(self._folder), (), "")


Inputs: TypeAlias = Frames | FunctionLearner
"""Batches of inputs; what else is in a batch is not read."""


def agreement_on(
    data: str, side: int, scaling: Scaling, metric: str | None, teacher: bytes
) -> LearnerData:
    """Learn a teacher's answers for the images of a folder; other processes read them again.

    Args:
      data: the folder, with its options.
      side: of the images, pixels.
      scaling: mean and standard deviation of each channel that the teacher takes, fractions of 255.
      metric: as `Agreement` takes it.
      teacher: the pickled module, made by this program.

    Raises:
      UserError: if the images or the metric do not fit.
    """
    settings = (data, side, scaling, metric, teacher)
    return replace(_opened(*settings), opened_by=(agreement_on, settings))


@lru_cache(maxsize=1)
def _opened(
    data: str, side: int, scaling: Scaling, metric: str | None, teacher: bytes
) -> LearnerData:
    frames = Frames(data, side, *scaling)
    return LearnerData.checked(Agreement(frames, cloudpickle.loads(teacher), metric))


@final
class Agreement:
    """A learner whose truth is what the teacher answers."""

    def __init__(self, inputs: Inputs, teacher: nn.Module, metric: str | None = None) -> None:
        """Takes a copy of the teacher.

        Args:
          inputs: batches, whose first tensor is the input of the networks.
          teacher: the trained network.
          metric: one of `METRICS`; None: by the shape of the answers.

        Raises:
          UserError: if the teacher does not run on the inputs, or its answers have another form.
        """
        self._inputs, self._teacher = (
            inputs,
            copy.deepcopy(teacher).eval().requires_grad_(requires_grad=False),
        )
        example = inputs.example_input()
        try:
            answers = self.answers(example)
        except Exception as error:  # the author's code
            raise UserError(
                f"network= does not run on inputs of shape {tuple(example.shape)}: {first_line(error)}"
            ) from error
        self.metric_kind = metric_for(answers, metric)
        self._outputs = answers[0].shape[1] if answers[0].ndim > 1 else 1
        with blamed("network= with the batches of split train"):
            self._deviations = _deviations(self._answers_of_split("train", most=4))

    def batches(self, split: str) -> Iterable[Any]:
        """Batches of the inputs."""
        return self._inputs.batches(split)

    def loss(self, network: nn.Module, batch: Any) -> Float[Tensor, ""]:
        """Mean over the outputs: of classes the cross-entropy with the teacher's probabilities, else the error in deviations.

        Probabilities are learnt as by Hinton et al. (2015).
        """
        images = first_tensor(batch)
        taught, given = self.answers(images), tensors_of(network(images))
        if self.metric_kind == "classes":
            (logits,), (truth,) = given, taught
            return functional.cross_entropy(logits.float(), truth.float().softmax(1))
        errors = [
            functional.smooth_l1_loss(
                (one.float() - two.float()) / sd.to(one.device), torch.zeros_like(one).float()
            )
            for one, two, sd in zip(given, taught, self._deviations, strict=True)
        ]
        return torch.stack(errors).mean()

    def metric(self, network: nn.Module, batches: Iterable[Any]) -> Metric:
        """Agreement with the teacher, the mean over items."""
        pairs = (  # of one batch at a time: outputs may be as large as the images, and many
            (tensors_of(network(images)), self.answers(images))
            for images in map(first_tensor, batches)
        )
        return mean_metric(METRICS[self.metric_kind], agreement_of(self.metric_kind, pairs))

    def example_input(self) -> Tensor:
        """One input."""
        return self._inputs.example_input()

    def describe(self) -> LearnerDescription:
        """The inputs, with the teacher among what the digest is of."""
        about = self._inputs.describe()
        digest = sha256(f"{about.digest} {self.metric_kind}".encode())
        for name, tensor in self._teacher.state_dict().items():
            digest.update(name.encode() + tensor.cpu().numpy().tobytes())
        line = (
            f"no labels: networks learn the answers of yours; metric: {METRICS[self.metric_kind]}"
        )
        return replace(
            about,
            outputs=self._outputs,
            metric=METRICS[self.metric_kind],
            digest=digest.hexdigest(),
            report=(*about.report, line),
        )

    def answers(self, images: Tensor) -> list[Tensor]:
        """The teacher's answers."""
        self._teacher.to(images.device)
        with torch.no_grad():
            return tensors_of(self._teacher(images))

    def _answers_of_split(self, split: str, most: int) -> Iterator[list[Tensor]]:
        for _, batch in zip(range(most), self.batches(split), strict=False):
            yield self.answers(first_tensor(batch))


def metric_for(answers: Sequence[Tensor], metric: str | None) -> str:
    """The metric of answers for one input: that of classes for numbers of two or more classes alone.

    Raises:
      UserError: if there is no such metric, or it is not for such answers.
    """
    if metric not in {None, *METRICS}:
        raise not_one_of("metric", str(metric), METRICS)
    shapes = [tuple(each.shape) for each in answers]
    has_classes = len(shapes) == 1 and len(shapes[0]) > 1 and shapes[0][1] > 1
    is_map = len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][1] == 1
    if (metric == "classes" and not has_classes) or (metric == "boxes" and not is_map):
        needs = {
            "classes": "(1, classes, ...)",
            "boxes": "(1, 1, height, width), values from 0 to 1",
        }
        raise UserError(
            f"metric={metric} is for one output {needs[str(metric)]}, and the network gives {shapes}; "
            f"metric=error is for any"
        )
    if metric is None:
        return "classes" if has_classes and len(shapes[0]) == 2 else "error"
    return str(metric)


@final
class _Moments:
    """Sums of the values of each channel of one output, batch after batch, less a value near the mean."""

    def __init__(self, first: Tensor) -> None:
        """Takes the first batch as the origin of the sums, in which a large mean would cancel."""
        self._axes = [axis for axis in range(first.ndim) if axis != 1 or first.ndim == 1]
        self._origin = first.double().mean(self._axes, keepdim=True)
        self._sum, self._squares = torch.zeros(2, *self._origin.shape).to(self._origin)
        self._items = self._values = 0

    def add(self, values: Tensor) -> None:
        """Add a batch."""
        less = values.double() - self._origin
        self._sum += less.sum(self._axes, keepdim=True)
        self._squares += less.square().sum(self._axes, keepdim=True)
        self._items += len(values)
        self._values += values.numel() // self._sum.numel()

    def deviations(self) -> Tensor:
        """Standard deviation of each channel, at least a share of that of the whole output."""
        means, squares = self._sum / self._values, self._squares / self._values
        channels = (squares - means.square()).clamp(min=0).sqrt()
        values = means + self._origin
        between = (values - values.mean()).square()
        whole = (channels.square() + between).mean().sqrt().clamp(min=1e-6)
        return torch.maximum(channels, _FLOOR * whole).float().cpu()

    def spread(self) -> Tensor:
        """Squared distance of an item from the mean of each channel, the mean over the items."""
        around = self._squares - self._sum.square() / self._values
        total: Tensor = around.clamp(min=0).sum()
        return total / self._items


def _deviations(answers: Iterable[Sequence[Tensor]]) -> list[Tensor]:
    """Standard deviation of each channel of each output, at least a share of that of the output."""
    moments: list[_Moments] = []
    for outputs in answers:
        moments = moments or list(map(_Moments, outputs))
        for each, output in zip(moments, outputs, strict=True):
            each.add(output)
    return [each.deviations() for each in moments]


_Pairs = Iterable[tuple[Sequence[Tensor], Sequence[Tensor]]]


def agreement_of(kind: str, pairs: _Pairs) -> Tensor:
    """Agreement of each item, by one of `METRICS`, with outputs and true outputs of batch after batch."""
    worth = {"classes": _alike_classes, "boxes": _alike_boxes, "error": _alike_values}
    return worth[kind](pairs)


def _alike_classes(pairs: _Pairs) -> Tensor:
    """For each item, the share of its classes, one or one a pixel, that are the teacher's."""
    return torch.cat(
        [
            (one[0].argmax(1) == two[0].argmax(1)).float().reshape(len(one[0]), -1).mean(1)
            for one, two in pairs
        ]
    )


def _alike_values(pairs: _Pairs) -> Tensor:
    """For each item, 1 less its relative error, the mean over the outputs.

    The error of an output is |y - t|, in root mean squares of |t - m| over the items, where m is the mean of a
    channel: always to answer the mean is worth 0.
    """
    errors: list[Tensor] = []  # of each batch, (outputs, items)
    moments: list[_Moments] = []
    for mine, truth in pairs:
        moments = moments or list(map(_Moments, truth))
        for each, output in zip(moments, truth, strict=True):
            each.add(output)
        squares = [
            _squares(one.float() - two.float()) for one, two in zip(mine, truth, strict=True)
        ]
        errors.append(torch.stack(squares))
    spreads = torch.stack([each.spread() for each in moments]).clamp(min=1e-12)
    shares = torch.cat(errors, 1) / spreads[:, None]
    return (1 - shares.sqrt()).mean(0).float()


def _squares(values: Tensor) -> Tensor:
    return values.reshape(len(values), -1).square().sum(1)


def _alike_boxes(pairs: _Pairs) -> Tensor:
    """For each item, the F1 score of the boxes around what its map shows; 1 where neither map shows anything."""
    return torch.tensor(
        [
            _shared(boxes_of(mine), boxes_of(truth))
            for one, two in pairs
            for mine, truth in zip(
                one[0][:, 0].cpu().numpy(), two[0][:, 0].cpu().numpy(), strict=True
            )
        ]
    )


def boxes_of(shown: Float[ndarray, "h w"]) -> list[tuple[int, int, int, int]]:
    """Left, top, right and bottom of each connected region of a map."""
    from scipy.ndimage import find_objects, label  # noqa: PLC0415 - slow to import

    regions, _ = label(shown > _SURE)
    sizes = np.bincount(regions.reshape(-1))
    return [
        (across.start, down.start, across.stop, down.stop)
        for number, (down, across) in enumerate(find_objects(regions), 1)
        if sizes[number] >= _LEAST_PIXELS
    ]


def _shared(mine: list[tuple[int, int, int, int]], truth: list[tuple[int, int, int, int]]) -> float:
    """F1 score of boxes, each of which is matched once."""
    left, matched = list(truth), 0
    for box in mine:
        best = max(left, key=lambda other: _union(box, other), default=None)
        if best is not None and _union(box, best) >= _SAME:
            left.remove(best)
            matched += 1
    return 2 * matched / (len(mine) + len(truth)) if mine or truth else 1.0


def _union(one: tuple[int, int, int, int], two: tuple[int, int, int, int]) -> float:
    """Intersection over union."""
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    inside = max(0, width) * max(0, height)
    areas = sum((right - left) * (bottom - top) for left, top, right, bottom in (one, two))
    return inside / (areas - inside)
