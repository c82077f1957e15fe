"""How far predicted makespans are from measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from runtime.weight_streaming.planning.interference import (
    Interference,
    StreamedInference,
    simulate_concurrent,
)
from runtime.weight_streaming.planning.plan import Architecture, StreamedLayer, StreamPlan
from runtime.weight_streaming.planning.recurrence import timeline
from runtime.weight_streaming.planning.ring import PAGE_BYTES


@final
@dataclass(frozen=True)
class ModelError:
    """Shares of the measured makespans, `|predicted - measured| / measured`."""

    configurations: int
    median: float
    mean: float
    p95: float
    worst: float
    bias: float
    """The median of `predicted / measured - 1`: below 0, the model is too optimistic."""

    def __str__(self) -> str:
        return (
            f"{self.configurations} configurations: median {self.median:.1%}, mean {self.mean:.1%}, p95 {self.p95:.1%}, "
            f"worst {self.worst:.1%}, bias {self.bias:+.1%}"
        )


def model_error(
    layers: Sequence[StreamedLayer],
    measured: Sequence[tuple[StreamPlan, float]],
    interference: Interference | None = None,
    alignment: int = PAGE_BYTES,
) -> ModelError:
    """Of the recurrence fed with stage times, over plans and the milliseconds they took.

    Raises:
      ValueError: if nothing was measured, or a makespan is not above 0.
    """
    return errors(
        [predict_ms(layers, plan, interference, alignment) for plan, _ in measured],
        [makespan_ms for _, makespan_ms in measured],
    )


def predict_ms(
    layers: Sequence[StreamedLayer],
    plan: StreamPlan,
    interference: Interference | None = None,
    alignment: int = PAGE_BYTES,
) -> float:
    """The makespan of a plan; a synchronous one is predicted without interference."""
    if interference is None or plan.architecture is Architecture.SYNCHRONOUS:
        return timeline(layers, plan, alignment).makespan_ms
    (run,) = simulate_concurrent(
        [StreamedInference(layers, plan)], interference=interference, alignment=alignment
    )
    return run.makespan_ms


def errors(predicted_ms: Sequence[float], measured_ms: Sequence[float]) -> ModelError:
    """Of pairs.

    Raises:
      ValueError: if there are none, or a measured makespan is not above 0.
    """
    if not measured_ms or not all(0 < one < float("inf") for one in measured_ms):
        raise ValueError(f"no error of makespans {list(measured_ms)[:5]}")
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
