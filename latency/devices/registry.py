"""The registry of devices (`devices.yaml`): what is known of each column of the public tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, final

from runtime.machine.timing import Statistic

_REGISTRY = Path(__file__).parents[2] / "nas/spaces/nas_bench_201/devices.yaml"


class Kind(Enum):
    """The unit that ran the network."""

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
class Device:
    """One column of a latency table. None stands for what its source does not state."""

    id: str
    column: str  # in the CSV files; an alias of the id
    board: str
    kind: Kind
    source: str
    runtime: str | None = None
    precision: str | None = None
    batch: int | None = None
    dataset: str | None = None  # that the timed networks were built for
    once_per_network: bool = False
    flaws: tuple[str, ...] = ()  # what to know before trusting a number
    found: tuple[str, ...] = ()  # where these facts were read, and what is not stated
    statistic: Statistic = Statistic.median  # of its times; sources that state none count as this

    @property
    def is_situated(self) -> bool:
        """Whether something goes on beside the network, as its id says."""
        return SITUATED in self.id

    def of(self, statistic: Statistic) -> Device:
        """The same device with another statistic of its times, under an id that says so."""
        return replace(
            self,
            id=id_of_statistic(self.id, statistic),
            column=id_of_statistic(self.column, statistic),
            statistic=statistic,
        )


def id_of_statistic(name: str, statistic: Statistic) -> str:
    """An id or column that says whose tail it is, so that two statistics are never mixed."""
    return name if statistic is Statistic.median else f"{name}@{statistic.value}"


def tail_in_words(name: str) -> str | None:
    """What a latency of this id means, where it is not the median."""
    tail = name.rpartition("@")[2] if "@" in name else ""
    if tail not in {Statistic.p95.value, Statistic.p99.value}:
        return None
    return f"latencies are {tail}: {tail[1:]} of 100 inferences of a network took no longer"


SITUATED = "|"
"""Between the id of a device and what goes on beside the network; `runtime.contention.scenario` writes it."""


def solo_id(name: str) -> str:
    """The id of the same device when a network has it to itself."""
    return name.partition(SITUATED)[0]


def unregistered(column: str) -> Device:
    """A column of the user's own file: its name is its id, and nothing else is known."""
    return Device(column, column, column, Kind.unknown, "a local file")


@cache
def registered() -> tuple[Device, ...]:
    """Every device of the registry, in its order."""
    from omegaconf import OmegaConf  # noqa: PLC0415 - 80 ms that only a look-up pays

    # OmegaConf's loader is PyYAML's safe one: a registry makes strings and numbers, no objects.
    groups: Any = OmegaConf.to_container(OmegaConf.load(_REGISTRY))
    return tuple(_device(group, entry) for group in groups for entry in group["devices"])


def find(name: str) -> Device | None:
    """The device of this id or column name, in its situation if the name says one."""
    alone, bar, situation = name.partition(SITUATED)
    found = next((one for one in registered() if alone in {one.id, one.column}), None)
    if found is None or not bar:
        return found
    return replace(
        found,
        id=f"{found.id}{bar}{situation}",
        column=f"{found.column}{bar}{situation}",
        source=f"{found.source}, in a situation",
    )


def _device(group: dict[str, Any], entry: dict[str, Any]) -> Device:
    shared = {"source": group["source"], "dataset": group.get("dataset")}
    lists = {name: (*group.get(name, ()), *entry.get(name, ())) for name in ("flaws", "found")}
    return Device(**{**shared, **entry, **lists, "kind": Kind(entry["kind"])})
