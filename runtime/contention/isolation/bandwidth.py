"""Bandwidth limits as cache lines per period, and units.

Equation 14 of Nigam, "Kernel Mechanisms for Efficient GPU Accelerated DNN Inference on
Embedded Devices" (MSc thesis, University of Washington, 2018). Its MB has 2 ** 20 bytes, as its
table 2 shows; so does every `mb_per_s` in this package, while a GB has 10 ** 9 bytes.
"""

from __future__ import annotations

LINE_BYTES = 64
MB = 2**20
GB = 10**9
PERIOD_S = 1e-3
"""Scheduling tick of the source."""


def lines_per_period(limit_mb_per_s: float, period_s: float = PERIOD_S) -> float:
    """Return the cache misses allowed in one period (equation 14); infinite without a limit."""
    return limit_mb_per_s * MB / LINE_BYTES * period_s
