"""What `python -m runtime.map` can be asked; conf/map.yaml holds the defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from runtime.mapping.timing_table import Bound


@final
@dataclass
class ProfileConfig:
    """What `python -m runtime.map profile=<table>.csv` times; conf/map.yaml holds the defaults."""

    networks: list[str]
    variants: list[str] | None
    batch: int
    width: float
    samples: int
    compared: int
    settle_s: float
    minutes: float

    def check(self) -> None:
        """Refuses what cannot be timed.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        for name in ("batch", "samples", "compared"):
            if getattr(self, name) < 1:
                raise ValueError(f"profiling.{name}={getattr(self, name)} must be at least 1")
        for name in ("width", "minutes"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"profiling.{name}={getattr(self, name)} must be above 0")
        if not 0 <= self.settle_s < math.inf:
            raise ValueError(f"profiling.settle_s={self.settle_s} must be 0 or more, seconds")
        if not self.networks:
            raise ValueError("profiling.networks=[] names no network; write '[nb201,resnet50]'")


@final
@dataclass
class MapConfig:
    """The networks that are there, and what they run on."""

    tasks: str | None
    profile: str | None
    platform: str | None
    configurations: list[str] | None
    frame_ms: float
    networks: list[str] | None
    bound: Bound
    margin: float
    json: bool
    profiling: ProfileConfig

    def check(self) -> None:
        """Refuses what cannot be answered.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        if not 0 < self.frame_ms < math.inf:
            raise ValueError(f"frame_ms={self.frame_ms} must be above 0, milliseconds")
        if not 0 <= self.margin < math.inf:
            raise ValueError(f"margin={self.margin} must be 0 or more; 0.1 adds 10 %")
        if self.tasks is not None and self.profile is not None:
            raise ValueError(
                "tasks= asks what is left on a board, profile= times networks on this machine: "
                "give one of them"
            )
        self.profiling.check()
