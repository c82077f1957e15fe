from __future__ import annotations

import numpy as np
import pytest
from synthetic import Oracle, problem

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.limits import NO_FURTHER_LIMITS, Limit, Limits
from nas.trials.survey import (
    Survey,
    describe_limit,
    describe_reward,
    estimated_share,
    require_complete,
)
from rewards.constrained import ConstrainedReward
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward

SIZE = NAS_BENCH_201.size


def made(accuracy, latency_ms, limit_ms=17.0, limits=NO_FURTHER_LIMITS):
    kind = np.full(SIZE, Kind.measured, np.int8)
    costs = limits.costs(NAS_BENCH_201.rows)
    return Survey(SPACE, accuracy, kind, latency_ms, kind, costs, limit_ms, limits)


@pytest.fixture
def survey():
    """Synthetic numbers: accuracy and latency uncorrelated, a tenth of the cells unmeasured."""
    generator = np.random.default_rng(0)
    latency_ms = generator.uniform(2, 40, SIZE)
    latency_ms[generator.random(SIZE) < 0.1] = np.nan
    return made(generator.uniform(0.1, 0.7, SIZE), latency_ms)


def of(accuracies, latencies, limit_ms=17.0):
    """A survey in which all but the given cells are slow and bad."""
    accuracy, latency_ms = np.full(SIZE, 0.01), np.full(SIZE, 100.0)
    accuracy[: len(accuracies)] = accuracies
    latency_ms[: len(latencies)] = latencies
    return made(accuracy, latency_ms, limit_ms)


def test_the_optimum_is_the_most_accurate_within_the_limit(survey):
    within = np.flatnonzero(survey.latency_ms <= 17.0)

    assert survey.optimum in within
    assert survey.accuracy[survey.optimum] == survey.accuracy[within].max()


def test_of_two_equally_accurate_the_faster_is_the_optimum():
    assert of([0.7, 0.7, 0.6], [16.0, 9.0, 1.0]).optimum == 1


def test_the_constrained_rewards_favourite_is_the_optimum(survey):
    assert survey.favourite(ConstrainedReward(17.0)) == survey.optimum


def test_an_unmeasured_architecture_is_neither_feasible_nor_a_favourite(survey):
    unmeasured = np.isnan(survey.latency_ms)
    survey.accuracy[unmeasured] = 1.0

    assert not survey.feasible[unmeasured].any()
    assert not unmeasured[survey.favourite(MnasReward(17.0))]
    assert not unmeasured[survey.optimum]


def test_no_network_beats_one_of_the_pareto_front_in_both(survey):
    front = survey.pareto_front

    for index in front:
        no_slower = survey.latency_ms <= survey.latency_ms[index]
        better = survey.accuracy > survey.accuracy[index]
        assert not (no_slower & better).any()
    assert (np.diff(survey.latency_ms[front]) > 0).all()
    assert (np.diff(survey.accuracy[front]) > 0).all()


def test_every_network_off_the_pareto_front_is_matched_by_one_on_it(survey):
    front = survey.pareto_front
    known = np.flatnonzero(~np.isnan(survey.latency_ms))
    place = np.searchsorted(survey.latency_ms[front], survey.latency_ms[known], "right") - 1

    assert (survey.accuracy[front][place] >= survey.accuracy[known]).all()


def test_rank_counts_the_feasible_networks_that_are_more_accurate():
    survey = of([0.9, 0.8, 0.7, 0.6], [99.0, 10.0, 10.0, 10.0])

    assert survey.rank(0.8) == 1
    assert survey.rank(0.6) == 3


def test_the_feasible_share_is_estimated_from_uniform_samples_only():
    about = problem()
    share = estimated_share(SPACE, about.oracle, 20.0, NO_FURTHER_LIMITS)
    exact = (about.oracle.answer(NAS_BENCH_201.rows).ms <= 20.0).mean()

    assert share.low < exact < share.high


def test_a_table_with_holes_of_a_space_that_is_not_listed_is_refused_before_the_first_trial():
    partly = Oracle(unmeasured_from_ms=30.0)
    with pytest.raises(UserError, match=r"10,000.*latency=auto"):
        estimated_share(SPACE, partly, 20.0, NO_FURTHER_LIMITS)


def test_a_table_with_holes_is_refused_with_an_architecture_and_the_way_out(survey):
    with pytest.raises(UserError, match=r"board, such as \|.*latency=auto"):
        require_complete(survey, "board")


def with_energy(survey, costs, bound):
    """The same survey under a second limit, of synthetic energies."""
    energy = np.full(SIZE, 1000.0)
    energy[: len(costs)] = costs
    limit = Limit(
        "E", "energy_mj", "mJ", bound, "synthetic", lambda rows: energy[NAS_BENCH_201.numbers(rows)]
    )
    return made(survey.accuracy, survey.latency_ms, survey.limit_ms, Limits((limit,)))


def test_the_optimum_and_the_front_are_within_every_limit():
    survey = with_energy(of([0.7, 0.6, 0.5], [9.0, 16.0, 1.0]), [6.0, 5.0, 4.0], 5.0)

    assert survey.feasible.sum() == 2
    assert survey.optimum == survey.favourite(ConstrainedReward(17.0)) == 1
    assert survey.pareto_front.tolist() == [2, 1]
    assert survey.rank(0.5) == 2


@pytest.mark.parametrize(
    ("refused", "hints"),
    [
        (of([0.5], [2.0], limit_ms=1.0), ("T=1ms", "2 ms", "raise T")),
        (with_energy(of([0.7], [9.0]), [4.0], 3.0), ("E = 3 mJ", "4 mJ", "raise E")),
        (with_energy(of([0.7, 0.6], [9.0, 99.0]), [6.0, 4.0], 5.0), ("T and E", "T <0.1%")),
    ],
)
def test_limits_that_nothing_meets_are_refused_with_the_least_there_is(refused, hints):
    with pytest.raises(UserError) as raised:
        describe_limit(refused, "board")

    assert all(hint in str(raised.value) for hint in hints)


def test_the_shares_of_each_limit_and_of_all_are_reported():
    survey = with_energy(of([0.7, 0.6, 0.5], [9.0, 16.0, 1.0]), [6.0, 5.0, 4.0], 5.0)

    assert describe_limit(of([0.5] * 1563, [2.0] * 1563), "board").startswith("10.0%")
    line = describe_limit(survey, "board")
    for part in ("T and E", "fastest 1.00", "E least 4 mJ, median 1000 mJ", "T <0.1%, E <0.1%"):
        assert part in line


@pytest.mark.parametrize(
    ("survey", "reward", "warns", "hint"),
    [
        (of([0.60, 0.70], [16.0, 20.0]), MnasReward, True, "T by 18%"),
        (of([0.60, 0.6001], [2.0, 16.0]), ProposedReward, True, "88% of T"),
        (of([0.60, 0.70], [2.0, 16.0]), ConstrainedReward, False, "94% of T"),
        (
            with_energy(of([0.60, 0.70], [16.0, 16.0]), [5.0, 6.0], 5.0),
            *(MnasReward, True, "E by 20%"),
        ),
    ],
)
def test_a_reward_whose_maximum_breaks_a_limit_or_leaves_much_unused_is_warned_of(
    survey, reward, warns, hint
):
    line = describe_reward(survey, reward(17.0))

    assert line.startswith("warning: ") == warns
    assert hint in line
