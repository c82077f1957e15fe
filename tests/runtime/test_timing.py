"""Timing, on a clock that the test turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.timing import Samples, Statistic, Stopwatch, TimingConfig, time_interleaved, warm_up


class Clock:
    """Nanoseconds that pass only while a subject runs; `log` holds who ran."""

    def __init__(self):
        self.now_ns = 0
        self.log = []

    def subject(self, name, durations_ms):
        durations = iter(durations_ms)

        def run():
            self.log.append(name)
            self.now_ns += round(next(durations) * 1e6)

        return run

    @property
    def stopwatch(self):
        return Stopwatch(clock_ns=lambda: self.now_ns)


def forever(ms):
    while True:
        yield ms


CONFIG = TimingConfig(samples=6, warm_up_window=3, warm_up_tolerance=0.05, warm_up_most=30)


def test_a_call_is_timed_from_an_idle_device_to_an_idle_device():
    events = []
    stopwatch = Stopwatch(
        synchronise=lambda: events.append("idle"),
        clock_ns=lambda: events.append("clock") or 1_000_000 * len(events),
    )

    ms = stopwatch.ms(lambda: events.append("run"))

    assert events == ["idle", "clock", "run", "idle", "clock"]
    assert ms == 3.0


def test_warm_up_lasts_until_two_windows_agree():
    clock = Clock()
    subject = clock.subject("a", [100.0, 50.0, 20.0, 11.0, 10.5, 10.0, *[10.0] * 30])

    calls, is_stable = warm_up(subject, CONFIG, clock.stopwatch)

    assert is_stable
    assert calls == 9  # windows (11, 10.5, 10) and (10, 10, 10): within 5 %


def test_a_subject_that_never_settles_is_told_and_not_waited_for_forever():
    clock = Clock()
    subject = clock.subject("a", (2.0**n for n in range(1000)))

    calls, is_stable = warm_up(subject, CONFIG, clock.stopwatch)

    assert (calls, is_stable) == (30, False)


def test_subjects_are_timed_in_turns_after_their_warm_up_and_every_sample_is_kept():
    clock = Clock()
    subjects = [clock.subject(name, forever(ms)) for name, ms in (("a", 1.0), ("b", 2.0))]

    found = time_interleaved(subjects, CONFIG, np.random.default_rng(0), clock.stopwatch)

    timed = clock.log[sum(samples.warm_up_calls for samples in found) :]
    rounds = [set(timed[i : i + 2]) for i in range(0, len(timed), 2)]
    assert rounds == [{"a", "b"}] * CONFIG.samples
    assert timed not in (["a", "b"] * CONFIG.samples, ["b", "a"] * CONFIG.samples)
    assert [samples.ms.tolist() for samples in found] == [[1.0] * 6, [2.0] * 6]


def test_a_machine_that_slows_down_slows_every_subject_alike():
    clock = Clock()
    drift = iter(np.linspace(1, 3, 1000))
    subjects = [
        clock.subject(name, (ms * next(drift) for _ in range(500)))
        for name, ms in (("a", 1.0), ("b", 1.0))
    ]
    config = TimingConfig(samples=100, warm_up_window=2, warm_up_tolerance=1, warm_up_most=4)

    a, b = time_interleaved(subjects, config, np.random.default_rng(0), clock.stopwatch)

    assert np.median(a.ms) == pytest.approx(np.median(b.ms), rel=0.01)


@given(st.lists(st.floats(0.01, 1e3), min_size=2, max_size=60))
def test_the_tail_is_never_faster_than_the_median(times):
    ms = np.array(times)

    median, p95, p99 = (statistic.of(ms) for statistic in Statistic)

    assert median <= p95 <= p99 <= ms.max()


def test_the_interval_holds_the_statistic_and_narrows_with_more_samples():
    generator = np.random.default_rng(1)
    widths = []
    for count in (20, 2000):
        samples = Samples(generator.lognormal(1, 0.2, count), 0, is_stable=True)
        low, high = samples.interval(Statistic.median)
        assert low <= np.median(samples.ms) <= high
        widths.append(high - low)

    assert widths[1] < widths[0] / 5
