"""What a limit on bandwidth allows in one period, in lines of the cache.

Equations 14 and 15 of Nigam, "Kernel Mechanisms for Efficient GPU Accelerated DNN Inference on
Embedded Devices" (MSc thesis, University of Washington, 2018). Its MB are of 2 ** 20 bytes, as its
table 2 shows; so are those of every `mb_per_s` in this package, while a GB has 10 ** 9 bytes.
"""

from __future__ import annotations

LINE_BYTES = 64
MB = 2**20
GB = 10**9
PERIOD_S = 1e-3
"""The source's tick."""


def lines_per_period(limit_mb_per_s: float, period_s: float = PERIOD_S) -> float:
    """Equation 14: lines that may be missed in one period; infinite where the limit is."""
    return limit_mb_per_s * MB / LINE_BYTES * period_s


def missed_mb_per_s(lines: float, seconds: float) -> float:
    """Equation 15: the bandwidth of so many missed lines."""
    return lines * LINE_BYTES / MB / seconds
