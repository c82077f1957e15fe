"""`latency=mapped`: one network, several devices that could run it, each with its own slack.

With the first device's slack as the limit T, the latency is `T * min_j latency_j / slack_j`
(`runtime.mapping.model.effective_latency`): within T if and only if some device has room.
`python -m runtime.map` computes the slack of each; docs/how-to/when-the-board-is-busy.md is for the user.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from common.types.errors import UserError
from common.types.kind import Kind
from common.types.task import Task
from common.types.units import milliseconds
from latency.base import Latencies, LatencyConfig, Place, Space, UnmeasuredError
from latency.devices.measured import device_named
from latency.models.confidence import Uncertainty
from latency.sources.lookup import Table
from latency.sources.table import AutoLatencyConfig
from runtime.machine.timing import Statistic
from runtime.mapping.model.effective_latency import effective_ms


@final
@dataclass(frozen=True)
class Left:
    """The latencies of one device, and the time that it has left."""

    latency: Table
    ms: float


@final
@dataclass(frozen=True)
class MappedLatency:
    """The latency on the best of several devices, as milliseconds of the first."""

    devices: tuple[Left, ...]

    @property
    def device(self) -> str:
        """All devices with their slack: with another slack it is another device."""
        return " or ".join(f"{one.latency.device} ({one.ms:.12g} ms)" for one in self.devices)

    @property
    def source(self) -> str:
        """`mapped`, whatever the source of each device is."""
        return "mapped"

    @property
    def description(self) -> str:
        """Slack of each device, and the source of its latencies."""
        said = [f"{one.latency.device} leaves {one.ms:g} ms" for one in self.devices]
        said += [f"{one.latency.device}: {one.latency.description}" for one in self.devices]
        return f"mapped, as ms of {self.devices[0].latency.device}: {'; '.join(said)}"

    @property
    def instant(self) -> bool:
        """Whether the latencies of all devices are free for the whole space."""
        return all(one.latency.instant for one in self.devices)

    @property
    def uncertainty(self) -> Uncertainty | None:
        """The widest uncertainty of a device's predictions; None if none is known."""
        known = [one.latency.uncertainty for one in self.devices]
        return max((one for one in known if one is not None), key=lambda one: one.sd, default=None)

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds of the first device.

        Raises:
          IndexError: if an architecture lies outside the space.
          UnmeasuredError: if one was measured on no device.
        """
        found = self._look_up(architectures)
        unknown = np.isnan(found.ms)
        if unknown.any():
            text = self.devices[0].latency.space.text(architectures[unknown][0])
            raise UnmeasuredError(f"architecture {text} was not measured on {self.device}")
        return found

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Whether some device has a latency of each architecture."""
        return np.asarray(~np.isnan(self._look_up(architectures).ms))

    def places(self, architecture: Int64[ndarray, "D"]) -> tuple[Place, ...]:
        """Every device that has a latency of the network, the one with most room first."""
        found = [(one, one.latency.look_up(architecture)) for one in self.devices]
        places = [
            Place(one.latency.device, float(each.ms), Kind(int(each.kind)), one.ms)
            for one, each in found
            if not np.isnan(each.ms)
        ]
        return tuple(sorted(places, key=lambda place: place.latency_ms / place.limit_ms))

    def _look_up(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        left_ms = np.array([one.ms for one in self.devices])
        each = [one.latency.look_up(architectures) for one in self.devices]
        ms = np.stack([one.ms for one in each], -1)
        kinds = np.stack([one.kind for one in each], -1)
        ratios = ms / left_ms
        # where a device did not measure an architecture, another one is the best
        best = np.where(np.isnan(ratios), np.inf, ratios).argmin(-1)[..., None]
        nowhere = np.isnan(ms).all(-1)
        return Latencies(
            np.where(nowhere, np.nan, effective_ms(ms, left_ms, left_ms[0])),
            np.take_along_axis(kinds, best, -1)[..., 0],
        )


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
        return MappedLatency(
            tuple(
                Left(auto.build(name, space, task), ms)
                for name, ms in zip(names, left_ms, strict=True)
            )
        )


_WRITE = "write 'latency.left=[<device> 9ms]', with the time that runtime.map computes"


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
