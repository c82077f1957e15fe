"""`task=embedding`: images of a class lie close together, judged by the classes of nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from edgenas_core.types.errors import UserError
from nas.fit.data.open import open_images
from nas.fit.learners.base import LearnerDescription, Metric, mean_metric
from nas.fit.learners.of_images import Classification

OUTPUTS, NEIGHBOURS = 64, 5
"""Numbers of an embedding, and other images of the split whose most frequent class is the answer.

There are fewer neighbours where the smallest class has fewer other images: else a perfect embedding fails.
"""

_TEMPERATURE = 0.1
_ROWS = 1024
"""Images whose neighbours are looked for at once."""


@final
class Embedding:
    """The supervised contrastive loss (Khosla et al., NeurIPS 2020, eq. 2), without augmentation."""

    def __init__(self, data: str, side: int | None = None) -> None:
        """Opens the images of classes.

        Raises:
          UserError: if they cannot be trained on, or no class has two images in a split.
        """
        images = open_images(data, side=side, least=2)
        for words, split in (("validation", images.valid), ("test", images.test)):
            if np.bincount(split.labels).max() < 2:
                raise UserError(
                    f"task=embedding is judged by the nearest other images of a class, and each class has one "
                    f"{words} image; add some"
                )
        self._labelled = Classification(images)

    def batches(self, split: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Images with the numbers of their classes; those to train on are shuffled."""
        labelled = self._labelled
        if split == "train":
            images = labelled.images
            order = torch.randperm(len(images.train)).numpy()
            shuffled = type(images.train)(images.train.pixels[order], images.train.labels[order])
            labelled = Classification(replace(images, train=shuffled))
        return labelled.batches(split)

    def loss(self, network: nn.Module, batch: tuple[Tensor, Tensor]) -> Float[Tensor, ""]:
        """The mean surprise of the others of an image's class among all others of the batch."""
        images, labels = batch
        embedded = normalize(network(images).float())
        itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        logits = (embedded @ embedded.T / _TEMPERATURE).masked_fill(itself, -1e4)
        alike = (labels[:, None] == labels) & ~itself
        surprise = -(logits.log_softmax(1) * alike).sum(1) / alike.sum(1).clamp(min=1)
        return surprise.sum() / alike.any(1).sum().clamp(min=1)

    def metric(self, network: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> Metric:
        """Share of the images whose nearest others, by the cosine, are mostly of their class.

        Images that are alone in their class are no queries.

        Raises:
          UserError: if each image is.
        """
        pairs = [(normalize(network(images).float()), labels) for images, labels in batches]
        embedded, labels = (torch.cat(each) for each in zip(*pairs, strict=True))
        others = torch.bincount(labels)[labels] - 1
        queries = torch.nonzero(others)[:, 0]
        if not len(queries):
            raise UserError(
                "an embedding is judged by the nearest other images; each is alone in its class"
            )
        neighbours = min(NEIGHBOURS, int(others[queries].min()))
        right = []
        for at in queries.split(_ROWS):
            alike = embedded[at] @ embedded.T
            alike[torch.arange(len(at)), at] = -2  # not of itself
            nearest = alike.topk(neighbours).indices
            right.append(labels[nearest].mode(1).values == labels[at])
        return mean_metric("k-NN accuracy", torch.cat(right))

    def example_input(self) -> Float[Tensor, "1 channels side side"]:
        """The first training image."""
        return self._labelled.example_input()

    def describe(self) -> LearnerDescription:
        """What the images say of themselves."""
        about = self._labelled.describe()
        digest = sha256(f"{about.digest} embedding".encode()).hexdigest()
        return replace(about, outputs=OUTPUTS, metric="k-NN accuracy", digest=digest)
