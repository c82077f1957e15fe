"""What a hog is: something that takes bandwidth, told by a page how much it may."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

from runtime.contention.hogs.control_page import ControlPage
from runtime.contention.isolation.guarded import Guardian

if TYPE_CHECKING:
    from runtime.network.cuda.sm_slices import SmSlice


@final
@dataclass(frozen=True)
class Place:
    """What a hog is given where it starts."""

    page: ControlPage
    guardian: Guardian
    slice: SmSlice | None = None  # of the GPU; None: all of it


@runtime_checkable
class RunningHog(Protocol):
    """A hog under way; what it may use and what it used stands on the control page."""

    @property
    @abstractmethod
    def process_id(self) -> int | None:
        """Of its own process; None if it is a thread of this one."""

    @property
    @abstractmethod
    def fault(self) -> str | None:
        """Why it has ended by itself, if it has."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""


@runtime_checkable
class Hog(Protocol):
    """What to hog."""

    def __post_init__(self) -> None:
        """Refuses what no hog can be told, before one is started.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        cores = os.cpu_count() or 1
        if self.core is not None and not 0 <= self.core < cores:
            raise ValueError(
                f"core={self.core} of a {self.name} hog must be from 0 to {cores - 1}, the cores of this "
                f"machine, or None for any"
            )
        if not self.gb_per_s > 0:
            raise ValueError(
                f"gb_per_s={self.gb_per_s:g} of a {self.name} hog must be above 0; leave it out for as "
                f"much as the hog can take"
            )

    @property
    @abstractmethod
    def name(self) -> str:
        """For tables."""

    @property
    @abstractmethod
    def core(self) -> int | None:
        """That it runs on; None: any."""

    @property
    @abstractmethod
    def gb_per_s(self) -> float:
        """What it takes if nobody holds it back; infinite: as much as it can."""

    @abstractmethod
    def start(self, place: Place, number: int) -> RunningHog:
        """Starts it, and waits until it is under way.

        Args:
          place: where.
          number: its own on the page.

        Raises:
          ValueError: if it cannot run here; the message says what is missing.
          OSError: if its process cannot be started.
        """
