"""Measure a machine: time networks of the space into a latency table.

$ python -m nas.measure board=my-board networks=200
$ python -m nas.measure device=ssh://jetson probes=10 transfer=true
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from latency.measuring.journal import Measurement
from latency.models.process import FEWEST_PROBES
from latency.models.transferred import choose_probes
from latency.probe.config import BoardsConfig, addresses
from nas.spaces.base import task_named
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.registry import space_named
from runtime.machine.stability import StabilityConfig, Watch
from runtime.machine.timing import Statistic, Stopwatch, TimingConfig, settle, time_interleaved
from runtime.network.backend import Backend, Precision
from runtime.network.task import Task
from runtime.shell.errors import UserError, require_at_least_1

CONTROL = 1462
"""Index of the control network: every edge is a 3x3 convolution, the slowest of the space."""

_BOARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_REPEATS, _REPEATS_OF_PROBES = 20, 3
_PROBES = 10


class OnDisturbance(Enum):
    """What happens when the machine is not quiet."""

    stop = "stop"
    flag = "flag"  # goes on; the disturbed cells stay empty in the table


@final
@dataclass
class MeasureConfig:
    """What to measure and how; conf/measure.yaml holds the defaults."""

    board: str | None  # None: as the board calls itself
    device: Any  # cpu, cuda, or the address of a board, or a list of them
    backend: Backend | None  # of this machine
    space: str
    dataset: str  # a task of the space
    batch_size: int
    core: int | None
    shard: str
    networks: int | None
    repeats: int | None
    together: int
    statistic: Statistic
    on_disturbance: OnDisturbance
    seed: int
    out: str
    precision: Precision = Precision.fp32
    threads: int = 1
    probes: int | None = None  # architectures that `nas.transfer` would choose; None: no such
    transfer: bool = False
    scenario: str | None = None  # what goes on beside the networks; None: nothing
    minutes: float | None = None  # after which no round begins; None: all is measured
    timing: TimingConfig = field(default_factory=TimingConfig)
    quiet: StabilityConfig = field(default_factory=StabilityConfig)
    latency: BoardsConfig = field(default_factory=BoardsConfig)

    @property
    def task(self) -> Task:
        """What the networks are built for.

        Raises:
          UserError: if the space has no such task.
        """
        return task_named(space_named(self.space), self.dataset)

    @property
    def is_remote(self) -> bool:
        """Whether boards are measured, named by their addresses."""
        return "://" in self.addresses

    @property
    def addresses(self) -> str:
        """Of the boards, separated by space."""
        return addresses(self.device)

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


def completed(config: MeasureConfig) -> MeasureConfig:
    """With the number of probes that a transfer takes if none is named.

    Raises:
      UserError: if a setting is below 1, or two of them exclude each other.
    """
    require_at_least_1(
        {
            "batch_size": config.batch_size,
            "threads": config.threads,
            "together": config.together,
            **config.timing.counts,
        }
    )
    if config.minutes is not None and not 0 < config.minutes < math.inf:
        raise UserError(f"minutes={config.minutes:g} must be above 0")
    if config.seed < 0:
        raise UserError(f"seed={config.seed} must not be negative")
    if config.board is not None and not _BOARD.fullmatch(config.board):
        raise UserError(
            f"board={config.board} must be letters, digits, '.', '_' and '-', and begin with a letter "
            f"or a digit: it becomes part of device ids and file names"
        )
    if not config.out:
        raise UserError("out= is empty; name the folder of the measurement")
    if config.transfer and config.probes is None:
        config = replace(config, probes=_PROBES)
    if config.probes is not None and config.networks is not None:
        raise UserError(
            f"networks={config.networks} draws them, probes={config.probes} chooses them: "
            f"give one of the two"
        )
    if config.scenario is not None and config.is_remote:
        raise UserError(
            f"scenario={config.scenario}: hogs run beside the networks of this machine; install "
            f"edgenas on the board and measure there, with device=cpu or device=cuda"
        )
    if config.part != (1, 1) and (config.transfer or config.is_remote):
        raise UserError(
            f"shard={config.shard}: parts are for tables of this machine, without transfer=true"
        )
    return config


def plan(config: MeasureConfig) -> Int64[ndarray, " n"]:
    """Official numbers in the order they are measured: one of each network, and the repeats.

    Repeats are spread over the second half, so that one that is interrupted has some, and half of all
    networks lie between a network and its repeat: noise of minutes is in their difference. Where these
    are so few that they would be timed together, repeats come last. Of several parts each gets every so many of both, the repeats moved on by one: what a part
    repeats, another has measured.

    Raises:
      UserError: if there are not that many networks.
    """
    order = _drawn(config) if config.probes is None else _designed(config.probes)
    repeats = config.repeats
    if repeats is None:
        repeats = min(len(order), _REPEATS if config.probes is None else _REPEATS_OF_PROBES)
    if not 0 <= repeats <= len(order):
        of = "networks" if config.probes is None else "probes"
        raise UserError(f"repeats={repeats} is not between 0 and {of}={len(order)}")
    number, parts = config.part
    own, again = order[number - 1 :: parts], order[:repeats][(number - 2) % parts :: parts]
    half = len(own) // 2
    step = max(1.0, (len(own) - half) / max(1, len(again)))
    when = np.concatenate([np.arange(len(own)), half + (1 + np.arange(len(again))) * step - 1])
    last = np.concatenate([own, again])
    spread = last[np.argsort(when, kind="stable")]
    return last if _nearest(spread) < config.together else spread


def _nearest(order: Int64[ndarray, " n"]) -> int:
    """How many lie between a network and its repeat at least, and one; as many as there are, if none is."""
    by_index = np.argsort(order, kind="stable")
    again = order[by_index][1:] == order[by_index][:-1]
    return int(np.diff(by_index)[again].min(initial=len(order)))


def _drawn(config: MeasureConfig) -> Int64[ndarray, " n"]:
    distinct = np.unique(NAS_BENCH_201.network_class)
    count = len(distinct) if config.networks is None else config.networks
    if not 1 <= count <= len(distinct):
        raise UserError(f"networks={count} is not between 1 and {len(distinct):,}")
    return np.asarray(np.random.default_rng(config.seed).permutation(distinct)[:count])


def _designed(probes: int) -> Int64[ndarray, " n"]:
    if probes < FEWEST_PROBES:
        raise UserError(f"probes={probes} must be at least {FEWEST_PROBES}; {_PROBES} are good")
    return choose_probes(probes, "probes")


def chosen(config: MeasureConfig, timed: Int64[ndarray, " n"]) -> str:
    """Which networks were timed, in words for the table's origin.

    `timed` are their numbers; some may be of commands before this one, in the same folder.
    """
    others = len(np.setdiff1d(timed, plan(replace(config, shard="1/1"))))
    before = f"; and {others:,} that other commands measured into the same folder" if others else ""
    return f"{_planned(config)}{before}"


def _planned(config: MeasureConfig) -> str:
    distinct = len(np.unique(NAS_BENCH_201.network_class))
    if config.probes is not None:
        return (
            f"{config.probes:,} of the {distinct:,} distinct networks, the first cell of each: the "
            f"probes that tell most of the others, as nas.transfer chooses them"
        )
    count = distinct if config.networks is None else config.networks
    return (
        f"{count:,} of the {distinct:,} distinct networks, the first cell of each, in a random "
        f"order (seed {config.seed})"
    )


def require_quiet(
    config: MeasureConfig, drift: Sequence[str], disturbances: Sequence[str], what: str
) -> None:
    """Stop at a disturbance, where the config says so.

    Raises:
      UserError: if there is one; it says what is not quiet.
    """
    if (drift or disturbances) and config.on_disturbance is OnDisturbance.stop:
        raise UserError(
            f"{what} is not quiet: {'; '.join((*drift, *disturbances))}; make it so and run the same "
            f"command again to go on, or take on_disturbance=flag"
        )


def measure(
    pending: Sequence[int],
    config: MeasureConfig,
    inference: Callable[[int], Callable[[], object]],
    stopwatch: Stopwatch,
    watch: Watch,
    *,
    clock_mhz: Callable[[], float | None] = lambda: None,
    beside_gb_per_s: Callable[[], Sequence[float]] = tuple,
) -> Iterator[list[Measurement]]:
    """Time networks, a few at a time in turns with the control.

    `beside_gb_per_s` tells what each that runs beside has taken since it was asked last.

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
        beside_gb_per_s()  # counts from here: networks were built before
        control_samples, *timed = time_interleaved(subjects, config.timing, generator, stopwatch)
        taken = tuple(beside_gb_per_s())
        mhz = clock_mhz()
        control_ms = float(np.median(control_samples.ms))
        drift, disturbances = tuple(watch.drift(control_ms)), tuple(watch.disturbances(mhz))
        require_quiet(config, drift, disturbances, "the machine")
        yield [
            Measurement(index, samples, control_ms, mhz, drift, disturbances, taken)
            for index, samples in zip(indices, timed, strict=True)
        ]
