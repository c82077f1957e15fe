"""Networks on a GPU beside hogs of its memory, of its bus and of the CPU's memory.

A hog takes all bandwidth that its token bucket allows: a limit without other isolation is the bucket
alone, and a limit with a partition is both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import torch

from benchmarks.config import BenchConfig
from benchmarks.contention.interleaved import Condition, beside_hogs, measure_conditions
from benchmarks.contention.layers import add_layers
from benchmarks.contention.rows import curve, hog_row, rows_of
from benchmarks.results import Row
from benchmarks.steps import ExperimentStep
from edgenas_core.contention.contention import Contention, RunningHogs
from edgenas_core.contention.hogs.control_page import GB, MB, MOST_HOGS
from edgenas_core.contention.hogs.gpu_hogs import GpuMemoryHog, PcieHog
from edgenas_core.contention.hogs.process_hogs import MemoryHog
from edgenas_core.contention.isolation import Isolation
from edgenas_core.contention.networks import on_gpu
from edgenas_core.machine.description import usable_cores

VICTIMS = ("nb201", "resnet50")
LIMITS_GB_PER_S = (500.0, 1000.0, 2000.0)
_BUS_GB_PER_S = 10.0
_WORST_INFERENCES = 2000
_VICTIM_SMS = 64
_UPLOAD_BYTES = 2**24


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """The steps for a CUDA device.

    Raises:
      ValueError: if something unknown is asked for.
    """
    add_layers()
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "hogs": partial(_hogs, config),
        **{name: partial(_victim, config, name) for name in VICTIMS},
        "cpu_hogs": partial(_cpu_hogs, config),
        "pcie": partial(_pcie, config),
        "worst": partial(_worst, config),
    }
    return [ExperimentStep(name, parts[name]) for name in config.chosen([*parts])]


def _limits_mb_per_s(config: BenchConfig) -> list[float]:
    return [one * GB / MB for one in config.limits or LIMITS_GB_PER_S]


def _hog_core() -> int:
    """The last core: the system puts the dispatching thread on the first ones."""
    return usable_cores()[-1]


def _hogs(config: BenchConfig) -> Iterator[Row]:
    """Bandwidth of each hog alone, and on the multiprocessors beside those of the network."""
    hog = GpuMemoryHog(_hog_core())
    limits = [*_limits_mb_per_s(config), math.inf]
    with RunningHogs([hog]) as hogs:
        for limit in limits:
            with Contention(hogs, limit_mb_per_s=limit, isolation=Isolation.budget) as beside:
                yield hog_row("GPU memory", limit, beside)
    with RunningHogs([hog], victim_sms=_VICTIM_SMS) as hogs:
        for limit in limits:
            with Contention(hogs, limit_mb_per_s=limit, isolation=Isolation.partition) as beside:
                yield hog_row(f"GPU memory, all SMs but {_VICTIM_SMS}", limit, beside)
    with RunningHogs([PcieHog(_hog_core())]) as hogs:
        for limit in (_BUS_GB_PER_S * GB / MB, math.inf):
            with Contention(hogs, limit_mb_per_s=limit, isolation=Isolation.budget) as beside:
                yield hog_row("PCIe", limit, beside)


def _victim(config: BenchConfig, name: str) -> Iterator[Row]:
    """A captured network: limits of the hog x no isolation, priority, partition; and the fine lock."""
    with ExitStack() as opened:
        conditions = _conditions(opened, name, _limits_mb_per_s(config))
        taken = measure_conditions(config, conditions)
    yield from rows_of("network", name, taken)
    whole = {
        one: it for one, it in taken.items() if one.split(" ")[0] in {"solo", "none", "budget"}
    }
    yield from curve(name, whole, "wall_ms")


def _conditions(opened: ExitStack, name: str, limits: Sequence[float]) -> list[Condition]:
    hog = GpuMemoryHog(_hog_core())
    whole = opened.enter_context(RunningHogs([hog]))
    cut = opened.enter_context(RunningHogs([hog], victim_sms=_VICTIM_SMS))
    none, priority, partition = Isolation.none, Isolation.priority, Isolation.partition
    hogs = {none: whole, priority: whole, partition: cut}
    infer = {way: _prepared(opened, hog, way, name) for way, hog in hogs.items()}
    conditions = [
        beside_hogs(
            infer[way], hog, f"{way.value} solo".removeprefix("none "), isolation=way, count=0
        )
        for way, hog in hogs.items()
    ]
    conditions += [
        beside_hogs(infer[way], hog, f"{way.value} unlimited", isolation=way)
        for way, hog in hogs.items()
    ]
    for limit in limits:
        for way in (Isolation.budget, priority, partition, Isolation.fine_lock):
            on = way if way in hogs else none
            label = f"{way.value} {limit * MB / GB:g}"
            limited = partial(beside_hogs, infer[on], hogs[on], label, isolation=way)
            conditions.append(limited(limit_mb_per_s=limit))
    return conditions


def _prepared(
    opened: ExitStack, hogs: RunningHogs, way: Isolation, name: str, *, captured: bool = True
) -> Callable[[], object]:
    """The network on the stream of a contention without hogs, kept open for its stream."""
    lender = opened.enter_context(Contention(hogs, isolation=way, count=0))
    return on_gpu(name, lender.stream, captured=captured)


def _cpu_hogs(config: BenchConfig) -> Iterator[Row]:
    """A network on the GPU beside hogs of the CPU's memory, on the dispatching thread's core or not."""
    first, *others = usable_cores()
    cores = [*others, first][: min(config.cores or len(others) + 1, MOST_HOGS)]
    with ExitStack() as opened:
        hogs = opened.enter_context(RunningHogs([MemoryHog(core) for core in cores]))
        conditions = []
        for mode, captured in (("graph", True), ("eager", False)):
            infer = _prepared(opened, hogs, Isolation.none, "nb201", captured=captured)
            for count in sorted({0, min(len(others), len(cores)), len(cores)}):
                name = "solo" if count == 0 else f"{count} CPU hogs"
                conditions.append(beside_hogs(infer, hogs, f"{mode}, {name}", count=count))
        taken = measure_conditions(config, conditions)
    for mode in ("graph", "eager"):
        own = {name: one for name, one in taken.items() if name.startswith(mode)}
        yield from rows_of("CPU hogs", f"nb201 {mode}", own)


def _pcie(config: BenchConfig) -> Iterator[Row]:
    """A captured network, and an upload of 16 MB, beside a hog of the bus."""
    with ExitStack() as opened:
        hogs = opened.enter_context(RunningHogs([PcieHog(_hog_core())]))
        limit = _BUS_GB_PER_S * GB / MB
        none, priority = (
            opened.enter_context(Contention(hogs, isolation=way, count=0)).stream
            for way in (Isolation.none, Isolation.priority)
        )
        victims: dict[str, Callable[[torch.cuda.Stream], Callable[[], object]]] = {
            "nb201": partial(on_gpu, "nb201"),
            "upload of 16 MB": _upload,
        }
        for victim, prepared in victims.items():
            on = partial(beside_hogs, prepared(none), hogs)
            first = partial(beside_hogs, prepared(priority), hogs)
            conditions = [
                on("solo", count=0),
                on("none unlimited"),
                first("priority unlimited", isolation=Isolation.priority),
                on(
                    f"budget {_BUS_GB_PER_S:g}",
                    isolation=Isolation.budget,
                    limit_mb_per_s=limit,
                ),
            ]
            taken = measure_conditions(config, conditions)
            yield from rows_of("PCIe hog", victim, taken)


def _upload(stream: torch.cuda.Stream) -> Callable[[], object]:
    source = torch.ones(_UPLOAD_BYTES // 4).pin_memory()
    target = torch.empty_like(source, device=stream.device)

    def upload() -> None:
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
        stream.synchronize()

    return upload


def _worst(config: BenchConfig) -> Iterator[Row]:
    """Worst case and variance over many inferences of the source's micro-benchmark, one convolution."""
    limit = 1000 * GB / MB
    with ExitStack() as opened:
        hogs = opened.enter_context(RunningHogs([GpuMemoryHog(_hog_core())]))
        infer = _prepared(opened, hogs, Isolation.none, "conv256")
        on = partial(beside_hogs, infer, hogs)
        conditions = [
            on("solo", count=0),
            on("none unlimited"),
            on("budget 1000", isolation=Isolation.budget, limit_mb_per_s=limit),
        ]
        taken = measure_conditions(config, conditions, in_all=_WORST_INFERENCES)
    yield from rows_of("worst", "conv256", taken)
