"""The registry of devices of a search space: facts about each column of its public tables.

It is the file `devices.yaml` among the space's resources; a space without one has no registered
device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, final

from edgenas_core.machine.timing import Statistic
from latency.base import Space


class Processor(Enum):
    """The kind of processor that ran the network."""

    gpu = "gpu"
    cpu = "cpu"
    dsp = "dsp"
    tpu = "tpu"
    fpga = "fpga"
    asic = "asic"
    phone = "phone"  # its source does not say which unit
    unknown = "unknown"  # a column that is not in the registry


@final
@dataclass(frozen=True)
class TimedDevice:
    """One column of a latency table; None where its source does not state a fact."""

    id: str
    column: str  # in the CSV files; an alias of the id
    board: str
    kind: Processor
    source: str
    runtime: str | None = None
    precision: str | None = None
    batch: int | None = None
    dataset: str | None = None  # task that the timed networks were built for
    once_per_network: bool = False  # one of several equal networks was timed, for all of them
    for_transfer: bool = True  # whether a new device is predicted from this one
    flaws: tuple[str, ...] = ()  # reasons to doubt a number
    found: tuple[str, ...] = ()  # where these facts were read, and which are not stated
    statistic: Statistic = Statistic.median  # of the times; the median if its source states none

    @property
    def has_scenario(self) -> bool:
        """Whether its id names a scenario, in which the network was timed."""
        return SCENARIO_MARK in self.id

    def with_statistic(self, statistic: Statistic) -> TimedDevice:
        """The same device with another statistic of its times, which is part of the id."""
        return replace(
            self,
            id=id_of_statistic(self.id, statistic),
            column=id_of_statistic(self.column, statistic),
            statistic=statistic,
        )


def id_of_statistic(name: str, statistic: Statistic) -> str:
    """An id or column with the statistic in it, so that two statistics are never mixed."""
    return name if statistic is Statistic.median else f"{name}@{statistic.value}"


def tail_in_words(name: str) -> str | None:
    """Meaning of a latency of this id; None if it is the median."""
    tail = name.rpartition("@")[2] if "@" in name else ""
    if tail not in {Statistic.p95.value, Statistic.p99.value}:
        return None
    return f"latencies are {tail}: {tail[1:]} of 100 inferences of a network took no longer"


SCENARIO_MARK = "|"
"""Separates the id of a device from the scenario; `edgenas_core.contention.scenario` writes it."""


def slug_of(text: str) -> str:
    """A device's id or another text as the beginning of a file's name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text)


def solo_id(name: str) -> str:
    """The id of the same device without a scenario."""
    return name.partition(SCENARIO_MARK)[0]


def unregistered(column: str) -> TimedDevice:
    """A column of the user's own file: its name is its id, and nothing else is known."""
    return TimedDevice(column, column, column, Processor.unknown, "a local file")


def registered(space: Space) -> tuple[TimedDevice, ...]:
    """Every device of a space's registry, in its order; () if it has none."""
    registry = None if space.resources is None else space.resources / "devices.yaml"
    return () if registry is None or not registry.exists() else _read(registry)


@cache
def _read(registry: Path) -> tuple[TimedDevice, ...]:
    from omegaconf import OmegaConf  # noqa: PLC0415 - 80 ms, for a look-up only

    # OmegaConf's loader is PyYAML's safe one: a registry makes strings and numbers, no objects.
    groups: Any = OmegaConf.to_container(OmegaConf.load(registry))
    return tuple(_device(group, entry) for group in groups for entry in group["devices"])


def find(space: Space, name: str) -> TimedDevice | None:
    """The registered device of this id or column name, with the scenario that the name states."""
    alone, bar, scenario = name.partition(SCENARIO_MARK)
    device = next(
        (device for device in registered(space) if alone in {device.id, device.column}), None
    )
    if device is None or not bar:
        return device
    return replace(
        device,
        id=f"{device.id}{bar}{scenario}",
        column=f"{device.column}{bar}{scenario}",
        source=f"{device.source}, in a scenario",
    )


def _device(group: dict[str, Any], entry: dict[str, Any]) -> TimedDevice:
    shared = {"source": group["source"], "dataset": group.get("dataset")}
    lists = {name: (*group.get(name, ()), *entry.get(name, ())) for name in ("flaws", "found")}
    return TimedDevice(**{**shared, **entry, **lists, "kind": Processor(entry["kind"])})
