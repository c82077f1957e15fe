"""The thesis's section 5.1 beside a study: its counts, and a verdict that follows the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.thesis.measure import (
    PUBLISHED,
    TABLE_5_1,
    heat_map,
    numbers,
    reproductions,
    verdict,
    within_limit_counts,
)
from nas.study.evaluation.learning_curve import LearningCurve
from nas.study.evaluation.results import gather
from nas.study.folder import StudyFolder
from nas.study.page import answer
from nas.study.search_log import SearchLog, save_log
from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward

SAMPLES = 400
CONFIG = {"choices": {}, "sources": {}, "values": {}}
THREE = ("rewards=[proposed,mnasnet,mnasnet_hard]", "seeds=8", f"budget={SAMPLES}", "thesis=true")


@pytest.fixture(scope="module")
def once():
    """One plan for all tests."""
    return {}


@pytest.fixture
def results_of(plan_of, tmp_path, once):
    """Results of searches that are slow, up to a sample that each reward is given, then fast."""

    def make(*words, **fast_from):
        plan = once[words] = once.get(words) or plan_of(*THREE, *words)
        folder = StudyFolder(tmp_path / "one")
        folder.begin(CONFIG, [job.setting for job in plan.jobs])
        (survey,) = plan.surveys.values()
        slow, fast = survey.latency_ms.argmax(), survey.latency_ms.argmin()
        for job in plan.jobs:
            start = fast_from[job.setting.reward] + np.arange(8)[:, None]
            index = np.where(np.arange(SAMPLES) < start, slow, fast).astype(np.uint16)
            log = SearchLog(np.arange(8), index, np.ones(1))
            save_log(folder.file(job.setting), job.problem.space, log)
        return gather(plan, folder)

    return make


def test_the_claim_holds_where_the_proposed_reward_is_sooner_than_both(results_of):
    said = verdict(results_of(proposed=10, mnasnet=150, mnasnet_hard=200))

    assert "holds in every" in said
    assert said.count("sooner in 1 of 1 settings, later in 0") == 2


def test_each_controller_has_a_verdict_of_its_own(results_of):
    both = "controllers=[rnn,uniform]"

    said = verdict(results_of(both, proposed=10, mnasnet=150, mnasnet_hard=200))

    first, second = said.split("controller=uniform: ")
    assert first.startswith("controller=rnn: The claim")
    assert [part.count("sooner in 1 of 1 settings") for part in (first, second)] == [2, 2]


def test_the_claim_does_not_hold_where_the_hard_reward_is_sooner(results_of):
    said = verdict(results_of(proposed=100, mnasnet=200, mnasnet_hard=10))

    assert "does not hold" in said
    assert "sooner in 1 of 1" in said
    assert "later in 1" in said


def test_searches_that_never_settle_do_not_differ_and_it_is_said(results_of):
    said = verdict(results_of(proposed=10**6, mnasnet=10**6, mnasnet_hard=10**6))

    assert said.count("in 1 the test finds no difference (paired") == 2
    assert said.count("In 1 of the 1, whatever the test says") == 2
    assert "Settings searched: 1 on synthetic-board." in said


def test_other_problems_are_not_set_beside_the_published_numbers_and_ties_count_for_each(
    results_of,
):
    results = results_of(proposed=10, mnasnet=150, mnasnet_hard=200)

    assert numbers(results) is None
    (reproduction,) = reproductions(results)
    assert len(reproduction.ours) == len(PUBLISHED)
    assert reproduction.ours[-1].tolist() == [20] * 8  # bins of 20 samples
    assert "proposed on 1, mnasnet on 1, mnasnet_hard on 1" in answer(results, {})[-1]


def test_where_no_search_finds_anything_no_gap_is_the_smallest(results_of):
    said = answer(results_of(proposed=10**6, mnasnet=10**6, mnasnet_hard=10**6), {})[-1]

    assert "proposed on 0, mnasnet on 0, mnasnet_hard on 0" in said
    assert "on 1 no median search" in said


def test_counts_and_heat_map_are_those_of_one_search(results_of):
    results = results_of(proposed=100, mnasnet=150, mnasnet_hard=200)
    curve: LearningCurve = next(iter(results.curves.values()))
    percent = 100 * curve.accuracy[0, -1]

    counts = within_limit_counts(curve, percent, percent + 1)

    assert counts.tolist() == [300 - seed for seed in range(8)]
    assert within_limit_counts(curve, percent + 1, 100.0).tolist() == [0] * 8
    assert heat_map(curve).sum() == pytest.approx(SAMPLES)
    whole_ms = int(curve.latency_ms[0, -1])
    assert heat_map(curve)[whole_ms].sum() == pytest.approx(counts.mean())


def test_table_5_1_is_what_the_rewards_give():
    for _, accuracy, latency_ms, mnasnet, proposed in TABLE_5_1:
        assert MnasReward(17.0)(accuracy, latency_ms) == pytest.approx(mnasnet, abs=6e-5)
        assert ProposedReward(17.0)(accuracy, latency_ms) == pytest.approx(proposed, abs=1e-5)


@pytest.mark.slow
def test_the_page_opens_without_an_error_or_a_request(finished_study, visit):
    path, printed = finished_study

    visited = visit(path / "report.html")

    assert visited.console == []
    assert visited.requests == []
    assert visited.dom.count("js-plotly-plot") >= 9
    (said,) = [line for line in printed.splitlines() if line.startswith("The claim")]
    assert said.split(";")[0][:60] in visited.dom
