"""Timing of callables: warm-up until stable, interleaved order, every sample kept.

Subjects that are compared are timed in turns, in an order that is shuffled in each round, so that a
machine that slows down slows all of them. A turn is a few calls in a row, like those of a network that
runs repeatedly; a network that runs between others finds its weights evicted from the caches of a
processor. Warm-up ends when the times are stable, not after a fixed number of calls, because caches,
clocks and autotuning take different times to settle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.command.settings import setting
from edgenas_core.types.errors import require_at_least_1


class Statistic(Enum):
    """Statistic of the samples that is called the latency; a real-time user limits the tail."""

    median = "median"
    p95 = "p95"
    p99 = "p99"

    def of(self, ms: Float64[ndarray, "*n samples"]) -> Float64[ndarray, "*n"]:
        """The statistic along the last axis, milliseconds."""
        quantile = {Statistic.median: 0.5, Statistic.p95: 0.95, Statistic.p99: 0.99}[self]
        return np.asarray(np.quantile(ms, quantile, axis=-1))


@final
@dataclass(frozen=True)
class TimingConfig:
    """Length of the warm-up, and number of samples."""

    samples: int = 30
    turn: int = 5  # samples in a row, after one untimed call that refills the caches
    warm_up_window: int = 5  # calls whose medians are compared
    warm_up_tolerance: float = 0.05  # relative difference of two windows that counts as stable
    warm_up_most: int = 100  # calls after which instability is accepted and reported
    settle_s: float = 2.0  # busy time before anything is timed: clocks rise, caches fill


@dataclass
class TimingSettings:
    """What a user sets of a timing; few samples have a shorter warm-up and shorter turns."""

    samples: int = setting(30, "Number of measurements of each network.", heading="How it is timed")

    def config(self) -> TimingConfig:
        """The whole timing.

        Raises:
          UserError: if no sample is to be taken.
        """
        require_at_least_1({"timing.samples": self.samples})
        usual, samples = TimingConfig(), self.samples
        return TimingConfig(
            samples,
            turn=min(samples, usual.turn),
            warm_up_window=min(samples, usual.warm_up_window),
            warm_up_most=min(4 * samples, usual.warm_up_most),
        )


@final
@dataclass
class MeasureTiming(TimingSettings):
    """The same on this machine, which is kept busy before."""

    settle_s: float = setting(2.0, "Time for which the device is kept busy first.", unit="s")

    def config(self) -> TimingConfig:
        """The whole timing; UserError if no sample is to be taken."""
        return replace(super().config(), settle_s=self.settle_s)


@final
@dataclass(frozen=True)
class Samples:
    """All times of one subject, in order."""

    ms: Float64[ndarray, " n"]
    warm_up_calls: int
    is_stable: bool  # True if the times were stable before the limit of the warm-up

    def interval(self, statistic: Statistic) -> tuple[float, float]:
        """Bootstrap 95 % percentile interval of a statistic (Efron, 1979), milliseconds."""
        generator = np.random.default_rng(0)
        resampled = statistic.of(generator.choice(self.ms, (2000, len(self.ms))))
        low, high = np.quantile(resampled, [0.025, 0.975])
        return float(low), float(high)


@final
@dataclass(frozen=True)
class Stopwatch:
    """Times one call, from an idle device to an idle device."""

    synchronise: Callable[[], object] = lambda: None  # waits for an asynchronous device
    clock_ns: Callable[[], int] = time.perf_counter_ns  # monotonic

    def ms(self, subject: Callable[[], object]) -> float:
        """Milliseconds of one call.

        Raises:
          OSError: if the clock goes back.
        """
        self.synchronise()
        start_ns = self.clock_ns()
        subject()
        self.synchronise()
        taken_ns = self.clock_ns() - start_ns
        if taken_ns < 0:
            raise OSError(f"the clock went back by {-taken_ns:,} ns while a network ran")
        return taken_ns / 1e6


def settle(subject: Callable[[], object], config: TimingConfig, stopwatch: Stopwatch) -> None:
    """Keep the device busy for `settle_s`, so that clocks rise and caches fill."""
    left_ms = 1000 * config.settle_s
    while left_ms > 0:
        # a call that the clock cannot resolve counts as a microsecond, or this would not end
        left_ms -= max(stopwatch.ms(subject), 1e-3)


def warm_up(
    subject: Callable[[], object], config: TimingConfig, stopwatch: Stopwatch
) -> tuple[int, bool]:
    """Call until the medians of two successive windows agree; return the calls, and True if they do."""
    window = config.warm_up_window
    taken: list[float] = []
    while len(taken) < max(config.warm_up_most, 2 * window):
        taken.append(stopwatch.ms(subject))
        if len(taken) >= 2 * window:
            before, now = np.median(taken[-2 * window : -window]), np.median(taken[-window:])
            if abs(now - before) <= config.warm_up_tolerance * before:
                return len(taken), True
    return len(taken), False


def time_interleaved(
    subjects: Sequence[Callable[[], object]],
    config: TimingConfig,
    generator: np.random.Generator,
    stopwatch: Stopwatch,
) -> list[Samples]:
    """Warm up every subject, then time all in turns, in a new random order each round."""
    warmed = [warm_up(subject, config, stopwatch) for subject in subjects]
    ms = np.empty((len(subjects), config.samples))
    for start in range(0, config.samples, config.turn):
        turn = slice(start, min(start + config.turn, config.samples))
        for place in generator.permutation(len(subjects)):
            subjects[place]()
            ms[place, turn] = [stopwatch.ms(subjects[place]) for _ in range(turn.start, turn.stop)]
    return [
        Samples(row, calls, is_stable) for row, (calls, is_stable) in zip(ms, warmed, strict=True)
    ]
