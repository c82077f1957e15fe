"""Latency as a linear function of what a cell consists of: `E = w_1 x_1 + ... + b`.

The form of the layer-wise predictors of CPU-GPU co-scheduling, for a whole network. What x is,
the caller says: this module knows numbers, no architectures. The embedded models were fitted on
public tables by `python -m nas.spaces.nas_bench_201.fitting.latency`; `regression.md` is their card.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

MODELS = Path(__file__).parents[2] / "nas/spaces/nas_bench_201/regression.safetensors"

_RIDGE = 1.0  # holds weights of collinear features; 0.3 and 3 predict held-out cells alike
_FOLDS = 5
_SEED = 201


@final
@dataclass(frozen=True)
class LinearLatency:
    """One device's weights. Predictions never fall below the fastest cell it was fitted on."""

    weights_ms: Float64[ndarray, " features"]
    intercept_ms: float
    fastest_ms: float

    def predict_ms(self, features: Float64[ndarray, "*n features"]) -> Float64[ndarray, "*n"]:
        """Milliseconds, positive."""
        linear = features @ self.weights_ms + self.intercept_ms
        return np.asarray(np.maximum(linear, self.fastest_ms))


@final
@dataclass(frozen=True)
class Quality:
    """How well held-out cells are predicted; see `cross_validate`."""

    r2: float
    spearman: float
    within_10_percent: float  # share of the cells
    median_error: float  # |predicted / measured - 1|

    def __str__(self) -> str:
        return (
            f"held-out R2 {self.r2:.3f}, Spearman {self.spearman:.3f}, "
            f"{self.within_10_percent:.0%} within 10 %"
        )


@final
@dataclass(frozen=True)
class EmbeddedModel:
    """A device's model as it is stored, with what is known of its fit."""

    device: str
    model: LinearLatency
    quality: Quality
    measured_cells: int
    saw_disconnected: bool  # else cells without a path are extrapolated
    features: tuple[str, ...]


def fit(
    features: Float64[ndarray, "n features"], latency_ms: Float64[ndarray, " n"]
) -> LinearLatency:
    """Least squares in milliseconds, ridge-regularised around the mean."""
    centre, mean_ms = features.mean(axis=0), float(latency_ms.mean())
    centred = features - centre
    gram = centred.T @ centred + _RIDGE * np.eye(features.shape[1])
    weights_ms = np.linalg.solve(gram, centred.T @ (latency_ms - mean_ms))
    return LinearLatency(weights_ms, float(mean_ms - centre @ weights_ms), float(latency_ms.min()))


def cross_validate(
    features: Float64[ndarray, "n features"],
    latency_ms: Float64[ndarray, " n"],
    groups: Int64[ndarray, " n"],
) -> Quality:
    """Quality of predictions by fits that saw neither the cell nor another of its group."""
    names, group = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(_SEED).permutation(len(names))[group] % _FOLDS
    predicted_ms = np.empty_like(latency_ms)
    for held_out in (fold == number for number in range(_FOLDS)):
        model = fit(features[~held_out], latency_ms[~held_out])
        predicted_ms[held_out] = model.predict_ms(features[held_out])
    return judge(predicted_ms, latency_ms)


def save_models(every: Sequence[EmbeddedModel], path: Path) -> None:
    """Store models that share their features: weights in float32, all else as metadata."""
    from safetensors.numpy import save_file  # noqa: PLC0415 - only the fitting script saves

    card = {
        "features": every[0].features,
        "devices": [
            {
                "device": one.device,
                "measured_cells": one.measured_cells,
                "saw_disconnected": one.saw_disconnected,
                "quality": asdict(one.quality),
            }
            for one in every
        ],
    }
    tensors = {
        "weights_ms": np.stack([one.model.weights_ms for one in every]),
        "intercept_ms": np.array([one.model.intercept_ms for one in every]),
        "fastest_ms": np.array([one.model.fastest_ms for one in every]),
    }
    single = {name: tensor.astype(np.float32) for name, tensor in tensors.items()}
    save_file(single, path, metadata={"card": json.dumps(card)})


@cache
def embedded_models() -> dict[str, EmbeddedModel]:
    """The models that come with the package, by device id."""
    from safetensors import safe_open  # noqa: PLC0415 - a run with a complete table needs none

    with safe_open(MODELS, framework="numpy") as file:
        card = json.loads(file.metadata()["card"])
        tensors = {name: file.get_tensor(name).astype(np.float64) for name in file.keys()}  # noqa: SIM118 - a file, not a dict
    columns = zip(*(tensors[n] for n in ("weights_ms", "intercept_ms", "fastest_ms")), strict=True)
    return {
        entry["device"]: EmbeddedModel(
            entry["device"],
            LinearLatency(weights_ms, float(intercept_ms), float(fastest_ms)),
            Quality(**entry["quality"]),
            entry["measured_cells"],
            entry["saw_disconnected"],
            tuple(card["features"]),
        )
        for entry, (weights_ms, intercept_ms, fastest_ms) in zip(
            card["devices"], columns, strict=True
        )
    }


def judge(predicted: Float64[ndarray, " n"], measured: Float64[ndarray, " n"]) -> Quality:
    """How well predictions agree with measurements that they were not made from."""
    error = np.abs(predicted / measured - 1)
    unexplained = ((predicted - measured) ** 2).sum()
    return Quality(
        r2=float(1 - unexplained / ((measured - measured.mean()) ** 2).sum()),
        spearman=float(np.corrcoef(_ranks(predicted), _ranks(measured))[0, 1]),
        within_10_percent=float((error <= 0.1).mean()),
        median_error=float(np.median(error)),
    )


def _ranks(values: Float64[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank: Float64[ndarray, " n"] = (last - (counts - 1) / 2)[group]
    return mean_rank
