"""Latency of exported files, on this machine or on a board, under the name of that device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import metadata
from typing import final

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.inference.formats.tflite_export import quiet
from edgenas_core.machine.monitors import OtherLoad
from edgenas_core.machine.stability import StabilityConfig
from edgenas_core.machine.timing import (
    Samples,
    Statistic,
    Stopwatch,
    TimingConfig,
    time_interleaved,
)
from edgenas_core.types.errors import UserError
from latency.probe.board import BoardError, Identity
from latency.probe.connection import LostConnectionError
from latency.probe.settings import BoardPrecision as ProbePrecision
from latency.probe.settings import ProbeSettings, Runtime
from nas.export.config import ExportConfig, ExportForm, ExportFormat, ExportPrecision
from nas.export.network import with_batch
from nas.export.on_board.check import Tflite, board
from nas.export.subject import ExportSubject

_RUNTIMES = {ExportFormat.onnx: Runtime.onnxruntime, ExportFormat.tflite: Runtime.litert}
_PACKAGES = {ExportFormat.onnx: "onnxruntime", ExportFormat.tflite: "ai-edge-litert"}


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
    files: Mapping[ExportForm, bytes],
    images: Float32[ndarray, "b c h w"],
    timing: TimingConfig,
    name: str | None,
) -> dict[ExportForm, Latency]:
    """Latency of each file on this machine, timed in turns; `name` is what device ids call it."""
    calls = [_call(form, content, images) for form, content in files.items()]
    load = OtherLoad(StabilityConfig().other_load, cores=())
    all_samples = time_interleaved(calls, timing, np.random.default_rng(0), Stopwatch())
    busy = tuple(load())
    latencies = {}
    for form, samples in zip(files, all_samples, strict=True):
        runtime = _RUNTIMES[form.format]
        version = metadata.version(_PACKAGES[form.format])
        identity = Identity(board(), runtime.value, version, "", ())
        settings = ProbeSettings(runtime, ProbePrecision.fp32, images.shape, 1, None)
        device = identity.device(settings)
        latencies[form] = _latency(device, name, form.precision, identity, samples, busy)
    return latencies


def timed_on_board(
    files: Mapping[ExportForm, bytes],
    address: str,
    subject: ExportSubject,
    config: ExportConfig,
    tell: Callable[[str], None],
) -> dict[ExportForm, Latency]:
    """Latency of each file on a live board, timed in turns with the space's reference network.

    Raises:
      UserError: if the board cannot be used, or cannot run one of the files.
    """
    chosen = config.runtime
    latencies: dict[ExportForm, Latency] = {}
    if chosen not in {Runtime.auto, Runtime.litert, Runtime.onnxruntime, Runtime.onnxruntime_cuda}:
        raise UserError(
            f"runtime={chosen.name} does not run these files as they are; take onnxruntime, "
            f"onnxruntime_cuda or litert"
        )
    for kind, usual in _RUNTIMES.items():
        runtime = chosen if kind is ExportFormat.onnx and "onnx" in chosen.value else usual
        of_kind = {form: content for form, content in files.items() if form.format is kind}
        if of_kind:
            latencies |= _timed_on_board(of_kind, runtime, address, subject, config, tell)
    return {form: latencies[form] for form in files}


def _timed_on_board(  # noqa: PLR0917 - one call
    files: Mapping[ExportForm, bytes],
    runtime: Runtime,
    address: str,
    subject: ExportSubject,
    config: ExportConfig,
    tell: Callable[[str], None],
) -> dict[ExportForm, Latency]:
    """Latency of files of one format."""
    batch_size = config.fixed_batch or 1
    forms = {form.file: form for form in files}
    fixed = {
        form.file: content
        if form.format is ExportFormat.tflite
        else with_batch(content, batch_size)
        for form, content in files.items()
    }
    try:
        connected = replace(config, runtime=runtime).connect(
            address,
            subject.space,
            subject.task,
            tell,
            precision=ProbePrecision.fp32,
            batch_size=batch_size,
            threads=1,
            core=None,
            timing=config.timing.config(),
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
            raise UserError(f"{outcome.board} cannot run {outcome.network}: {outcome.refused}")
        samples = Samples(timed.ms, timed.warm_up_calls, timed.is_stable)
        form = forms[outcome.network]
        latencies[form] = _latency(
            device, config.board, form.precision, identity, samples, outcome.disturbances
        )
    return latencies


def tflite_session(content: bytes) -> Tflite:
    """Load a .tflite file in LiteRT without its messages."""
    with quiet():
        return Tflite(content=content)


def _call(
    form: ExportForm, content: bytes, images: Float32[ndarray, "b c h w"]
) -> Callable[[], object]:
    if form.format is ExportFormat.tflite:
        return tflite_session(content).call(images)
    session = OnnxSession(content)
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
