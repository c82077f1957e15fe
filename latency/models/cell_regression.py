"""The linear latency models of `latency.models.regression`, of NAS-Bench-201 cells."""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from latency.devices.measured import MeasuredLatency, without_path
from latency.devices.registry import Device
from latency.models.regression import EmbeddedModel, cross_validate, embedded_models, fit
from nas.spaces.nas_bench_201.features import FEATURES, cell_features
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.shell.errors import UserError

FEWEST_CELLS = 50
"""Below, a held-out quality is a guess itself."""


def model_of(device: Device, measured: MeasuredLatency | None) -> tuple[EmbeddedModel, bool]:
    """The embedded model of a device, or one fitted on its measured cells now (True).

    Raises:
      UserError: if there is neither.
    """
    embedded = embedded_models().get(device.id)
    if embedded is not None:
        return embedded, False
    if measured is None:
        raise UserError(
            f"device {device.id} has no embedded latency model, and no latency file has its "
            f"column {device.column}; `python -m nas.data list` says what each device has"
        )
    if measured.cells < FEWEST_CELLS:
        raise UserError(
            f"{measured.path}: {device.column} has {measured.cells} measured cells, regression "
            f"needs {FEWEST_CELLS}; measure more, with the same `python -m nas.measure` and "
            f"networks={2 * FEWEST_CELLS}"
        )
    return fitted_model(device, measured), True


def fitted_model(device: Device, measured: MeasuredLatency) -> EmbeddedModel:
    """Fit a device's measured cells, and say how well cells are predicted that were held out."""
    known = np.isfinite(measured.values_ms)
    features, latency_ms = (
        _space_features(device.once_per_network)[known],
        measured.values_ms[known],
    )
    return EmbeddedModel(
        device=device.id,
        model=fit(features, latency_ms),
        quality=cross_validate(features, latency_ms, NAS_BENCH_201.function_class[known]),
        measured_cells=measured.cells,
        saw_disconnected=bool((known & without_path()).any()),
        features=FEATURES,
    )


def predicted_ms(device: Device, model: EmbeddedModel) -> Float64[ndarray, "15625"]:
    """Predictions for the whole space, in official order."""
    return model.model.predict_ms(_space_features(device.once_per_network))


@cache
def _space_features(once_per_network: bool) -> Float64[ndarray, "15625 88"]:
    """Features of what was timed: the cell itself, or the first cell that is the same network."""
    architectures = NAS_BENCH_201.rows
    if once_per_network:
        architectures = NAS_BENCH_201.canonical(architectures)
    return cell_features(architectures)
