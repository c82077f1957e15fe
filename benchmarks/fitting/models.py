"""Fit and store the latency models that come with a search space."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from edgenas_core.files.keyed_table import data_folder
from edgenas_core.types.errors import UserError
from latency.base import Space
from latency.devices.bundled import bundled_paths
from latency.devices.measured import measured_on
from latency.devices.registry import TimedDevice, registered
from latency.models.confidence import ResidualUncertainty
from latency.models.regression import EmbeddedModel, fitted_model


def save_models(every: Sequence[EmbeddedModel], path: Path) -> None:
    """Store models that share their features: weights in float32, all else as metadata."""
    card = {
        "features": every[0].features,
        "devices": [
            {
                "device": model.device,
                "measured_cells": model.measured_count,
                "saw_disconnected": model.saw_disconnected,
                "quality": asdict(model.quality),
                "uncertainty": None if model.uncertainty is None else _rounded(model.uncertainty),
            }
            for model in every
        ],
    }
    tensors = {
        "weights_ms": np.stack([model.model.weights_ms for model in every]),
        "intercept_ms": np.array([model.model.intercept_ms for model in every]),
        "fastest_ms": np.array([model.model.fastest_ms for model in every]),
    }
    single = {name: tensor.astype(np.float32) for name, tensor in tensors.items()}
    save_file(single, path, metadata={"card": json.dumps(card)})


def _rounded(model: ResidualUncertainty) -> dict[str, float | list[float]]:
    return {"sd": round(model.sd, 5), "quantiles": [round(value, 5) for value in model.quantiles]}


def fitted_models(space: Space) -> Iterator[tuple[TimedDevice, EmbeddedModel]]:
    """Fit a model for each registered device with a table in the data folder.

    Raises:
      UserError: if there is none, or a table is malformed.
    """
    is_empty = True
    for device in registered(space):
        measured = measured_on(space, device)
        if measured is None or device.id in bundled_paths(space):
            continue  # a device with a bundled table needs no model
        is_empty = False
        yield device, fitted_model(space, device, measured)
    if is_empty:
        raise UserError(f"no latency file in {data_folder()} has a registered device")
