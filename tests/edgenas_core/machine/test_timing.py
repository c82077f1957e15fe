"""Timing, on a clock that the test turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgenas_core.machine.timing import (
    Samples,
    Statistic,
    Stopwatch,
    TimingConfig,
    settle,
    time_interleaved,
    warm_up,
)


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


CONFIG = TimingConfig(samples=6, turn=2, warm_up_window=3, warm_up_tolerance=0.05, warm_up_most=30)


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

    found = time_interleaved(subjects, CONFIG, np.random.default_rng(1), clock.stopwatch)

    called = "".join(clock.log[sum(samples.warm_up_calls for samples in found) :])
    rounds = [called[i : i + 6] for i in range(0, len(called), 6)]
    assert set(rounds) == {"aaabbb", "bbbaaa"}  # in both orders, each turn with a call untimed
    assert len(rounds) == 3
    assert [samples.ms.tolist() for samples in found] == [[1.0] * 6, [2.0] * 6]


def test_the_first_call_of_a_turn_is_not_timed():
    clock = Clock()
    subject = clock.subject("a", [1.0] * 6 + [9.0, 1.0, 2.0, 9.0, 3.0, 4.0, 9.0, 5.0])
    config = TimingConfig(samples=5, turn=2, warm_up_window=3, warm_up_most=6)

    (samples,) = time_interleaved([subject], config, np.random.default_rng(0), clock.stopwatch)

    assert samples.ms.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_device_settles_for_as_long_as_is_asked():
    clock = Clock()

    settle(clock.subject("a", forever(30.0)), TimingConfig(settle_s=1.0), clock.stopwatch)

    assert 1.0 <= clock.now_ns / 1e9 < 1.04


def test_a_clock_that_goes_back_is_an_error_and_no_time():
    times = iter([5_000_000, 4_000_000])

    with pytest.raises(OSError, match="1,000,000 ns"):
        Stopwatch(clock_ns=lambda: next(times)).ms(lambda: None)


def test_a_machine_that_slows_down_slows_every_subject_alike():
    clock = Clock()
    drift = iter(np.linspace(1, 3, 1000))
    subjects = [
        clock.subject(name, (ms * next(drift) for _ in range(1000)))
        for name, ms in (("a", 1.0), ("b", 1.0))
    ]
    config = TimingConfig(
        samples=100, turn=1, warm_up_window=2, warm_up_tolerance=1, warm_up_most=4
    )

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
