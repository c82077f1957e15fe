"""Keys and order of architectures, against the plain definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
from toy_spaces import Box, Stages

from controller.rows import all_valid, keys_of, listing, rows_of, switched_on


def test_a_listing_is_in_lexicographic_order_whatever_the_numbers_of_the_space():
    num_choices = (3, 1, 2, 4)
    every = np.array(list(product(*map(range, num_choices))), np.int64)

    listed = listing(Box(*num_choices))

    assert len(listed) == len(every)
    np.testing.assert_array_equal(listed.architectures(np.arange(len(every))), every)


def test_a_space_that_cannot_be_listed_or_is_large_has_no_listing():
    assert listing(Stages()) is None
    assert listing(Box(*(10,) * 18)) is None


def test_keys_are_equal_where_rows_are_and_lead_back_to_them():
    rows = np.array([[1, 2], [0, 3], [1, 2]])

    first, second, third = keys_of(rows)

    assert first == third != second
    np.testing.assert_array_equal(rows_of([first, second], 2), rows[:2])


def test_all_rows_are_valid_only_where_the_space_has_every_combination():
    assert all_valid(Box(2, 3))
    assert not all_valid(Stages())


def test_positions_beyond_the_depth_of_a_stage_are_switched_off():
    rows = Stages().sample(np.random.default_rng(0), 20)

    on = switched_on(Stages(), rows).reshape(20, 8, 4)

    assert on[..., 0].all()
    np.testing.assert_array_equal(on[..., 1:], np.arange(3) <= rows.reshape(20, 8, 4)[..., :1])
    assert switched_on(Box(3, 2), np.array([[0, 1]])).all()
