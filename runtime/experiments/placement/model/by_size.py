"""The model with its parameters by size: what a byte, a copy or an access costs where it was measured.

Table III has one value of each. On a real device a latency a byte depends on how much is in flight:
small copies take another way, and a kernel of one block cannot fill a bus, which is what `IPL * TPL` of
equation 7 is about. So here O_D and O_M of a job, and O_H of a pass, are read between the measured
sizes, on logarithmic scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from runtime.experiments.placement.model.policy import MemoryPolicy
from runtime.experiments.placement.model.workload import Passes, Use

_LEAST_MS = 1e-4
"""A difference of two medians may come out as nothing, which has no logarithm."""


@final
@dataclass(frozen=True)
class BySize:
    """Logarithms of bytes and milliseconds, by use and policy."""

    curves: dict[tuple[Use, MemoryPolicy], tuple[list[float], list[float]]]

    def overhead_ms(self, policy: MemoryPolicy, job: Passes, nbytes: int) -> float:
        """Of a job; beyond the measured sizes the last slope goes on."""
        sizes, ms = self.curves[job.use, policy]
        at = float(np.log(nbytes))
        place = int(np.clip(np.searchsorted(sizes, at), 1, len(sizes) - 1))
        slope = (ms[place] - ms[place - 1]) / (sizes[place] - sizes[place - 1])
        once = float(np.exp(ms[place - 1] + slope * (at - sizes[place - 1])))
        return once * _times(policy, job.reuse)


def by_size(samples: Sequence[dict[str, Any]]) -> BySize | None:
    """From a calibration's samples: medians by policy and `resident`, with use, reuse and bytes.

    None if there are fewer than two sizes, as of a profile that was not measured.
    """
    sizes = sorted({one["bytes"] for one in samples})
    if len(sizes) < 2:
        return None
    curves = {}
    for use in Use:
        for policy in MemoryPolicy:
            ms = [
                np.mean(
                    [
                        (one[policy.value] - one["resident"]) / _times(policy, one["reuse"])
                        for one in samples
                        if one["use"] == use.value and one["bytes"] == nbytes
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
    """How often a job pays: data is copied or mapped once, pinned memory is reached in each pass."""
    return reuse if policy is MemoryPolicy.PINNED else 1
