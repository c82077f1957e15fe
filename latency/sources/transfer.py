"""`latency=transfer`: a new device, predicted from a few timed networks and the known devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from omegaconf import MISSING

from latency.base import EnumerableSpace, LatencyConfig, Space
from latency.devices.registry import find, registered
from latency.models.calibration import Calibration, read_calibration
from latency.models.known_devices import known_from
from latency.models.process import Known
from latency.models.transferred import Transferred
from latency.sources.lookup import TableLatency
from latency.sources.table import AutoLatencyConfig
from runtime.network.task import Task
from runtime.shell.errors import UserError
from runtime.shell.provenance import Kind


@final
@dataclass
class TransferLatencyConfig(LatencyConfig):
    """The calibration networks as measured, all others as `latency.models.process` predicts them."""

    probes: str = MISSING  # CSV with the columns arch and latency_ms

    def build(self, device: str, space: Space, task: Task) -> TableLatency:
        """Predict the space; the task is the one that the calibration networks were timed for."""
        listed = require_known_devices(space)
        found = transfer_from(listed, device, read_calibration(Path(self.probes), listed))
        kind = np.full(listed.size, Kind.transfer, np.int8)
        kind[found.calibration.index] = Kind.measured
        said = [
            "transfer: all but the calibration networks are predicted",
            found.summary,
            found.comparison,
            f"the calibration networks are assumed to be networks for {task.name}",
        ]
        return TableLatency(listed, device, "transfer", "; ".join(said), found.latency_ms, kind)


def require_known_devices(space: Space) -> EnumerableSpace:
    """The space, if a new device can be predicted from known ones.

    Raises:
      UserError: if it cannot be listed, or comes with no devices to predict from.
    """
    if not isinstance(space, EnumerableSpace):
        raise UserError(
            f"space={space.name} cannot be listed, so no new device can be predicted from known ones; "
            f"measure it with `python -m nas.measure space={space.name} networks=200`, or ask a live "
            f"board with latency=probe"
        )
    if not any(device.for_transfer for device in registered(space)):
        raise UserError(
            f"space={space.name} comes without latencies of known devices, from which a new one could "
            f"be predicted; measure it with `python -m nas.measure space={space.name}`"
        )
    return space


@lru_cache(maxsize=4)
def known_latency(space: EnumerableSpace) -> Known:
    """Every registered device: measured where a table is here, else its embedded model.

    Raises:
      UserError: if a table is malformed.
    """
    devices = [device for device in registered(space) if device.for_transfer]
    task = next(iter(space.tasks.values()))
    tables = [AutoLatencyConfig().build(device.id, space, task) for device in devices]
    values = [table.ms for table in tables if isinstance(table, TableLatency)]
    return known_from(space, devices, np.array(values))


def choose_calibration(
    space: EnumerableSpace, count: int, setting: str = "choose"
) -> Int64[ndarray, " n"]:
    """Numbers of the architectures to time, the most informative first.

    `setting` is the name of the user's setting for `count`.

    Raises:
      UserError: if there are not as many distinct `connected` networks.
    """
    try:
        return _most_informative(space, count)
    except ValueError as error:
        raise UserError(f"{setting}={count}: {error}") from error


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
    known = known_latency(space)
    timed = calibration.index, calibration.latency_ms
    return Transferred(
        device,
        space,
        calibration,
        known.transfer(*timed),
        known.held_out(*timed),
        known.held_out_of_known(calibration.index),
    )
