"""Latency in a situation of cells that were not timed in it: their latency alone, times a slowdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from latency.devices import Device
from latency.slowdown import FEWEST_CELLS, SlowdownQuality, fit, quality
from latency.table import TableLatency
from nas.encoding import cell_features
from nas.errors import UserError
from nas.measured_latency import MeasuredLatency
from nas.search_space import NAS_BENCH_201


@final
@dataclass(frozen=True)
class Situated:
    """Every cell of the space in a situation, predicted from the latency alone."""

    latency_ms: Float64[ndarray, "15625"]  # in official order
    fitted_on: Bool[ndarray, "15625"]  # timed in the situation and alone
    quality: SlowdownQuality


def situated_from_solo(device: Device, measured: MeasuredLatency, alone: TableLatency) -> Situated:
    """Fit the slowdown on the cells that were timed both ways, and predict all of them.

    Raises:
      UserError: if too few were.
    """
    solo_ms = alone.latency_ms(NAS_BENCH_201.architectures)
    timed = np.isfinite(measured.values_ms) & ~alone.predicted(NAS_BENCH_201.architectures)
    if timed.sum() < FEWEST_CELLS:
        raise UserError(
            f"{measured.path}: {device.column} and {alone.device} have {timed.sum()} measured cells "
            f"in common, and a slowdown is fitted on {FEWEST_CELLS}; measure more with `python -m "
            f"nas.measure scenario=... networks=`, or take latency.unmeasured=error"
        )
    features = cell_features(NAS_BENCH_201.architectures)
    known = (
        solo_ms[timed],
        measured.values_ms[timed],
        features[timed],
        NAS_BENCH_201.function_class[timed],
    )
    return Situated(fit(*known).predict_ms(solo_ms, features), timed, quality(*known))
