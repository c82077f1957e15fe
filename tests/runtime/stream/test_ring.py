"""A ring holds what it says, and never more than it has."""

from collections import deque
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.stream.ring import ByteRing, aligned


@settings(max_examples=50)
@given(
    st.integers(1, 60),
    st.sampled_from([1, 4, 8]),
    st.lists(st.none() | st.integers(1, 60), max_size=60),
)
def test_a_ring_never_exceeds_its_bytes_nor_overlaps_and_frees_the_oldest_first(
    capacity, alignment, actions
):
    capacity = max(capacity, alignment)
    ring = ByteRing(capacity, alignment)
    held = deque()  # what the ring must hold, as told from outside

    for nbytes in actions:
        if nbytes is None:
            if held:
                ring.release()
                held.popleft()
        elif aligned(nbytes, alignment) <= ring.capacity_bytes:
            offset = ring.reserve(nbytes)
            if offset is not None:
                held.append((offset, nbytes))

        assert len(ring) == len(held)
        assert ring.held_bytes <= ring.capacity_bytes <= capacity
        for offset, length in held:
            assert offset % alignment == 0
            assert 0 <= offset <= offset + length <= capacity
        for (a, a_length), (b, b_length) in combinations(held, 2):
            assert a + a_length <= b or b + b_length <= a


@settings(max_examples=50)
@given(st.integers(8, 64), st.lists(st.integers(1, 64), min_size=1, max_size=30))
def test_what_waits_fits_when_enough_is_released(capacity, lengths):
    ring = ByteRing(capacity, 1)
    for nbytes in lengths:
        if nbytes > capacity:
            continue
        while ring.reserve(nbytes) is None:
            ring.release()  # raises where there is nothing left to wait for


def test_a_piece_that_is_too_long_for_the_end_begins_at_the_start():
    ring = ByteRing(10, 1)
    assert [ring.reserve(4), ring.reserve(4)] == [0, 4]
    assert ring.reserve(3) is None  # 2 are left at the end
    ring.release()
    assert ring.reserve(3) == 0
    assert ring.reserve(2) is None  # the end was skipped, the start has 1


def test_an_empty_ring_begins_at_the_start_again():
    ring = ByteRing(10, 1)
    ring.reserve(7)
    ring.release()
    assert ring.reserve(10) == 0


def test_lengths_are_rounded_up_and_capacity_down():
    ring = ByteRing(10_000, 4096)
    assert ring.capacity_bytes == 8192
    assert [ring.reserve(1), ring.reserve(4096)] == [0, 4096]
    assert ring.held_bytes == 8192


@pytest.mark.parametrize("nbytes", [0, -1, 11])
def test_what_can_never_fit_is_refused(nbytes):
    with pytest.raises(ValueError, match=f"{nbytes} bytes"):
        ByteRing(10, 1).reserve(nbytes)


def test_a_ring_without_room_is_refused():
    with pytest.raises(ValueError, match="4095 bytes"):
        ByteRing(4095)


def test_releasing_nothing_is_an_error():
    with pytest.raises(IndexError):
        ByteRing(4096).release()
