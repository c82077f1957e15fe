"""The laws of search without replacement."""

from __future__ import annotations

import numpy as np
import pytest
from toy_spaces import Box, Stages

from controller.exhaustive import ExhaustiveConfig

SPACE = Box(3, 2, 4)
SIZE = 24


@pytest.mark.parametrize("batch_size", [1, 5, 24, 100])
def test_every_architecture_comes_once_and_then_again_in_the_same_order(batch_size):
    controller = ExhaustiveConfig().build(SPACE, [0, 1])

    batches = [controller.sample(batch_size) for _ in range(-(-2 * SIZE // batch_size))]

    sampled = np.concatenate(batches, axis=1)
    for row in sampled:
        assert len(np.unique(row[:SIZE], axis=0)) == SIZE
        np.testing.assert_array_equal(row[:SIZE], row[SIZE : 2 * SIZE])


def test_a_space_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="244,140,625"):
        ExhaustiveConfig().build(Box(*(5,) * 12), [0])


def test_a_space_that_cannot_be_listed_is_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"controller=exhaustive.*listed.*controller=uniform"):
        ExhaustiveConfig().build(Stages(), [0])
