"""Clock and load that a board reports beside a time."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, final

_GPU_CLOCK = re.compile(r"gpu|g[mpva]\d+b")
"""Matches the names of Jetson's GPU clocks: 57000000.gpu, 17000000.gv11b and 17000000.ga10b."""

_ON_GPU = ("tensorrt", "onnxruntime-cuda", "torch-cuda")


@final
@dataclass(frozen=True)
class State:
    """Clock and load reported by the board right after a timing."""

    clock_mhz: (
        float | None
    )  # of the processor that runs the networks, the fastest of several; None if unknown
    other_load: float  # processors that others kept busy meanwhile; 0 if unknown


UNKNOWN = State(None, 0.0)


def state_of(reported: dict[str, Any], runtime: str) -> State:
    """State from the report of an agent, for the runtime that it uses.

    Raises:
      AttributeError, OverflowError, TypeError, ValueError: if the report is malformed.
    """
    hertz = (
        [
            float(hz)
            for name, hz in reported.get("devfreq_hz", {}).items()
            if _GPU_CLOCK.search(name)
        ]
        if runtime in _ON_GPU
        else [1000 * float(khz) for khz in reported.get("khz", [])]
    )
    state = State(max(hertz) / 1e6 if hertz else None, float(reported.get("other_load", 0.0)))
    if not all(math.isfinite(number) for number in (*hertz, state.other_load)):
        raise ValueError("a clock or a load is no number")
    return state
