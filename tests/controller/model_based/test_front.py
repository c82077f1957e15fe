"""Expected growth of the front, and a search that finds the front."""

from __future__ import annotations

import numpy as np
from toy_spaces import Box, Evaluated

from controller.model_based.front import Front
from controller.model_based.gaussian_process import Normal
from controller.model_based.guided import GuidedConfig

ACCURACY = np.array([0.3, 0.5, 0.4, 0.7])
COSTS = np.array([[1.0], [2.0], [3.0], [4.0]])


class Quick(GuidedConfig):
    random, polish, anywhere, memory = 8, 2, 64, 100
    front = True


CONFIG = Quick()
SPACE = Box(4, 4, 4)


def area(accuracy, costs):
    """Dominated area by a fine grid of costs, from accuracy 0.3 up to half the range beyond the slowest."""
    grid = np.linspace(0.01, 5.5, 1_000)
    best = np.where(costs <= grid[:, None], accuracy, 0.3).max(1)
    return (best - 0.3).mean() * 5.5


def test_only_the_best_at_no_more_cost_are_on_it_and_none_beyond_a_further_limit():
    front, which = Front.from_values(ACCURACY, np.log(COSTS))
    np.testing.assert_array_equal(which, [True, True, False, True])
    np.testing.assert_allclose(np.exp(front.log_costs), [1, 2, 4])

    further = np.array([[0.5], [2.0], [0.5], [0.5]])
    _, which = Front.from_values(ACCURACY, np.log(np.concatenate([COSTS, further], axis=1)))
    np.testing.assert_array_equal(which, [True, False, True, True])


def test_the_expected_growth_is_that_of_many_draws():
    front, _ = Front.from_values(ACCURACY, np.log(COSTS))
    draws = np.random.default_rng(0).standard_normal((2, 500))
    accuracy, cost = 0.6 + 0.1 * draws[0], np.exp(0.8 + 0.3 * draws[1])
    evaluated = area(ACCURACY, COSTS[:, 0])
    grown = [
        area(np.append(ACCURACY, a), np.append(COSTS, c)) - evaluated
        for a, c in zip(accuracy, cost, strict=True)
    ]

    (growth,) = front.growth(
        Normal(np.array([0.6]), np.array([0.1])), [Normal(np.array([0.8]), np.array([0.3]))]
    )

    assert abs(growth - np.mean(grown)) < 3 * np.std(grown) / np.sqrt(len(grown))


def test_a_search_for_the_front_finds_nearly_all_of_it():
    def outcomes(architectures):
        accuracy = architectures.sum(-1) / 9 - 0.1 * (architectures[..., 0] == 1)
        return accuracy, 0.2 + architectures @ np.array([1.0, 0.5, 0.25])

    rows = SPACE.architectures(np.arange(SPACE.size))
    accuracy, costs = outcomes(rows)
    _, which = Front.from_values(accuracy, np.log(costs[:, None]))
    controller = CONFIG.build(SPACE, [0])
    asked = []
    for _ in range(40):
        architectures = controller.sample(1)
        accuracy, costs = outcomes(architectures)
        controller.learn(
            Evaluated(architectures, accuracy, costs[..., None], accuracy), lambda a, _: a
        )
        asked.append(tuple(architectures[0, 0].tolist()))

    front = {tuple(row.tolist()) for row in rows[which]}
    assert len(front) == 11
    assert len(front & set(asked)) >= 10  # 7 of them are in 40 uniform draws of the 64
