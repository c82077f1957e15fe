"""Latency of exported files, on this machine or on a board, under the name of that device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import onnxruntime
from jaxtyping import Float32
from numpy import ndarray

from common.types.errors import UserError
from latency.probe.board import BoardError, Identity
from latency.probe.connection import LostConnectionError
from latency.probe.settings import BoardPrecision as ProbePrecision
from latency.probe.settings import ProbeSettings, Runtime
from nas.export.config import ExportConfig, ExportPrecision
from nas.export.network import with_batch
from nas.export.on_board.check import board
from nas.export.subject import ExportSubject
from runtime.machine.monitors import OtherLoad
from runtime.machine.stability import StabilityConfig
from runtime.machine.timing import Samples, Statistic, Stopwatch, TimingConfig, time_interleaved
from runtime.network.formats.onnx_session import OnnxSession


@final
@dataclass(frozen=True)
class Latency:
    """Times of one inference of a file's batch at a time, on one thread."""

    device: str  # board / runtime / precision / batch
    board: str  # name that the machine gives itself
    runtime: str  # and its version
    median_ms: float
    median_interval_ms: tuple[float, ...]  # 95 %, bootstrap
    p95_ms: float
    samples: int
    doubts: tuple[str, ...]  # reasons not to rely on it, a line each


def timed_here(
    files: Mapping[ExportPrecision, bytes],
    images: Float32[ndarray, "b 3 h w"],
    timing: TimingConfig,
    name: str | None,
) -> dict[ExportPrecision, Latency]:
    """Latency of each file on this machine, timed in turns; `name` is what device ids call it."""
    calls = [_call(OnnxSession(content), images) for content in files.values()]
    load = OtherLoad(StabilityConfig().other_load, cores=())
    all_samples = time_interleaved(calls, timing, np.random.default_rng(0), Stopwatch())
    busy = tuple(load())
    identity = Identity(board(), "onnxruntime", onnxruntime.__version__, "", ())
    settings = ProbeSettings(Runtime.onnxruntime, ProbePrecision.fp32, images.shape, 1, None)
    device = identity.device(settings)
    return {
        precision: _latency(device, name, precision, identity, samples, busy)
        for precision, samples in zip(files, all_samples, strict=True)
    }


def timed_on_board(
    files: Mapping[ExportPrecision, bytes],
    address: str,
    subject: ExportSubject,
    config: ExportConfig,
    tell: Callable[[str], None],
) -> dict[ExportPrecision, Latency]:
    """Latency of each file on a live board, timed in turns with the space's control network.

    Raises:
      UserError: if the board cannot be used, or cannot run one of the files.
    """
    runtime = config.latency.runtime
    if runtime is Runtime.auto:
        runtime = Runtime.onnxruntime  # what a board prefers may not run the files as they are
    if runtime not in {Runtime.onnxruntime, Runtime.onnxruntime_cuda}:
        raise UserError(
            f"latency.runtime={runtime.name} does not run these files as they are; take onnxruntime "
            f"or onnxruntime_cuda"
        )
    batch_size = config.fixed_batch or 1
    fixed = {kind.value: with_batch(content, batch_size) for kind, content in files.items()}
    try:
        connected = replace(config.latency, runtime=runtime).connect(
            address,
            subject.space,
            subject.task,
            tell,
            precision=ProbePrecision.fp32,
            batch_size=batch_size,
            threads=1,
            core=None,
            timing=config.timing,
            quiet=StabilityConfig(),
        )
        with ExitStack() as stack:
            for board_ in connected.pool.boards:
                stack.callback(board_.close)
            outcomes = list(connected.pool.measure(list(fixed), lambda name, _: fixed[name]))
    except (LostConnectionError, BoardError) as error:
        raise UserError(str(error)) from error
    identity = connected.pool.boards[0].identity
    device = identity.device(connected.settings)
    latencies = {}
    for outcome in outcomes:
        timed = outcome.timed
        if timed is None:
            raise UserError(
                f"{outcome.board} cannot run the {outcome.network} file: {outcome.refused}"
            )
        samples = Samples(timed.ms, timed.warm_up_calls, timed.is_stable)
        precision = ExportPrecision(outcome.network)
        latencies[precision] = _latency(
            device, config.board, precision, identity, samples, outcome.disturbances
        )
    return {precision: latencies[precision] for precision in files}


def _call(session: OnnxSession, images: Float32[ndarray, "b 3 h w"]) -> Callable[[], object]:
    return lambda: session(images)


def _latency(  # noqa: PLR0917 - one call for each of the two kinds of machines
    device: str,
    name: str | None,
    precision: ExportPrecision,
    identity: Identity,
    samples: Samples,
    disturbances: tuple[str, ...] = (),
) -> Latency:
    unstable = () if samples.is_stable else ("it was not stable after the warm-up",)
    own_name, runtime, _, batch = device.split("/")
    return Latency(
        device=f"{name or own_name}/{runtime}/{precision.value}/{batch}",
        board=identity.board,
        runtime=f"{identity.runtime} {identity.version}".strip(),
        median_ms=float(Statistic.median.of(samples.ms)),
        median_interval_ms=samples.interval(Statistic.median),
        p95_ms=float(Statistic.p95.of(samples.ms)),
        samples=len(samples.ms),
        doubts=(*unstable, *disturbances),
    )
