"""Random small cases with synthetic times, small enough for the exhaustive optimum."""

from __future__ import annotations

import numpy as np

from runtime.network.segment_kind import Kind
from runtime.scheduling.chain import Chain, Lane

LANES = (Lane("cpu"), Lane("gpu", asynchronous=True))
SYNC_MS = ((0.0, 0.0), (0.5, 0.0))
"""Synchronisation from GPU to CPU takes 0.5 ms."""


def random_case(generator: np.random.Generator) -> list[Chain]:
    """Two networks of two to four jobs, or three of two or three, on a core and a GPU.

    A job takes 1 to 4 ms on the GPU and 0.5 to 4 times as long on the core; a job that gains much on
    the GPU is a convolution.
    """
    networks = int(generator.integers(2, 4))
    return [_chain(generator, 6 - networks) for _ in range(networks)]


def _chain(generator: np.random.Generator, max_jobs: int) -> Chain:
    gpu_ms = generator.uniform(1, 4, generator.integers(2, max_jobs + 1))
    ratio = generator.uniform(0.5, 4, len(gpu_ms))
    kinds = tuple(Kind.CONV if r > 1.5 else Kind.ACT for r in ratio)
    times_ms = zip((gpu_ms * ratio).tolist(), gpu_ms.tolist(), strict=True)
    return Chain("random", kinds, tuple(times_ms))
