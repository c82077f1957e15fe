"""Measure this machine: time the distinct networks of the space into a latency table.

$ python -m nas.measure board=my-board networks=200
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from nas.accuracy.base import Dataset
from nas.errors import UserError
from nas.measurements import Measurement
from nas.search_space import NAS_BENCH_201
from runtime.backend import Backend, Device, Precision
from runtime.quiet import QuietConfig, Watch
from runtime.timing import Statistic, Stopwatch, TimingConfig, settle, time_interleaved

CONTROL = 1462
"""Index of the control network: every edge is a 3x3 convolution, the slowest of the space."""


class OnDisturbance(Enum):
    """What happens when the machine is not quiet."""

    stop = "stop"
    flag = "flag"  # goes on; the disturbed cells stay empty in the table


@final
@dataclass
class MeasureConfig:
    """What to measure and how; conf/measure.yaml holds the defaults."""

    board: str
    device: Device
    backend: Backend
    dataset: Dataset
    batch_size: int
    core: int
    shard: str
    networks: int | None
    repeats: int
    together: int
    statistic: Statistic
    on_disturbance: OnDisturbance
    seed: int
    out: str
    precision: Precision = Precision.fp32
    threads: int = 1
    timing: TimingConfig = field(default_factory=TimingConfig)
    quiet: QuietConfig = field(default_factory=QuietConfig)

    @property
    def device_id(self) -> str:
        """Board / runtime / precision / batch; more threads than one are another runtime."""
        runtime = {
            Backend.torch: "torch",
            Backend.graph: "torch-graph",
            Backend.onnxruntime: "onnxruntime",
        }[self.backend]
        threads = "" if self.threads == 1 else f"-t{self.threads}"
        return f"{self.board}/{runtime}{threads}/{self.precision.value}/b{self.batch_size}"

    @property
    def part(self) -> tuple[int, int]:
        """Which part of how many this process measures, counted from 1.

        Raises:
          UserError: if there is no such part.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", self.shard)
        number, parts = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= parts:
            raise UserError(f"shard={self.shard} is not a part like 1/4, 2/4, 3/4 or 4/4")
        return number, parts


def plan(config: MeasureConfig) -> Int64[ndarray, " n"]:
    """Official numbers in the order they are measured: one of each network, then the repeats.

    Of several parts each gets every so many of both, the repeats moved on by one: what a part
    repeats, another has measured.

    Raises:
      UserError: if there are not that many networks, or a setting is below 1.
    """
    for name, value in (
        ("batch_size", config.batch_size),
        ("threads", config.threads),
        ("together", config.together),
        ("timing.samples", config.timing.samples),
        ("timing.turn", config.timing.turn),
        ("timing.warm_up_window", config.timing.warm_up_window),
    ):
        if value < 1:
            raise UserError(f"{name}={value} must be at least 1")
    distinct = np.unique(NAS_BENCH_201.network_class)
    count = len(distinct) if config.networks is None else config.networks
    if not 1 <= count <= len(distinct):
        raise UserError(f"networks={count} is not between 1 and {len(distinct):,}")
    if not 0 <= config.repeats <= count:
        raise UserError(f"repeats={config.repeats} is not between 0 and networks={count}")
    order = np.random.default_rng(config.seed).permutation(distinct)[:count]
    number, parts = config.part
    return np.concatenate(
        [order[number - 1 :: parts], order[: config.repeats][(number - 2) % parts :: parts]]
    )


def chosen(config: MeasureConfig) -> str:
    """What the plan measures, in words for the table's origin."""
    distinct = len(np.unique(NAS_BENCH_201.network_class))
    count = distinct if config.networks is None else config.networks
    return (
        f"{count:,} of the {distinct:,} distinct networks, the first cell of each, in a random "
        f"order (seed {config.seed})"
    )


def measure(
    pending: Sequence[int],
    config: MeasureConfig,
    inference: Callable[[int], Callable[[], object]],
    stopwatch: Stopwatch,
    watch: Watch,
    *,
    clock_mhz: Callable[[], float | None] = lambda: None,
) -> Iterator[list[Measurement]]:
    """Time networks, a few at a time in turns with the control.

    Raises:
      UserError: if the machine is not quiet and the config says to stop; nothing that was
        yielded before is lost.
      OSError: if the clock goes back.
    """
    generator = np.random.default_rng(config.seed)
    control = inference(CONTROL)
    settle(control, config.timing, stopwatch)
    for start in range(0, len(pending), config.together):
        indices = pending[start : start + config.together]
        subjects = [control, *(inference(index) for index in indices)]
        control_samples, *timed = time_interleaved(subjects, config.timing, generator, stopwatch)
        mhz = clock_mhz()
        control_ms = float(np.median(control_samples.ms))
        drift, disturbances = tuple(watch.drift(control_ms)), tuple(watch.disturbances(mhz))
        if (drift or disturbances) and config.on_disturbance is OnDisturbance.stop:
            raise UserError(
                f"the machine is not quiet: {'; '.join((*drift, *disturbances))}; make it so and run the same "
                f"command again to go on, or take on_disturbance=flag"
            )
        yield [
            Measurement(index, samples, control_ms, mhz, drift, disturbances)
            for index, samples in zip(indices, timed, strict=True)
        ]


if __name__ == "__main__":
    from nas.measure_command import main

    main()
