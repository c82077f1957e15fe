"""Settings of `python -m runtime.map`; conf/map.yaml holds the defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from common.types.units import MOST_MS
from runtime.mapping.model.timing_table import Bound

MOST_MARGIN = 100


@final
@dataclass
class ProfileConfig:
    """Settings of `python -m runtime.map profile=<table>.csv`."""

    networks: list[str]
    variants: list[str] | None
    batch: int
    width: float
    samples: int
    compared: int
    settle_s: float
    minutes: float
    tolerance: float = 0.05  # allowed difference from fp32, relative to the largest output

    def check(self) -> None:
        """Check the settings.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        for name, most in (("batch", 4096), ("samples", 10**6), ("compared", 4096)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(
                    f"profiling.{name}={getattr(self, name)} must be between 1 and {most:,}"
                )
        for name, most in (("width", 16), ("minutes", 10**6), ("tolerance", 10**6)):
            if not 0 < getattr(self, name) <= most:
                raise ValueError(
                    f"profiling.{name}={getattr(self, name)} must be above 0 and at most {most:,}"
                )
        if not 0 <= self.settle_s < math.inf:
            raise ValueError(f"profiling.settle_s={self.settle_s} must be 0 or more, seconds")
        if self.variants is not None and not self.variants:
            raise ValueError("profiling.variants=[] is empty; omit it for all variants")
        if not self.networks:
            raise ValueError("profiling.networks=[] is empty; write '[nb201,resnet50]'")


@dataclass
class BoardConfig:
    """The networks of a board, and how their times are read."""

    tasks: str | None
    platform: str | None
    configurations: list[str] | None
    frame_ms: float
    networks: list[str] | None
    bound: Bound
    margin: float

    def check(self) -> None:
        """Check the settings.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        if not 0 < self.frame_ms <= MOST_MS:
            raise ValueError(
                f"frame_ms={self.frame_ms} must be above 0 and at most {MOST_MS:g}, milliseconds"
            )
        if not 0 <= self.margin <= MOST_MARGIN:
            raise ValueError(f"margin={self.margin} must be 0 to {MOST_MARGIN}; 0.1 adds 10 %")


@final
@dataclass
class MapConfig(BoardConfig):
    """All settings of `python -m runtime.map`."""

    profile: str | None
    json: bool
    profiling: ProfileConfig

    def check(self) -> None:
        """Check the settings.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        super().check()
        tables = [f"{name}=" for name in ("tasks", "profile") if getattr(self, name) is not None]
        if len(tables) != 1:
            raise ValueError(
                f"got {' and '.join(tables) or 'neither'}; give either tasks=<table>.csv (slack on a "
                "board) or profile=<table to write>.csv (times networks on this machine)"
            )
        self.profiling.check()
