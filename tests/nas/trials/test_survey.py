from __future__ import annotations

import numpy as np
import pytest

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.limits import Limit, Limits
from nas.trials.preflight import describe_limit, describe_reward, require_complete
from nas.trials.survey import Landscape
from rewards.constrained import ConstrainedReward
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward
from runtime.shell.errors import UserError

SIZE = NAS_BENCH_201.size


@pytest.fixture
def landscape():
    """Synthetic numbers: accuracy and latency uncorrelated, a tenth of the cells unmeasured."""
    generator = np.random.default_rng(0)
    latency_ms = generator.uniform(2, 40, SIZE)
    latency_ms[generator.random(SIZE) < 0.1] = np.nan
    return Landscape(generator.uniform(0.1, 0.7, SIZE), latency_ms, 17.0)


def of(accuracies, latencies, limit_ms=17.0):
    """A landscape in which all but the given cells are slow and bad."""
    accuracy, latency_ms = np.full(SIZE, 0.01), np.full(SIZE, 100.0)
    accuracy[: len(accuracies)] = accuracies
    latency_ms[: len(latencies)] = latencies
    return Landscape(accuracy, latency_ms, limit_ms)


def test_the_optimum_is_the_most_accurate_within_the_limit(landscape):
    within = np.flatnonzero(landscape.latency_ms <= 17.0)

    assert landscape.optimum in within
    assert landscape.accuracy[landscape.optimum] == landscape.accuracy[within].max()


def test_of_two_equally_accurate_the_faster_is_the_optimum():
    assert of([0.7, 0.7, 0.6], [16.0, 9.0, 1.0]).optimum == 1


def test_the_constrained_rewards_favourite_is_the_optimum(landscape):
    assert landscape.favourite(ConstrainedReward(17.0)) == landscape.optimum


def test_an_unmeasured_cell_is_neither_feasible_nor_a_favourite(landscape):
    unmeasured = np.isnan(landscape.latency_ms)
    landscape.accuracy[unmeasured] = 1.0

    assert not landscape.feasible[unmeasured].any()
    assert not unmeasured[landscape.favourite(MnasReward(17.0))]
    assert not unmeasured[landscape.optimum]


def test_no_network_beats_one_of_the_pareto_front_in_both(landscape):
    front = landscape.pareto_front

    for index in front:
        no_slower = landscape.latency_ms <= landscape.latency_ms[index]
        better = landscape.accuracy > landscape.accuracy[index]
        assert not (no_slower & better).any()
    assert (np.diff(landscape.latency_ms[front]) > 0).all()
    assert (np.diff(landscape.accuracy[front]) > 0).all()


def test_every_network_off_the_pareto_front_is_matched_by_one_on_it(landscape):
    front = landscape.pareto_front
    known = np.flatnonzero(~np.isnan(landscape.latency_ms))
    place = np.searchsorted(landscape.latency_ms[front], landscape.latency_ms[known], "right") - 1

    assert (landscape.accuracy[front][place] >= landscape.accuracy[known]).all()


def test_rank_counts_the_feasible_networks_that_are_more_accurate():
    landscape = of([0.9, 0.8, 0.7, 0.6], [99.0, 10.0, 10.0, 10.0])

    assert landscape.rank(0.8) == 1
    assert landscape.rank(0.6) == 3


def test_a_limit_that_nothing_meets_is_refused_with_the_fastest_latency():
    with pytest.raises(UserError, match=r"T=1ms cannot be met on board.*takes 2 ms.*raise T"):
        describe_limit(of([0.5], [2.0], limit_ms=1.0), "board")


def test_the_share_of_the_space_within_the_limit_is_told():
    assert describe_limit(of([0.5] * 1563, [2.0] * 1563), "board").startswith("10.0% of the space")


def test_a_reward_whose_maximum_breaks_the_limit_is_warned_of():
    line = describe_reward(of([0.60, 0.70], [16.0, 20.0]), MnasReward(17.0))

    assert line.startswith("warning: ")
    assert "breaks T by 18%" in line


def test_a_reward_that_leaves_much_of_the_limit_unused_is_warned_of():
    line = describe_reward(of([0.60, 0.6001], [2.0, 16.0]), ProposedReward(17.0))

    assert line.startswith("warning: ")
    assert "leaves 88% of T unused" in line


def test_a_reward_whose_maximum_is_near_the_limit_is_not():
    line = describe_reward(of([0.60, 0.70], [2.0, 16.0]), ConstrainedReward(17.0))

    assert line == (
        "the reward's maximum is 70.00% at 16.00 ms, 94% of T, 0.00 points below the best within T"
    )


def test_a_table_with_holes_is_refused_with_a_cell_and_the_way_out(landscape):
    with pytest.raises(UserError, match=r"were not measured on board, such as \|.*latency=auto"):
        require_complete(landscape, "board")


def with_energy(landscape, costs, bound):
    """The same landscape under a second limit, of synthetic energies."""
    energy = np.full(SIZE, 1000.0)
    energy[: len(costs)] = costs
    limit = Limit("E", "energy_mj", "mJ", bound, "synthetic", energy)
    return Landscape(landscape.accuracy, landscape.latency_ms, landscape.limit_ms, Limits((limit,)))


def test_the_optimum_and_the_front_are_within_every_limit():
    landscape = with_energy(of([0.7, 0.6, 0.5], [9.0, 16.0, 1.0]), [6.0, 5.0, 4.0], 5.0)

    assert landscape.feasible.sum() == 2
    assert landscape.optimum == landscape.favourite(ConstrainedReward(17.0)) == 1
    assert landscape.pareto_front.tolist() == [2, 1]
    assert landscape.rank(0.5) == 2


def test_the_shares_of_each_limit_and_of_all_are_told():
    landscape = with_energy(of([0.7, 0.6, 0.5], [9.0, 16.0, 1.0]), [6.0, 5.0, 4.0], 5.0)

    line = describe_limit(landscape, "board")

    assert line.startswith("0.0% of the space is within T and E (fastest 1.00")
    assert "E least 4 mJ, median 1000 mJ" in line
    assert "alone, T 0.0%, E 0.0%" in line


def test_a_second_limit_that_nothing_meets_is_refused_with_the_least_there_is():
    with pytest.raises(UserError, match=r"E = 3 mJ cannot be met: the least is 4 mJ.*raise E"):
        describe_limit(with_energy(of([0.7], [9.0]), [4.0], 3.0), "board")


def test_limits_that_nothing_meets_together_are_refused_with_what_each_allows():
    landscape = with_energy(of([0.7, 0.6], [9.0, 99.0]), [6.0, 4.0], 5.0)

    with pytest.raises(UserError, match=r"T and E cannot be met together on board: alone, T 0\.0%"):
        describe_limit(landscape, "board")


def test_a_reward_whose_maximum_breaks_the_second_limit_is_warned_of():
    landscape = with_energy(of([0.60, 0.70], [16.0, 16.0]), [5.0, 6.0], 5.0)

    line = describe_reward(landscape, MnasReward(17.0))

    assert line.startswith("warning: the reward's maximum is 70.00% at 16.00 ms, 6 mJ")
    assert "breaks E by 20%" in line
