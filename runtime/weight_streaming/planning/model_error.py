"""Error of predicted makespans against measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np


@final
@dataclass(frozen=True)
class ModelError:
    """Distribution of the relative error, `|predicted - measured| / measured`."""

    configurations: int
    median: float
    mean: float
    p95: float
    worst: float
    bias: float
    """Median of `predicted / measured - 1`; negative if predictions are too fast."""

    def __str__(self) -> str:
        return (
            f"{self.configurations} configurations: median {self.median:.1%}, mean {self.mean:.1%}, "
            f"p95 {self.p95:.1%}, worst {self.worst:.1%}, bias {self.bias:+.1%}"
        )


def model_error(predicted_ms: Sequence[float], measured_ms: Sequence[float]) -> ModelError:
    """Compare predicted with measured makespans, pair by pair.

    Raises:
      ValueError: if there are none, or a measured makespan is not positive.
    """
    if not measured_ms or not all(0 < one < float("inf") for one in measured_ms):
        raise ValueError(f"measured makespans must be positive, not {list(measured_ms)[:5]}")
    relative = np.asarray(predicted_ms) / np.asarray(measured_ms) - 1
    sizes = np.abs(relative)
    return ModelError(
        len(sizes),
        float(np.median(sizes)),
        float(sizes.mean()),
        float(np.percentile(sizes, 95)),
        float(sizes.max()),
        float(np.median(relative)),
    )
