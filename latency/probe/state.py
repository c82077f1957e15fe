"""What a board tells of itself beside a time: its clock, and what others do on it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, final

_GPU_CLOCK = re.compile(r"gpu|g[mpva]\d+b")
"""In the names of Jetson's clocks, as 57000000.gpu, 17000000.gv11b and 17000000.ga10b."""

_ON_GPU = ("tensorrt", "onnxruntime-cuda", "torch-cuda")


@final
@dataclass(frozen=True)
class State:
    """As far as the board tells it, right after a time was taken."""

    clock_mhz: float | None  # of what runs the networks, the fastest where there are several
    other_load: float  # processors that others kept busy meanwhile; 0 where it is not told


UNTOLD = State(None, 0.0)


def state_of(told: dict[str, Any], runtime: str) -> State:
    """What the agent told, for the runtime that it uses.

    Raises:
      AttributeError, OverflowError, TypeError, ValueError: if that makes no sense.
    """
    hertz = (
        [float(hz) for name, hz in told.get("devfreq_hz", {}).items() if _GPU_CLOCK.search(name)]
        if runtime in _ON_GPU
        else [1000 * float(khz) for khz in told.get("khz", [])]
    )
    state = State(max(hertz) / 1e6 if hertz else None, float(told.get("other_load", 0.0)))
    if not all(math.isfinite(number) for number in (*hertz, state.other_load)):
        raise ValueError("a clock or a load is no number")
    return state
