"""What to export and how it is checked; conf/export.yaml holds the defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

from nas.export.found import Which
from runtime.machine.timing import TimingConfig
from runtime.shell.errors import UserError, require_at_least_1


@final
@dataclass
class ExportConfig:
    """Settings of `python -m nas.export`."""

    run: str
    which: Which | None
    arch: str | None  # an architecture of the run, by its text or its number
    out: str | None
    seed: int
    opset: int
    tolerance: float
    board: str | None
    timing: TimingConfig = field(default_factory=TimingConfig)

    def check(self) -> None:
        """Refuse settings that cannot work.

        Raises:
          UserError: naming the first of them.
        """
        require_at_least_1(self.timing.counts)
        if not 0 <= self.seed < 2**63:
            raise UserError(f"seed={self.seed} is not between 0 and {2**63 - 1}")
        if not 9 <= self.opset <= 17:
            raise UserError(
                f"opset={self.opset} is not between 9 and 17; TensorRT 8.2 reads up to 13"
            )
        if not 0 < self.tolerance < math.inf:
            raise UserError(f"tolerance={self.tolerance:g} must be positive and finite")
