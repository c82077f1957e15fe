"""Laws that every reward keeps, and the ones that set each apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.absolute import AbsoluteReward
from rewards.constrained import ConstrainedReward
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward

T_MS = 17.0
REWARDS = {
    "proposed": ProposedReward(T_MS),
    "mnasnet": MnasReward(T_MS),
    "mnasnet_hard": MnasReward(T_MS, exponent_within=0.0, exponent_beyond=-1.0),
    "absolute": AbsoluteReward(T_MS),
    "constrained": ConstrainedReward(T_MS),
}
every_reward = pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
accuracies = st.floats(0, 1)
latencies = st.floats(0.01, 1000)


@every_reward
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (4, 1, 5)])
def test_an_array_of_any_shape_gives_the_reward_of_each_element(reward, shape):
    generator = np.random.default_rng(0)
    accuracy, latency_ms = generator.uniform(0.1, 1, shape), generator.uniform(1, 60, shape)

    rewards = reward(accuracy, latency_ms)

    assert np.shape(rewards) == shape
    for position in np.ndindex(shape):
        single = reward(float(accuracy[position]), float(latency_ms[position]))
        assert type(single) is float
        assert np.asarray(rewards)[position] == single


@every_reward
@given(accuracies, accuracies, latencies)
def test_more_accuracy_is_never_worse(reward, accuracy, other, latency_ms):
    low, high = sorted((accuracy, other))

    assert reward(low, latency_ms) <= reward(high, latency_ms)


@pytest.mark.parametrize("name", ["proposed", "mnasnet", "mnasnet_hard", "constrained"])
@given(accuracies, latencies, latencies)
def test_slower_is_never_better(name, accuracy, latency_ms, other):
    fast, slow = sorted((latency_ms, other))

    assert REWARDS[name](accuracy, slow) <= REWARDS[name](accuracy, fast)


@given(accuracies, st.floats(0.01, T_MS), st.floats(0.01, T_MS))
def test_up_to_the_target_slower_is_never_worse_for_the_absolute_reward(accuracy, latency, other):
    fast, slow = sorted((latency, other))

    assert REWARDS["absolute"](accuracy, fast) <= REWARDS["absolute"](accuracy, slow)


@given(st.floats(1.001, 200))
def test_the_proposed_reward_is_continuous_where_its_logarithm_reaches_zero(target_ms):
    reward, joint = ProposedReward(target_ms), 1.5 * target_ms - 1
    slope_ms = 0.1 / np.log(target_ms)  # at the joint, by eq. 4

    before, at, after = (reward(0.5, joint + step) for step in (-1e-6, 0.0, 1e-6))

    assert at == pytest.approx(0.45, abs=1e-12 * slope_ms + 1e-12)
    assert after == pytest.approx(at, abs=1e-12 * slope_ms + 1e-12)
    assert before - at == pytest.approx(slope_ms * 1e-6, rel=0.01)


@given(st.floats(0.01, 1), st.floats(0, 1e6))
def test_far_beyond_the_target_the_proposed_reward_is_the_weighted_accuracy(accuracy, excess_ms):
    assert ProposedReward(T_MS)(accuracy, 1.5 * T_MS - 1 + excess_ms) == 0.9 * accuracy


@pytest.mark.parametrize("target_ms", [1.0, 0.5, 0.0])
def test_the_proposed_reward_refuses_a_target_of_one_millisecond_and_names_the_way_out(target_ms):
    with pytest.raises(ValueError, match=r"T > 1ms.*reward=constrained"):
        ProposedReward(target_ms)


@pytest.mark.parametrize("weight", [-0.1, 1.1])
def test_the_proposed_reward_refuses_a_weight_that_is_no_share(weight):
    with pytest.raises(ValueError, match="between 0 and 1"):
        ProposedReward(T_MS, latency_weight=weight)


@given(accuracies, st.floats(0.01, T_MS), accuracies, st.floats(T_MS * 1.000001, 1e6))
def test_constrained_puts_every_feasible_network_above_every_infeasible_one(
    feasible, within_ms, infeasible, beyond_ms
):
    reward = REWARDS["constrained"]

    assert reward(feasible, within_ms) == feasible
    assert -1 <= reward(infeasible, beyond_ms) < 0


@given(
    st.lists(st.tuples(accuracies, latencies), min_size=1).filter(
        lambda networks: any(ms <= T_MS for _, ms in networks)
    )
)
def test_the_maximum_of_constrained_is_the_constrained_optimum(networks):
    accuracy, latency_ms = np.array(networks).T

    best = np.argmax(REWARDS["constrained"](accuracy, latency_ms))

    assert latency_ms[best] <= T_MS
    assert accuracy[best] == accuracy[latency_ms <= T_MS].max()


@pytest.mark.parametrize(("target_ms", "is_told"), [(1.5, True), (2.0, False), (17.0, False)])
def test_the_proposed_reward_says_where_it_cannot_tell_within_from_beyond(target_ms, is_told):
    reward = ProposedReward(target_ms)

    assert bool(reward.caveat) is is_told
    assert (reward(0.7, 0.99 * target_ms) == reward(0.7, 1.01 * target_ms)) is is_told


def test_at_the_target_every_reward_but_the_proposed_is_the_accuracy():
    for name in ("mnasnet", "mnasnet_hard", "absolute", "constrained"):
        assert REWARDS[name](0.6, T_MS) == pytest.approx(0.6)


ratios = st.floats(0.01, 10)


@every_reward
@given(accuracies, latencies)
def test_without_further_limits_a_reward_is_its_paper_s_to_the_bit(reward, accuracy, latency_ms):
    alone = reward(np.array([accuracy]), np.array([latency_ms]))

    assert reward(np.array([accuracy]), np.array([latency_ms]), np.empty((1, 0))) == alone


@pytest.mark.parametrize("name", ["proposed", "absolute", "constrained"])
@given(accuracies, ratios, ratios, ratios)
def test_with_further_limits_the_worst_ratio_counts(name, accuracy, latency, energy, size):
    reward, worst = REWARDS[name], max(latency, energy, size)

    found = reward(np.array([accuracy]), np.array([latency * T_MS]), np.array([[energy, size]]))

    assert found[0] == pytest.approx(reward(accuracy, worst * T_MS), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["mnasnet", "mnasnet_hard"])
@given(accuracies, ratios, ratios, ratios)
def test_mnasnet_s_product_has_a_factor_for_each_limit(name, accuracy, latency, energy, size):
    reward = REWARDS[name]

    found = reward(np.array([accuracy]), np.array([latency * T_MS]), np.array([[energy, size]]))

    factors = [reward(1.0, ratio * T_MS) for ratio in (latency, energy, size)]
    assert found[0] == pytest.approx(accuracy * np.prod(factors), rel=1e-9, abs=1e-12)


@given(st.lists(st.tuples(accuracies, latencies, ratios, ratios), min_size=1))
def test_constrained_is_the_accuracy_within_all_limits_and_below_zero_beyond_any(networks):
    accuracy, latency_ms, *further = np.array(networks).T
    further = np.stack(further, axis=-1)

    rewards = REWARDS["constrained"](accuracy, latency_ms, further)

    within = (latency_ms <= T_MS) & (further <= 1).all(-1)
    np.testing.assert_array_equal(rewards[within], accuracy[within])
    assert (rewards[~within] < 0).all()


@pytest.mark.parametrize("name", ["proposed", "mnasnet", "mnasnet_hard", "constrained"])
@given(accuracies, latencies, ratios, ratios)
def test_dearer_is_never_better(name, accuracy, latency_ms, one, other):
    cheap, dear = sorted((one, other))
    arrays = np.full(2, accuracy), np.full(2, latency_ms), np.array([[cheap], [dear]])

    rewards = REWARDS[name](*arrays)

    assert rewards[1] <= rewards[0]
