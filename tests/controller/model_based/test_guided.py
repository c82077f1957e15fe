"""Bayesian optimisation: it learns what rewards are made of, and asks for what is better."""

from __future__ import annotations

import numpy as np
import pytest
from toy_spaces import Box, Evaluated, Stages, learn

from controller.model_based.guided import GuidedConfig

NUM_CHOICES = (4, 4, 4, 4)
SPACE = Box(*NUM_CHOICES)


class Quick(GuidedConfig):
    random, polish, anywhere, memory = 8, 2, 64, 100


CONFIG = Quick()


def accuracy_of(architectures):
    """Synthetic: the larger the choices, the better, and a bonus for one pair."""
    return architectures.mean(-1) / 4 + 0.1 * (architectures[..., 0] == architectures[..., 3])


def ratios_of(architectures):
    """Synthetic: what is better is dearer; the best within the limit costs 0.92 of it."""
    return (0.42 + architectures.sum(-1) / 10)[..., None]


def score(accuracy, ratios):
    worst = ratios.max(-1)
    return np.where(worst <= 1, accuracy, 1 / worst - 1)


def advance(controller, samples, *, batch_size=1, ratios_of=ratios_of, score=score):
    batches = []
    for _ in range(samples // batch_size):
        batches.append(controller.sample(batch_size))
        outcome = accuracy_of(batches[-1]), ratios_of(batches[-1])
        controller.learn(Evaluated(batches[-1], *outcome, score(*outcome)), score)
    return np.concatenate(batches, axis=1)


EVERYTHING = np.array(list(np.ndindex(*NUM_CHOICES)))
OPTIMUM = score(accuracy_of(EVERYTHING), ratios_of(EVERYTHING)).max()


@pytest.mark.parametrize("batch_size", [1, 4])
def test_it_finds_the_exact_constrained_optimum(batch_size):
    sampled = advance(CONFIG.build(SPACE, range(3)), 60, batch_size=batch_size)

    rewards = score(accuracy_of(sampled), ratios_of(sampled))

    np.testing.assert_allclose(rewards.max(1), OPTIMUM)


def test_of_several_limits_the_tightest_counts():
    def two(architectures):
        first = ratios_of(architectures)
        return np.concatenate([first / 2, 0.5 + architectures[..., :1] / 3], axis=-1)

    best = score(accuracy_of(EVERYTHING), two(EVERYTHING)).max()

    sampled = advance(CONFIG.build(SPACE, range(3)), 60, ratios_of=two)

    np.testing.assert_allclose(score(accuracy_of(sampled), two(sampled)).max(1), best)


def test_a_reward_that_trades_accuracy_for_cost_is_maximised_too():
    def soft(accuracy, ratios):
        return accuracy * ratios[..., 0] ** -0.07

    best = soft(accuracy_of(EVERYTHING), ratios_of(EVERYTHING)).max()

    sampled = advance(CONFIG.build(SPACE, range(3)), 40, score=soft)

    np.testing.assert_allclose(soft(accuracy_of(sampled), ratios_of(sampled)).max(1), best)


def test_nothing_is_asked_twice_until_everything_has_been():
    space = Box(2, 2, 2, 2)
    controller = CONFIG.build(space, [0])

    sampled = advance(controller, 20)[0]

    assert len(np.unique(sampled[:16], axis=0)) == 16


def test_what_is_pending_is_not_asked_again():
    controller = CONFIG.build(SPACE, [0])
    advance(controller, 20)

    pending = np.concatenate([controller.sample(1)[0] for _ in range(12)])

    assert len(np.unique(pending, axis=0)) == 12


def test_beyond_its_memory_it_still_improves():
    config = Quick()
    config.memory = 12

    sampled = advance(config.build(SPACE, range(3)), 90)

    rewards = score(accuracy_of(sampled), ratios_of(sampled))
    np.testing.assert_allclose(rewards.max(1), OPTIMUM)


def test_answers_that_differ_from_one_time_to_the_next_do_not_keep_it_from_the_best():
    noise = np.random.default_rng(0)
    controller = CONFIG.build(SPACE, range(3))
    best_seen = np.zeros(3)
    for _ in range(40):
        architectures = controller.sample(1)
        accuracy = accuracy_of(architectures)
        best_seen = np.maximum(best_seen, accuracy[:, 0])
        learn(controller, architectures, accuracy + 0.05 * noise.standard_normal(accuracy.shape))

    np.testing.assert_allclose(best_seen, accuracy_of(EVERYTHING).max())


def test_without_costs_it_maximises_the_accuracy():
    controller = CONFIG.build(SPACE, range(4))

    best = np.zeros(4)
    for _ in range(50):
        architectures = controller.sample(1)
        learn(controller, architectures, accuracy_of(architectures))
        best = np.maximum(best, accuracy_of(architectures)[:, 0])

    np.testing.assert_allclose(best, accuracy_of(EVERYTHING).max())


def test_a_space_too_large_to_list_is_climbed():
    space = Stages()
    controller = CONFIG.build(space, [0, 1])
    best = np.zeros(2)
    for _ in range(70):
        architectures = controller.sample(1)
        worth = architectures.mean(-1)
        learn(controller, architectures, worth)
        best = np.maximum(best, worth[:, 0])

    drawn = space.sample(np.random.default_rng(0), 20_000).mean(-1)
    assert (best > drawn.max()).all()


def test_a_limit_that_no_uniform_draw_meets_is_met_soon():
    space = Box(*[4] * 20)
    limit = 0.9 * space.sample(np.random.default_rng(0), 20_000).mean(-1).min()
    controller = CONFIG.build(space, [0, 1])

    sampled = advance(
        controller, 30, ratios_of=lambda rows: np.maximum(rows.mean(-1), 0.1)[..., None] / limit
    )

    assert (sampled.mean(-1) <= limit).any(1).all()


class Taught(Box):
    """A space whose other tasks say that the larger the choices, the better."""

    def expected(self, architectures):
        return architectures.mean(-1)


@pytest.mark.parametrize(("limit", "is_used"), [(0.5, False), (5.0, True)])
def test_other_tasks_are_used_unless_limits_bind(limit, is_used):
    def against(architectures):
        return ratios_of(architectures) / limit

    alone, taught = (
        advance(CONFIG.build(space, [0]), 20, ratios_of=against)
        for space in (SPACE, Taught(*NUM_CHOICES))
    )

    assert np.array_equal(alone, taught) != is_used
