"""Networks beside memory bandwidth hogs: slowdown, the effect of isolation, and remaining bandwidth.

Scenarios and limits follow Nigam (2018, sections 5.2 and 7.2): alone, beside 1 to k hogs, and a sweep
of the limit; and as control a spinner in place of the hog.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.config import BenchConfig
from benchmarks.contention import on_gpu
from benchmarks.contention.interleaved import beside_hogs, measure_conditions
from benchmarks.contention.layers import add_layers
from benchmarks.contention.rows import SPINNER, counts, curve, hog_row, rows_of
from benchmarks.one_core import on_one_core
from benchmarks.results import Row, summary
from benchmarks.steps import ExperimentStep, time_is_left
from edgenas_core.contention.contention import Contention, RunningHogs
from edgenas_core.contention.hogs.control_page import MB, MOST_HOGS
from edgenas_core.contention.hogs.process_hogs import MemoryHog, Spinner
from edgenas_core.contention.hogs.python_hog import TokenBucket
from edgenas_core.contention.isolation import Isolation
from edgenas_core.contention.networks import on_cpu
from edgenas_core.machine.description import usable_cores

LIMITS_MB_PER_S = (10.0, 100.0, 512.0, 1000.0, 10000.0, 28000.0, 56000.0)
"""Limits of the source; its last one, no limit, is the scenario beside unprotected hogs."""
VICTIMS = ("nb201", "conv64", "fc8192")
_PIPELINE_LIMITS = (10.0, 100.0, 1000.0)
_WORST_INFERENCES = 10_000
_PICTURES = 10
_LOCKS = 40
_BETWEEN_LOCKS_S = 1e-3
_PICTURE = (480, 640, 3)
"""Bytes of the picture in the pipeline: written, converted to single precision, normalised."""


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """The steps for the configured device.

    Raises:
      ValueError: if something unknown is asked for, or there is only one core.
    """
    if config.on_gpu:
        return on_gpu.steps(config)
    if len(usable_cores()) < 2:
        raise ValueError(
            "experiment=contention needs two cores of the CPU, one for the network and one for a hog, "
            "and this process may use one"
        )
    add_layers()
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "hogs": partial(_hogs, config),
        **{name: partial(_victim, config, name) for name in VICTIMS},
        "pipeline": partial(_pipeline, config),
        "locks": partial(_locks, config),
        "worst": partial(_worst, config),
    }
    return [ExperimentStep(name, parts[name]) for name in config.chosen([*parts])]


def _cores(config: BenchConfig) -> tuple[int, list[int]]:
    """Core of the network, and cores of the hogs."""
    first, *rest = usable_cores()
    return first, rest[: min(config.cores or len(rest), MOST_HOGS)]


def _limits(config: BenchConfig) -> Sequence[float]:
    return config.limits or LIMITS_MB_PER_S


def _hogs(config: BenchConfig) -> Iterator[Row]:
    """Bandwidth of hogs alone: together, under each limit, and of the other kinds."""
    _, cores = _cores(config)
    with RunningHogs([MemoryHog(core) for core in cores]) as hogs:
        for count in counts(len(cores)):
            with Contention(hogs, count=count) as beside:
                yield hog_row("memory", math.inf, beside)
        for limit in _limits(config):
            with Contention(
                hogs, limit_mb_per_s=limit, isolation=Isolation.budget, count=1
            ) as beside:
                yield hog_row("memory", limit, beside)
    for limit in (100.0, math.inf):
        spinner = [Spinner(cores[0])]
        with Contention(spinner, limit_mb_per_s=limit, isolation=Isolation.budget) as beside:
            yield hog_row("spin", limit, beside)


def _victim(config: BenchConfig, name: str) -> Iterator[Row]:
    """Measure one network under all scenarios and isolations, in turns."""
    core, others = _cores(config)
    with (
        RunningHogs([MemoryHog(other) for other in others]) as hogs,
        RunningHogs([Spinner(other) for other in others]) as spinners,
        on_one_core(core),
    ):
        infer = on_cpu(name)
        on = partial(beside_hogs, infer, hogs)
        conditions = [
            on("solo", count=0),
            beside_hogs(infer, spinners, SPINNER),
            *(on(f"corun{count}", count=count) for count in counts(len(others))),
            *(on(f"fine_lock {limit:g}", **_fine_lock(limit)) for limit in _limits(config)),
            on("stop", isolation=Isolation.stop),
        ]
        taken = measure_conditions(config, conditions)
    yield from rows_of("network", name, taken)
    yield from curve(name, taken, "cpu_ms")


def _fine_lock(limit_mb_per_s: float) -> dict[str, Any]:
    return {"limit_mb_per_s": limit_mb_per_s, "isolation": Isolation.fine_lock}


def _worst(config: BenchConfig) -> Iterator[Row]:
    """Worst case and variance over many inferences of one layer; the source takes 100,000."""
    core, others = _cores(config)
    limit = 100.0
    with RunningHogs([MemoryHog(other) for other in others]) as hogs, on_one_core(core):
        on = partial(beside_hogs, on_cpu("conv32"), hogs)
        conditions = [
            on("solo", count=0),
            on(f"corun{len(others)}"),
            on(f"fine_lock {limit:g}", **_fine_lock(limit)),
        ]
        taken = measure_conditions(config, conditions, in_all=_WORST_INFERENCES)
    yield from rows_of("worst", "conv32", taken)


def _pipeline(config: BenchConfig) -> Iterator[Row]:
    """The CPU prepares a picture, then the network runs: effect of each lock on the pair."""
    core, others = _cores(config)
    with RunningHogs([MemoryHog(other) for other in others]) as hogs, on_one_core(core):
        infer = on_cpu("nb201")
        scenarios = {
            "solo": partial(Contention, hogs, count=0),
            f"corun{len(others)}": partial(Contention, hogs),
        }
        charges: dict[str, Callable[[int], None]] = {}
        for limit in _PIPELINE_LIMITS:
            limited = partial(Contention, hogs, limit_mb_per_s=limit)
            scenarios[f"fine_lock {limit:g}"] = partial(limited, isolation=Isolation.fine_lock)
            scenarios[f"coarse_lock {limit:g}"] = partial(limited, isolation=Isolation.budget)
            charges[f"coarse_lock {limit:g}"] = own_cpu_limit(limit)
        pictures = config.iterations or _PICTURES
        taken: dict[str, list[float]] = {name: [] for name in scenarios}
        left: dict[str, list[float]] = {name: [] for name in scenarios}
        for done in range(max(1, config.repeats // 2)):
            if done and not time_is_left():
                break
            for name, opened in scenarios.items():
                with opened() as beside:
                    picture = partial(
                        _picture, beside.during(infer), charges.get(name, lambda _size: None)
                    )
                    picture()
                    beside.gb_per_s()
                    taken[name] += [picture() for _ in range(pictures)]
                    left[name].append(sum(beside.gb_per_s()))
    alone_ms = median(taken["solo"])
    beside_ms = median(taken[f"corun{len(others)}"])
    for name, ms in taken.items():
        yield {
            "part": "pipeline",
            "victim": "nb201",
            "scenario": name,
            **summary(ms),
            "against_solo": median(ms) / alone_ms,
            "rate_against_corun": beside_ms / median(ms) - 1,
            "stolen_gb_per_s": round(float(np.mean(left[name])), 4),
        }


def own_cpu_limit(limit_mb_per_s: float) -> Callable[[int], None]:
    """Return a function that the network's own CPU part calls with the bytes that it moved.

    It waits until they are within the limit: with it a budget of the hogs is the coarse lock of the
    source, which limits every core while the device is open, including the one that feeds the
    network. That is its known flaw.
    """
    bucket = TokenBucket(limit_mb_per_s * MB)

    def charge(size: int) -> None:
        while (wait_s := bucket.take(size)) > 0:
            time.sleep(wait_s)

    return charge


def _picture(inference: Callable[[], None], charge: Callable[[int], None]) -> float:
    """Milliseconds of one preparation and inference."""
    begin_s = time.perf_counter()
    raw = np.full(_PICTURE, 127, np.uint8)
    single = raw.astype(np.float32)
    normal = single / 255
    charge(raw.nbytes + single.nbytes + normal.nbytes)  # what was written, as hogs count
    inference()
    return 1e3 * (time.perf_counter() - begin_s)


def _locks(config: BenchConfig) -> Iterator[Row]:
    """Cost of acquiring and releasing each lock."""
    core, others = _cores(config)
    with RunningHogs([MemoryHog(other) for other in others]) as hogs, on_one_core(core):
        ways: dict[str, Callable[[], Contention]] = {
            "none": partial(Contention, hogs),
            "fine_lock": partial(Contention, hogs, **_fine_lock(1000.0)),
            "stop": partial(Contention, hogs, isolation=Isolation.stop),
        }
        for name, opened in ways.items():
            row = {"part": "locks", "lock": name, "held": len(others)}
            with opened() as beside:
                us = [_lock_us(beside) for _ in range(_LOCKS * config.repeats)]
            low, middle, high = (float(one) for one in np.quantile(us, (0.25, 0.5, 0.99)))
            yield {**row, "us": middle, "low_us": low, "p99_us": high}


def _lock_us(beside: Contention) -> float:
    begin_s = time.perf_counter()
    with beside.lock():
        pass
    taken_us = 1e6 * (time.perf_counter() - begin_s)
    time.sleep(_BETWEEN_LOCKS_S)  # hogs run between, as they do between two inferences
    return taken_us
