from dataclasses import replace

import numpy as np
import pytest
from synthetic import problem

from edgenas_core.types.kind import Kind
from latency.base import Latencies
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.confirmation import confirm

DISTINCT = np.unique(NAS_BENCH_201.network_class)


class Device:
    """Second times by official number; remembers what it was asked."""

    def __init__(self, again_ms, disturbed=()):
        self.again_ms = again_ms
        self.disturbed = disturbed
        self.asked = []

    def measure_again(self, architectures):
        indices = NAS_BENCH_201.numbers(architectures).tolist()
        self.asked.append(indices)
        kinds = [Kind.disturbed if at in self.disturbed else Kind.measured for at in indices]
        ms = np.array([self.again_ms[index] for index in indices], np.float64)
        return Latencies(ms, np.array(kinds, np.int8))


def samples(indices, accuracy, latency_ms):
    trials = problem().evaluate(NAS_BENCH_201.rows[indices])
    return replace(
        trials,
        accuracy=np.array(accuracy, np.float64),
        latency_ms=np.array(latency_ms, np.float64),
    )


def confirmed(sampled, device, top):
    feasible = sampled.latency_ms <= 10.0
    return confirm(sampled, feasible, device.measure_again, top=top, limit_ms=10.0)


@pytest.fixture
def abcd():
    return DISTINCT[:4].tolist()


def test_the_most_accurate_that_is_within_the_limit_twice_wins(abcd):
    a, b, c, d = abcd
    sampled = samples(abcd, [0.9, 0.8, 0.7, 0.95], [9.9, 9.0, 8.0, 11.0])
    device, top = Device({a: 10.1, b: 9.1, c: 8.1, d: 1.0}), 2

    timed = confirmed(sampled, device, top)

    assert device.asked == [[a, b]]
    assert timed.within_limit.tolist() == [False, True]
    assert timed.positions[timed.winner] == 1
    assert timed.again.ms[timed.winner] == 9.1


def test_more_are_timed_only_while_none_is_within_the_limit_again(abcd):
    a, b, c, d = abcd
    sampled = samples(abcd, [0.9, 0.8, 0.7, 0.6], [9.9, 9.9, 9.9, 5.0])
    device, top = Device({a: 10.1, b: np.nan, c: 10.2, d: 5.1}), 1

    timed = confirmed(sampled, device, top)

    assert device.asked == [[a], [b], [c], [d]]
    assert timed.positions[timed.winner] == 3


def test_on_a_device_that_is_too_slow_for_all_it_ends():
    cells = DISTINCT[:50].tolist()
    sampled = samples(cells, np.linspace(0.9, 0.5, 50), np.full(50, 9.9))
    device = Device(dict.fromkeys(cells, 12.0))

    timed = confirmed(sampled, device, 2)

    assert timed.winner is None
    assert [at for asked in device.asked for at in asked] == cells[:20]


def test_an_architecture_is_timed_once_and_another_of_the_same_network_by_itself():
    twins = np.flatnonzero(NAS_BENCH_201.network_class == NAS_BENCH_201.network_class[0])[:2]
    sampled = samples([*twins, twins[0]], [0.5, 0.6, 0.5], [5.0, 5.0, 5.0])
    device, top = Device({twins[0]: 5.0, twins[1]: 11.0}), 5

    timed = confirmed(sampled, device, top)

    assert device.asked == [[twins[1], twins[0]]]
    assert timed.positions[timed.winner] == 0


def test_a_disturbed_time_confirms_nothing_while_another_network_is_confirmed(abcd):
    a, b, c, _ = abcd
    sampled = samples(abcd[:3], [0.9, 0.8, 0.7], [9.0, 9.0, 9.0])
    device = Device({a: 9.0, b: 9.0, c: 9.0}, disturbed=[a])

    timed = confirmed(sampled, device, 2)

    assert timed.within_limit.tolist() == [True, True]
    assert timed.confirmed.tolist() == [False, True]
    assert timed.positions[timed.winner] == 1


def test_a_round_on_a_disturbed_device_is_the_last_and_its_best_is_unconfirmed(abcd):
    sampled = samples(abcd, [0.9, 0.8, 0.7, 0.6], [9.0, 9.0, 9.0, 9.0])
    device = Device(dict(zip(abcd, [11.0, 9.5, 9.0, 9.0], strict=True)), disturbed=abcd)

    timed = confirmed(sampled, device, 2)

    assert device.asked == [abcd[:2]]
    assert not timed.confirmed.any()
    assert timed.positions[timed.winner] == 1
