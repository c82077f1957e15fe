"""The thesis's section 5.1 beside a study: its counts, and a verdict that follows the numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.studies.thesis.measure import (
    PUBLISHED,
    TABLE_5_1,
    findings,
    heat_map,
    reproductions,
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
REWARDS = ("proposed", "mnasnet", "mnasnet_hard")
CONFIG = {"choices": {}, "sources": {}, "values": {}}
THREE = ("rewards=[proposed,mnasnet,mnasnet_hard]", "seeds=8", f"budget={SAMPLES}")


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


@pytest.mark.parametrize(
    ("samples", "holds", "counts"),
    [
        ({"mnasnet": 150, "mnasnet_hard": 200}, True, [(1, 0), (1, 0)]),
        ({"mnasnet": 200, "mnasnet_hard": 10}, False, [(1, 0), (0, 1)]),
    ],
)
def test_the_claim_holds_where_the_proposed_reward_is_sooner_than_both(
    results_of, samples, holds, counts
):
    (finding,) = findings(results_of(proposed=100, **samples))

    assert finding.holds == holds
    assert [(verdict.sooner, verdict.later) for verdict in finding.by_rival] == counts


def test_each_controller_has_a_verdict_of_its_own(results_of):
    results = results_of("controllers=[rnn,uniform]", proposed=10, mnasnet=150, mnasnet_hard=200)

    assert [finding.controller for finding in findings(results)] == ["rnn", "uniform"]
    assert all(finding.holds for finding in findings(results))


def test_searches_that_never_settle_do_not_differ(results_of):
    (finding,) = findings(results_of(proposed=10**6, mnasnet=10**6, mnasnet_hard=10**6))

    assert [(v.sooner, v.later, v.never, v.tests) for v in finding.by_rival] == [(0, 0, 1, 1)] * 2


def test_each_published_number_has_a_counterpart_and_ties_count_for_each(results_of):
    results = results_of(proposed=10, mnasnet=150, mnasnet_hard=200)

    (reproduction,) = reproductions(results)
    assert len(reproduction.ours) == len(PUBLISHED)
    assert reproduction.ours[-1].tolist() == [20] * 8  # bins of 20 samples
    assert re.findall(r"(\w+) on (\d)", answer(results, {})[-1]) == [
        (name, "1") for name in REWARDS
    ]


def test_where_no_search_finds_anything_no_gap_is_the_smallest(results_of):
    text = answer(results_of(proposed=10**6, mnasnet=10**6, mnasnet_hard=10**6), {})[-1]

    assert re.findall(r"(\w+) on (\d)", text) == [(name, "0") for name in REWARDS]


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
    assert visited.dom.count("js-plotly-plot") >= 6
    (claim,) = [line for line in printed.splitlines() if line.startswith("The claim")]
    assert claim.split(";")[0][:60] in visited.dom
