"""The plan of fine-tunings on a simulated clock: nothing is trained."""

from dataclasses import replace

import numpy as np
import pytest

from nas.accuracy.slow import Fidelity
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.fine_tunings import FineTunings, better_rate
from nas.fit.ranking.forecast import COSTS
from nas.fit.ranking.stages import Result, StageJob
from nas.fit.starts.fine_tuning.trial import FrozenPass

FIDELITIES = (
    Fidelity("frozen", 0),
    *(Fidelity(f"{n} x {rate}", n, rate) for rate in (1.0, 2.5) for n in (3, 6, 12)),
)


def plan_of(pass_s, published, *, full_s=583.0, images=(1275, 225)):
    """A plan for networks of these durations and published accuracies, each tuned to three depths."""
    n, depths = len(pass_s), len(COSTS)
    flops = np.repeat(np.array(pass_s, float), depths)
    rows = np.stack([np.repeat(np.arange(n), depths), np.tile(np.arange(depths), n)], axis=1)
    candidates = Candidates(
        rows,
        latency_ms=flops,
        latency_kind=np.zeros(len(rows), np.int8),
        flops=flops,
        prior=np.repeat(np.array(published, float), depths),
        drawn=n,
        distinct=n,
        within=n,
        draw_s=0.0,
        score_s=0.0,
    )
    until_s = {"frozen": 0.15 * full_s, "short": 0.45 * full_s, "full": full_s}
    return FineTunings(candidates, rows[:, 1], rows[:, 0], FIDELITIES, until_s, images, 30)


def replaced(plan, **times):
    """The plan with other durations."""
    return replace(plan, times=replace(plan.times, **times))


def replayed(plan, frozen, tuned, *, rates=(1.0, 1.0), slower=1.0):
    """Results of all trainings that the plan asks for, one after another, and when they ended."""
    results, elapsed_s = {}, 0.0
    while (job := plan.next(results, (), elapsed_s)) is not None:
        assert job not in results
        network, depth = plan.candidates.architectures[job.candidate].tolist()
        fidelity, pass_s = FIDELITIES[job.fidelity], plan.candidates.flops[job.candidate]
        seconds, accuracy = pass_s, frozen[network]
        if fidelity.epochs:
            seconds = slower * COSTS[depth] * pass_s * fidelity.epochs
            rate = rates[int(fidelity.rate != 1)]
            gained = fidelity.epochs / (fidelity.epochs + 6) * depth / 2 * rate
            accuracy += gained * (tuned[network] - frozen[network])
        elapsed_s += seconds
        results[job] = Result(accuracy, seconds)
    return results, elapsed_s


def tuned_networks(plan, results):
    return {int(plan.network[job.candidate]) for job in results if job.fidelity}


def test_cheap_networks_are_tuned_where_the_first_by_published_accuracy_is_too_slow():
    plan = plan_of([3, 8, 26], [0.51, 0.63, 0.71])

    results, elapsed_s = replayed(plan, [0.77, 0.791, 0.794], [0.83, 0.88, 0.87])

    assert {0, 1} <= tuned_networks(plan, results)
    assert elapsed_s <= plan.until_s["short"]
    assert plan.network[plan.order(results)[0]] == 1


def test_networks_within_a_smaller_limit_are_ranked_for_it_and_one_is_tuned():
    plan = plan_of([3, 4, 8, 9, 10, 11], [0.5, 0.52, 0.7, 0.71, 0.72, 0.73])
    frozen, tuned = [0.5, 0.55, 0.8, 0.81, 0.82, 0.83], [0.6, 0.65, 0.86, 0.87, 0.88, 0.89]
    within = plan.candidates.latency_ms <= 4
    assert not {0, 1} & tuned_networks(plan, replayed(plan, frozen, tuned)[0])

    results, elapsed_s = replayed(replace(plan, smaller=(within,)), frozen, tuned)

    assert 1 in tuned_networks(plan, results)
    assert {0, 1} <= {int(plan.network[job.candidate]) for job in results}
    assert plan.network[plan.baseline_within(within)] == 1
    assert elapsed_s <= plan.ends_s(results)


def test_what_cannot_be_tuned_long_enough_is_worth_less_than_what_can():
    plan = plan_of([3, 30], [0.7, 0.7], full_s=400)
    results = {StageJob(0, 0): Result(0.79, 3.0), StageJob(3, 0): Result(0.8, 30.0)}

    assert plan.network[plan.order(results)[0]] == 0
    assert plan.network[plan.order(results, 40_000.0)[0]] == 1


@pytest.mark.parametrize(("left_s", "is_as_ranked"), [(30.0, True), (400.0, False)])
def test_what_was_ranked_is_worth_more_than_a_training_without_time(left_s, is_as_ranked):
    """45,000 images: 30 s trained the first network by its frozen features to 87.24 %."""
    plan = plan_of([1.2, 14.3], [0.58, 0.67], full_s=255.0, images=(50_000, 5_000))
    results = {
        StageJob(0, 0): Result(0.7047, 1.2),
        StageJob(3, 0): Result(0.6721, 14.3),
        StageJob(5, 1): Result(0.8970, 86.0),
    }

    forecast, first = plan.forecast(results), int(plan.order(results, left_s)[0])
    claims = forecast.accuracy(np.minimum(left_s / forecast.epoch_s, plan.epochs))

    assert plan.reached(results, claims, first) == (StageJob(5, 1) if is_as_ranked else None)
    assert plan.judging_s(results, 15_000) == pytest.approx(14.3 * 0.3)


def test_where_time_is_plenty_the_baseline_is_tuned_for_as_long_as_the_best():
    plan = plan_of([1, 1.5, 2, 3], [0.7, 0.7, 0.7, 0.75], full_s=4000, images=(4000, 4000))

    results, _ = replayed(plan, [0.8, 0.79, 0.81, 0.75], [0.86, 0.89, 0.85, 0.8])

    lengths = {plan.network[job.candidate]: FIDELITIES[job.fidelity].epochs for job in results}
    assert lengths[plan.network[plan.baseline]] == 12
    assert plan.network[plan.order(results)[0]] == 1


@pytest.mark.parametrize(("rates", "better"), [((1.0, 1.3), 2.5), ((1.0, 0.5), 1.0)])
def test_the_better_of_two_learning_rates_is_kept(rates, better):
    plan = plan_of([1, 1.5], [0.7, 0.7], full_s=4000)

    results, _ = replayed(plan, [0.8, 0.79], [0.88, 0.85], rates=rates)

    assert {FIDELITIES[job.fidelity].rate for job in results if job.fidelity} == {1.0, 2.5}
    assert better_rate(plan.fidelities, results) == better


def test_tuning_that_does_not_help_leaves_the_classifier_alone():
    plan = plan_of([1, 1.2], [0.7, 0.7], full_s=4000)

    results, _ = replayed(plan, [0.9, 0.9], [0.8, 0.8])

    assert plan.depth[plan.order(results)[0]] == 0


@pytest.mark.parametrize(("images", "best"), [((300, 30), 0), ((50_000, 5_000), 1)])
def test_published_accuracies_count_the_more_the_more_images_are_tuned_on(images, best):
    plan = plan_of([3, 3], [0.6, 0.7], images=images)
    results = {StageJob(0, 0): Result(0.84, 3.0), StageJob(3, 0): Result(0.76, 3.0)}

    assert plan.network[plan.order(results, 3.0 * COSTS[-1] * 12)[0]] == best


def test_trainings_that_take_longer_than_expected_are_planned_again():
    plan = plan_of([3, 4, 5, 6], [0.7] * 4)

    _, as_expected_s = replayed(plan, [0.8] * 4, [0.9] * 4)
    results, elapsed_s = replayed(plan, [0.8] * 4, [0.9] * 4, slower=2.5)

    assert as_expected_s <= plan.until_s["full"] - plan.epochs * 3 * COSTS[-1]
    assert elapsed_s <= 1.35 * plan.until_s["short"]
    assert len(tuned_networks(plan, results)) >= 2


def test_a_network_that_failed_neither_wins_nor_ends_the_search():
    plan = plan_of([1, 2], [0.7, 0.7])
    results = {StageJob(0, 0): Result(np.nan, 1.0)}

    assert plan.next(results, (), 1.0) == StageJob(3, 0)
    results[StageJob(3, 0)] = Result(0.8, 2.0)
    assert {*plan.network[plan.order(results)].tolist()} == {1}


def test_networks_far_below_the_best_are_not_tuned():
    plan = plan_of([1, 1, 1], [0.7, 0.7, 0.7])

    results, _ = replayed(plan, [0.9, 0.9, 0.4], [0.95, 0.94, 0.5])

    assert 2 not in tuned_networks(plan, results) - {int(plan.network[plan.baseline])}


def test_time_that_the_winner_does_not_need_goes_to_the_ranking():
    few, many = (replace(plan_of([2.0] * 6, [0.7] * 6), epochs=epochs) for epochs in (3, 30))
    frozen, tuned = [0.75] * 6, [0.85] * 6

    assert replayed(few, frozen, tuned)[1] > replayed(many, frozen, tuned)[1]


def test_an_epoch_that_was_timed_corrects_what_a_slow_pass_lets_expect():
    """The first pass on a GPU finds its kernels, which takes longer than an epoch."""
    plan = plan_of([20.0] * 4, [0.7] * 4, full_s=200.0)
    timed = replaced(plan, timed=(2, 0.5))
    results = {StageJob(0, 0): Result(0.75, 20.0)}

    assert plan.forecast(results).epoch_s[2] == pytest.approx(20.0 * COSTS[2])
    assert timed.forecast(results).epoch_s[2] == pytest.approx(0.5)


def test_trainings_side_by_side_say_nothing_of_the_winners_epochs():
    alone = replaced(plan_of([2.0] * 4, [0.7] * 4), timed=(2, 4.0))
    results = {StageJob(0, 0): Result(0.75, 2.0), StageJob(2, 1): Result(0.8, 120.0)}

    beside = replaced(alone, parallel=8).forecast(results)

    assert alone.forecast(results).epoch_s[2] == pytest.approx(40.0)
    assert beside.epoch_s[2] == pytest.approx(4.0)
    assert beside.seconds(StageJob(2, 1)) == pytest.approx(120.0)


def test_the_baseline_is_judged_on_fewer_images_where_a_pass_takes_too_long():
    plan = plan_of([3, 4, 500], [0.5, 0.5, 0.8])
    results = {StageJob(0, 0): Result(0.75, 3.0), StageJob(3, 0): Result(0.75, 4.0)}
    on_fewer = replaced(plan, frozen_s=8.0)

    assert plan.next(results, (), 7.0).fidelity > 0
    assert on_fewer.next({StageJob(0, 0): results[StageJob(0, 0)]}, (), 3.0) == StageJob(3, 0)
    assert on_fewer.next(results, (), 7.0) == StageJob(6, 0)


def test_a_download_is_no_time_of_a_pass_and_fewer_images_tell_less():
    results = {StageJob(0, 0): Result(0.75, 300.0), StageJob(3, 0): Result(0.8, 8.0)}
    passes = {0: FrozenPass(3.0, 1500), 3: FrozenPass(50.0, 240)}
    plan = plan_of([3, 8], [0.7, 0.7])

    waited, known = (
        each.forecast(results) for each in (plan, replaced(plan, frozen_pass=passes.get))
    )

    assert known.pass_s[[0, 3]].tolist() == [3.0, 50.0]
    assert waited.pass_s[0] == 300.0
    assert np.ptp(known.frozen) < np.ptp(waited.frozen)


@pytest.mark.parametrize(
    ("parallel", "slower"), [(1, 1.0), (2, 1.0), (4, 2.0), (8, 4.0), (32, 4.0)]
)
def test_trainings_side_by_side_are_expected_to_double_the_images_a_second(parallel, slower):
    plan = replaced(plan_of([2.0] * 4, [0.7] * 4), timed=(2, 4.0), parallel=parallel)
    forecast = plan.forecast({StageJob(0, 0): Result(0.8, 2.0)})

    assert forecast.epoch_s[2] == pytest.approx(4.0)
    assert forecast.seconds(StageJob(2, 1)) == pytest.approx(3 * slower * 4.0)
