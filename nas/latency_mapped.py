"""`latency=mapped`: one network, several devices that could run it, each with time left of its own.

`python -m runtime.map` says what each leaves; docs/mapping.md is for the user.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from latency.table import TableLatency
from nas.accuracy.base import Dataset
from nas.errors import UserError
from nas.latency_sources import AutoLatencyConfig, LatencyConfig
from nas.units import milliseconds
from runtime.mapping.effective_latency import effective_ms
from runtime.timing import Statistic


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

    def build(self, device: str, dataset: Dataset) -> TableLatency:
        """All tables, measured or predicted as `latency=auto` has them, as one."""
        others = dict(_named(text) for text in self.left)
        if not others or device in others:
            raise UserError(
                f"latency.left={self.left} must name devices beside device={device}, whose time is "
                f"T; {_WRITE}"
            )
        left_ms = {device: milliseconds(self.limit), **others}
        tables = [AutoLatencyConfig(self.statistic).build(name, dataset) for name in left_ms]
        latency_ms = np.stack([table.table_ms for table in tables], -1)
        limits_ms = np.array([*left_ms.values()])
        predicted = np.stack([table.is_predicted for table in tables], -1)
        best = (latency_ms / limits_ms).argmin(-1)[..., None]
        said = [f"{name} leaves {ms:g} ms" for name, ms in left_ms.items()]
        said += [
            f"{name}: {table.description}" for name, table in zip(left_ms, tables, strict=True)
        ]
        return TableLatency(
            device=" or ".join(table.device for table in tables),
            source="mapped",
            description=f"mapped, as ms of {device}: {'; '.join(said)}",
            table_ms=effective_ms(latency_ms, limits_ms, limits_ms[0]),
            is_predicted=np.take_along_axis(predicted, best, -1)[..., 0],
        )


_WRITE = "write 'latency.left=[<device> 9ms]', with what runtime.map says that it leaves"


def _named(text: str) -> tuple[str, float]:
    device, _, left = text.rpartition(" ")
    if not device:
        raise UserError(f"latency.left={text} is not a device and a time; {_WRITE}")
    return device.strip(), milliseconds(left)
