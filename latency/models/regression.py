"""Latency as a linear function of an architecture's features: `E = w_1 x_1 + ... + b`.

The form of the layer-wise predictors of CPU-GPU co-scheduling, for a whole network. A space may come
with models that were fitted on public tables: `regression.safetensors` among its resources.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.files.keyed_table import is_whole
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from latency.base import EnumerableSpace, Space, every_architecture
from latency.devices.bundled import bundled_paths
from latency.devices.measured import MeasuredLatency
from latency.devices.registry import TimedDevice
from latency.models.confidence import ResidualUncertainty, of_few, of_residuals

FEWEST_MEASURED = 50
"""Fewer architectures than that leave the held-out quality uncertain."""

LEAST_R2 = 0.5
"""Held-out R2 of predictions below which no search with them is offered."""

MODELS = "regression.safetensors"
"""Name of the file of embedded models among the resources of a space."""

_MANY = 5000  # timed architectures from which a fit counts as one of a whole table
_COMPARED = 1000  # times that tell whether a model was fitted on them
_RIDGE = 3.0  # of standardised features; it matters where fewer networks than features were timed
_LEAST = 4  # place of the time below which no prediction is
_FOLDS = 5
_SEED = 201


@final
@dataclass(frozen=True)
class LinearLatency:
    """Weights for one device; no prediction is below the fifth fastest architecture of the fit.

    Times of cells without a path to the output are near zero on some devices: a floor of the fastest would let the
    model answer with them for networks that compute.
    """

    weights_ms: Float64[ndarray, " features"]
    intercept_ms: float
    fastest_ms: float  # the floor

    def predict_ms(self, features: Float64[ndarray, "*n features"]) -> Float64[ndarray, "*n"]:
        """Milliseconds, positive."""
        linear = features @ self.weights_ms + self.intercept_ms
        return np.asarray(np.maximum(linear, self.fastest_ms))


@final
@dataclass(frozen=True)
class Quality:
    """Errors on held-out architectures; see `cross_validate`."""

    r2: float
    spearman: float
    within_10_percent: float  # share of the architectures
    median_error: float  # |predicted / measured - 1|

    def __str__(self) -> str:
        return (
            f"held-out R2 {self.r2:.3f}, Spearman {self.spearman:.3f}, "
            f"{self.within_10_percent:.0%} within 10 %"
        )


@final
@dataclass(frozen=True)
class EmbeddedModel:
    """A device's model and the facts of its fit, as they are stored."""

    device: str
    model: LinearLatency
    quality: Quality
    measured_count: int  # architectures that it was fitted on
    saw_disconnected: bool  # else architectures that are not `connected` are extrapolated
    features: tuple[str, ...]
    uncertainty: ResidualUncertainty | None = (
        None  # of its held-out predictions, where they are known
    )
    only_canonical: bool = (
        False  # no architecture of the fit has operations that its output does not need
    )

    def predict_ms(self, features: Float64[ndarray, "*n features"]) -> Float64[ndarray, "*n"]:
        """Milliseconds; NaN on a side of images that no network of the fit has."""
        unseen = [
            name.startswith("side ") and weight == 0
            for name, weight in zip(self.features, self.model.weights_ms, strict=True)
        ]
        on_unseen = features[..., unseen].any(-1)
        return np.where(on_unseen, np.nan, self.model.predict_ms(features))


def fit(
    features: Float64[ndarray, "n features"], latency_ms: Float64[ndarray, " n"]
) -> LinearLatency:
    """Least squares in milliseconds on standardised features, ridge-regularised around the mean."""
    centre, mean_ms = features.mean(axis=0), float(latency_ms.mean())
    scale = features.std(axis=0)
    scale[scale == 0] = 1.0
    inputs = (features - centre) / scale
    gram = inputs.T @ inputs + _RIDGE * np.eye(features.shape[1])
    weights_ms = np.linalg.solve(gram, inputs.T @ (latency_ms - mean_ms)) / scale
    least_ms = float(np.sort(latency_ms)[min(_LEAST, len(latency_ms) - 1)])
    return LinearLatency(weights_ms, float(mean_ms - centre @ weights_ms), least_ms)


def cross_validate(
    features: Float64[ndarray, "n features"],
    latency_ms: Float64[ndarray, " n"],
    groups: Int64[ndarray, " n"],
) -> tuple[Quality, ResidualUncertainty]:
    """Quality and uncertainty of predictions by fits on none of the architecture's group."""
    predicted_ms = held_out_ms(features, latency_ms, groups)
    spread = of_residuals if len(latency_ms) >= _MANY else of_few
    return judge(predicted_ms, latency_ms), spread(np.log(latency_ms / predicted_ms))


def held_out_ms(
    features: Float64[ndarray, "n features"],
    latency_ms: Float64[ndarray, " n"],
    groups: Int64[ndarray, " n"],
) -> Float64[ndarray, " n"]:
    """Milliseconds of each architecture by a fit on none of its group."""
    names, group = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(_SEED).permutation(len(names))[group] % _FOLDS
    predicted_ms = np.empty_like(latency_ms)
    for held_out in (fold == number for number in range(_FOLDS)):
        model = fit(features[~held_out], latency_ms[~held_out])
        predicted_ms[held_out] = model.predict_ms(features[held_out])
    return predicted_ms


def embedded_models(space: Space) -> dict[str, EmbeddedModel]:
    """Models that come with the space, by device id; {} if there are none."""
    path = None if space.resources is None else space.resources / MODELS
    return {} if path is None or not path.exists() else _load_models(path)


@cache
def _load_models(path: Path) -> dict[str, EmbeddedModel]:
    from safetensors import safe_open  # noqa: PLC0415 - a run with a complete table needs none

    with safe_open(path, framework="numpy") as file:
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
            _uncertainty(entry.get("uncertainty")),
        )
        for entry, (weights_ms, intercept_ms, fastest_ms) in zip(
            card["devices"], columns, strict=True
        )
    }


def _uncertainty(stored: dict[str, Any] | None) -> ResidualUncertainty | None:
    return None if stored is None else ResidualUncertainty(stored["sd"], tuple(stored["quantiles"]))


def model_of(
    space: Space, device: TimedDevice, measured: MeasuredLatency | None
) -> tuple[EmbeddedModel, bool]:
    """The embedded model of a device, or one fitted now on its measured latencies (True).

    Raises:
      UserError: if there is neither.
    """
    embedded = embedded_models(space).get(device.id)
    if embedded is not None:
        return embedded, False
    if measured is None:
        raise UserError(
            f"device {device.id} has no embedded latency model, and no latency file has its "
            f"column {device.column}; `python -m nas.data space={space.name} list` lists what each device has"
        )
    return fitted_model(space, device, measured), True


def is_published(space: Space, device: TimedDevice, measured: MeasuredLatency) -> bool:
    """Whether these are the times that the package states its facts about the device for, not the user's own.

    A table that comes with the package is; so is one that the device's embedded model was fitted on: it has as many
    times, as near to the model's predictions as held-out ones are.
    """
    if measured.path in bundled_paths(space).values():
        return True
    embedded = embedded_models(space).get(device.id)
    if embedded is None or embedded.uncertainty is None:
        return is_whole(measured.path, space)
    if measured.count != embedded.measured_count:
        return False
    rows = np.isfinite(measured.values_ms)
    predicted_ms = embedded.predict_ms(features_timed(space, device, measured.architectures[rows]))
    errors = np.abs(np.log(measured.values_ms[rows] / predicted_ms))
    return bool(np.nanmedian(errors) <= embedded.uncertainty.sd)


def fitted_model(space: Space, device: TimedDevice, measured: MeasuredLatency) -> EmbeddedModel:
    """Fit a model on the measured latencies of a device, with its cross-validated quality.

    Raises:
      UserError: if they are too few.
    """
    if measured.count < FEWEST_MEASURED:
        raise UserError(
            f"{measured.path}: {device.column} has {measured.count} measured architectures, "
            f"regression needs {FEWEST_MEASURED}; measure more, with the same `python -m "
            f"nas.measure` and networks={2 * FEWEST_MEASURED}, take latency=table for these alone, or move the "
            f"file out of the folder where the package has a model of {device.id}"
        )
    is_measured = np.isfinite(measured.values_ms)
    architectures, latency_ms = measured.architectures[is_measured], measured.values_ms[is_measured]
    features = features_timed(space, device, architectures)
    quality, uncertainty = cross_validate(features, latency_ms, space.groups(architectures))
    return EmbeddedModel(
        device=device.id,
        model=fit(features, latency_ms),
        quality=quality,
        measured_count=measured.count,
        saw_disconnected=bool(disconnected(space, features).any()),
        features=tuple(space.feature_names),
        uncertainty=uncertainty,
        only_canonical=bool((space.canonical(architectures) == space.normal(architectures)).all()),
    )


def features_timed(
    space: Space, device: TimedDevice, architectures: Int64[ndarray, "n D"] | None
) -> Float64[ndarray, "n F"]:
    """Features of the networks that were timed: of each architecture, or of the one it equals.

    None stands for every architecture of a space that can be listed.
    """
    if architectures is None:
        assert isinstance(space, Enumerable)
        return _every_feature(space, device.once_per_network)
    if device.once_per_network:
        architectures = space.canonical(architectures)
    return space.features(architectures)


@lru_cache(maxsize=4)
def _every_feature(space: EnumerableSpace, once_per_network: bool) -> Float64[ndarray, "size F"]:
    rows = every_architecture(space)
    return space.features(space.canonical(rows) if once_per_network else rows)


def disconnected(space: Space, features: Float64[ndarray, "n F"]) -> Bool[ndarray, "n"]:
    """True where the feature `connected` is 0; False everywhere in a space without it."""
    if "connected" not in space.feature_names:
        return np.zeros(len(features), bool)
    return np.asarray(features[:, space.feature_names.index("connected")] == 0)


def judge(predicted: Float64[ndarray, " n"], measured: Float64[ndarray, " n"]) -> Quality:
    """Compare predictions with measurements that they were not made from; R2 and rank correlation of equal ones are NaN."""
    error = np.abs(predicted / measured - 1)
    unexplained = ((predicted - measured) ** 2).sum()
    with np.errstate(invalid="ignore", divide="ignore"):  # of measurements that are all equal
        r2 = float(1 - unexplained / ((measured - measured.mean()) ** 2).sum())
        spearman = float(np.corrcoef(_ranks(predicted), _ranks(measured))[0, 1])
    return Quality(
        r2=r2,
        spearman=spearman,
        within_10_percent=float((error <= 0.1).mean()),
        median_error=float(np.median(error)),
    )


def _ranks(values: Float64[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank: Float64[ndarray, " n"] = (last - (counts - 1) / 2)[group]
    return mean_rank
