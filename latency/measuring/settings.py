"""Settings of a measurement, of this machine or of boards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from omegaconf import MISSING

from edgenas_core.inference.backend import Backend, Precision
from edgenas_core.machine.stability import OnDisturbance, StabilityConfig
from edgenas_core.machine.timing import Statistic, TimingConfig
from edgenas_core.types.errors import UserError
from latency.probe.address import addresses
from latency.probe.config import BoardsConfig


@final
@dataclass
class MeasureConfig:
    """Settings of a measurement: the networks, the device, the timing."""

    board: str | None = None  # None: the name that the board gives itself
    device: Any = "cpu"  # cpu, cuda, or the address of a board, or a list of them
    backend: Backend | None = None  # of this machine
    space: str = MISSING
    dataset: str = "auto"  # a task of the space
    batch_size: int = 1
    core: int | None = None
    shard: str = "1/1"
    networks: int | None = None
    repeats: int | None = None
    together: int = 1
    statistic: Statistic = Statistic.median
    on_disturbance: OnDisturbance = OnDisturbance.stop
    seed: int = 0
    out: str = "measurements"
    precision: Precision = Precision.fp32
    threads: int = 1
    probes: int | None = None  # number of calibration networks, chosen as `nas.transfer` does
    transfer: bool = False
    layers: int | None = None  # distinct layers to time inside the networks of a board
    scenario: str | None = None  # other work beside the networks; None: none
    correct_drift: bool = False  # divide times by the control's drift instead of flagging them
    minutes: float | None = None  # no round begins after that; None: everything is measured
    timing: TimingConfig = field(default_factory=TimingConfig)
    quiet: StabilityConfig = field(default_factory=StabilityConfig)
    latency: BoardsConfig = field(default_factory=BoardsConfig)

    @property
    def is_remote(self) -> bool:
        """Whether boards are measured, named by their addresses."""
        return "://" in self.addresses

    @property
    def addresses(self) -> str:
        """The device, or the addresses of the boards, separated by space."""
        return addresses(self.device)

    @property
    def part(self) -> tuple[int, int]:
        """Part that this process measures, counted from 1, and the number of parts.

        Raises:
          UserError: if there is no such part.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", self.shard)
        number, parts = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= parts:
            raise UserError(f"shard={self.shard} is not a part like 1/4, 2/4, 3/4 or 4/4")
        return number, parts

    def require_quiet(
        self, drift: Sequence[str], disturbances: Sequence[str], measured: str
    ) -> None:
        """Stop at a disturbance of what is `measured`, if the settings say so.

        Raises:
          UserError: if there is one; it names the disturbance.
        """
        if (drift or disturbances) and self.on_disturbance is OnDisturbance.stop:
            shared = ", or on a shared host correct_drift=true" if drift else ""
            raise UserError(
                f"{measured} is not quiet: {'; '.join((*drift, *disturbances))}; make it so and run the "
                f"same command again to go on, or take on_disturbance=flag{shared}"
            )
