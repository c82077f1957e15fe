"""Scores of candidates by the proxies that a search aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import torch
from jaxtyping import Float64, Int64
from numpy import ndarray

from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.proxies.scores import AGGREGATED, columns_of, scores, signal
from nas.accuracy.short import proxy_batch
from nas.accuracy.training.evaluation import device_named
from nas.spaces.base import SearchSpace

_IMAGES = 64

_ON_CPU = ("live_convolutions",)
"""Proxies where there is no GPU: those that need one image alone."""


@final
class ProxyScores:
    """Builds networks with the seed's weights, and scores them all on the same images."""

    def __init__(self, space: SearchSpace, images: ImageSet, seed: int) -> None:
        self._space, self._task, self._seed = space, images.task, seed
        on_gpu = torch.cuda.is_available()
        self._proxies = AGGREGATED if on_gpu else _ON_CPU
        self._signal = "aggregate" if on_gpu else "live_flops"
        self._batch = proxy_batch(images, _IMAGES)

    def each(self, architectures: Int64[ndarray, "n D"]) -> Iterator[list[float]]:
        """A number for each column of the proxies, network by network."""
        return map(self._score, architectures)

    def aggregate(self, found: Float64[ndarray, "n c"]) -> Float64[ndarray, "n"]:
        """The sum of log ranks that orders candidates; higher is better."""
        return signal(self._signal, dict(zip(columns_of(self._proxies), found.T, strict=True)))

    def _score(self, architecture: Int64[ndarray, "D"]) -> list[float]:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self._seed)
            network = self._space.network(architecture, self._task)
        device = device_named("auto")
        return scores(network.to(device), self._batch.to(device), self._proxies, self._seed)
