"""A new device from a few cells, on synthetic devices whose law is known."""

from dataclasses import replace

import numpy as np
import pytest

from latency.models.process import Z_90, Known, uncertainty_of, unlike
from latency.models.regression import judge

CELLS = 400


@pytest.fixture(scope="module")
def counts():
    return np.random.default_rng(0).integers(0, 7, (CELLS, 3)).astype(float)


@pytest.fixture(scope="module")
def known(counts):
    """Twelve synthetic devices, each with its own price of three operations."""
    prices = np.random.default_rng(1).uniform(0.5, 2.0, (12, 3))
    return Known(
        boards=tuple(f"board {i // 2}" for i in range(12)),
        runtimes=tuple(f"runtime {i % 4}" for i in range(12)),
        log_ms=np.log(3 + prices @ counts.T),
        linear=0.1 * (counts - counts.mean(axis=0)),
        counts=counts,
        canonical=np.arange(CELLS),
        wanted=np.arange(CELLS) % 2 == 0,
    )


@pytest.fixture(scope="module")
def new_ms(counts):
    return 40 * (3 + counts @ [0.6, 1.9, 1.0])


def test_probes_are_wanted_distinct_and_the_same_every_time(known):
    probes = known.choose(10)

    assert len(set(probes.tolist())) == 10
    assert known.wanted[probes].all()
    assert np.array_equal(probes, known.choose(10))


def test_fewer_probes_are_the_first_of_more(known):
    assert np.array_equal(known.choose(5), known.choose(10)[:5])


def test_more_probes_than_there_are_architectures_are_refused(known):
    with pytest.raises(ValueError, match=r"201 .* of 200"):
        known.choose(201)


def test_a_new_device_is_predicted_from_ten_probes(known, new_ms):
    probes = known.choose(10)

    transfer = known.transfer(probes, new_ms[probes])

    quality = judge(transfer.latency_ms, new_ms)
    assert quality.spearman > 0.98
    assert quality.within_10_percent > 0.95


def test_designed_probes_predict_better_than_probes_drawn_at_random(known, new_ms):
    def error(probes):
        return judge(known.transfer(probes, new_ms[probes]).latency_ms, new_ms).median_error

    drawn = [np.random.default_rng(i).choice(CELLS, 5, replace=False) for i in range(20)]

    assert error(known.choose(5)) < np.mean([error(probes) for probes in drawn])


def test_an_interval_holds_its_prediction_and_narrows_with_more_probes(known, new_ms):
    few, many = (known.choose(n) for n in (4, 40))

    of_few, of_many = (known.transfer(probes, new_ms[probes]) for probes in (few, many))

    assert (of_few.low_ms < of_few.latency_ms).all()
    assert (of_few.latency_ms < of_few.high_ms).all()
    assert np.median(of_many.high_ms / of_many.low_ms) < np.median(of_few.high_ms / of_few.low_ms)


def test_intervals_of_noisy_times_hold_at_least_about_ninety_percent(known, new_ms):
    noisy_ms = new_ms * np.exp(np.random.default_rng(2).normal(0, 0.08, CELLS))
    probes = known.choose(40)

    transfer = known.transfer(probes, noisy_ms[probes])

    others = np.setdiff1d(np.arange(CELLS), probes)
    inside = ((noisy_ms >= transfer.low_ms) & (noisy_ms <= transfer.high_ms))[others].mean()
    assert 0.85 < inside < 0.99


def test_the_unit_of_time_does_not_matter(known, new_ms):
    probes = known.choose(6)

    in_ms = known.transfer(probes, new_ms[probes])
    in_us = known.transfer(probes, 1000 * new_ms[probes])

    assert in_us.latency_ms == pytest.approx(1000 * in_ms.latency_ms)
    assert in_us.high_ms == pytest.approx(1000 * in_ms.high_ms)


def test_a_probe_is_held_out_of_its_own_prediction(known, new_ms):
    probes = known.choose(10)
    wrong_ms = new_ms[probes].copy()
    wrong_ms[3] *= 5

    right, wrong = (known.held_out(probes, times) for times in (new_ms[probes], wrong_ms))

    assert wrong.predicted_ms[3] == pytest.approx(right.predicted_ms[3])
    assert not wrong.inside[3]
    assert wrong.rms > right.rms


def test_a_device_that_its_own_networks_contradict_has_wider_intervals(known, new_ms):
    probes = known.choose(10)
    noisy_ms = new_ms[probes] * np.exp([0.0, 0, 0, 0, 0, 0, 0, 0, 0, 1.0])

    held = known.held_out(probes, noisy_ms)
    predicted = known.transfer(probes, noisy_ms)

    assert held.half_width == pytest.approx(held.deviations.max())
    assert held.half_width > 2 * Z_90
    assert uncertainty_of(predicted.latency_ms, predicted.high_ms).sd > 0
    assert known.held_out(probes, new_ms[probes]).half_width < held.half_width


def test_many_probes_are_held_out_in_twenty_folds(known, new_ms):
    probes = np.arange(CELLS)[::4]

    held = known.held_out(probes, new_ms[probes])

    assert judge(held.predicted_ms, held.latency_ms).within_10_percent > 0.95


@pytest.mark.parametrize("once_per_network", [False, True])
def test_a_device_that_leaves_out_unneeded_operations_is_told_from_one_that_does_not(
    known, new_ms, once_per_network
):
    copies = replace(known, canonical=np.arange(CELLS) // 5 * 5, wanted=np.ones(CELLS, bool))
    times = new_ms[copies.canonical] if once_per_network else new_ms
    probes = copies.choose(10)

    transfer = copies.transfer(probes, times[probes])

    assert (copies.canonical[probes] != probes).tolist() == [False, False, True, False, False] * 2

    assert judge(transfer.latency_ms, times).spearman > 0.98


def test_some_devices_make_the_prior_that_they_would_make_alone(known):
    cells, some = np.arange(50), np.array([1, 4, 5, 9])
    alone = Known(
        tuple(known.boards[i] for i in some),
        tuple(known.runtimes[i] for i in some),
        known.log_ms[some],
        known.linear,
        known.counts,
        known.canonical,
        known.wanted,
    )

    of_all, of_some = known.prior(cells, some), alone.prior(cells)

    assert of_all.mean == pytest.approx(of_some.mean)
    assert of_all.covariance(of_all) == pytest.approx(of_some.covariance(of_some))
    assert of_all.variance == pytest.approx(np.diag(of_all.covariance(of_all)))


def test_one_known_device_is_enough_to_begin_with(known, new_ms):
    probes = known.choose(10)
    of_one = Known(
        known.boards[:1],
        known.runtimes[:1],
        known.log_ms[:1],
        known.linear,
        known.counts,
        known.canonical,
        known.wanted,
    )

    assert judge(of_one.transfer(probes, new_ms[probes]).latency_ms, new_ms).spearman > 0.9


def test_a_device_without_order_is_called_unlike_and_a_similar_one_is_not(known, new_ms):
    probes = known.choose(10)
    of_known = known.held_out_of_known(probes)
    without_order = np.exp(np.random.default_rng(3).normal(0, 1, CELLS))

    assert len(of_known) == 12
    assert unlike(known.held_out(probes, without_order[probes]).rms, of_known)
    assert not unlike(known.held_out(probes, new_ms[probes]).rms, of_known)


def test_the_uncertainty_is_as_wide_as_the_intervals(known, new_ms):
    probes = known.choose(10)
    transfer = known.transfer(probes, new_ms[probes])
    wider = uncertainty_of(transfer.latency_ms, transfer.high_ms**2 / transfer.latency_ms)

    assert 0 < transfer.uncertainty.margin(0.83) < transfer.uncertainty.margin(0.95)
    assert wider.margin(0.95) == pytest.approx(2 * transfer.uncertainty.margin(0.95))
    within = new_ms <= transfer.latency_ms * np.exp(transfer.uncertainty.margin(0.95))
    assert within.mean() > 0.8


def test_a_known_device_is_held_out_with_its_whole_board_and_runtime(known):
    probes = known.choose(8)

    of_known = known.held_out_of_known(probes)

    others = np.array([2, 3, 5, 6, 7, 9, 10, 11])  # 1 has its board, 4 and 8 its runtime
    assert known.strangers(0).tolist() == others.tolist()
    alone = known.held_out(probes, np.exp(known.log_ms[0, probes]), others)
    assert of_known[0] == pytest.approx(alone.rms)
