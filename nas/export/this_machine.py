"""How long an exported file takes here, under the name of the machine that it was timed on."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from jaxtyping import Float32
from numpy import ndarray

from latency.probe.agent import board_facts
from latency.probe.board import Identity
from latency.probe.settings import Precision, Runtime, Settings
from runtime.machine.timing import Statistic, Stopwatch, TimingConfig, time_interleaved
from runtime.network.formats.onnx_session import OnnxSession


def device_id(board: str | None) -> str:
    """The id that a time taken here has: as `latency=probe` forms it, or of a board's own name."""
    if board is not None:
        return f"{board}/onnxruntime/fp32/b1"
    name = str(board_facts().get("board", ""))
    identity = Identity(name, "onnxruntime", onnxruntime.__version__, "", ())
    return identity.device(Settings(Runtime.onnxruntime, Precision.fp32, (1,), 1, None))


def timed(
    session: OnnxSession, image: Float32[ndarray, "1 3 h w"], timing: TimingConfig
) -> dict[str, Any]:
    """Times of one inference at a time, on the one thread that calls, ready for JSON."""
    (samples,) = time_interleaved(
        [lambda: session(image)], timing, np.random.default_rng(0), Stopwatch()
    )
    low, high = samples.interval(Statistic.median)
    return {
        "median_ms": float(Statistic.median.of(samples.ms)),
        "median_interval_ms": [low, high],
        "p95_ms": float(Statistic.p95.of(samples.ms)),
        "samples": len(samples.ms),
        "warm_up_calls": samples.warm_up_calls,
        "warm_up_was_stable": samples.is_stable,
        "threads": 1,
        "runtime": f"onnxruntime {onnxruntime.__version__}, CPU",
    }
