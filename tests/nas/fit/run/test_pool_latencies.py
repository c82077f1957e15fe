"""What networks that were not timed are expected to take."""

import math

import numpy as np
import pytest

from edgenas_core.types.errors import UserError
from nas.fit.run.pool_latencies import expected_ms, layer_work

NETWORKS = np.array([0, 0, 1, 1, 2])
FLOPS = np.array([1.0, 4.0, 2.0, 8.0, 5.0])


def test_each_network_is_predicted_once_and_at_other_sides_in_proportion():
    predicted = []

    def predict_ms(row):
        if row[0] == 4:
            raise UserError("cannot be exported")
        predicted.append(row[0])
        return 10.0

    work = layer_work(predict_ms, np.arange(5)[:, None], NETWORKS, FLOPS, math.inf)

    assert predicted == [1, 3]
    np.testing.assert_allclose(work, [2.5, 10, 2.5, 10, 5 * 1.875])  # the last by the median


def test_without_time_work_is_that_of_multiply_accumulates():
    work = layer_work(lambda _: 10.0, np.zeros((5, 3), np.int64), NETWORKS, FLOPS, -math.inf)

    np.testing.assert_allclose(work, FLOPS)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [([], [math.nan] * 5), ([(0, 2.0)], 2 * FLOPS), ([(0, 2.0), (2, 12.0)], [2, 8, 12, 48, 20])],
)
def test_what_was_measured_of_the_same_network_counts_else_the_median(measured, expected):
    ms = np.full(5, math.nan)
    for at, value in measured:
        ms[at] = value

    np.testing.assert_allclose(expected_ms(NETWORKS, FLOPS, ms), expected)
