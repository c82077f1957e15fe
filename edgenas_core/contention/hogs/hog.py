"""Interface of hogs, which take bandwidth within the budget on a control page."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

from edgenas_core.contention.hogs.control_page import ControlPage

if TYPE_CHECKING:
    from edgenas_core.inference.cuda.sm_slices import SmSlice


@final
@dataclass(frozen=True)
class HogContext:
    """Resources that a hog gets at its start."""

    page: ControlPage
    slice: SmSlice | None = None  # multiprocessors of the GPU; None: all


@runtime_checkable
class RunningHog(Protocol):
    """A started hog; its budget and its counter are on the control page."""

    @property
    @abstractmethod
    def process_id(self) -> int | None:
        """Id of its own process; None if it is a thread of this one."""

    @property
    @abstractmethod
    def fault(self) -> str | None:
        """Reason why it ended by itself; None while it runs."""

    @abstractmethod
    def close(self) -> None:
        """End the hog."""


@dataclass(frozen=True)
class Hog(ABC):
    """Description of a hog, which can be started."""

    core: int | None = None
    """Core that it runs on; None for any."""
    gb_per_s: float = math.inf
    """Bandwidth without isolation; infinite for as much as it can take."""
    name: str = field(default="", init=False)
    """Name used in tables."""

    def __post_init__(self) -> None:
        """Check core and bandwidth.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        cores = os.cpu_count() or 1
        if self.core is not None and not 0 <= self.core < cores:
            raise ValueError(
                f"core={self.core} of a {self.name} hog must be from 0 to {cores - 1}, or None for any "
                "core"
            )
        if not self.gb_per_s > 0:
            raise ValueError(
                f"gb_per_s={self.gb_per_s:g} of a {self.name} hog must be above 0; omit it for no limit"
            )

    @abstractmethod
    def start(self, context: HogContext, number: int) -> RunningHog:
        """Start the hog and wait until it runs.

        `number` is its index on the control page.

        Raises:
          ValueError: if it cannot run here; the message says what is missing.
          OSError: if its process cannot be started.
        """
