"""Settings of `python -m edgenas_runtime.map`; conf/map.yaml holds the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from edgenas_core.types.units import MOST_MS
from edgenas_runtime.mapping.model.timing_table import Bound

MOST_MARGIN = 100


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
    """All settings of `python -m edgenas_runtime.map`."""

    json: bool

    def check(self) -> None:
        """Check the settings.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        super().check()
        if self.tasks is None:
            raise ValueError("tasks= is missing: the timing table of the networks, <table>.csv")
