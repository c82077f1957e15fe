from __future__ import annotations

import numpy as np

from controller.policy.reinforce import Elite


def rows(*numbers):
    return np.array(numbers)[None, :, None]


def test_it_holds_the_best_distinct_architectures_best_first_with_their_first_answer():
    elite = Elite(1, 3, 1)

    elite.add(rows(4, 2, 4), np.array([[0.4, 0.2, 0.9]]), np.array([[1.4, 1.2, 1.9]]))
    elite.add(rows(7, 1), np.array([[0.7, 0.1]]), np.array([[1.7, 1.1]]))

    np.testing.assert_array_equal(elite.architectures[0, :, 0], [7, 4, 2])
    np.testing.assert_array_equal(elite.scores, [[0.7, 0.4, 0.2]])
    np.testing.assert_array_equal(elite.costs, [[1.7, 1.4, 1.2]])


def test_what_failed_never_enters_not_even_into_an_empty_place():
    elite = Elite(1, 2, 1)

    elite.add(rows(0, 3), np.array([[0.5, -np.inf]]), np.array([[1.0, np.nan]]))

    np.testing.assert_array_equal(elite.scores, [[0.5, -np.inf]])
    np.testing.assert_array_equal(elite.costs, [[1.0, np.inf]])


def test_a_zero_row_may_enter_beside_empty_places():
    elite = Elite(1, 2, 1)

    elite.add(rows(0), np.array([[0.5]]), np.array([[1.0]]))

    np.testing.assert_array_equal(elite.scores, [[0.5, -np.inf]])
