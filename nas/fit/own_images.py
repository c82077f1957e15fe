"""Accuracies of networks that a fit itself trains on the user's images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Keys
from nas.accuracy.base import Accuracies, Accuracy, HasWeights, Split
from nas.fit.data.image_set import class_weights
from nas.fit.learners.data import TrainingData, has_classes

SHARES: Mapping[str, float] = {"scores": 0.10, "short": 0.35, "longer": 0.15}
"""Shares of the time for latencies and scores, short and longer trainings; the winner has the rest."""


@final
@dataclass(frozen=True)
class OwnImages:
    """The images, and the test accuracies of the networks that were trained in full.

    Accuracies are not asked of it: training is a matter of minutes and hours.
    """

    images: TrainingData
    source: str  # how networks are ranked
    description: str
    split: Split = Split.valid
    instant: bool = False
    tested: dict[bytes, float] = field(
        default_factory=dict
    )  # by the bytes of an architecture's row

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Accuracies:
        """Raise: nothing is known before it was trained."""
        raise NotImplementedError

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return False everywhere."""
        return np.zeros(architectures.shape[:-1], bool)

    def sd(
        self, architectures: Int64[ndarray, "*n D"], fraction: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """Binomial standard deviation of an accuracy on the validation images."""
        del architectures  # all are judged on the same images
        if self.images.metric != "accuracy":
            return np.full(fraction.shape, np.nan)
        return np.asarray(np.sqrt(fraction * (1 - fraction) / len(self.images.valid)))

    def test(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Test accuracy of networks that were trained in full, NaN of all others."""
        rows = architectures.reshape(-1, architectures.shape[-1])
        fractions = np.array([self.tested.get(row.tobytes(), np.nan) for row in rows])
        return fractions.reshape(architectures.shape[:-1])


@dataclass
class OwnImagesConfig:
    """How networks are ranked on own images."""

    recipe: str  # of every training

    draws: ClassVar[int] = 20_000  # uniform draws from the space, asked for their latency
    by: ClassVar[str]
    inherits: ClassVar[bool] = False  # weights of one trained network
    shares: ClassVar[Mapping[str, float]] = SHARES

    def of(self, images: TrainingData, space: Keys) -> Accuracy:
        """The accuracies of networks that are trained on these images."""
        is_uneven = has_classes(images) and (class_weights(images.valid.labels) != 1).any()
        balanced = ", the mean over the classes" if is_uneven else ""
        pixels = "" if isinstance(space, HasWeights) else f"{images.side} pixels, "
        return OwnImages(
            images,
            self.by,
            f"trained on {len(images.train):,} {images.items} of {images.title}, {pixels}"
            f"recipe {self.recipe}; evaluated on {len(images.valid):,}{balanced}",
        )


@final
@dataclass
class StagedConfig(OwnImagesConfig):
    """`start=scratch`: proxies, short trainings in the order of a predictor, longer ones."""

    by: ClassVar[str] = "staged"


@final
@dataclass
class InheritedConfig(OwnImagesConfig):
    """`start=network`: parts of a trained network, whose weights all trainings begin with."""

    by: ClassVar[str] = "inherited"
    inherits: ClassVar[bool] = True
    shares: ClassVar[Mapping[str, float]] = {"scores": 0.35, "short": 0.15, "longer": 0.10}


@final
@dataclass
class FineTuningConfig(OwnImagesConfig):
    """`start=pretrained`: frozen features, then fine-tunings, of a space with weights."""

    by: ClassVar[str] = "fine_tuning"
    shares: ClassVar[Mapping[str, float]] = {
        "scores": 0.12,
        "frozen": 0.13,
        "short": 0.25,
        "scratch": 0.06,
    }
