from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console

from latency.sources.lookup import TableLatency
from latency.sources.mapped import Left, MappedLatency
from nas.accuracy.base import Split
from nas.accuracy.tabular import TabularAccuracy
from nas.report.summary import print_summary, summarise
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.survey import survey
from nas.trials.trial import Samples
from runtime.shell.provenance import Kind

GRID = NAS_BENCH_201.num_choices
ROWS = tuple(NAS_BENCH_201.rows.T)
KINDS = {"table": Kind.measured, "surrogate": Kind.surrogate}
ACCURACY = np.random.default_rng(0).uniform(0.1, 0.7, GRID)
LATENCY_MS = np.random.default_rng(1).uniform(2, 40, GRID)


def board(name="board", latency_ms=LATENCY_MS, *, predicted=False):
    kind = np.full(SPACE.size, Kind.regression if predicted else Kind.measured, np.int8)
    return TableLatency(
        SPACE, name, "table", "synthetic", latency_ms[tuple(NAS_BENCH_201.rows.T)], kind
    )


def summary_of(
    indices, *, source="table", split=Split.valid, predicted=False, limit_ms=17.0, oracle=None
):
    """Of synthetic numbers."""
    accuracy = TabularAccuracy(
        SPACE, source, "synthetic", KINDS[source], split, ACCURACY[ROWS], ACCURACY[ROWS] - 0.01
    )
    oracle = board(predicted=predicted) if oracle is None else oracle
    architectures = NAS_BENCH_201.rows[indices]
    latency_ms = oracle.answer(architectures).ms
    samples = Samples(architectures, accuracy(architectures), latency_ms, latency_ms)
    return summarise(
        samples,
        architectures[-1],
        accuracy,
        oracle,
        survey(accuracy, oracle, limit_ms),
        limit_ms=limit_ms,
        settings={"reward": "proposed", "epochs": 200},
        seconds=1.0,
        resumed_at=0,
    )


def printed(summary, width=200):
    console = Console(file=io.StringIO(), width=width)
    print_summary(console, summary)
    return console.file.getvalue()


def test_repeats_and_isomorphic_cells_are_told_apart():
    twins = np.flatnonzero(NAS_BENCH_201.network_class == NAS_BENCH_201.network_class[0])[:2]

    summary = summary_of([*twins, twins[0], 7])

    assert summary["samples"] == 4
    assert summary["distinct_architectures"] == 3
    assert summary["distinct_networks"] == 2


def test_a_predicted_latency_and_accuracy_are_marked_on_the_terminal():
    text = printed(summary_of(range(50), source="surrogate", predicted=True))

    assert re.search(r"~\d+\.\d\d ms", text)
    assert "~valid" in text
    assert "~ predicted, not measured" in text
    assert "predicted optimum" in text


def test_no_mark_is_cut_off_where_the_terminal_is_narrow():
    text = printed(summary_of(range(50), predicted=True, limit_ms=3.0), width=60)

    assert "…" not in text
    assert "~" in text


def test_an_optimum_is_exact_only_where_no_prediction_can_change_it():
    everything = NAS_BENCH_201.rows
    accuracies = ACCURACY[tuple(everything.T)]
    within = np.flatnonzero(LATENCY_MS[tuple(everything.T)] <= 3)
    best = within[np.argmax(accuracies[within])]
    better = np.flatnonzero(accuracies > accuracies[best])[0]
    worse = np.flatnonzero(accuracies < accuracies[best])[0]
    for cell, exact, name in ((better, False, "partly predicted"), (worse, True, "exact")):
        predicted = np.zeros(GRID, bool)
        predicted[tuple(everything[cell])] = True

        summary = summary_of(range(50), predicted=predicted, limit_ms=3.0)

        assert summary["optimum_exact"] is exact
        assert summary["space_latency_predicted"] == 1 / 15625
        assert f"{name} optimum" in printed(summary)
        assert ("measured and predicted cells" in printed(summary)) is not exact


def test_fewer_samples_than_a_window_are_too_few_to_tell():
    assert "it takes 100 samples to tell" in printed(summary_of(range(50)))
    assert "to tell" not in printed(summary_of(range(150)))


def test_a_measured_one_is_not():
    assert "predicted" not in printed(summary_of(range(50)))


def test_a_search_on_the_test_split_says_so_and_reports_no_validation_accuracy():
    summary = summary_of(range(50), split=Split.test)

    assert summary["best"]["accuracy_valid"] is None
    assert "test, searched on" in printed(summary)


def test_a_search_that_never_met_the_limit_has_no_best_and_says_what_to_do():
    slow = np.argsort(LATENCY_MS[tuple(NAS_BENCH_201.rows.T)])[-5:]

    summary = summary_of(slow)

    assert summary["best"] is None
    assert summary["gap"] is None
    assert summary["feasible_share"] == 0
    assert "raise T or the budget" in printed(summary)


@pytest.mark.parametrize("limit_ms", [5.0, 17.0, 30.0])
def test_the_gap_is_to_the_most_accurate_cell_within_the_limit(limit_ms):
    summary = summary_of(range(2000), limit_ms=limit_ms)

    feasible = np.less_equal(LATENCY_MS, limit_ms)
    best = summary["best"]["accuracy_valid"]
    assert summary["optimum"]["accuracy_valid"] == ACCURACY[feasible].max()
    assert summary["gap"] == pytest.approx(ACCURACY[feasible].max() - best)
    assert summary["best"]["rank"] == 1 + (ACCURACY[feasible] > best).sum()


def test_twelve_epochs_are_told_apart_from_the_two_hundred_of_the_test_accuracy():
    text = printed({**summary_of(range(50)), "epochs": 12})

    assert "valid @12 epochs" in text
    assert "test @200 epochs" in text


def test_a_network_for_several_devices_is_told_where_it_fits_and_in_how_much():
    place = np.argwhere((LATENCY_MS > 30) & (LATENCY_MS < 34))[0]
    slow, own_ms = int(NAS_BENCH_201.numbers(place)), LATENCY_MS[tuple(place)]
    other = board("other board", LATENCY_MS / 2)
    oracle = MappedLatency((Left(board(predicted=True), 17.0), Left(other, 17.0)))

    summary = summary_of([slow], oracle=oracle)

    same = {"T_ms": 17.0}
    measured, predicted = ({"latency_predicted": which} for which in (False, True))
    assert summary["best"]["on"] == [
        {"device": "other board", "latency_ms": own_ms / 2, "fits": True, **measured, **same},
        {"device": "board", "latency_ms": own_ms, "fits": False, **predicted, **same},
    ]
    assert summary["best"]["latency_ms"] == pytest.approx(own_ms / 2)
    assert f"it fits on other board: {own_ms / 2:.3f} ms of T = 17 ms there" in printed(summary)
    assert f"it does not fit on board: ~{own_ms:.3f} ms of T" in printed(summary)
    assert "~ predicted, not measured" in printed(summary)
    assert "on" not in summary_of([slow], limit_ms=50.0)["best"]
