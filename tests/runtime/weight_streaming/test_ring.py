"""Allocation in ring buffers: never over capacity, never overlapping, fixed offsets."""

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
    held = deque()  # a model of the reservations

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
def test_any_length_up_to_the_capacity_fits_after_enough_releases(capacity, lengths):
    ring = ByteRing(capacity, 1)
    for nbytes in lengths:
        if nbytes > capacity:
            continue
        while ring.reserve(nbytes) is None:
            ring.release()  # raises IndexError if the ring is empty


def test_a_reservation_too_long_for_the_end_wraps_to_the_start():
    ring = ByteRing(10, 1)
    assert [ring.reserve(4), ring.reserve(4)] == [0, 4]
    assert ring.reserve(3) is None  # 2 are left at the end
    ring.release()
    assert ring.reserve(3) == 0
    assert ring.reserve(2) is None  # the end is unused, the start has 1 byte


def test_an_empty_ring_starts_at_0_again():
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
def test_impossible_lengths_are_refused(nbytes):
    with pytest.raises(ValueError, match=f"{nbytes} bytes"):
        ByteRing(10, 1).reserve(nbytes)


def test_a_ring_smaller_than_its_alignment_is_refused():
    with pytest.raises(ValueError, match="4095 bytes"):
        ByteRing(4095)


def test_releasing_from_an_empty_ring_is_an_error():
    with pytest.raises(IndexError):
        ByteRing(4096).release()


@settings(max_examples=100)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.integers(0, 30),
    st.sampled_from([1, 4]),
)
def test_repeated_passes_wait_exactly_until_their_bytes_are_free(lengths, more, alignment):
    """Reservations are released in order, up to the one that is waited for."""
    capacity = aligned(max(lengths), alignment) + more
    again = cyclic_places(lengths, capacity, alignment)
    count, rounds = len(lengths), 3

    spans = [
        (one.offset, one.offset + aligned(nbytes, alignment))
        for one, nbytes in zip(again, lengths, strict=True)
    ]
    released = -1  # in order: the last one that any reservation so far waited for
    for turn in range(rounds * count):
        begin, end = spans[turn % count]
        assert 0 <= begin < end <= capacity
        after = again[turn % count].after
        assert after is not None  # at the latest its own previous pass
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


def test_the_next_pass_waits_for_the_last_reservation_at_its_offset():
    found = cyclic_places([4, 4, 2], 8, 1)
    assert [(one.offset, one.after) for one in found] == [(0, -2), (0, 0), (4, -1)]


@pytest.mark.parametrize(
    ("count", "slots", "least"),
    [(31, 3, 2), (32, 3, 2), (33, 4, 3), (8, 7, 4), (31, 2, 1), (5, 5, 5)],
)
def test_laps_are_about_equally_long(count, slots, least):
    found = cyclic_places([1] * count, slots, 1)
    ahead = [
        i - (one.after % count if one.after >= 0 else one.after) for i, one in enumerate(found)
    ]
    assert min(ahead) == least


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(9, 40))
def test_repeated_passes_need_no_more_laps_than_a_single_one(lengths, capacity):
    def laps(found):
        return sum(not one.offset for one in found)

    assert laps(cyclic_places(lengths, capacity, 1)) <= laps(places(lengths, capacity, 1))
