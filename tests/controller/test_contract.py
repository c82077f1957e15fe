"""The laws that every controller obeys, tested on each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_spaces import Box, Diagonal, Stages, learn

from controller.evolution import EvolutionConfig
from controller.exhaustive import ExhaustiveConfig
from controller.libraries.settings import Nsga2Config, TpeConfig
from controller.local_search import LocalSearchConfig
from controller.model_based.guided import GuidedConfig
from controller.policy.reinforce import ReinforceConfig
from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig

NUM_CHOICES = (5, 3, 5, 4, 2, 5)
SPACE = Box(*NUM_CHOICES)


class QuickGuided(GuidedConfig):
    random, polish, anywhere, memory = 10, 2, 32, 60


CONFIGS = {
    "rnn": RnnConfig(batch_size=4, lr=0.02, entropy_weight=0.01),
    "reinforce": ReinforceConfig(batch_size=4, lr=0.02, horizon=300),
    "guided": QuickGuided(),
    "uniform": UniformConfig(),
    "evolution": EvolutionConfig(population_size=20),
    "local_search": LocalSearchConfig(),
    "exhaustive": ExhaustiveConfig(),
    "nsga2": Nsga2Config(),
    "tpe": TpeConfig(),
}
every_controller = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def rewards_of(architectures):
    """Synthetic: prefers large choices."""
    return architectures.mean(-1) / 5


def advance(controller, steps, batch_size=4):
    sampled = []
    for _ in range(steps):
        architectures = controller.sample(batch_size)
        learn(controller, architectures, rewards_of(architectures))
        sampled.append(architectures.copy())
    return np.concatenate(sampled, axis=1)


@every_controller
@pytest.mark.parametrize(("replicas", "batch_size"), [(3, 1), (2, 5)])
def test_samples_have_the_promised_shape_and_stay_in_the_space(config, replicas, batch_size):
    controller = config.build(SPACE, range(replicas))

    sampled = advance(controller, 12, batch_size)

    assert sampled.dtype == np.int64
    assert sampled.shape == (replicas, 12 * batch_size, len(NUM_CHOICES))
    assert (sampled >= 0).all()
    assert (sampled < NUM_CHOICES).all()


@every_controller
def test_a_new_controller_reaches_every_option(config):
    controller = config.build(SPACE, [0])

    sampled = controller.sample(500)[0]

    for position, options in enumerate(NUM_CHOICES):
        assert set(sampled[:, position]) == set(range(options))


@every_controller
def test_the_same_seed_gives_the_same_search_whatever_the_number_of_replicas(config):
    together = advance(config.build(SPACE, [7, 8]), 10)

    for row, seed in enumerate([7, 8]):
        alone = advance(config.build(SPACE, [seed]), 10)
        np.testing.assert_array_equal(together[row], alone[0])


@every_controller
def test_a_replica_s_search_depends_on_its_own_rewards_alone(config):
    ours, others = (config.build(SPACE, [7, 8]) for _ in range(2))

    for _ in range(10):
        pair = ours.sample(4), others.sample(4)
        np.testing.assert_array_equal(pair[0][0], pair[1][0])
        learn(ours, pair[0], rewards_of(pair[0]))
        learn(others, pair[1], rewards_of(pair[1]) * [[1] * 4, [np.nan, -1, np.nan, -1]])


@every_controller
def test_it_neither_seeds_globally_nor_prints(config, capfd):
    before = repr(np.random.get_state())  # noqa: NPY002 - the global one is meant

    advance(config.build(SPACE, [0]), 10)

    assert repr(np.random.get_state()) == before  # noqa: NPY002
    assert capfd.readouterr() == ("", "")


@every_controller
def test_two_seeds_give_two_searches(config):
    sampled = advance(config.build(SPACE, [0, 1]), 5)

    assert (sampled[0] != sampled[1]).any()


@every_controller
def test_a_mode_and_diagnostics_are_for_each_replica(config):
    controller = config.build(SPACE, [0, 1, 2])
    advance(controller, 10)

    mode = controller.mode()

    if mode is not None:
        assert mode.shape == (3, len(NUM_CHOICES))
        assert ((mode >= 0) & (mode < NUM_CHOICES)).all()
    for values in controller.diagnostics().values():
        assert values.shape == (3,)
        assert np.isfinite(values).all()


def one_by_one(controller, rounds, workers, order, failing=lambda rewards: rewards):
    """Propose for several workers at once; learn from single trials in the order they finish."""
    sampled = []
    for _ in range(rounds):
        running = [controller.sample(1) for _ in range(workers)]
        for worker in order.permutation(workers):
            learn(controller, running[worker], failing(rewards_of(running[worker])))
        sampled += running
    return np.concatenate(sampled, axis=1)


@every_controller
def test_trials_may_be_learned_from_one_by_one_in_any_order(config):
    controller = config.build(SPACE, [0, 1])

    sampled = one_by_one(controller, 10, 4, np.random.default_rng(0))

    assert SPACE.valid(sampled).all()


@every_controller
def test_the_same_trials_in_the_same_order_give_the_same_samples(config):
    """So a search goes on by its journal alone."""
    searches = (config.build(SPACE, [3, 4]) for _ in range(2))

    first, again = (one_by_one(each, 10, 3, np.random.default_rng(0)) for each in searches)

    np.testing.assert_array_equal(first, again)


def a_third_fails(rewards):
    """Synthetic: what has a reward in the upper third fails."""
    return np.where(rewards > 0.5, np.nan, rewards)


@every_controller
def test_failed_trials_leave_no_nan_behind(config):
    controller = config.build(SPACE, [0, 1])

    sampled = one_by_one(controller, 40, 2, np.random.default_rng(0), a_third_fails)

    assert np.isnan(a_third_fails(rewards_of(sampled))).any()
    for values in controller.diagnostics().values():
        assert np.isfinite(values).all()


@every_controller
def test_a_search_whose_first_trials_all_fail_goes_on(config):
    controller = config.build(SPACE, [0, 1])

    one_by_one(controller, 12, 2, np.random.default_rng(0), lambda r: np.full_like(r, np.nan))
    sampled = advance(controller, 5)

    assert SPACE.valid(sampled).all()
    assert all(np.isfinite(v).all() for v in controller.diagnostics().values())


@pytest.mark.parametrize("name", ["local_search", "evolution"])
def test_a_failed_trial_is_never_the_best(name):
    controller = CONFIGS[name].build(SPACE, range(4))

    for _ in range(40):
        one_by_one(controller, 1, 2, np.random.default_rng(0), a_third_fails)
        mode = controller.mode()
        assert mode is None or not np.isnan(a_third_fails(rewards_of(mode))).any()

    assert controller.mode() is not None


@pytest.mark.parametrize("name", ["local_search", "guided"])
def test_a_failed_architecture_is_not_queried_again(name):
    controller = CONFIGS[name].build(SPACE, [0])
    failed, again = set(), 0

    for _ in range(80):
        architectures = controller.sample(1)
        row = tuple(architectures[0, 0].tolist())
        again += row in failed
        rewards = a_third_fails(rewards_of(architectures))
        failed |= {row} if np.isnan(rewards).any() else set()
        learn(controller, architectures, rewards)

    assert len(failed) > 3
    assert again == 0


@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - {"exhaustive"}))
@pytest.mark.parametrize(
    ("space", "batch_size"), [(Stages(), 1), (Diagonal(), 4)], ids=["stages", "diagonal"]
)
def test_a_space_that_cannot_be_listed_is_searched_among_its_valid_architectures(
    name, batch_size, space
):
    controller = CONFIGS[name].build(space, [0, 1])

    sampled = []
    for _ in range(16 // batch_size):
        architectures = controller.sample(batch_size)
        learn(controller, architectures, rewards_of(architectures))
        sampled.append(architectures)

    rows = np.concatenate(sampled, axis=1)
    assert space.valid(rows).all()
    np.testing.assert_array_equal(space.normal(rows), rows)
    mode = controller.mode()
    assert mode is None or space.valid(mode).all()


def test_the_rnn_learns_the_best_architecture_and_its_mode_is_it():
    controller = CONFIGS["rnn"].build(SPACE, range(5))

    sampled = advance(controller, 300)

    best = np.array(NUM_CHOICES) - 1
    assert rewards_of(sampled[:, -100:]).mean() > rewards_of(sampled[:, :100]).mean() + 0.15
    assert (rewards_of(controller.mode()) > rewards_of(best) - 0.1).all()


def test_the_policy_of_reinforce_arrives_at_the_best_architecture_by_the_end_of_its_horizon():
    controller = replace(CONFIGS["reinforce"], horizon=1200).build(SPACE, range(4))

    advance(controller, 120, batch_size=10)

    best = np.array(NUM_CHOICES) - 1
    assert (rewards_of(controller.mode()) > rewards_of(best) - 0.04).all()
    assert (controller.diagnostics()["entropy"] < 1).all()


def test_the_rnn_learns_the_same_from_given_architectures_as_from_its_own():
    sampler, pupil = (CONFIGS["rnn"].build(SPACE, [0]) for _ in range(2))
    for _ in range(20):
        architectures = sampler.sample(4)
        learn(sampler, architectures, rewards_of(architectures))
        learn(pupil, architectures.copy(), rewards_of(architectures))

    np.testing.assert_array_equal(sampler._policy._parameters, pupil._policy._parameters)


def test_an_entropy_bonus_keeps_the_policy_wider():
    entropies = []
    for weight in (0.0, 0.3):
        controller = replace(CONFIGS["rnn"], entropy_weight=weight).build(SPACE, range(4))
        advance(controller, 100)
        entropies.append(controller.diagnostics()["entropy"].mean())

    assert entropies[1] > entropies[0] + 1


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("rnn", {"lr": 0.0, "entropy_weight": -0.1}),
        ("reinforce", {"lr": 0.0, "horizon": 0}),
        ("evolution", {"population_size": 0}),
    ],
)
def test_a_setting_out_of_range_is_refused_by_its_name(name, settings):
    for field, value in settings.items():
        with pytest.raises(ValueError, match=f"controller.{field}"):
            replace(CONFIGS[name], **{field: value}).build(SPACE, [0])
