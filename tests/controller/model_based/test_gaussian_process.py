"""The process that grows a row at a time is the one that the textbook solves for at once."""

from __future__ import annotations

import numpy as np
import pytest

from controller.model_based.gaussian_process import GaussianProcess

REACH, NOISE = 1.2, 0.1
SEEN = np.array(list(np.ndindex(3, 2, 4, 3)))[::-1][:70]  # more than the first room holds
VALUES = np.stack([np.sin(SEEN.sum(1)), SEEN[:, 0] * SEEN[:, 2] + 5.0], axis=1)  # synthetic
ELSEWHERE = np.array([[0, 0, 0, 0], [1, 1, 3, 2]])


def kernel(ours, theirs):
    return np.exp(-REACH * (ours[:, None] != theirs).mean(-1))


def solved(seen, values, asked):
    gram = kernel(seen, seen) + NOISE * np.eye(len(seen))
    mean = values.mean(0)
    return mean + kernel(asked, seen) @ np.linalg.solve(gram, values - mean)


@pytest.fixture
def process():
    process = GaussianProcess(4, REACH, NOISE)
    for row in SEEN:
        process.add(row)
    return process


def test_its_prediction_is_that_of_the_whole_system(process):
    process.fit(VALUES)

    expected = solved(SEEN, VALUES, ELSEWHERE)

    np.testing.assert_allclose(process.predict(ELSEWHERE), expected, rtol=1e-9)


def test_its_standard_error_is_found_by_leaving_out_one_after_another(process):
    mean = VALUES.mean(0)  # which is not left out: it is a setting of the process

    error = process.fit(VALUES)

    missed = []
    for i in range(len(SEEN)):
        rest = np.arange(len(SEEN)) != i
        gram = kernel(SEEN[rest], SEEN[rest]) + NOISE * np.eye(rest.sum())
        near = kernel(SEEN[i : i + 1], SEEN[rest])
        missed.append(VALUES[i] - mean - (near @ np.linalg.solve(gram, VALUES[rest] - mean))[0])
    np.testing.assert_allclose(error, np.sqrt(np.square(missed).mean(0)), rtol=1e-9)


def test_far_from_all_it_has_seen_it_expects_the_mean():
    process = GaussianProcess(4, reach=50.0, noise=NOISE)
    process.add(np.zeros(4, np.int64))
    process.add(np.array([0, 0, 0, 1]))
    process.fit(np.array([[1.0], [3.0]]))

    assert process.predict(np.full((1, 4), 2)) == pytest.approx(np.array([[2.0]]))
