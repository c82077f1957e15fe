"""The model with parameters that depend on the size.

Table III has one value for each parameter. On a real device the latency per byte depends on the bytes in
flight: small copies take another path, and a kernel of one block cannot fill a bus (`IPL * TPL` of
equation 7). Here O_D and O_M of a job, and O_H of a pass, are interpolated between measured sizes, on
logarithmic scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from benchmarks.papers.placement.model.policy import MemoryPolicy
from benchmarks.papers.placement.model.workload import Passes, Use

_LEAST_MS = 1e-4
"""Smallest overhead, ms: a difference of two medians may be 0, which has no logarithm."""


@final
@dataclass(frozen=True)
class BySize:
    """Overheads between the measured sizes, as logarithms of bytes and ms, by use and policy."""

    curves: dict[tuple[Use, MemoryPolicy], tuple[list[float], list[float]]]

    def overhead_ms(self, policy: MemoryPolicy, job: Passes, nbytes: int) -> float:
        """Overhead of a job, ms; extrapolated by the last slope beyond the measured sizes."""
        sizes, ms = self.curves[job.use, policy]
        at = float(np.log(nbytes))
        place = int(np.clip(np.searchsorted(sizes, at), 1, len(sizes) - 1))
        slope = (ms[place] - ms[place - 1]) / (sizes[place] - sizes[place - 1])
        once = float(np.exp(ms[place - 1] + slope * (at - sizes[place - 1])))
        return once * _times(policy, job.reuse)


def by_size(samples: Sequence[dict[str, Any]]) -> BySize | None:
    """Build the model from the samples of a calibration: medians by policy and `resident`.

    None if there are fewer than two sizes, as in profiles that were not measured.
    """
    sizes = sorted({sample["bytes"] for sample in samples})
    if len(sizes) < 2:
        return None
    curves = {}
    for use in Use:
        for policy in MemoryPolicy:
            ms = [
                np.mean(
                    [
                        (sample[policy.value] - sample["resident"])
                        / _times(policy, sample["reuse"])
                        for sample in samples
                        if sample["use"] == use.value and sample["bytes"] == nbytes
                    ]
                )
                for nbytes in sizes
            ]
            curves[use, policy] = (
                np.log(sizes).tolist(),
                np.log(np.maximum(ms, _LEAST_MS)).tolist(),
            )
    return BySize(curves)


def _times(policy: MemoryPolicy, reuse: int) -> int:
    """Number of times a job pays: data is copied or mapped once, pinned memory is read in each pass."""
    return reuse if policy is MemoryPolicy.PINNED else 1
