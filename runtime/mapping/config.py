"""What can be asked of the mapper; conf/map.yaml holds the defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from runtime.mapping.timing_table import Bound


@final
@dataclass
class MapConfig:
    """The networks that are there, and what they run on."""

    tasks: str | None
    platform: str | None
    frame_ms: float
    networks: list[str] | None
    bound: Bound
    margin: float
    json: bool

    def check(self) -> None:
        """Refuses what cannot be answered.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        if not 0 < self.frame_ms < math.inf:
            raise ValueError(f"frame_ms={self.frame_ms} must be above 0, milliseconds")
        if not 0 <= self.margin < math.inf:
            raise ValueError(f"margin={self.margin} must be 0 or more; 0.1 adds 10 %")
