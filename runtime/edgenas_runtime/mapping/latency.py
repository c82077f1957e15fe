"""`latency=mapped` of a search: one network, several devices that could run it, each with its own slack.

Device j has a slack of T_j milliseconds (`edgenas_runtime.mapping.solving.slack`). A network is feasible
if its latency on some device is within the slack of that device. The smallest ratio, scaled by the limit T
of the search, is the latency for its reward:

    t_eff = T * min_j latency_j / T_j

The search takes the slack of its first device as T. `edgenas map` computes the slack of each device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.machine.timing import Statistic
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from edgenas_core.types.units import milliseconds
from latency.base import Latencies, LatencyConfig, Place, Space
from latency.devices.measured import device_named
from latency.sources.lookup import LookUp, TableLatency
from latency.sources.table import AutoLatencyConfig


def effective_ms(
    latency_ms: Float64[ndarray, "*n devices"],
    slack_ms: Float64[ndarray, " devices"],
    limit_ms: float,
) -> Float64[ndarray, "*n"]:
    """Return a latency that is within the limit if and only if some device has room.

    Args:
      latency_ms: latency on each device; NaN or infinite where the network cannot run.
      slack_ms: slack of each device; 0 where nothing fits.
      limit_ms: limit of the reward, such as the largest of `slack_ms`.

    Raises:
      ValueError: if no device has slack.
    """
    if not (slack_ms > 0).any():
        raise ValueError("no device has slack, so no network is feasible")
    has_room = slack_ms > 0
    ratios = latency_ms[..., has_room] / slack_ms[has_room]
    best: Float64[ndarray, "*n"] = np.where(np.isnan(ratios), np.inf, ratios).min(-1)
    return limit_ms * best


@final
@dataclass(frozen=True)
class DeviceSlack:
    """The latencies of one device, and the time that it has left."""

    latency: TableLatency
    slack_ms: float


@final
@dataclass(frozen=True, kw_only=True)
class MappedLatency(LookUp):
    """The latency on the best of several devices, as milliseconds of the first."""

    devices: tuple[DeviceSlack, ...]

    def places(self, architecture: Int64[ndarray, "D"]) -> tuple[Place, ...]:
        """Every device that has a latency of the network, the one with most room first."""
        latencies = [(device, device.latency.look_up(architecture)) for device in self.devices]
        places = [
            Place(
                device.latency.device, float(latency.ms), Kind(int(latency.kind)), device.slack_ms
            )
            for device, latency in latencies
            if not np.isnan(latency.ms)
        ]
        return tuple(sorted(places, key=lambda place: place.latency_ms / place.limit_ms))

    def look_up(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds of the first device, and the kinds of the best; NaN if none has a latency."""
        slack_ms = np.array([device.slack_ms for device in self.devices])
        latencies = [device.latency.look_up(architectures) for device in self.devices]
        ms = np.stack([latency.ms for latency in latencies], -1)
        kinds = np.stack([latency.kind for latency in latencies], -1)
        ratios = ms / slack_ms
        # where a device did not measure an architecture, another one is the best
        best = np.where(np.isnan(ratios), np.inf, ratios).argmin(-1)[..., None]
        nowhere = np.isnan(ms).all(-1)
        return Latencies(
            np.where(nowhere, np.nan, effective_ms(ms, slack_ms, slack_ms[0])),
            np.take_along_axis(kinds, best, -1)[..., 0],
        )


def best_of(devices: Sequence[DeviceSlack]) -> MappedLatency:
    """Return the latency on the best of several devices.

    The name of its device contains every slack. Its uncertainty is that of the device whose predictions
    vary most.
    """
    tables = [device.latency for device in devices]
    notes = [f"{device.latency.device} leaves {device.slack_ms:g} ms" for device in devices]
    notes += [f"{table.device}: {table.description}" for table in tables]
    uncertainties = [table.uncertainty for table in tables if table.uncertainty is not None]
    return MappedLatency(
        space=tables[0].space,
        device=device_of([(device.latency.device, device.slack_ms) for device in devices]),
        source="mapped",
        description=f"mapped, as ms of {tables[0].device}: {'; '.join(notes)}",
        uncertainty=max(uncertainties, key=lambda uncertainty: uncertainty.sd, default=None),
        devices=tuple(devices),
    )


def device_of(slacks: Sequence[tuple[str, float]]) -> str:
    """Return the id of several devices together, from the id and slack of each."""
    return " or ".join(f"{device} ({slack_ms:.12g} ms)" for device, slack_ms in slacks)


@final
@dataclass
class MappedLatencyConfig(LatencyConfig):
    """The slack of `device` is T; `left` has the others, as `latency.left=[xeon/b1 9ms]`.

    A latency is that on the best of them, as milliseconds of the first: within T if and only if the
    network is within the slack of one of them.
    """

    left: list[str] = field(default_factory=list)  # "<device> <time>"
    limit: str = "${T}"
    statistic: Statistic = Statistic.median

    def require_limit(self, limit_ms: float) -> None:
        """Refuse another limit than T."""
        if milliseconds(self.limit) != limit_ms:
            raise UserError(f"latency.limit={self.limit} is not T; set T={self.limit}")

    def build(self, device: str, space: Space, task: Task) -> MappedLatency:
        """All tables, measured or predicted as by `latency=auto`, as one."""
        named = [_named(text) for text in self.left]
        names = [device, *(name for name, _ in named)]
        left_ms = [milliseconds(self.limit), *(ms for _, ms in named)]
        ids = [device_named(space, name, self.statistic).id for name in names]
        if not named or len({*ids}) < len(ids):
            raise UserError(
                f"latency.left=[{', '.join(self.left)}] must name devices beside device={device}, "
                f"whose time is T, each once; {_WRITE}"
            )
        auto = AutoLatencyConfig(self.statistic)
        tables = [auto.build(name, space, task) for name in names]
        return best_of([DeviceSlack(table, ms) for table, ms in zip(tables, left_ms, strict=True)])


_WRITE = "write 'latency.left=[<device> 9ms]', with the time that edgenas map computes"


def _named(text: str) -> tuple[str, float]:
    device, _, left = text.strip().rpartition(" ")
    if not device:
        raise UserError(f"latency.left={text} is not a device and a time; {_WRITE}")
    try:
        return device.strip(), milliseconds(left)
    except UserError as error:
        raise UserError(
            f"latency.left={text}: {left} is not a positive time in s, ms or us; {_WRITE}, "
            f"and leave out a device that has no time left"
        ) from error
