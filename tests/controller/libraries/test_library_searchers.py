"""NSGA-II and TPE learn from the objectives and the limits, not from a reward."""

from __future__ import annotations

import numpy as np
from toy_spaces import Box, Evaluated

from controller.libraries.settings import Nsga2Config, TpeConfig

SPACE = Box(5, 5, 5, 5, 5, 5)
TPE = TpeConfig()


def score(_accuracy, _ratios):
    raise AssertionError("they learn from objectives, not from a reward")


def nsga2(population_size=20):
    config = Nsga2Config()
    config.population_size = population_size
    return config


def measured(architectures):
    """Synthetic: the larger the choices, the more accurate, and the dearer in two ways."""
    accuracy = architectures.mean(-1) / 4
    return accuracy, np.stack([accuracy * 2, 0.5 + architectures[..., 0] / 8], axis=-1)


def advance(controller, steps, batch_size=5):
    sampled = []
    for _ in range(steps):
        architectures = controller.sample(batch_size)
        accuracy, ratios = measured(architectures)
        rewards = np.zeros(accuracy.shape)  # unused
        controller.learn(Evaluated(architectures, accuracy, ratios, rewards), score)
        sampled.append(architectures)
    return np.concatenate(sampled, axis=1)


def feasible_share(architectures):
    return (measured(architectures)[1] <= 1).all(-1).mean()


def test_nsga2_finds_both_ends_of_the_front_and_what_lies_between():
    controller = nsga2().build(SPACE, [0, 1])

    advance(controller, 100)

    for search in controller._searches:
        accuracy = np.unique(measured(search._algorithm.pop.get("X").astype(np.int64))[0])
        assert accuracy[0] < 0.1
        assert accuracy[-1] > 0.9
        assert np.diff(accuracy).max() < 0.2


def test_tpe_climbs_to_the_limits_and_stays_within_them():
    sampled = advance(TPE.build(SPACE, [0, 1]), 40)

    first, last = sampled[:, :50], sampled[:, -50:]
    assert feasible_share(last) > 0.4
    accuracy, ratios = measured(last)
    best = np.where((ratios <= 1).all(-1), accuracy, 0).max(-1)
    assert (best == 0.5).all()  # the limit
    assert measured(first)[0].std() > accuracy.std()


def test_a_batch_may_be_larger_than_a_generation():
    controller = nsga2(population_size=4).build(SPACE, [0])

    assert advance(controller, 3, batch_size=30).shape == (1, 90, 6)


def test_a_space_that_is_exhausted_is_sampled_at_random():
    controller = nsga2(population_size=6).build(Box(2, 1, 2), [0])

    assert advance(controller, 15).shape == (1, 75, 3)
