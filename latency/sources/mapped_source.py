"""`latency=mapped`: one network, several devices that could run it, each with time left of its own.

`python -m runtime.map` says what each leaves; docs/how-to/find-the-time-left.md is for the user.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from latency.devices.measured import device_named
from latency.sources.mapped import Left, MappedLatency
from latency.sources.table_source import AutoLatencyConfig, LatencyConfig
from runtime.machine.timing import Statistic
from runtime.network.task import Task
from runtime.shell.errors import UserError
from runtime.shell.units import milliseconds


@final
@dataclass
class MappedLatencyConfig(LatencyConfig):
    """T is what `device` leaves; `left` has the others, as `latency.left=[xeon/b1 9ms]`.

    A latency is that of the best of them, as milliseconds of the first: within T if and only if the
    network is within what one of them leaves.
    """

    left: list[str] = field(default_factory=list)  # "<device> <time>"
    limit: str = "${T}"
    statistic: Statistic = Statistic.median

    def build(self, device: str, task: Task) -> MappedLatency:
        """All tables, measured or predicted as `latency=auto` has them, as one."""
        named = [_named(text) for text in self.left]
        names = [device, *(name for name, _ in named)]
        left_ms = [milliseconds(self.limit), *(ms for _, ms in named)]
        ids = [device_named(name, self.statistic).id for name in names]
        if not named or len({*ids}) < len(ids):
            raise UserError(
                f"latency.left=[{', '.join(self.left)}] must name devices beside device={device}, "
                f"whose time is T, each once; {_WRITE}"
            )
        auto = AutoLatencyConfig(self.statistic)
        return MappedLatency(
            tuple(Left(auto.build(name, task), ms) for name, ms in zip(names, left_ms, strict=True))
        )


_WRITE = "write 'latency.left=[<device> 9ms]', with what runtime.map says that it leaves"


def _named(text: str) -> tuple[str, float]:
    device, _, left = text.strip().rpartition(" ")
    if not device:
        raise UserError(f"latency.left={text} is not a device and a time; {_WRITE}")
    try:
        return device.strip(), milliseconds(left)
    except UserError as error:
        raise UserError(
            f"latency.left={text}: {left} is not a positive time in s, ms or us; {_WRITE}, "
            f"and leave out a device that leaves nothing"
        ) from error
