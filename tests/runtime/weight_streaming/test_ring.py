"""A ring holds what it says, and never more than it has."""

from collections import deque
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.weight_streaming.planning.ring import ByteRing, aligned, cyclic_places, places


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


@settings(max_examples=100)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.integers(0, 30),
    st.sampled_from([1, 4]),
)
def test_in_rounds_whoever_waits_as_told_finds_its_bytes_free_and_no_sooner(
    lengths, more, alignment
):
    """Released in order, as kernels end: all up to the one that is waited for."""
    capacity = aligned(max(lengths), alignment) + more
    again = cyclic_places(lengths, capacity, alignment)
    count, rounds = len(lengths), 3

    spans = [
        (one.offset, one.offset + aligned(nbytes, alignment))
        for one, nbytes in zip(again, lengths, strict=True)
    ]
    released = -1  # in order, so the last one that any so far waited for
    for turn in range(rounds * count):
        begin, end = spans[turn % count]
        assert 0 <= begin < end <= capacity
        after = again[turn % count].after
        assert after is not None  # at the latest for itself
        waits_for = turn // count * count + after
        assert turn - count <= waits_for < turn
        released = max(released, waits_for)
        overlapping = [
            other
            for other in range(max(0, turn - 2 * count), turn)
            if spans[other % count][0] < end and begin < spans[other % count][1]
        ]
        assert all(other <= released for other in overlapping)
        if after < 0 <= waits_for:
            assert waits_for in overlapping
        still_there = range(max(0, released + 1), turn)
        assert (
            sum(spans[other % count][1] - spans[other % count][0] for other in still_there)
            + (end - begin)
            <= capacity
        )


def test_the_next_round_waits_for_the_last_that_lay_where_it_begins():
    found = cyclic_places([4, 4, 2], 8, 1)
    assert [(one.offset, one.after) for one in found] == [(0, -2), (0, 0), (4, -1)]


@pytest.mark.parametrize(
    ("count", "slots", "least"),
    [(31, 3, 2), (32, 3, 2), (33, 4, 3), (8, 7, 4), (31, 2, 1), (5, 5, 5)],
)
def test_laps_are_about_equally_long_so_that_nobody_waits_for_the_last(count, slots, least):
    found = cyclic_places([1] * count, slots, 1)
    ahead = [
        i - (one.after % count if one.after >= 0 else one.after) for i, one in enumerate(found)
    ]
    assert min(ahead) == least


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(9, 40))
def test_in_rounds_there_are_no_more_laps_than_from_an_empty_ring(lengths, capacity):
    def laps(found):
        return sum(not one.offset for one in found)

    assert laps(cyclic_places(lengths, capacity, 1)) <= laps(places(lengths, capacity, 1))
