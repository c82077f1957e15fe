"""Numbers and neighbours of architectures, against the plain definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from controller.choice_space import ChoiceSpace

NUM_CHOICES = (3, 1, 2, 4)


@pytest.fixture
def space():
    return ChoiceSpace(NUM_CHOICES)


@pytest.fixture
def every():
    return np.array(list(product(*map(range, NUM_CHOICES))), np.int64)


def test_architectures_are_numbered_in_lexicographic_order(space, every):
    assert space.size == len(every)
    np.testing.assert_array_equal(space.numbers(every), np.arange(len(every)))
    np.testing.assert_array_equal(space.architectures(np.arange(len(every))), every)


def test_neighbours_are_the_architectures_that_differ_in_exactly_one_choice(space, every):
    for number, architecture in enumerate(every):
        (expected,) = np.nonzero((every != architecture).sum(-1) == 1)

        neighbours = space.neighbours(number)

        assert len(neighbours) == space.num_neighbours
        assert sorted(neighbours) == expected.tolist()


def test_a_space_that_64_bits_cannot_number_is_refused():
    with pytest.raises(ValueError, match="too many"):
        ChoiceSpace((10,) * 30)
