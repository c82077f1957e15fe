"""`latency=transfer`: a new device, predicted from a few timed networks and the known devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from omegaconf import MISSING

from edgenas_core.command.settings import setting
from edgenas_core.files.time_unit import TimeUnit
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from latency.base import EnumerableSpace, LatencyConfig, Space, any_choices, every_architecture
from latency.devices.measured import measured_on
from latency.devices.registry import TimedDevice, find, registered
from latency.models.calibration import Calibration, read_calibration, read_timed
from latency.models.layer_table import find_layer_table
from latency.models.microcontrollers import is_chip
from latency.models.process import FEWEST_NETWORKS, Known
from latency.models.regression import LinearLatency, model_of
from latency.models.transferred import HeldOutQuality, Transferred, known_from
from latency.sources.layers import LayersLatency, LayersLatencyConfig
from latency.sources.lookup import Fill, TableLatency, make_table
from latency.sources.published import PublishedLatency, PublishedLatencyConfig
from latency.sources.table import AutoLatencyConfig

_MOST_CHOSEN = 1000  # calibration networks; the time of each grows with their number
_SAMPLED, _STAND_IN = 2000, 500
"""Architectures of a space that cannot be listed: calibration networks are chosen among, and that predictions use."""


@final
@dataclass
class TransferLatencyConfig(LatencyConfig):
    """The calibration networks as measured, all others as `latency.models.process` predicts them.

    In a space without known devices they correct the device's layer model, if it has one; and that of a
    microcontroller in every space.
    """

    probes: str = setting(
        MISSING, "CSV file with the columns arch and latency_ms; see nas.transfer.", unit="path"
    )
    unit: TimeUnit | None = setting(
        None, "Unit of the times in it.", unset="as the column's name says"
    )

    def build(
        self, device: str, space: Space, task: Task
    ) -> TableLatency | LayersLatency | PublishedLatency:
        """Predict the space; the task is the one that the calibration networks were timed for."""
        if is_chip(device):
            timed = _timed(Path(self.probes), space, self.unit)
            return PublishedLatencyConfig().build(device, space, task).corrected(*timed)
        if not any(each.for_transfer for each in registered(space)) and find_layer_table(device):
            architectures, latency_ms = _timed(Path(self.probes), space, self.unit)
            model = LayersLatencyConfig().build(device, space, task)
            return model.corrected(architectures, latency_ms)
        if not isinstance(space, Enumerable):
            return _predicted_one_by_one(
                device, space, task, _timed(Path(self.probes), space, self.unit)
            )
        listed = require_known_devices(space)
        transferred = transfer_from(
            listed, device, read_calibration(Path(self.probes), listed, self.unit)
        )
        calibration = transferred.calibration
        values_ms = np.full(listed.size, np.nan)
        values_ms[calibration.index] = calibration.latency_ms
        fill = Fill(
            Kind.transfer,
            "",
            lambda _: transferred.transfer.latency_ms,
            uncertainty=transferred.transfer.uncertainty,
        )
        return make_table(
            listed,
            every_architecture(listed),
            values_ms,
            fill,
            device=device,
            source="transfer",
            description=_described(transferred.quality, task),
        )


def require_known_devices(space: Space) -> EnumerableSpace:
    """The space, if the table of a new device can be predicted from known ones.

    Raises:
      UserError: if it cannot be listed, or comes with no devices to predict from.
    """
    if not isinstance(space, Enumerable):
        raise UserError(
            f"space={space.name} cannot be listed, so no whole table can be predicted; time the networks "
            f"of `python -m nas.transfer space={space.name} choose=10 out=probes.csv`, then search with "
            f"latency=transfer latency.probes=probes.csv"
        )
    _devices(space)
    return space


def _devices(space: Space) -> list[TimedDevice]:
    """Registered devices that a new one may be predicted from.

    Raises:
      UserError: if there is none.
    """
    devices = [device for device in registered(space) if device.for_transfer]
    if not devices:
        raise UserError(
            f"space={space.name} comes without latencies of known devices, from which a new one could "
            f"be predicted; measure it with `python -m nas.measure space={space.name} networks=200`, or "
            f"ask a live board with latency=probe"
        )
    return devices


@lru_cache(maxsize=4)
def known_latency(space: EnumerableSpace) -> Known:
    """Every registered device: measured where a table is here, else its embedded model.

    Raises:
      UserError: if a table is malformed.
    """
    devices = _devices(space)
    task = next(iter(space.tasks.values()))
    tables = [AutoLatencyConfig().build(device.id, space, task) for device in devices]
    return known_from(space, devices, np.array([table.ms for table in tables]))


def choose_networks(
    space: Space, count: int, setting: str = "choose"
) -> Int64[ndarray, "networks D"]:
    """The architectures to time, the most informative first.

    Raises:
      UserError: if there are not as many, or no known devices.
    """
    if isinstance(space, Enumerable):
        listed = require_known_devices(space)
        return listed.architectures(choose_calibration(listed, count, setting))
    if count > _SAMPLED:
        raise UserError(f"{setting}={count} must be at most {_SAMPLED:,}")
    sample = _Sampled(space, _SAMPLED)
    return np.asarray(sample.rows[sample.with_rows(sample.rows[:0]).choose(count)])


def _known_ms(space: Space, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, "n devices"]:
    """Milliseconds on each known device, by its linear model: free of the noise of measurements."""
    features = space.features(architectures)
    return np.stack([model.predict_ms(features) for model in _linear_models(space)], axis=1)


@lru_cache(maxsize=4)
def _linear_models(space: Space) -> tuple[LinearLatency, ...]:
    """The linear model of each known device, embedded or fitted now."""
    return tuple(
        model_of(space, device, measured_on(space, device))[0].model for device in _devices(space)
    )


@final
class _Sampled:
    """The known devices of a space that cannot be listed: a sample stands for the whole of it."""

    def __init__(self, space: Space, count: int) -> None:
        self._space = space
        self._devices = _devices(space)
        self.rows = any_choices(space, count)
        self._ms = _known_ms(space, self.rows)

    def with_rows(self, rows: Int64[ndarray, "n D"]) -> Known:
        """The known devices at the sample and, after it, at other rows."""
        known_ms = np.concatenate([self._ms, _known_ms(self._space, rows)]).T
        every = np.concatenate([self.rows, rows])
        return known_from(self._space, self._devices, known_ms, every, len(self.rows))


def _predicted_one_by_one(
    device: str,
    space: Space,
    task: Task,
    calibration: tuple[Int64[ndarray, "networks D"], Float64[ndarray, " networks"]],
) -> TableLatency:
    """The oracle of a space that cannot be listed: networks are predicted when they are asked for.

    Raises:
      UserError: if the device is a known one, or there are too few calibration networks.
    """
    require_new(space, device)
    architectures, latency_ms = calibration
    sample = _Sampled(space, _STAND_IN)
    known, timed = sample.with_rows(architectures), _STAND_IN + np.arange(len(latency_ms))
    of_sample = known.transfer(timed, latency_ms, np.arange(_STAND_IN))
    quality = HeldOutQuality(known.held_out(timed, latency_ms), known.held_out_of_known(timed))

    def predict(rows: Int64[ndarray, "n D"] | None) -> Float64[ndarray, "n"]:
        assert rows is not None
        asked = _STAND_IN + len(timed) + np.arange(len(rows))
        of_rows = sample.with_rows(np.concatenate([architectures, rows]))
        return of_rows.transfer(timed, latency_ms, asked).latency_ms

    description = _described(quality, task)
    fill = Fill(Kind.transfer, description, predict, uncertainty=of_sample.uncertainty)
    return make_table(
        space,
        architectures,
        latency_ms,
        fill,
        device=device,
        source="transfer",
        description=description,
    )


def _described(quality: HeldOutQuality, task: Task) -> str:
    return "; ".join(
        [
            "transfer: all but the calibration networks are predicted",
            quality.summary,
            quality.comparison,
            f"the calibration networks are assumed to be networks for {task.name}",
        ]
    )


def _timed(
    probes: Path, space: Space, unit: TimeUnit | None
) -> tuple[Int64[ndarray, "networks D"], Float64[ndarray, " networks"]]:
    """Calibration networks and their milliseconds.

    Raises:
      UserError: if there are too few.
    """
    architectures, latency_ms = read_timed(probes, space, unit)
    if len(latency_ms) < FEWEST_NETWORKS:
        raise UserError(
            f"{probes}: {len(latency_ms)} calibration networks, but at least {FEWEST_NETWORKS} are needed "
            f"and 10 are good; `python -m nas.transfer space={space.name} choose=10 out=<file>` names some"
        )
    return architectures, latency_ms


def choose_calibration(
    space: EnumerableSpace, count: int, setting: str = "choose"
) -> Int64[ndarray, " n"]:
    """Numbers of the architectures to time, the most informative first.

    `setting` is the name of the user's setting for `count`.

    Raises:
      UserError: if there are not as many, or to choose them would take hours.
    """
    most = min(int(known_latency(space).wanted.sum()), _MOST_CHOSEN)
    if count > most:
        raise UserError(f"{setting}={count}: {count} calibration networks, {most:,} at most")
    return _most_informative(space, count)


@lru_cache(maxsize=4)
def _most_informative(space: EnumerableSpace, count: int) -> Int64[ndarray, " n"]:
    return known_latency(space).choose(count)


def require_new(space: Space, device: str, setting: str = "device") -> None:
    """Refuse a device that is among those that are predicted from.

    Raises:
      UserError: if it is; it names the `setting` that would give it another name.
    """
    if find(space, device) is not None:
        raise UserError(
            f"device {device} is known already, so it would be predicted from itself; "
            f"name a new one, as in {setting}=my-board, or search with latency=auto"
        )


def transfer_from(space: EnumerableSpace, device: str, calibration: Calibration) -> Transferred:
    """Predict every architecture on a new device.

    Raises:
      UserError: if the device is one whose latencies are known.
    """
    require_new(space, device)
    devices = known_latency(space)
    timed = calibration.index, calibration.latency_ms
    return Transferred(
        device,
        space,
        calibration,
        devices.transfer(*timed),
        HeldOutQuality(devices.held_out(*timed), devices.held_out_of_known(calibration.index)),
    )
