"""Random small cases with synthetic times, small enough for the exhaustive optimum."""

from __future__ import annotations

import numpy as np

from runtime.network.segment_kind import Kind
from runtime.scheduling.chain import Chain, Lane

LANES = (Lane("cpu"), Lane("gpu", asynchronous=True))
SYNC_MS = ((0.0, 0.0), (0.5, 0.0))
"""Half a millisecond to come back from the GPU."""


def random_case(generator: np.random.Generator) -> list[Chain]:
    """Two networks of two to four jobs, or three of two or three, on a core and a GPU.

    A job takes the GPU 1 to 4 ms and the core 0.5 to 4 times as long; the more the GPU gains, the
    more is it a convolution.
    """
    networks = int(generator.integers(2, 4))
    return [_chain(generator, 6 - networks) for _ in range(networks)]


def _chain(generator: np.random.Generator, max_jobs: int) -> Chain:
    gpu_ms = generator.uniform(1, 4, generator.integers(2, max_jobs + 1))
    ratio = generator.uniform(0.5, 4, len(gpu_ms))
    kinds = tuple(Kind.CONV if r > 1.5 else Kind.ACT for r in ratio)
    times_ms = zip((gpu_ms * ratio).tolist(), gpu_ms.tolist(), strict=True)
    return Chain("random", kinds, tuple(times_ms))
