"""The guided policy gradient: it learns what rewards are made of, and keeps within its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_spaces import Box, Evaluated, learn

from controller.model_based.guided import GuidedConfig, standard_ranks

NUM_CHOICES = (4, 4, 4, 4)
SPACE = Box(*NUM_CHOICES)
CONFIG = GuidedConfig(
    batch_size=1,
    lr=0.01,
    hidden_size=12,
    entropy_weight=0.03,
    teach_every=4,
    pool=32,
    anywhere=32,
    polish=2,
    imitate=2,
    random=10,
    patience=50.0,
    window=50,
    margin=0.05,
    reach=1.5,
    noise=0.05,
)


def accuracy_of(architectures):
    """Synthetic: the larger the choices, the better, and a bonus for one pair."""
    return architectures.mean(-1) / 4 + 0.1 * (architectures[..., 0] == architectures[..., 3])


def ratios_of(architectures):
    """Synthetic: what is better is dearer; the best within the limit costs 0.92 of it."""
    return (0.42 + architectures.sum(-1) / 10)[..., None]


def score(accuracy, ratios):
    worst = ratios.max(-1)
    return np.where(worst <= 1, accuracy, 1 / worst - 1)


def advance(controller, samples, *, batch_size=1):
    found = []
    for _ in range(samples // batch_size):
        found.append(controller.sample(batch_size))
        outcome = accuracy_of(found[-1]), ratios_of(found[-1])
        controller.learn(Evaluated(found[-1], *outcome, score(*outcome)), score)
    return np.concatenate(found, axis=1)


@pytest.fixture(scope="module")
def search():
    controller = CONFIG.build(SPACE, range(3))
    return controller, advance(controller, 500)


EVERYTHING = np.array(list(np.ndindex(*NUM_CHOICES)))
OPTIMUM = score(accuracy_of(EVERYTHING), ratios_of(EVERYTHING)).max()


def test_it_finds_the_exact_constrained_optimum(search):
    _, sampled = search

    rewards = score(accuracy_of(sampled[:, :150]), ratios_of(sampled[:, :150]))

    np.testing.assert_allclose(rewards.max(1), OPTIMUM)


def test_its_policy_comes_to_prefer_what_is_best(search):
    controller, _ = search
    mode = controller.mode()

    assert score(accuracy_of(mode), ratios_of(mode)).mean() > 0.97 * OPTIMUM


def test_it_asks_ever_less_for_what_is_new(search):
    controller, sampled = search

    late = [len(np.unique(row[-200:], axis=0)) for row in sampled]

    assert np.mean(late) < 60
    assert (
        controller.diagnostics()["queries"] == [len(np.unique(s, axis=0)) for s in sampled]
    ).all()


def test_the_mean_cost_of_its_samples_is_within_the_limit(search):
    _, sampled = search

    costs = ratios_of(sampled)[:, 30:, 0]
    windows = [np.convolve(row, np.ones(50) / 50, "valid") for row in costs]

    assert np.max(windows) <= 1


def test_an_interrupted_search_that_knows_outcomes_goes_on_as_it_would_have():
    whole = CONFIG.build(SPACE, [3, 4])
    advance(whole, 61)
    state = whole.state()
    expected = advance(whole, 40)
    other = CONFIG.build(SPACE, [8, 9])

    other.restore(state)

    np.testing.assert_array_equal(advance(other, 40), expected)


def test_a_space_that_is_known_to_the_last_architecture_leaves_the_policy_to_sample():
    controller = replace(CONFIG, patience=1e9).build(Box(2, 2, 2, 2), [0])

    sampled = advance(controller, 80)

    assert len(np.unique(sampled[0], axis=0)) == 16


def test_without_costs_it_maximises_the_accuracy():
    controller = CONFIG.build(SPACE, range(4))

    best = np.zeros(4)
    for _ in range(100):
        architectures = controller.sample(1)
        learn(controller, architectures, accuracy_of(architectures))
        best = np.maximum(best, accuracy_of(architectures)[:, 0])

    np.testing.assert_allclose(best, accuracy_of(EVERYTHING).max())


def test_ranks_are_standard_and_ties_share_them():
    ranks = standard_ranks(np.array([5.0, 1.0, 1.0, 700.0, 5.0]))

    assert ranks.mean() == pytest.approx(0, abs=1e-6)
    assert ranks[1] == ranks[2]
    assert ranks[0] == ranks[4]
    assert ranks[1] < ranks[0] < ranks[3]


def test_where_all_is_alike_nothing_is_ranked():
    np.testing.assert_array_equal(standard_ranks(np.ones(7)), np.zeros(7))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("lr", 0.0),
        ("hidden_size", 0),
        ("entropy_weight", -0.1),
        ("teach_every", 0),
        ("pool", 0),
        ("anywhere", -1),
        ("polish", -1),
        ("imitate", 33),
        ("random", 1),
        ("patience", 0.0),
        ("window", 0),
        ("margin", 1.0),
        ("reach", float("inf")),
        ("noise", 0.0),
    ],
)
def test_a_setting_out_of_range_is_refused_by_its_name(setting, value):
    with pytest.raises(ValueError, match=f"controller.{setting}"):
        replace(CONFIG, **{setting: value}).build(SPACE, [0])
