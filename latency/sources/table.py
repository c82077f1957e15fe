"""Measured latencies, and linear models: `latency=table`, `latency=auto`, `latency=regression`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.command.settings import setting
from edgenas_core.contention.scenario import scenario_named
from edgenas_core.files.keyed_table import data_folder
from edgenas_core.files.time_unit import TimeUnit
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from latency.base import LatencyConfig, Space, every_architecture
from latency.devices.bundled import bundled_paths
from latency.devices.measured import (
    MeasuredLatency,
    device_named,
    input_caveats,
    not_read,
    open_table,
)
from latency.devices.registry import SCENARIO_MARK, Processor, TimedDevice, solo_id
from latency.models.plausibility import implausibly_fast
from latency.models.process import uncertainty_of
from latency.models.regression import (
    EmbeddedModel,
    disconnected,
    features_timed,
    fitted_model,
    is_published,
    model_of,
)
from latency.models.slowdown import FEWEST_BOTH_WAYS, Pairs, fit, quality
from latency.sources.lookup import Fill, TableLatency, make_table, predicting

_DOUBTFUL_ERROR = 0.1
"""A median error on held-out architectures above this is worth a warning."""


_TAILS = tuple(f"@{tail.value}" for tail in Statistic if tail is not Statistic.median)


class Implausible(Enum):
    """Treatment of times that are implausibly fast (`latency.models.plausibility`)."""

    set_aside = "set_aside"  # predicted instead, and marked so
    keep = "keep"


@dataclass
class DeviceColumnConfig(LatencyConfig):
    """How the times of a device are read from a table."""

    statistic: Statistic = setting(
        Statistic.median, "Statistic of measured times, where the tail was kept."
    )
    unit: TimeUnit | None = setting(
        None,
        "Unit of latencies in a table.",
        unset="that of its name or the file's, else ms",
    )

    def in_scenario(self, device: str, scenario: str, space: Space) -> str:
        """Id of a device while the work of a scenario runs beside the network.

        Raises:
          UserError: if there is no such scenario, or the device's name has one, or a statistic.
        """
        suffix = scenario_named(scenario).suffix
        if SCENARIO_MARK in device:
            raise UserError(f"device={device} has a scenario in its name; leave out scenario=")
        if device.endswith(_TAILS):
            raise UserError(
                f"device={device} has a statistic in its name; with scenario= name the device alone, "
                f"and latency.statistic="
            )
        return device_named(space, device, self.statistic).id.partition("@")[0] + suffix


@final
@dataclass
class AutoLatencyConfig(DeviceColumnConfig):
    """Measurements where a file has them, predictions for the rest, and for implausibly fast times."""

    def build(self, device: str, space: Space, task: Task) -> TableLatency:
        """A table with its holes filled, or the linear model if no file has the device."""
        listed, measured = open_table(space, device, self.statistic, self.unit)
        if measured is None:
            return predicted_table(space, listed, None, task)
        return _measured_table(
            space, listed, measured, task, is_filled=True, implausible=Implausible.set_aside
        )


@final
@dataclass
class TableLatencyConfig(DeviceColumnConfig):
    """Measurements in any latency CSV of the data folder (`edgenas_core.files.keyed_table`), and nothing else."""

    implausible: Implausible = setting(
        Implausible.set_aside, "Whether implausibly fast times of a table are left out or kept."
    )

    def build(self, device: str, space: Space, task: Task) -> TableLatency:
        """Read the device's column."""
        listed, measured = open_table(space, device, self.statistic, self.unit)
        if measured is None:
            raise UserError(
                f"no latency file in {data_folder()} has column {listed.column} of device "
                f"{listed.id}; `python -m nas.data space={space.name} list` lists those that have one, "
                f"latency=auto falls back to predictions"
            )
        return _measured_table(
            space,
            listed,
            measured,
            task,
            is_filled=False,
            implausible=self.implausible,
        )


@final
@dataclass
class RegressionLatencyConfig(DeviceColumnConfig):
    """A linear model for every architecture, even for those that were measured.

    It is fitted on the user's own times of the device, if there are any; else it is the embedded one.
    """

    def build(self, device: str, space: Space, task: Task) -> TableLatency:
        """Predict every architecture of the space."""
        listed, measured = open_table(space, device, self.statistic, self.unit)
        return predicted_table(space, listed, measured, task)


def predicted_table(
    space: Space, device: TimedDevice, measured: MeasuredLatency | None, task: Task
) -> TableLatency:
    """Latencies from the device's linear model alone.

    Raises:
      UserError: if the device has no model, and too few measurements to fit one.
    """
    if measured is not None and not is_published(space, device, measured):
        device = _own(device, measured)
        model, fitted_now = fitted_model(space, device, measured), True
    else:
        model, fitted_now = model_of(space, device, measured)
    fitted = "fitted now on" if fitted_now else "an embedded linear model of"
    fill = regression_fill(space, device, model)
    how = (
        f"regression: every latency is predicted by {fitted} {model.measured_count:,} architectures "
        f"of {device.source} ({model.quality})"
    )
    parts = [
        how,
        *_extrapolation(space, device, model, None),
        *device.flaws,
        *input_caveats(device, space, task),
    ]
    oracle = predicting(space, device.id, "regression", "; ".join(parts), fill)
    return replace(oracle, warnings=not_read(space))


def _own(device: TimedDevice, measured: MeasuredLatency) -> TimedDevice:
    """The device with the facts that are known of the user's own times, whatever else has its name."""
    source = measured.path.name
    if device.kind is not Processor.unknown:
        source = f"{source}, your own times: the package's of {device.source} are not used"
    return replace(device, source=source, dataset=None, once_per_network=False, flaws=())


def _measured_table(
    space: Space,
    device: TimedDevice,
    measured: MeasuredLatency,
    task: Task,
    *,
    is_filled: bool,  # whether a model predicts what was not measured
    implausible: Implausible,
) -> TableLatency:
    is_own = not is_published(space, device, measured)
    device = _own(device, measured) if is_own else device
    faults = np.zeros(len(measured.values_ms), bool)
    # our own tables were watched while they were measured
    watched = measured.path in bundled_paths(space).values()
    if implausible is Implausible.set_aside and not (device.has_scenario or watched):
        faults = implausibly_fast(space, device, measured.architectures, measured.values_ms)
    if faults.any():
        if not np.isnan(measured.values_ms).any():  # what is complete stays so
            is_filled = True
        measured = replace(measured, values_ms=np.where(faults, np.nan, measured.values_ms))
    missing = np.isnan(measured.values_ms) if isinstance(space, Enumerable) else None
    others = "all others" if missing is None else f"{missing.sum():,}"
    parts = [f"table: {device.source}, {measured.count:,} measured architectures"]
    fill = None
    if missing is None or missing.any():
        if is_filled:
            fill = _fill(space, device, measured, missing, task, is_own=is_own)
        parts.append(f"{others} {'not measured' if fill is None else fill.description}")
    if faults.any():
        parts.append(
            f"{faults.sum():,} implausibly fast times set aside (latency=table latency.implausible=keep takes them)"
        )
    parts += [*measured.flaws, *device.flaws, *input_caveats(device, space, task)]
    oracle = make_table(
        space,
        measured.architectures,
        measured.values_ms,
        fill,
        device=device.id,
        source="table",
        description="; ".join(parts),
    )
    return replace(oracle, warnings=(*oracle.warnings, *not_read(space)))


def _fill(
    space: Space,
    device: TimedDevice,
    measured: MeasuredLatency,
    missing: Bool[ndarray, "size"] | None,
    task: Task,
    *,
    is_own: bool,
) -> Fill:
    """The model of what was not measured: stored in the table, of the scenario, or linear."""
    if measured.predicted_ms is not None:
        return Fill(
            Kind.transfer,
            f"predicted from them by nas.transfer, as stored in {measured.path}",
            _stored(space, measured.architectures, measured.predicted_ms),
            uncertainty=None
            if measured.high_ms is None
            else uncertainty_of(measured.predicted_ms, measured.high_ms),
        )
    if device.has_scenario:
        alone = AutoLatencyConfig(device.statistic).build(solo_id(device.id), space, task)
        return _slowed(space, device, measured, alone)
    if is_own:  # another board of this name has other times
        model = fitted_model(space, device, measured)
    else:
        model, _ = model_of(space, device, measured)
    extrapolated = "".join(f"; {note}" for note in _extrapolation(space, device, model, missing))
    return regression_fill(
        space, device, model, f"predicted by regression ({model.quality}){extrapolated}"
    )


def regression_fill(
    space: Space, device: TimedDevice, model: EmbeddedModel, description: str = ""
) -> Fill:
    """Predictions of a device's linear model."""

    def predict(architectures: Int64[ndarray, "n D"] | None) -> Float64[ndarray, "n"]:
        ms = model.predict_ms(features_timed(space, device, architectures))
        if model.only_canonical:
            # whether this board runs what the output does not need was never seen: the slower of both
            needed = replace(device, once_per_network=True)
            ms = np.maximum(ms, model.predict_ms(features_timed(space, needed, architectures)))
        return ms

    return Fill(Kind.regression, description, predict, uncertainty=model.uncertainty)


def _stored(
    space: Space, architectures: Int64[ndarray, "n D"], stored_ms: Float64[ndarray, "n"]
) -> Callable[[Int64[ndarray, "n D"] | None], Float64[ndarray, "n"]]:
    """Predictions that were computed before; NaN for an architecture that has none."""

    def predict(rows: Int64[ndarray, "n D"] | None) -> Float64[ndarray, "n"]:
        if rows is None:
            return stored_ms
        return make_table(space, architectures, stored_ms).look_up(rows).ms

    return predict


def _slowed(
    space: Space, device: TimedDevice, measured: MeasuredLatency, alone: TableLatency
) -> Fill:
    """Latencies in a scenario: those without it times a slowdown, learned where both were timed.

    The slowdown is the fitted one, or one factor for all if that errs less on held-out architectures.

    Raises:
      UserError: if too few were timed both ways.
    """
    solo = alone.look_up(measured.architectures)
    both = np.isfinite(measured.values_ms) & (solo.kind == Kind.measured)
    if both.sum() < FEWEST_BOTH_WAYS:
        raise UserError(
            f"{measured.path}: {device.column} and {alone.device} have {both.sum()} measured "
            f"architectures in common, and a slowdown is learned from {FEWEST_BOTH_WAYS}; measure both "
            f"with the same `python -m nas.measure`, once with scenario= and once without, and "
            f"networks={2 * FEWEST_BOTH_WAYS}"
        )
    rows = measured.architectures[both]
    pairs = Pairs(solo.ms[both], measured.values_ms[both], space.features(rows), space.groups(rows))
    how_good = quality(pairs)
    model = fit(pairs) if how_good.ridge_is_better else None

    def predict(architectures: Int64[ndarray, "n D"] | None) -> Float64[ndarray, "n"]:
        if architectures is None:
            assert isinstance(space, Enumerable)
            architectures = every_architecture(space)
        solo_ms = alone.look_up(architectures).ms
        if model is None:
            return np.asarray(solo_ms * how_good.median_ratio)
        return model.predict_ms(solo_ms, space.features(architectures))

    error = how_good.chosen.median_error
    warning = (
        f"latencies in this scenario are predicted with a median error of {error:.0%} on architectures "
        f"that were held out; measure more networks in it"
    )
    return Fill(
        Kind.slowdown,
        f"predicted from {alone.device} by the slowdown of {both.sum():,} architectures ({how_good})",
        predict,
        (warning,) if error > _DOUBTFUL_ERROR else (),
        how_good.uncertainty.and_of(alone.uncertainty),
    )


def _extrapolation(
    space: Space, device: TimedDevice, model: EmbeddedModel, predicted: Bool[ndarray, "size"] | None
) -> list[str]:
    """Says how many predictions are of architectures that are not `connected`, if none was fitted."""
    if model.saw_disconnected or not isinstance(space, Enumerable):
        return []
    apart = disconnected(space, features_timed(space, device, None))
    guessed = int((apart if predicted is None else apart & predicted).sum())
    if not guessed:
        return []
    return [f"{guessed} of them, whose output does not depend on the input, are extrapolated"]
