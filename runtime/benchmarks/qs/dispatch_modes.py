"""Queue-stream dispatch (Q-S) against the other dispatch modes, on the published workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import final

import torch

from benchmarks.config import BenchConfig
from benchmarks.dispatch.executor import DispatchOutcome, Executor
from benchmarks.dispatch.modes import DispatchMode, InProcess
from benchmarks.dispatch.prepared import DispatchedNetwork, Setup
from benchmarks.dispatch.processes import MultiContext, Processes
from benchmarks.results import Row, grouped, summary
from benchmarks.schedule_metrics import utilisation
from benchmarks.steps import ExperimentStep, interleaved, one_line
from benchmarks.workloads import QS_PUBLISHED, QS_WORKLOADS, Model, Workload
from edgenas_core.inference.backend import Device
from edgenas_core.machine.description import usable_cores
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.scheduling.schedule import Schedule

_BINS = 60
"""Number of points of a utilisation curve."""

_INLINE = (DispatchMode.SERIAL, DispatchMode.SINGLE_CONTEXT)
_STREAMED = (DispatchMode.QUEUE_STREAM, DispatchMode.SINGLE_ISSUER)


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """One step for each workload, captured or eager; captured first.

    Raises:
      ValueError: if a workload is unknown.
    """
    names = config.chosen([*QS_WORKLOADS])
    processes = Processes()  # those of M-C, which take seconds to start
    return [
        ExperimentStep(
            f"{name} {mode}", partial(_compare, config, QS_WORKLOADS[name], mode, processes)
        )
        for mode in ("captured", "eager")
        if mode in config.modes
        for name in names
    ]


def _compare(
    config: BenchConfig, workload: Workload, mode: str, processes: Processes
) -> Iterator[Row]:
    """Prepare all dispatch modes, and measure them in turns."""
    most = max(config.most_networks, _least(workload))
    workload = workload.limited(most)
    scale = config.scale_of(workload.counts[0][0])
    sources = workload.sources(scale=scale, device=config.device.value, rule=config.cut)
    setup = Setup(config.device, mode == "captured", () if config.on_gpu else tuple(usable_cores()))
    with ExitStack() as opened:
        ways, faults = _opened(opened, sources, setup, processes)
        yield from _measured(config, workload, ways, faults, mode)


def _measured(
    config: BenchConfig,
    workload: Workload,
    ways: dict[DispatchMode, Executor],
    faults: dict[DispatchMode, str],
    mode: str,
) -> Iterator[Row]:
    """One row for each dispatch mode, also for those that could not be prepared."""
    measured = {way: _Measured(run, config.rounds) for way, run in ways.items()}
    samples = interleaved({way.value: measured[way].once_ms for way in measured}, config.repeats)
    alone_ms = measured[DispatchMode.SERIAL].alone_ms if DispatchMode.SERIAL in measured else []
    solo_ms = max(alone_ms, default=0.0)
    expected = measured[DispatchMode.SERIAL].outputs() if DispatchMode.SERIAL in measured else None

    for way in DispatchMode:
        row: Row = {
            "workload": workload.name,
            "networks": workload.size,
            "inferences": config.rounds,
            "mode": mode,
            "way": way.value,
        }
        if way in faults:
            yield {**row, "error": faults[way]}
            continue
        run = measured[way]
        error, difference = run.error, run.difference(expected)
        yield {
            **row,
            **summary(samples[way.value]),
            # nobody ends before the slowest network, alone on the device, would
            "bound_ms": round(solo_ms, 4),
            "largest_difference": difference,
            "error": error,
            "busy": busy(run.timed()),
        }


def _least(workload: Workload) -> int:
    """Smallest number of networks to keep: all of NAS-Bench-201, which are small; 0 for others."""
    return workload.size if workload.counts[0][0] is Model.nas_bench_201 else 0


def _opened(
    opened: ExitStack, sources: Sequence[DispatchedNetwork], setup: Setup, processes: Processes
) -> tuple[dict[DispatchMode, Executor], dict[DispatchMode, str]]:
    """The dispatch modes that can be prepared, and the errors of the others.

    Modes that need the same streams share one set of networks.
    """
    waits = ThreadPoolExecutor(1)  # processes get ready meanwhile
    contexts = waits.submit(MultiContext, sources, setup, processes)
    opened.callback(_close_when_ready, waits, contexts)
    ways: dict[DispatchMode, Executor] = {}
    faults: dict[DispatchMode, str] = {}
    alike: list[tuple[DispatchMode, ...]] = [_INLINE, _STREAMED]
    if setup.device is Device.cuda and setup.captured:
        alike.append((DispatchMode.FORK_JOIN,))
    else:
        alike[1] += (DispatchMode.FORK_JOIN,)
    for first, *rest in alike:
        # serial may not be the one that is made ready: it has one stream only
        way = DispatchMode.SINGLE_CONTEXT if first is DispatchMode.SERIAL else first
        try:
            made = InProcess(way, sources, setup)
        except Exception as error:  # noqa: BLE001 - the other ways have nothing to do with it
            faults |= dict.fromkeys((first, *rest), one_line(error))
            continue
        opened.callback(made.close)
        ways |= {other: made if other is way else made.with_mode(other) for other in (first, *rest)}
    try:
        ways[DispatchMode.MULTI_CONTEXT] = contexts.result()
    except Exception as error:  # noqa: BLE001 - likewise
        faults[DispatchMode.MULTI_CONTEXT] = one_line(error)
    return {way: ways[way] for way in DispatchMode if way in ways}, faults


def _close_when_ready(waits: ThreadPoolExecutor, contexts: Future[MultiContext]) -> None:
    with suppress(Exception):  # it was measures where it was asked for
        contexts.result().close()
    waits.shutdown()


@final
class _Measured:
    """A dispatch mode, and the outcome of its latest run."""

    def __init__(self, executor: Executor, inferences: int) -> None:
        self._executor = executor
        self._inferences = inferences
        self._latest: DispatchOutcome | None = None
        self.alone_ms: list[float] = []
        """Shortest busy time of each network over all runs, ms."""

    def once_ms(self) -> float:
        """Makespan of one run, ms."""
        self._latest = self._executor.run(self._inferences, each_job=False)
        schedule = self._latest.schedule
        own = [0.0] * len(schedule.chains)
        for execution in schedule.executed:
            own[execution.job.network] += execution.end_ms - execution.start_ms
        self.alone_ms = [*map(min, own, self.alone_ms or own)]
        return makespan_ms(schedule)

    @property
    def error(self) -> str | None:
        """Error that ended a network in the latest run, or None."""
        assert self._latest is not None
        errors = [output for output in self._latest.outputs if isinstance(output, BaseException)]
        return one_line(errors[0]) if errors else None

    def outputs(self) -> list[torch.Tensor]:
        """Outputs of the networks in the latest run."""
        assert self._latest is not None
        return [output for output in self._latest.outputs if isinstance(output, torch.Tensor)]

    def difference(self, expected: list[torch.Tensor] | None) -> float | None:
        """Largest difference from the outputs of another mode, relative to the largest output."""
        outputs = self.outputs()
        if expected is None or len(outputs) != len(expected):
            return None
        return max(
            float((one - other).abs().max() / other.abs().max().clamp_min(1e-30))
            for one, other in zip(outputs, expected, strict=True)
        )

    def timed(self) -> Schedule:
        """One run in which each job is timed."""
        return self._executor.run(self._inferences).schedule


def busy(schedule: Schedule) -> Row:
    """Number of busy streams over time.

    A stream is busy from the first kernel of a job to its last, including gaps between them.
    """
    whole_ms = makespan_ms(schedule)
    if whole_ms <= 0:
        return {}
    shares = utilisation(schedule, whole_ms / _BINS)[:, :_BINS]
    return {
        "makespan_ms": round(whole_ms, 4),
        "bin_ms": round(whole_ms / _BINS, 5),
        "streams": len(schedule.lanes),
        "streams_busy": [round(float(one), 4) for one in shares.sum(0)],
    }


def compared(rows: Sequence[Row]) -> list[Row]:
    """Q-S relative to each other mode, for each workload, beside the published values."""
    comparisons = []
    for (workload, mode), group in grouped(rows, "workload", "mode").items():
        ms = {DispatchMode(row["way"]): float(row["ms"]) for row in group if row.get("ms")}
        ours = ms.get(DispatchMode.QUEUE_STREAM)
        if ours is None:
            continue
        against = {way: ours / ms[way] - 1 if way in ms else None for way in DispatchMode}
        published = QS_PUBLISHED.get(workload, (None, None))
        comparisons.append(
            {
                "workload": workload,
                "mode": mode,
                "qs_ms": ours,
                "against_mc": against[DispatchMode.MULTI_CONTEXT],
                "published_mc": published[0],
                "against_sc": against[DispatchMode.SINGLE_CONTEXT],
                "published_sc": published[1],
                "against_serial": against[DispatchMode.SERIAL],
                "against_single_issuer": against[DispatchMode.SINGLE_ISSUER],
                "against_fork_join": against[DispatchMode.FORK_JOIN],
            }
        )
    return comparisons
