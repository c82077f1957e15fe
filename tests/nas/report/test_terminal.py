"""What is printed of a search."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from searched import BY_LATENCY, LATENCY_MS, Accuracy, Oracle, problem_of, searched
from test_summary import OnTwoBoards

from common.types.kind import Kind
from nas.accuracy.base import Split, at_chance
from nas.accuracy.training.trained_folder import Judged
from nas.report.terminal import print_front, print_next, print_summary
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.staged.stage_result import StageResult
from nas.trials.trial import State


def printed(made, width=200, *, verbose=False):
    console = Console(file=io.StringIO(), width=width)
    print_summary(console, made.summary, verbose=verbose)
    return console.file.getvalue()


def test_a_policy_that_arrived_is_told_from_one_that_did_not():
    made = searched(range(50))
    arrived = replace(made, summary=replace(made.summary, mode_gap=0.0))
    short = replace(made, summary=replace(made.summary, mode_gap=0.0021))

    assert "the policy's mode is the maximum of its reward" in printed(arrived)
    assert "the reward of the policy's mode is 0.0021 below its maximum" in printed(short)
    assert "0.0021 below its maximum" in short.page().html()


def test_the_front_is_printed_from_its_fastest_to_its_most_accurate_network():
    made = searched(range(500))
    front = made.summary.front
    console = Console(file=io.StringIO(), width=200)

    print_front(console, made.summary)

    lines = console.file.getvalue().strip().splitlines()
    assert f"{len(front)} networks" in lines[0]
    assert [line.split()[-1] for line in (lines[1], lines[-1])] == [front[0].arch, front[-1].arch]
    assert f"{front[0].accuracy_searched:.2%}" in lines[1]


def test_what_a_surrogate_and_a_regression_predicted_is_marked_and_named():
    text = printed(
        searched(range(50), problem_of(Oracle(kind=Kind.regression), Accuracy(kind=Kind.surrogate)))
    )

    assert re.search(r"latency +~\d+\.\d\d ms", text)
    assert re.search(r"accuracy +~\d+\.\d\d%", text)
    (legend,) = (line for line in text.splitlines() if line.startswith("~ "))
    assert "accuracy by the surrogate" in legend
    assert "latency by regression" in legend
    assert "predicted optimum" in text


@pytest.mark.parametrize("kind", [Kind.transfer, Kind.slowdown])
def test_the_legend_names_what_predicted_the_latency(kind):
    text = printed(searched(range(50), problem_of(Oracle(kind=kind))))

    assert f"latency {kind.words.removeprefix('predicted ')}" in text
    assert not re.search(r"accuracy +~", text)


def test_a_predicted_accuracy_has_its_standard_deviation_and_chance_is_called_so():
    made = searched(range(50), problem_of(accuracy=Accuracy(kind=Kind.surrogate)))
    known = replace(made.summary.answer, accuracy_sd=0.0046)
    chance = replace(known, accuracy_kind=Kind.trained.name, at_chance=True)
    with_sd, at_chance = (
        replace(made, summary=replace(made.summary, best=one, optimum=None, gap=None))
        for one in (known, chance)
    )

    assert re.search(r"accuracy +~\d+\.\d\d% \u00b1 0\.46 points on", printed(with_sd))
    assert "no better than chance" not in printed(with_sd)
    assert "is no better than chance; train longer" in printed(at_chance)
    assert "no better than chance" in at_chance.page().html()


@pytest.mark.parametrize(
    ("fraction", "is_chance"), [(0.10, True), (0.0, True), (0.12, True), (0.15, False)]
)
def test_an_accuracy_within_its_interval_of_guessing_is_at_chance(fraction, is_chance):
    assert (
        at_chance(fraction, Judged(fraction, 200 if fraction < 0.15 else 500).sd, 10) is is_chance
    )


def test_a_measured_number_is_not_called_predicted():
    assert "predicted" not in printed(searched(range(50)))


def test_a_penalty_is_called_one():
    kinds = np.full(SPACE.size, Kind.measured)
    kinds[:5] = Kind.penalty

    text = printed(searched(range(50), problem_of(Oracle(kind=kinds))))

    assert "10.0% of the latencies are penalties" in text
    assert "predicted" not in text


def test_a_disturbed_winner_is_unconfirmed_and_the_last_line_counts_the_disturbed_times():
    text = printed(searched(range(15), problem_of(Oracle(kind=Kind.disturbed), limit_ms=41.0)))

    assert "UNCONFIRMED: Best network within T" in text
    assert "best architecture" not in text
    assert "ms, disturbed" in text
    assert text.rstrip().endswith("15 of 15 times disturbed")
    assert "0.0% of them within T" in text


def test_an_implausibly_fast_winner_is_marked_and_the_last_line_counts_such_times():
    text = printed(searched(range(15), problem_of(Oracle(kind=Kind.implausible), limit_ms=41.0)))

    assert "UNCONFIRMED" not in text
    assert "ms, implausible" in text
    assert text.rstrip().endswith("15 of 15 times implausible")


def test_an_undisturbed_network_wins_over_a_better_disturbed_one():
    kinds = np.full(SPACE.size, Kind.disturbed)
    kinds[3] = Kind.measured

    best = searched(range(15), problem_of(Oracle(kind=kinds), limit_ms=41.0)).summary.best

    assert (best.index, best.feasible, best.is_disturbed) == (3, True, False)


def test_no_mark_is_cut_off_where_the_terminal_is_narrow():
    made = searched(range(50), problem_of(Oracle(kind=Kind.regression), limit_ms=3.0))

    text = printed(made, width=60, verbose=True)

    assert "…" not in text
    assert "~" in text


def test_no_line_is_wider_than_the_terminal_but_that_of_the_architecture():
    made = searched(range(150), problem_of(Oracle(kind=Kind.regression)))

    lines = printed(made, width=80).splitlines()

    assert lines[1].startswith("Best network within T = 17 ms")
    named = [made.summary.best, made.summary.answer]
    assert [line for line in lines if len(line) > 80] == [f"  {one.arch}" for one in named]


def test_where_the_whole_space_was_ranked_its_optimum_is_the_answer():
    made = searched(range(50))

    text = printed(made)

    assert made.summary.answer is made.summary.optimum
    assert "Answer: the exact optimum, as the whole space was ranked" in text
    assert f"  {made.summary.optimum.arch}\n" in text
    assert "Answer:" not in printed(searched(range(50), problem_of(Oracle(instant=False))))


def test_a_network_that_is_as_accurate_as_the_optimum_is_the_answer():
    made = searched(range(15625))

    assert made.summary.gap == 0
    assert made.summary.answer is made.summary.best
    assert "Answer:" not in printed(made)


def test_the_policys_mode_is_said_when_asked_for():
    made = searched(range(50))

    assert "best within T" not in printed(made)
    assert "best within T" in printed(made, verbose=True)


def test_the_sources_are_a_footnote_after_the_next_command(tmp_path):
    made = searched(range(50))
    console = Console(file=io.StringIO(), width=80)

    print_next(console, made.summary, tmp_path, tmp_path / "report.html")

    page, following, *sources = console.file.getvalue().strip().splitlines()
    assert page == f"page: {tmp_path}/report.html"
    assert following == f"next: python -m nas.export run={tmp_path} which=optimum"
    assert sources[0].startswith("sources: accuracy ")


def test_an_optimum_among_predictions_is_called_so_with_the_share_of_the_space():
    kinds = np.full(SPACE.size, Kind.measured)
    kinds[::2] = Kind.regression

    text = printed(searched(range(50), problem_of(Oracle(kind=kinds))))

    assert "partly predicted optimum" in text
    assert f"{(kinds == Kind.regression).mean():.1%}" in text


def test_fewer_trials_than_a_window_are_too_few_for_a_settled_mean():
    assert "100 trials are needed" in printed(searched(range(50)), verbose=True)
    assert "are needed" not in printed(searched(range(150)), verbose=True)


def test_a_search_on_own_images_says_nothing_of_a_mean_that_settles():
    made = searched(range(50))
    stage = StageResult("draw", 50, 50, 1.0, None, None, None, None, 0)

    text = printed(replace(made, summary=replace(made.summary, stages=(stage,))))

    assert "50 trials" in text
    assert "mean latency" not in text


def test_failed_and_pruned_trials_are_counted():
    text = printed(searched(range(50), states={1: State.failed, 2: State.pruned, 3: State.pruned}))

    assert re.search(r"50 trials .*1 failed; 2 pruned", text)
    assert "failed" not in printed(searched(range(50)))


def test_a_search_on_the_test_split_says_so():
    text = printed(searched(range(50), problem_of(accuracy=Accuracy(split=Split.test))))

    assert "on test images, which were searched on" in text
    assert "valid" not in text


def test_a_search_that_never_met_the_limit_names_it_and_the_way_out():
    text = printed(searched(BY_LATENCY[-5:]))

    assert "T = 17 ms" in text
    assert "raise T or the budget" in text


def test_twelve_epochs_are_told_apart_from_the_two_hundred_of_the_test_accuracy():
    text = printed(searched(range(50), epochs=12))

    assert "on validation images after 12 epochs" in text
    assert "on test images after 200 epochs" in text


def test_a_network_for_several_devices_has_a_line_for_each():
    number = int(np.flatnonzero((LATENCY_MS > 30) & (LATENCY_MS < 34))[0])
    oracle = OnTwoBoards(ms=LATENCY_MS / 2, source="mapped")

    text = printed(searched([number], problem_of(oracle)))

    own_ms = LATENCY_MS[number]
    assert f"fits on other board: {own_ms / 2:.3f} ms of T = 17 ms" in text
    assert f"does not fit on board: ~{own_ms:.3f} ms of T = 17 ms" in text
    assert "latency by regression" in text
