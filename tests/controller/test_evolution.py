"""The laws of regularised evolution (Real et al., AAAI 2019, algorithm 1)."""

from __future__ import annotations

import numpy as np
import pytest
from toy_spaces import Box, learn

from controller.evolution import EvolutionConfig

SPACE = Box(5, 1, 5, 4, 2, 5)
POPULATION = 12


class Greedy(EvolutionConfig):
    sample_size = POPULATION


def evolution(seeds=(0, 1), kind=EvolutionConfig):
    return kind(population_size=POPULATION).build(SPACE, seeds)


def rewards_of(architectures):
    return architectures.mean(-1) / 5


def advance(controller, steps, batch_size=1):
    sampled = []
    for _ in range(steps):
        sampled.append(controller.sample(batch_size))
        learn(controller, sampled[-1], rewards_of(sampled[-1]))
    return np.concatenate(sampled, axis=1)


def in_order(population):
    """Rows of each replica, sorted; the population has no order of its own."""
    return [sorted(map(tuple, rows.tolist())) for rows in population]


@pytest.mark.parametrize(("steps", "batch_size"), [(12, 1), (61, 1), (10, 5), (3, 30)])
def test_the_population_is_the_last_that_were_evaluated(steps, batch_size):
    controller = evolution()

    sampled = advance(controller, steps, batch_size)

    population = controller._population
    assert in_order(population) == in_order(sampled[:, -POPULATION:])


def test_the_oldest_dies_even_when_it_is_the_best():
    controller = evolution([0])
    best = np.array([[[4, 0, 4, 3, 1, 4]]])
    learn(controller, best, np.array([[1.0]]))
    assert (controller.mode() == best[:, 0]).all()

    for _ in range(POPULATION):
        learn(controller, np.zeros_like(best), np.array([[0.5]]))

    assert (controller.mode() == 0).all()


def test_a_child_differs_from_one_of_the_population_at_exactly_one_position():
    controller = evolution()
    advance(controller, POPULATION)

    for _ in range(100):
        population = controller._population
        children = controller.sample(3)
        distance = (children[:, :, None] != population[:, None]).sum(-1)
        assert (distance == 1).any(-1).all()
        learn(controller, children, rewards_of(children))


def test_every_other_option_of_every_position_is_as_likely():
    config = EvolutionConfig(population_size=1)
    controller = config.build(Box(3, 1, 4), [0])
    learn(controller, np.array([[[2, 0, 1]]]), np.array([[1.0]]))

    children = controller.sample(30_000)[0]

    mutants, counts = np.unique(children, axis=0, return_counts=True)
    share = dict(zip(map(tuple, mutants.tolist()), counts / len(children), strict=True))
    by_position = {(0, 0, 1): 1 / 4, (1, 0, 1): 1 / 4}
    by_position |= {(2, 0, other): 1 / 6 for other in (0, 2, 3)}
    assert share == pytest.approx(by_position, abs=0.01)


def test_the_parent_is_the_best_of_the_sample():
    controller = evolution([0], Greedy)
    sampled = advance(controller, POPULATION)
    rewards = rewards_of(sampled)[0]

    children = controller.sample(5000)[0]

    near = (children[:, None] != sampled).sum(-1) == 1  # possible parents of each child
    best = np.where(near, rewards, -1).max(-1)
    order = np.sort(rewards)[::-1]
    # with replacement, the best of 12 is among 12 drawn with probability 1 - (11/12)^12 = 0.648
    assert (best >= order[0]).mean() >= 0.62
    assert (best >= order[3]).mean() >= 0.98


def test_random_architectures_come_first_until_the_population_is_full():
    controller, other = evolution([0]), evolution([0])

    for reward in np.linspace(0, 1, POPULATION):
        mine, theirs = controller.sample(1), other.sample(1)
        np.testing.assert_array_equal(mine, theirs)  # whatever the rewards
        learn(controller, mine, np.array([[reward]]))
        learn(other, theirs, np.array([[1 - reward]]))
