"""The laws of local search: first improvement, restarts, nothing evaluated twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_spaces import Box, learn

from controller.local_search import LocalSearchConfig

SPACE = Box(*(5,) * 6)
SMALL = (4, 3, 5, 2, 3)
WEIGHTS = np.array([1.0, 2, 4, 8, 16, 32])


def distance(a, b):
    return int((np.asarray(a) != np.asarray(b)).sum())


def unimodal(architectures):
    """Each choice helps by itself, so that the only local optimum is the global one."""
    return (architectures * WEIGHTS).sum(-1)


def rugged(architectures):
    """Pseudo-random, and so full of local optima."""
    return np.sin(
        1e4 * np.sin(architectures @ np.sqrt(np.arange(2.0, 2 + architectures.shape[-1])))
    )


def advance(controller, samples, rewards_of, batch_size=1):
    sampled = []
    for _ in range(samples // batch_size):
        sampled.append(controller.sample(batch_size))
        learn(controller, sampled[-1], rewards_of(sampled[-1]))
    return np.concatenate(sampled, axis=1)


@pytest.mark.parametrize("batch_size", [1, 7, 50])
def test_no_architecture_is_proposed_twice(batch_size):
    controller = LocalSearchConfig().build(SPACE, range(3))

    sampled = advance(controller, 1400, rugged, batch_size)

    for row in sampled:
        assert len(np.unique(row, axis=0)) == len(row)


@given(
    num_choices=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    batch_size=st.integers(1, 20),
    seed=st.integers(0, 99),
)
def test_the_whole_space_is_covered_once_and_then_the_best_of_it_repeats(
    num_choices, batch_size, seed
):
    size = int(np.prod(num_choices))
    rewards = np.random.default_rng(seed).permutation(size).reshape(num_choices) / size
    controller = LocalSearchConfig().build(Box(*num_choices), [seed])

    steps = -(-size // batch_size) * batch_size
    sampled = advance(
        controller, steps, lambda rows: rewards[tuple(np.moveaxis(rows, -1, 0))], batch_size
    )[0]
    after = controller.sample(3)[0]

    best = np.argwhere(rewards == rewards.max())[0]
    assert len(np.unique(sampled[:size], axis=0)) == size
    np.testing.assert_array_equal(after, [best] * 3)
    np.testing.assert_array_equal(controller.mode()[0], best)


def reachable(here, evaluated):
    """Where it may get from here without a query: by neighbours known to be better."""
    reached, frontier = set(), [here]
    while frontier:
        now = frontier.pop()
        reached.add(now)
        better = (a for a, r in evaluated.items() if distance(a, now) == 1 and r > evaluated[now])
        frontier += [other for other in better if other not in reached]
    return reached


def is_local_optimum(here, evaluated):
    """Return True if all its neighbours are known, and none is better."""
    around = [reward for other, reward in evaluated.items() if distance(other, here) == 1]
    return len(around) == sum(SMALL) - len(SMALL) and max(around) <= evaluated[here]


def standing(controller):
    return tuple(np.frombuffer(controller._climbs[0].here, np.int64).tolist())


def test_it_proposes_neighbours_of_where_it_stands_and_restarts_only_at_a_local_optimum():
    controller = LocalSearchConfig().build(Box(*SMALL), [0])
    evaluated, here, restarts = {}, None, 0

    for _ in range(200):
        row = controller.sample(1)
        proposed, before = tuple(row[0, 0].tolist()), here
        here = standing(controller)
        if before is None or controller.diagnostics()["restarts"][0] > restarts:
            assert before is None or any(
                is_local_optimum(place, evaluated) for place in reachable(before, evaluated)
            )
            assert here == proposed
            restarts = controller.diagnostics()["restarts"][0]
        else:
            assert here in reachable(before, evaluated)
            assert distance(here, proposed) == 1
        evaluated[proposed] = float(rugged(row)[0, 0])
        learn(controller, row, rugged(row))
        here = standing(controller)
        assert here == (proposed if evaluated[proposed] >= evaluated[here] else here)

    assert restarts > 3


def test_the_optimum_of_a_unimodal_problem_is_found_in_few_queries():
    controller = LocalSearchConfig().build(SPACE, range(50))

    sampled = advance(controller, 200, unimodal)

    is_found = (sampled == 4).all(-1)
    assert is_found.any(-1).all()
    assert np.median(is_found.argmax(-1)) < 80  # of 15,625


def test_its_neighbours_come_in_an_order_that_the_seed_decides():
    controller = LocalSearchConfig().build(SPACE, range(40))
    start = controller.sample(1)
    learn(controller, start, np.zeros((40, 1)))

    second = controller.sample(1)

    edges = (start != second)[:, 0].argmax(-1)
    assert set(edges) == set(range(6))


def test_the_mode_is_the_best_seen():
    controller = LocalSearchConfig().build(SPACE, range(3))

    sampled = advance(controller, 300, rugged)

    np.testing.assert_array_equal(rugged(controller.mode()), rugged(sampled).max(-1))
