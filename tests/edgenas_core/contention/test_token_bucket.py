"""Rates of a token bucket, on a clock that is moved by hand."""

import math

from hypothesis import given
from hypothesis import strategies as st

from edgenas_core.contention.hogs.python_hog import TokenBucket


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def taken(bucket, clock, size, until_s):
    total = 0
    while clock.now_s < until_s:
        wait_s = bucket.take(size)
        if wait_s == 0:
            total += size
        else:
            clock.now_s += max(wait_s, 1e-9)
    return total


@given(rate=st.floats(1e3, 1e12), piece_s=st.floats(1e-3, 0.05))
def test_the_rate_holds_for_any_size_of_pieces(rate, piece_s):
    clock = Clock()
    bucket = TokenBucket(rate, clock_s=clock)

    size = rate * piece_s
    total = taken(bucket, clock, size, until_s=1.0)

    assert rate - 2 * size <= total <= rate * 1.001 + 2 * size


def test_an_idle_bucket_saves_no_more_than_a_burst():
    clock = Clock()
    bucket = TokenBucket(1000.0, burst_s=0.01, clock_s=clock)
    clock.now_s = 60.0

    pieces = 0
    while bucket.take(5.0) == 0:
        pieces += 1

    assert pieces == 3  # two from what it holds, one on credit


def test_nothing_waits_without_a_limit_and_all_wait_at_none():
    assert TokenBucket(math.inf).take(1e15) == 0
    assert TokenBucket(0.0).take(1) == math.inf


def test_changing_the_rate_to_and_fro_forgives_no_debt():
    clock = Clock()
    bucket = TokenBucket(100.0, clock_s=clock)
    bucket.take(50.0)

    for _ in range(10):
        bucket.rate(math.inf)
        bucket.rate(100.0)

    assert bucket.take(1.0) == 0.5
