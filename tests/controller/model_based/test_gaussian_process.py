"""The process predicts as the textbook's formulas do; pending trials change its certainty alone."""

from __future__ import annotations

import numpy as np
import pytest
from toy_spaces import Box

from controller.model_based.gaussian_process import GaussianProcess, KernelWeights, Similarity

SPACE = Box(3, 2, 4, 3)
WEIGHTS = KernelWeights(choices=0.5, smooth=0.4, linear=0.2, noise=0.1)
SIMILARITY = Similarity(SPACE)
ROWS = SPACE.architectures(np.arange(SPACE.size))
SEEN, ELSEWHERE, PENDING = ROWS[:40], ROWS[50:60], ROWS[60:63]
VALUES = np.sin(SEEN.sum(1)) + SEEN[:, 0] * SEEN[:, 2]  # synthetic


def fitted(*, pending=PENDING[:0], values=VALUES):
    seen = np.concatenate([SEEN, pending])
    return GaussianProcess.fit(WEIGHTS, parts(seen, seen), values, np.arange(len(seen)) < 40)


def parts(ours, theirs):
    return SIMILARITY(SIMILARITY.points(ours), SIMILARITY.points(theirs))


def covariance(ours, theirs):
    return WEIGHTS.covariance(parts(ours, theirs)).astype(float)


def gram(rows):
    return covariance(rows, rows) + WEIGHTS.noise * np.eye(len(rows))


def predicted(process, rows, *, pending=PENDING[:0]):
    near = parts(np.concatenate([SEEN, pending]), rows)
    return process.predict(near, WEIGHTS.covariance(SIMILARITY.diagonal(SIMILARITY.points(rows))))


def test_the_mean_is_that_of_the_whole_system():
    standard = (VALUES - VALUES.mean()) / VALUES.std()
    weights = np.linalg.solve(gram(SEEN), standard)

    expected = VALUES.mean() + VALUES.std() * covariance(ELSEWHERE, SEEN) @ weights

    np.testing.assert_allclose(predicted(fitted(), ELSEWHERE).mean, expected, atol=1e-4)


def test_the_variance_is_the_prior_s_less_what_is_explained():
    near = covariance(ELSEWHERE, SEEN)
    explained = near @ np.linalg.solve(gram(SEEN), near.T)

    expected = np.diag(covariance(ELSEWHERE, ELSEWHERE) - explained)

    np.testing.assert_allclose(predicted(fitted(), ELSEWHERE).variance, expected, atol=2e-5)


def test_its_caution_is_the_error_that_leaving_out_one_after_another_makes():
    standard = (VALUES - VALUES.mean()) / VALUES.std()
    misses = []
    for i in range(len(SEEN)):
        others = np.arange(len(SEEN)) != i
        near = covariance(SEEN[i : i + 1], SEEN[others])[0]
        inverse = np.linalg.inv(gram(SEEN[others]))
        variance = covariance(SEEN[i : i + 1], SEEN[i : i + 1])[0, 0] + WEIGHTS.noise
        missed = standard[i] - near @ inverse @ standard[others]
        misses.append(missed**2 / (variance - near @ inverse @ near))

    assert fitted().caution == pytest.approx(np.sqrt(np.mean(misses)), rel=1e-5)


def test_pending_trials_change_no_mean_and_make_it_surer():
    alone = predicted(fitted(), ELSEWHERE)

    waiting = predicted(fitted(pending=PENDING), ELSEWHERE, pending=PENDING)

    np.testing.assert_allclose(waiting.mean, alone.mean, atol=1e-4)
    assert (waiting.variance < alone.variance).all()


def test_expecting_candidates_one_after_another_is_as_if_they_were_pending():
    prediction = predicted(fitted(), ROWS)

    for position in (60, 61, 62):
        prediction.expect(position, parts(ROWS[[position]], ROWS))

    expected = predicted(fitted(pending=PENDING), ROWS, pending=PENDING).variance
    np.testing.assert_allclose(prediction.variance, expected, atol=2e-5)


def test_equal_values_are_predicted_everywhere():
    prediction = predicted(fitted(values=np.full(40, 0.3)), ELSEWHERE)

    np.testing.assert_allclose(prediction.mean, 0.3, rtol=1e-6)
    assert (prediction.normal.sd > 0).all()
