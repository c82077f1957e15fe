"""Latency in a situation of cells that were not timed in it: their latency alone, times a slowdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from latency.devices.measured import MeasuredLatency
from latency.devices.registry import Device
from latency.models.slowdown import FEWEST_CELLS, SlowdownQuality, fit, quality
from latency.sources.table import TableLatency
from nas.spaces.nas_bench_201.features import cell_features
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.shell.errors import UserError

_WRONG = 0.1
"""A median error on held-out cells above this is worth a warning."""


@final
@dataclass(frozen=True)
class Situated:
    """Every cell of the space in a situation, predicted from the latency alone."""

    latency_ms: Float64[ndarray, "15625"]  # in official order
    fitted_on: Bool[ndarray, "15625"]  # timed in the situation and alone
    quality: SlowdownQuality

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should not overlook."""
        error = self.quality.taken.median_error
        if error <= _WRONG:
            return ()
        return (
            (
                f"latencies in this situation are predicted with a median error of {error:.0%} on cells "
                f"that were held out; measure more networks in it, or, where this machine is the "
                f"device, time the best in it with latency=corun latency.confirm_top=5"
            ),
        )


def situated_from_solo(device: Device, measured: MeasuredLatency, alone: TableLatency) -> Situated:
    """Predict all cells from those that were timed both ways.

    By the fitted slowdown, or by one factor for all where that errs less on held-out cells.

    Raises:
      UserError: if too few were.
    """
    solo_ms = alone.latency_ms(NAS_BENCH_201.rows)
    timed = np.isfinite(measured.values_ms) & ~alone.predicted(NAS_BENCH_201.rows)
    if timed.sum() < FEWEST_CELLS:
        raise UserError(
            f"{measured.path}: {device.column} and {alone.device} have {timed.sum()} measured cells in "
            f"common, and a slowdown is learned from {FEWEST_CELLS}; measure both with the same `python "
            f"-m nas.measure`, once with scenario= and once without, and networks={2 * FEWEST_CELLS}"
        )
    features = cell_features(NAS_BENCH_201.rows)
    known = (
        solo_ms[timed],
        measured.values_ms[timed],
        features[timed],
        NAS_BENCH_201.function_class[timed],
    )
    told = quality(*known)
    if told.ridge_is_better:
        return Situated(fit(*known).predict_ms(solo_ms, features), timed, told)
    return Situated(solo_ms * told.median_ratio, timed, told)
