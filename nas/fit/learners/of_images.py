"""Learners of labelled images: classification, regression and several labels an image.

Their batches are bytes and numbers of labels, which a GPU holds, augments and trains on in captured
steps; as `Learner`s they give the same images without augmentation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from nas.fit.data.image_set import NO_LABEL, ImageSet, Target, labels_of, parts_of, values_of
from nas.fit.learners.base import (
    ClassMetric,
    Findings,
    LearnerDescription,
    Metric,
    mean_metric,
)
from nas.fit.learners.scenes import WORST, picture_of

_BATCH = 256

_MOST_VALUES = 1000
"""Numbers that are shown."""


class ImageLearner(ABC):
    """What is learnt of images by the numbers of their labels."""

    lowest = 0.0
    """Least value of the metric."""

    def __init__(self, images: ImageSet) -> None:
        self.images = images

    @abstractmethod
    def criterion(
        self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"], smoothing: float
    ) -> Float[Tensor, "n"]:
        """Loss of each image; `smoothing` is that of a recipe."""

    @abstractmethod
    def distilled(
        self, outputs: Float[Tensor, "n o"], taught: Float[Tensor, "n o"]
    ) -> Float[Tensor, "n"]:
        """Loss of each image against outputs of another network."""

    @abstractmethod
    def worth(self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"]) -> Tensor:
        """Worth of each answer."""

    def in_split(self, worth: Tensor, labels: Int64[Tensor, "n"]) -> Tensor:
        """Worth of answers, or its mean, in relation to the labels of the split; the mean is the metric."""
        del labels
        return worth

    def batches(self, split: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Normalised images in their order, and numbers of labels."""
        images = getattr(self.images, split)
        mean, sd = (torch.tensor(each) * 255 for each in (self.images.mean, self.images.sd))
        for start in range(0, len(images), _BATCH):
            which = slice(start, start + _BATCH)
            pixels = torch.from_numpy(np.array(images.pixels[which]))
            labels = torch.from_numpy(np.array(images.labels[which]))
            yield ((pixels - mean) / sd).permute(0, 3, 1, 2), labels

    def loss(self, network: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """The mean criterion without smoothing."""
        inputs, labels = batch
        return self.criterion(network(inputs), labels, 0.0).mean()

    def metric(self, network: nn.Module, batches: Iterable[Any]) -> Metric:
        """Mean worth of the answers."""
        pairs = [(self.worth(network(inputs), labels), labels) for inputs, labels in batches]
        worth, labels = (torch.cat(each) for each in zip(*pairs, strict=True))
        return mean_metric(self.images.metric, self.in_split(worth, labels), self.lowest)

    def example_input(self) -> Tensor:
        """The first training image."""
        inputs, _ = next(iter(self.batches("train")))
        return inputs[:1]

    def describe(self) -> LearnerDescription:
        """What the image set says of itself."""
        images = self.images
        return LearnerDescription(
            name=images.name,
            title=images.title,
            outputs=images.task.num_classes,
            metric=self.images.metric,
            counts=(len(images.train), len(images.valid), len(images.test)),
            digest=images.digest,
            report=images.report,
            classes=images.classes,
            mean=images.mean,
            sd=images.sd,
            limits=images.limits,
        )


@final
class Classification(ImageLearner):
    """One of several classes."""

    def criterion(
        self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"], smoothing: float
    ) -> Float[Tensor, "n"]:
        """Cross-entropy."""
        return functional.cross_entropy(
            outputs, labels, label_smoothing=smoothing, reduction="none"
        )

    def distilled(
        self, outputs: Float[Tensor, "n o"], taught: Float[Tensor, "n o"]
    ) -> Float[Tensor, "n"]:
        """Cross-entropy with the other's probabilities (Hinton et al., 2015)."""
        return functional.cross_entropy(outputs, taught.softmax(-1), reduction="none")

    def worth(self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"]) -> Tensor:
        """1 for the right class."""
        return outputs.argmax(1) == labels


class ShownLearner(ImageLearner):
    """What is learnt is shown by the worst answers on the test images."""

    @abstractmethod
    def answer(self, output: Float[Tensor, "o"]) -> str:
        """An answer in words."""

    def findings(self, network: nn.Module) -> Findings:
        """The worst test images, and what else the answers show."""
        device, images = next(network.parameters()).device, self.images
        batches = self.batches("test")
        with torch.no_grad():
            outputs = torch.cat([network(inputs.to(device)).float().cpu() for inputs, _ in batches])
        labels = torch.from_numpy(np.array(images.test.labels))
        pictures = []
        for at in self.worth(outputs, labels).argsort()[:WORST].tolist():
            name = images.classes[int(labels[at])]
            caption = f"{name}, answered {self.answer(outputs[at])}"
            pictures.append(picture_of(np.array(images.test.pixels[at]), caption))
        return replace(self._shown(outputs, labels), pictures=tuple(pictures))

    @abstractmethod
    def _shown(self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"]) -> Findings:
        """Results by label, or all numbers."""


@final
class Regression(ShownLearner):
    """One number, the name of the class; outputs are in its unit.

    The metric is R2 as scikit-learn has it: 1 - sum (y - f)^2 / sum (y - mean y)^2 over the split.
    """

    lowest = -math.inf

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the training values."""
        values = values_of(self.images.classes)[self.images.train.labels]
        return float(values.mean()), float(values.std())

    @cached_property
    def _standardised(self) -> Tensor:
        """Value of each class, in standard deviations from the mean of the training values."""
        mean, sd = self._moments
        return torch.tensor((values_of(self.images.classes) - mean) / sd, dtype=torch.float32)

    def _target(self, labels: Int64[Tensor, "n"]) -> Float[Tensor, "n"]:
        return self._standardised.to(labels.device)[labels]

    def _error(self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"]) -> Tensor:
        """Difference in standard deviations of the training values."""
        mean, sd = self._moments
        return ((outputs[:, 0].double() - mean) / sd).float() - self._target(labels)

    def criterion(
        self,
        outputs: Float[Tensor, "n o"],
        labels: Int64[Tensor, "n"],
        smoothing: float,  # noqa: ARG002 - of classes
    ) -> Float[Tensor, "n"]:
        """Squared error in variances, linear beyond 1."""
        error = self._error(outputs, labels)
        return functional.smooth_l1_loss(error, torch.zeros_like(error), reduction="none")

    def distilled(
        self, outputs: Float[Tensor, "n o"], taught: Float[Tensor, "n o"]
    ) -> Float[Tensor, "n"]:
        """The same, against the other's numbers."""
        sd = self._moments[1]
        taught = taught.to(outputs.dtype)
        return functional.smooth_l1_loss(outputs / sd, taught / sd, reduction="none").mean(1)

    def worth(self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"]) -> Tensor:
        """The squared error in variances of the training values, negative."""
        return -(self._error(outputs, labels) ** 2)

    def in_split(self, worth: Tensor, labels: Int64[Tensor, "n"]) -> Tensor:
        """1 less the squared error in variances of the split; of equal values 1 if it is right, else 0."""
        variance = float(self._target(labels.cpu()).double().var(correction=0))
        return 1 + worth / variance if variance else (worth == 0).to(worth.dtype)

    def answer(self, output: Float[Tensor, "o"]) -> str:
        """The number."""
        return f"{float(output[0]):.6g}"

    def _shown(self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"]) -> Findings:
        """Numbers of the first images."""
        values = values_of(self.images.classes)[labels.numpy()]
        pairs = zip(values.tolist(), outputs[:, 0].tolist(), strict=True)
        return Findings(values=tuple(pairs)[:_MOST_VALUES])


@final
class Multilabel(ShownLearner):
    """Several labels an image, which the name of its class joins by `+`: cat+dog.

    The metric is the F1 score of an image's labels, in the mean over images.
    """

    @cached_property
    def _membership(self) -> Tensor:
        labels = labels_of(self.images.classes)
        return torch.tensor(
            [[float(label in parts_of(name)) for label in labels] for name in self.images.classes]
        )

    def _target(self, labels: Int64[Tensor, "n"]) -> Float[Tensor, "n o"]:
        return self._membership.to(labels.device)[labels]

    def criterion(
        self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"], smoothing: float
    ) -> Float[Tensor, "n"]:
        """Binary cross-entropy, the mean over the labels."""
        target = self._target(labels) * (1 - smoothing) + smoothing / 2
        return functional.binary_cross_entropy_with_logits(
            outputs.float(), target, reduction="none"
        ).mean(1)

    def distilled(
        self, outputs: Float[Tensor, "n o"], taught: Float[Tensor, "n o"]
    ) -> Float[Tensor, "n"]:
        """Binary cross-entropy with the other's probabilities."""
        return functional.binary_cross_entropy_with_logits(
            outputs.float(), taught.float().sigmoid(), reduction="none"
        ).mean(1)

    def worth(self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"]) -> Tensor:
        """F1 of the labels that are more probable than not; 1 where there are none and none is said."""
        said, target = (outputs > 0).float(), self._target(labels)
        total = (said + target).sum(1)
        return torch.where(total > 0, 2 * (said * target).sum(1) / total.clamp(min=1), 1.0)

    def answer(self, output: Float[Tensor, "o"]) -> str:
        """The labels that are more probable than not."""
        names = zip(self.images.outputs, output.tolist(), strict=True)
        return "+".join(name for name, logit in names if logit > 0) or NO_LABEL

    def _shown(self, outputs: Float[Tensor, "n o"], labels: Int64[Tensor, "n"]) -> Findings:
        """F1 of each label that a test image has."""
        chosen, target = outputs > 0, self._target(labels) > 0
        items, total = target.sum(0), (chosen.sum(0) + target.sum(0)).clamp(min=1)
        values = (2 * (chosen & target).sum(0) / total).tolist()
        each = zip(self.images.outputs, items.tolist(), values, strict=True)
        return Findings(tuple(ClassMetric(*label) for label in each if label[1]))


_LEARNERS: dict[Target, type[ImageLearner]] = {
    Target.classification: Classification,
    Target.regression: Regression,
    Target.multilabel: Multilabel,
}


def learner_of(images: ImageSet) -> ImageLearner:
    """What is learnt of an image set."""
    return _LEARNERS[images.target](images)
