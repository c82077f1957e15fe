"""Allocation in ring buffers: never over capacity, never overlapping, fixed offsets."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgenas_runtime.weight_streaming.planning.ring import aligned, cyclic_places, places


@settings(max_examples=100)
@given(st.lists(st.integers(1, 60), max_size=60), st.integers(0, 60), st.sampled_from([1, 4, 8]))
def test_reservations_in_use_never_overlap_nor_exceed_the_ring(lengths, more, alignment):
    capacity = aligned(max(lengths, default=1), alignment) + more
    spans = []
    for nbytes, place in zip(lengths, places(lengths, capacity, alignment), strict=True):
        assert place.offset % alignment == 0
        spans.append((place.offset, place.offset + aligned(nbytes, alignment)))
        in_use = spans[0 if place.after is None else place.after + 1 :]
        assert all(0 <= begin < end <= capacity for begin, end in in_use)
        assert all(a[1] <= b[0] or b[1] <= a[0] for a, b in combinations(in_use, 2))


@pytest.mark.parametrize(
    ("lengths", "capacity", "alignment", "expected"),
    [
        # the third does not fit at the end, so it waits for the first; the fourth for the second
        ([4, 4, 3, 2], 10, 1, [(0, None), (4, None), (0, 0), (3, 1)]),
        ([7, 10], 10, 1, [(0, None), (0, 0)]),  # an empty ring starts at 0 again
        ([1, 4096, 1], 10_000, 4096, [(0, None), (4096, None), (0, 0)]),
    ],
)
def test_a_reservation_waits_for_as_few_releases_as_possible(
    lengths, capacity, alignment, expected
):
    reserved = places(lengths, capacity, alignment)
    assert [(place.offset, place.after) for place in reserved] == expected


@pytest.mark.parametrize(
    ("nbytes", "capacity", "alignment"), [(0, 10, 1), (-1, 10, 1), (11, 10, 1), (1, 4095, 4096)]
)
@pytest.mark.parametrize("allocate", [places, cyclic_places])
def test_impossible_lengths_are_refused(allocate, nbytes, capacity, alignment):
    with pytest.raises(ValueError, match=f"{nbytes} bytes"):
        allocate([nbytes], capacity, alignment)


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
