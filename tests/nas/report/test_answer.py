"""The fields of an answer: what is predicted, by what, how certain it is, and what is warned of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from searched import BY_LATENCY, LATENCY_MS, Accuracy, Oracle, problem_of, searched
from test_run_page import limits_on_parameters
from test_summary import OnTwoBoards

from edgenas_core.page.document import Tone
from edgenas_core.types.kind import Kind
from nas.accuracy.base import Split, at_chance
from nas.fit.ranking.stage_result import StageResult
from nas.fit.training.trained_folder import ClassResult, Judged
from nas.report.answer import OVERVIEW, Answer, Status, overview
from nas.report.number import Number
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.limits import share_text
from nas.trials.trial import State


def answer_of(numbers, problem=None, **settings):
    return Answer(searched(numbers, problem, **settings).summary)


def figure(answer, label):
    (matching,) = (
        shown for shown in answer.figures + answer.search_figures if shown.label == label
    )
    return matching


def labels(answer):
    return {shown.label for shown in answer.figures + answer.search_figures}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(69.756, "%", Kind.measured), "69.76%"),
        (Number(69.756, "%", Kind.surrogate, 0.4567), "~69.76% \u00b1 0.46 points"),
        (Number(69.756, "%", Kind.trained, 0.4567), "69.76%"),
        (Number(13.337, "ms", Kind.regression, 0.47), "~13.34 ms \u00b1 0.47 ms"),
        (Number(0.12345, "ms", Kind.measured), "0.123 ms"),
        (Number(13.337, "ms", Kind.disturbed), "13.34 ms, under load"),
        (Number(20.0, "ms", Kind.penalty), "20.00 ms, penalty"),
        (Number(4.2, "mJ", Kind.measured), "4.2 mJ"),
        (Number(857_000.0, "", Kind.measured), "0.857 M"),
    ],
)
def test_a_number_has_its_unit_its_mark_and_its_spread(number, text):
    assert number.text_with_sd == text


def test_every_number_of_a_network_has_its_kind_its_limit_and_its_spread():
    answer = answer_of(range(50), problem_of(Oracle(kind=Kind.regression)))
    best = answer.summary.best

    assert answer.best.latency == Number(best.latency_ms, "ms", Kind.regression)
    assert answer.best.accuracy == Number(100 * best.accuracy_searched, "%", Kind.measured)
    assert answer.best.test.value == pytest.approx(answer.best.accuracy.value - 1)
    assert (answer.best.arch, answer.best.index) == (best.arch, best.index)


@pytest.mark.parametrize("kind", [Kind.regression, Kind.transfer, Kind.slowdown])
def test_predictions_are_named_with_what_made_them(kind):
    answer = answer_of(range(50), problem_of(Oracle(kind=kind), Accuracy(kind=Kind.surrogate)))

    (legend,) = (note for note in answer.notes if note.startswith("~ "))
    assert f"accuracy {Kind.surrogate.words.removeprefix('predicted ')}" in legend
    assert f"latency {kind.words.removeprefix('predicted ')}" in legend
    assert answer.latency_axis == f"latency (ms), {kind.words}"
    assert answer.optimum_name == "predicted optimum"


def test_the_shares_of_predictions_and_of_penalties_are_noted():
    kinds = np.full(SPACE.size, Kind.measured)
    kinds[:10], kinds[10:15] = Kind.transfer, Kind.penalty

    answer = answer_of(range(50), problem_of(Oracle(kind=kinds)))

    assert any("20.0%" in note and "transfer" in note for note in answer.notes)
    assert any("10.0%" in note and "penalties" in note for note in answer.notes)


def test_the_distance_from_the_optimum_is_in_points_and_by_rank():
    answer = answer_of(range(500))

    gap = figure(answer, "gap")
    assert answer.status is Status.below
    assert gap.value == f"{100 * answer.summary.gap:.2f} points"
    assert answer.summary.optimum.accuracy.text in gap.note
    assert f"rank {answer.best.rank:,}" in gap.note


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.0%"), (1 / 5000, "<0.1%"), (0.283, "28.3%"), (1 - 1e-6, ">99.9%"), (1.0, "100.0%")],
)
def test_a_share_is_never_rounded_to_none_or_to_all(share, text):
    assert share_text(share) == text


def test_a_predicted_optimum_is_named_as_a_prediction_with_its_expected_loss():
    exact = answer_of(range(SPACE.size))
    whole = Oracle(kind=Kind.regression)
    predicted = answer_of(range(SPACE.size), problem_of(whole, Accuracy(kind=Kind.surrogate)))
    searched_on_a_table = answer_of(range(SPACE.size), problem_of(whole))
    elsewhere = replace(predicted.summary.settings, space="another")

    assert (exact.expected_loss, figure(exact, "gap").value) == (None, "none")
    assert figure(predicted, "gap").value == "~none"
    assert "predicted optimum" in figure(predicted, "gap").note
    assert "1.6 points" in figure(predicted, "gap").note
    assert figure(predicted, "gap").tone is not Tone.good
    assert predicted.expected_loss != searched_on_a_table.expected_loss
    other = Answer(replace(predicted.summary, settings=elsewhere)).expected_loss
    assert other not in {None, predicted.expected_loss}


def test_where_the_whole_space_was_ranked_its_optimum_is_the_network_to_use():
    below = answer_of(range(50))
    optimal = answer_of(range(SPACE.size))
    unranked = answer_of(range(50), problem_of(Oracle(instant=False)))

    assert (below.is_ranked, below.network) == (True, below.summary.optimum)
    assert below.headline_figures[0].value == below.summary.optimum.test.text
    assert (optimal.is_ranked, optimal.status) == (False, Status.optimum)
    assert (unranked.is_ranked, unranked.status) == (False, Status.unranked)
    assert "optimum" not in unranked.networks


def test_a_search_that_never_met_its_limits_has_no_network_and_says_what_to_raise():
    answer = answer_of(BY_LATENCY[-5:])
    limited = answer_of(range(50), problem_of(limits=limits_on_parameters(5_000.0)))

    assert (answer.best, answer.status, answer.figures) == (None, Status.none, [])
    assert "T = 17 ms" in answer.headline
    assert "P = 5,000" in limited.headline


def test_a_time_under_load_near_t_is_not_confirmed():
    far = answer_of(range(15), problem_of(Oracle(kind=Kind.disturbed), limit_ms=41.0))
    near_ms = 1.05 * far.best.latency_ms
    answer = answer_of(range(15), problem_of(Oracle(kind=Kind.disturbed), limit_ms=near_ms))

    assert far.status is not Status.unconfirmed
    assert figure(far, "latency").tone is Tone.good

    assert (answer.status, answer.best.is_disturbed) == (Status.unconfirmed, True)
    assert answer.headline.startswith("UNCONFIRMED")
    assert figure(answer, "latency").tone is Tone.bad
    assert figure(answer, "times under load").value == "15"
    assert "best sample within T, unconfirmed" in answer.networks


def test_an_implausibly_fast_network_is_flagged():
    answer = answer_of(range(15), problem_of(Oracle(kind=Kind.implausible), limit_ms=41.0))

    assert not answer.best.is_disturbed
    assert figure(answer, "latency").value.endswith(", implausible")
    assert figure(answer, "latency").tone is Tone.neutral
    assert figure(answer, "times implausible").value == "15"


def test_an_undisturbed_network_wins_over_a_better_disturbed_one():
    kinds = np.full(SPACE.size, Kind.disturbed)
    kinds[3] = Kind.measured

    best = answer_of(range(15), problem_of(Oracle(kind=kinds), limit_ms=41.0)).best

    assert (best.index, best.is_disturbed) == (3, False)


def test_a_trained_network_at_chance_is_warned_of():
    summary = searched(range(50)).summary
    best = replace(summary.best, accuracy_kind=Kind.trained.name, at_chance=True)

    (note,) = Answer(replace(summary, best=best, optimum=None, gap=None)).notes

    assert note.startswith("warning: ")
    assert "epochs=" in note


@pytest.mark.parametrize(
    ("fraction", "is_chance"), [(0.10, True), (0.0, True), (0.12, True), (0.15, False)]
)
def test_an_accuracy_within_its_interval_of_guessing_is_at_chance(fraction, is_chance):
    assert (
        at_chance(fraction, Judged(fraction, 200 if fraction < 0.15 else 500).sd, 10) is is_chance
    )


def test_more_than_half_of_eight_images_of_four_classes_is_above_guessing():
    assert not at_chance(0.625, Judged(0.625, 8).sd, 4)


def test_the_policys_distance_from_its_best_is_a_figure():
    summary = searched(range(50)).summary

    arrived, short = (Answer(replace(summary, mode_gap=gap)) for gap in (0.0, 0.0021))

    assert figure(arrived, "final policy").value == "the best reward"
    assert figure(short, "final policy").value == "0.0021 below the best reward"


def test_a_network_for_several_devices_has_its_latency_on_each():
    number = int(np.flatnonzero((LATENCY_MS > 30) & (LATENCY_MS < 34))[0])
    answer = answer_of([number], problem_of(OnTwoBoards(ms=LATENCY_MS / 2, source="mapped")))

    there = {shown.label: (shown.value, shown.tone) for shown in answer.figures}
    ms = LATENCY_MS[number]
    assert there["latency on other board"] == (f"{ms / 2:.2f} ms", Tone.good)
    assert there["latency on board"] == (f"~{ms:.2f} ms", Tone.bad)
    assert "latency" not in there


def test_the_cost_of_a_further_limit_is_a_share_of_it():
    answer = answer_of(range(1000), problem_of(limits=limits_on_parameters(400_000.0)))
    parameters = answer.summary.best.costs["parameters"]

    assert figure(answer, "parameters").value == f"{parameters / 1e6:.3g} M"
    assert figure(answer, "parameters").note == f"{parameters / 400_000:.0%} of P = 0.4 M"


def test_the_baseline_is_a_network_beside_the_answer_with_its_training():
    row = SPACE.architectures(np.array([7]))
    accuracy = float(Accuracy().answer(row).fraction[0])
    stage = StageResult("rule", 1, 1, 1.0, "frozen features", SPACE.text(row[0]), None, accuracy)

    answer = answer_of(range(50), stages=(stage,))
    untrained = answer_of(range(50), stages=(replace(stage, accuracy=None),))
    original = answer_of(range(50), stages=(replace(stage, name="original", fidelity="2 ms"),))

    rule = answer.summary.baseline
    assert (rule.arch, rule.index, rule.fidelity) == (stage.favourite, 7, "frozen features")
    assert (rule.accuracy_searched, rule.latency_ms) == (accuracy, LATENCY_MS[7])
    (shown,) = answer.baseline_figures
    assert shown.value == rule.accuracy.text
    told = f"validation accuracy, {rule.fidelity}"
    assert {told, rule.latency.text, rule.arch} == {*shown.note.split("; ")}
    assert (untrained.summary.baseline, untrained.baseline_figures) == (None, [])
    (shown,) = original.baseline_figures
    assert (shown.value, shown.note) == (f"{accuracy:.2%}", "2 ms")


def test_a_baseline_that_is_the_answer_is_not_told_apart_from_it():
    best = answer_of(range(50)).summary.best
    stage = StageResult("rule", 1, 1, 1.0, "1 epoch", best.arch, None, best.accuracy_searched)
    summary = answer_of(range(50), stages=(stage,)).summary
    faster = replace(summary.baseline, latency_ms=best.latency_ms - 0.1)

    answer = Answer(replace(summary, baseline=faster, optimum=None))

    (shown,) = answer.baseline_figures
    assert shown.note == "validation accuracy, 1 epoch; the same network"
    assert not [note for note in answer.notes if "baseline" in note]


@pytest.mark.parametrize(("images", "balanced"), [((90, 30), "70.00%"), ((90, 32), None)])
def test_balanced_accuracy_is_reported_where_classes_differ_by_three_times(images, balanced):
    rights = (81, images[1] // 2)
    by_class = [ClassResult("c", n, right, None) for n, right in zip(images, rights, strict=True)]
    summary = replace(searched(range(50)).summary, by_class=tuple(by_class))

    values = {shown.label: shown.value for shown in Answer(summary).figures}

    assert values.get("balanced test accuracy") == balanced


def test_failed_trials_are_counted():
    states = {1: State.failed, 2: State.failed, 3: State.failed}

    answer = answer_of(range(50), states=states)

    assert figure(answer, "trials").note.endswith("3 failed")
    assert {note.split(" of ")[0] for note in answer.notes} == {"3"}


def test_a_search_on_the_test_split_has_no_other_test_accuracy():
    answer = answer_of(range(50), problem_of(accuracy=Accuracy(split=Split.test)))

    assert figure(answer, "accuracy").note.startswith("test images")
    assert "test accuracy" not in labels(answer)
    assert len(answer.notes) == 1


def test_the_length_of_a_short_training_is_told_apart_from_that_of_the_test_accuracy():
    answer = answer_of(range(50), epochs=12)

    assert "12 epochs" in figure(answer, "accuracy").note
    assert "200 epochs" in figure(answer, "test accuracy").note
    assert "12 epochs" in answer.accuracy_axis


def test_synthetic_numbers_are_noted():
    (note,) = answer_of([BY_LATENCY[0]], problem_of(Oracle("synthetic-board"))).notes

    assert "synthetic" in note


def test_a_row_of_an_overview_has_the_marks_of_its_numbers():
    answer = answer_of(range(50), problem_of(Oracle(kind=Kind.regression)))

    row = dict(zip(OVERVIEW, overview(answer, answer.best), strict=True))

    assert row["latency"] == answer.best.latency.text
    assert row["latency"].startswith("~")
    assert row["gap, points"] == f"{100 * answer.summary.gap:.2f}"
    assert overview(answer, None)[0] == "none"
