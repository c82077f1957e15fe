"""Where a search's latencies come from: `latency=auto|table|regression|nats`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Shaped
from numpy import ndarray
from omegaconf import MISSING

from latency.base import LatencyOracle
from latency.devices.bundled import shipped_paths
from latency.devices.measured import (
    MeasuredLatency,
    device_named,
    input_caveats,
    measured_on,
    situations,
    without_path,
)
from latency.devices.registry import SITUATED, Device, solo_id
from latency.models.cell_regression import model_of, predicted_ms
from latency.models.regression import EmbeddedModel, embedded_models
from latency.sources.nats import NATS_DEVICE, NatsLatency
from latency.sources.situated import situated_from_solo
from latency.sources.table import TableLatency
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.machine.timing import Statistic
from runtime.network.task import Task
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import data_folder


class Unmeasured(Enum):
    """What a table answers for a cell that was not measured."""

    error = "error"
    regression = "regression"  # a linear model's prediction, marked as one


@dataclass
class LatencyConfig(ABC):
    """One source of latencies."""

    @abstractmethod
    def build(self, device: str, task: Task) -> LatencyOracle:
        """Make the oracle of a device, named by its id or its column.

        Raises:
          UserError: if this source knows no such device, or its files cannot be used.
        """


@final
@dataclass
class AutoLatencyConfig(LatencyConfig):
    """Measurements where a file has them, predictions for the rest."""

    statistic: Statistic = Statistic.median

    def build(self, device: str, task: Task) -> TableLatency:
        """A table with its holes filled, or the embedded model where no file has the device."""
        found, measured = _measured(device, self.statistic)
        if measured is None:
            return _predicted_table(found, None, task)
        return _measured_table(found, measured, task, Unmeasured.regression)


@final
@dataclass
class TableLatencyConfig(LatencyConfig):
    """Measurements in any latency CSV of the data folder; see `runtime.shell.keyed_table`."""

    unmeasured: Unmeasured = Unmeasured.error
    statistic: Statistic = Statistic.median

    def build(self, device: str, task: Task) -> TableLatency:
        """Read the device's column."""
        found, measured = _measured(device, self.statistic)
        if measured is None:
            raise UserError(
                f"no latency file in {data_folder()} has column {found.column} of device "
                f"{found.id}; `python -m nas.data list` says which devices have one, "
                f"latency=auto falls back to predictions"
            )
        return _measured_table(found, measured, task, self.unmeasured)


@final
@dataclass
class RegressionLatencyConfig(LatencyConfig):
    """The device's linear model for every cell, even for those that were measured."""

    statistic: Statistic = Statistic.median

    def build(self, device: str, task: Task) -> TableLatency:
        """The embedded model; a device that has none is fitted on its measured cells."""
        found = device_named(device, self.statistic)
        if found.id in embedded_models():
            return _predicted_table(found, None, task)
        return _predicted_table(*_measured(device, self.statistic), task)


@final
@dataclass
class NatsLatencyConfig(LatencyConfig):
    """The latency in NATS-Bench's archive; each new architecture reads 10 ms of file."""

    archive: Path = MISSING  # the unpacked folder, NATS-tss-v1_0-3ffb9-simple

    def build(self, device: str, task: Task) -> NatsLatency:
        """Open the archive; cells are read when they are asked for."""
        if device_named(device).id != NATS_DEVICE:
            raise UserError(
                f"latency=nats knows one device, not {device}; choose device={NATS_DEVICE}"
            )
        from nas.spaces.nas_bench_201.public.archive import NatsArchive  # noqa: PLC0415 - opened by this source only

        archive = NatsArchive(Path(self.archive).expanduser())
        return NatsLatency(
            description=f"nats: archive {self.archive}, {task.name}, batch of 256",
            number_of=NAS_BENCH_201.numbers,
            latency_ms_of=lambda index: archive.latency_ms(index, task),
            holds=archive.has,
        )


def _measured(name: str, statistic: Statistic) -> tuple[Device, MeasuredLatency | None]:
    device = device_named(name, statistic)
    measured = measured_on(device)
    if measured is None and device.is_situated:
        known = ", ".join(situations(solo_id(device.id))) or "it in no situation"
        raise UserError(
            f"{device.id} was not measured; of this device there is {known} (docs/how-to/search-in-a-scenario.md)"
        )
    if measured is None and device.statistic is not Statistic.median:
        tail = device.statistic.value
        raise UserError(
            f"latency.statistic={tail}, but no table has column {device.column}: public tables hold one "
            f"number a cell; of your own measurement, `python -m nas.measure` with the same settings "
            f"and statistic={tail} writes {tail} to a file of its own, from the times it has; of ours, "
            f"{', '.join(name for name in shipped_paths() if SITUATED not in name)} have tails"
        )
    return device, measured


def _measured_table(
    device: Device, measured: MeasuredLatency, task: Task, unmeasured: Unmeasured
) -> TableLatency:
    values_ms = measured.values_ms
    missing = np.isnan(values_ms)
    warnings: tuple[str, ...] = ()
    said = [f"table: {device.source}, {measured.cells:,} measured cells"]
    filled = unmeasured is Unmeasured.regression and bool(missing.any())
    if filled and measured.predicted_ms is not None:
        values_ms = np.where(missing, measured.predicted_ms, values_ms)
        said.append(
            f"{missing.sum():,} predicted from them by nas.transfer, as {measured.path} has them"
        )
    elif filled and device.is_situated:
        alone = AutoLatencyConfig(device.statistic).build(solo_id(device.id), task)
        situated = situated_from_solo(device, measured, alone)
        values_ms = np.where(missing, situated.latency_ms, values_ms)
        said.append(
            f"{missing.sum():,} predicted from {alone.device} by the slowdown of "
            f"{situated.fitted_on.sum():,} cells ({situated.quality})"
        )
        warnings = situated.warnings
    elif filled:
        model, _ = model_of(device, measured)
        values_ms = np.where(missing, predicted_ms(device, model), values_ms)
        said.append(f"{missing.sum():,} predicted by regression ({model.quality})")
        said += _extrapolation(model, missing)
    elif missing.any():
        said.append(f"{missing.sum():,} not measured")
    said += [*measured.flaws, *device.flaws, *input_caveats(device, task)]
    return TableLatency(
        device=device.id,
        source="table",
        description="; ".join(said),
        table_ms=by_architecture(values_ms),
        is_predicted=by_architecture(missing & filled),
        warnings=warnings,
    )


def _predicted_table(device: Device, measured: MeasuredLatency | None, task: Task) -> TableLatency:
    model, fitted_now = model_of(device, measured)
    fitted = "fitted now on" if fitted_now else "an embedded linear model of"
    how = (
        f"regression: every latency is predicted by {fitted} {model.measured_cells:,} cells "
        f"of {device.source} ({model.quality})"
    )
    everywhere = np.ones(NAS_BENCH_201.size, bool)
    said = [how, *_extrapolation(model, everywhere), *device.flaws, *input_caveats(device, task)]
    return TableLatency(
        device=device.id,
        source="regression",
        description="; ".join(said),
        table_ms=by_architecture(predicted_ms(device, model)),
        is_predicted=by_architecture(everywhere),
    )


def _extrapolation(model: EmbeddedModel, predicted: Bool[ndarray, "15625"]) -> list[str]:
    guessed = int((predicted & without_path()).sum())
    if model.saw_disconnected or not guessed:
        return []
    return [f"{guessed} of them, without a path from input to output, are extrapolated"]


def by_architecture(official: Shaped[ndarray, "15625"]) -> Shaped[ndarray, "5 5 5 5 5 5"]:
    """Values in official order, as an array indexed by architecture."""
    choices = np.moveaxis(np.indices(NAS_BENCH_201.num_choices), 0, -1)
    grid: Shaped[ndarray, "5 5 5 5 5 5"] = official[NAS_BENCH_201.numbers(choices)]
    return grid
