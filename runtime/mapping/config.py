"""What `python -m runtime.map` can be asked; conf/map.yaml holds the defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from runtime.mapping.model.timing_table import Bound
from runtime.mapping.solving.baselines import Method


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
    tolerance: float = 0.05  # of the largest output: who differs more from fp32 is not offered

    def check(self) -> None:
        """Refuses what cannot be timed.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        for name in ("batch", "samples", "compared"):
            if getattr(self, name) < 1:
                raise ValueError(f"profiling.{name}={getattr(self, name)} must be at least 1")
        for name in ("width", "minutes", "tolerance"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"profiling.{name}={getattr(self, name)} must be above 0")
        if not 0 <= self.settle_s < math.inf:
            raise ValueError(f"profiling.settle_s={self.settle_s} must be 0 or more, seconds")
        if self.variants is not None and not self.variants:
            raise ValueError("profiling.variants=[] names none; leave it out for all there are")
        if not self.networks:
            raise ValueError("profiling.networks=[] names no network; write '[nb201,resnet50]'")


@final
@dataclass
class RunConfig:
    """How `python -m runtime.map tasks=<table>.csv run=<folder>` runs the frame."""

    ways: list[str]
    margins: list[float]
    frames: int
    turn: int
    minutes: float

    def check(self) -> None:
        """Refuses what cannot be run.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        for name in ("frames", "turn"):
            if getattr(self, name) < 1:
                raise ValueError(f"running.{name}={getattr(self, name)} must be at least 1")
        if not 0 < self.minutes < math.inf:
            raise ValueError(f"running.minutes={self.minutes} must be above 0")
        allowed = [one.value for one in Method]
        if not self.ways or any(name not in allowed for name in self.ways):
            raise ValueError(f"running.ways={self.ways} must be some of {', '.join(allowed)}")
        if not self.margins or not all(0 <= one < math.inf for one in self.margins):
            raise ValueError(
                f"running.margins={self.margins} must each be 0 or more; 0.1 adds 10 %"
            )


@final
@dataclass
class MapConfig:
    """The networks that are there, and what they run on."""

    tasks: str | None
    run: str | None
    profile: str | None
    study: str | None  # refused: it is an experiment of runtime.bench
    platform: str | None
    configurations: list[str] | None
    frame_ms: float
    networks: list[str] | None
    bound: Bound
    margin: float
    json: bool
    profiling: ProfileConfig
    running: RunConfig

    def check(self) -> None:
        """Refuses what cannot be answered.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        if not 0 < self.frame_ms < math.inf:
            raise ValueError(f"frame_ms={self.frame_ms} must be above 0, milliseconds")
        if not 0 <= self.margin < math.inf:
            raise ValueError(f"margin={self.margin} must be 0 or more; 0.1 adds 10 %")
        if self.run is not None and self.tasks is None:
            raise ValueError(f"run={self.run} needs tasks=<table>.csv, the networks to run")
        if self.study is not None:
            raise ValueError(
                f"study={self.study} is now `python -m runtime.bench experiment=schedulability "
                f"out={self.study}`"
            )
        asked = [name for name in ("tasks", "profile") if getattr(self, name) is not None]
        if len(asked) != 1:
            raise ValueError(
                f"{' and '.join(f'{name}=' for name in asked) or 'nothing'} is given; give one of "
                "tasks=<table>.csv (what is left on a board) and profile=<table to write>.csv "
                "(times networks on this machine)"
            )
        self.profiling.check()
        self.running.check()
