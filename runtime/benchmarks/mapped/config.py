"""Settings of `python -m benchmarks experiment=mapped`; conf/mapped.yaml holds the defaults."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from benchmarks.mapped.baselines import Method
from edgenas_core.files.safe_file import read_text
from edgenas_runtime.mapping.command import MOST_MARGIN, BoardConfig


@final
@dataclass
class MappedConfig(BoardConfig):
    """The board, the timetables to run on it, how often, and how the networks are built."""

    experiment: str
    profile: str | None
    variants: list[str] | None  # of a profile; None: all that this machine supports
    samples: int
    settle_s: float
    ways: list[str]
    margins: list[float]
    frames: int
    turn: int
    minutes: float
    batch: int
    width: float
    compared: int
    tolerance: float
    out: str

    def check(self) -> None:
        """Check the settings.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        super().check()
        if (self.tasks is None) == (self.profile is None):
            raise ValueError(
                "give either tasks=<table>.csv (runs a mapping) or profile=<table to write>.csv (times "
                "networks on this machine)"
            )
        for name in ("frames", "turn", "batch", "compared", "samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.settle_s < math.inf:
            raise ValueError(f"settle_s={self.settle_s} must be 0 or more, seconds")
        if self.variants is not None and not self.variants:
            raise ValueError("variants=[] is empty; omit it for all variants")
        for name in ("minutes", "width", "tolerance"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be above 0")
        allowed = [method.value for method in Method]
        if not self.ways or any(name not in allowed for name in self.ways):
            raise ValueError(f"ways={self.ways} must be some of {', '.join(allowed)}")
        if not self.margins or not all(0 <= margin <= MOST_MARGIN for margin in self.margins):
            raise ValueError(
                f"margins={self.margins} must each be 0 to {MOST_MARGIN}; 0.1 adds 10 %"
            )


def with_recorded(config: MappedConfig, path: Path) -> MappedConfig:
    """Build networks with the settings recorded beside a timing table, if there is a record.

    Raises:
      OSError: if the record cannot be read.
      ValueError: if it is invalid.
    """
    if not path.exists():
        return config
    try:
        settings = json.loads(read_text(path))["settings"]
        recorded = replace(
            config,
            batch=int(settings["batch"]),
            width=float(settings["width"]),
            compared=int(settings["compared"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a record of a profile: {error}; move it away, or profile again"
        ) from error
    recorded.check()
    return recorded
