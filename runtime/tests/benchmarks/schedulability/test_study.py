"""The schedulability study: its sets, its answers, and that it goes on where it was."""

from dataclasses import replace

import numpy as np
import pytest
from bench_settings import bench_config

from benchmarks.schedulability.experiment import SCHEDULABILITY
from benchmarks.schedulability.published import published_size
from benchmarks.schedulability.scenarios import (
    FRAME_MS,
    SCENARIOS,
    schedulability,
    task_sets,
)
from benchmarks.schedulability.screen import screen
from benchmarks.schedulability.study import steps
from edgenas_runtime.mapping.model.choices import mapping_choices
from edgenas_runtime.mapping.model.timing_table import xavier_times
from edgenas_runtime.mapping.solving.program import Feasibility, solve


def shares(scenario, threshold, count=40):
    found = schedulability(SCENARIOS[scenario], threshold, count=count, seed=0, time_limit_s=10)
    return {one.column: one for one in found}


def fit_on_the_reference_alone(scenario, threshold):
    scenario = SCENARIOS[scenario]
    first = dict([*scenario.columns.items()][:1])
    alone = replace(scenario, columns=first)
    (share,) = schedulability(alone, threshold, count=40, seed=0, time_limit_s=10)
    return share.feasible


def test_sets_fill_their_threshold_within_a_step():
    table = xavier_times()
    column = table.configurations.index("TC8")

    drawn = task_sets(
        table,
        "TC8",
        limit_ms=160,
        slack_ms=20,
        count=200,
        generator=np.random.default_rng(0),
    )

    total_ms = drawn.ms[:, :, column].sum(1)
    assert (total_ms <= 160).all()
    assert (total_ms >= 140).all()
    for size, own in zip(drawn.size, drawn.ms, strict=True):
        assert (own[size:] == 0).all()
        assert (own[:size, column] > 0).all()


@pytest.mark.parametrize(
    ("scenario", "threshold", "published", "calibrated"),
    [
        ("nvdla", 1.0, 12.16, 12.7),
        ("nvdla", 1.2, 14.66, 15.4),
        ("gpu_tc", 1.0, 10.52, 10.5),
        ("gpu_tc", 1.2, 11.27, 11.9),
        ("gpu_rc", 1.0, 9.59, 10.3),
        ("gpu_rc", 1.2, 10.54, 10.8),
    ],
)
def test_sets_are_about_as_large_as_the_published_ones(scenario, threshold, published, calibrated):
    chosen = SCENARIOS[scenario]
    drawn = task_sets(
        xavier_times().chosen(chosen.networks),
        chosen.reference,
        limit_ms=100 * threshold,
        slack_ms=20,
        count=1000,
        generator=np.random.default_rng(1),
    )

    mean = drawn.size.mean()

    columns = [*chosen.columns]
    assert published_size(scenario, columns[1], threshold) == published
    assert mean == pytest.approx(calibrated, abs=0.5)
    assert mean == pytest.approx(published, rel=0.1)


def test_a_set_at_100_percent_fits_on_its_reference():
    for scenario in SCENARIOS:
        assert fit_on_the_reference_alone(scenario, 1.0) == 40


def test_above_100_percent_no_set_fits_on_its_reference_alone():
    for scenario in SCENARIOS:
        assert fit_on_the_reference_alone(scenario, 1.4) == 0


def test_2_8_is_reached_only_if_both_nvdla_as_one_are_a_third_unit():
    column = "NVDLA+TC+RC+CPU"

    assert shares("nvdla", 2.8)[column].feasible == 0
    assert shares("nvdla-apart", 2.8)[column].feasible == 40


def test_the_quick_answers_are_those_of_the_solver():
    scenario = SCENARIOS["gpu_tc"]
    table = xavier_times()
    platform = scenario.platform.restricted(scenario.columns["TC+RC+CPU"])
    generator = np.random.default_rng(3)
    settled = 0
    for threshold in (1.4, 1.6, 1.8, 2.2):
        drawn = task_sets(
            table,
            "TC8",
            limit_ms=threshold * FRAME_MS,
            slack_ms=20,
            count=12,
            generator=generator,
        )
        for size, ms in zip(drawn.size, drawn.ms, strict=True):
            choices = mapping_choices(ms[:size], table.configurations, platform)
            (quick,) = screen(choices, choices.ms[None], FRAME_MS)
            found = solve(choices, FRAME_MS, any_will_do=True, time_limit_s=30).answer
            if found is not Feasibility.unknown and quick != 0:
                settled += 1
                assert (quick == 1) == (found is Feasibility.feasible)
    assert settled > 10


def study(folder, **changes):
    chosen = {"scenarios": ["gpu_rc"], "thresholds": [1.0, 1.4], "sets": 10, "workers": 1}
    (step,) = steps(bench_config("schedulability", out=str(folder), studying={**chosen, **changes}))
    return [*step.run()]


def test_a_study_continues_where_it_was_interrupted(tmp_path, monkeypatch):
    asked = []

    def recorded(scenario, threshold, **settings):
        asked.append((threshold, settings["seed"]))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return schedulability(scenario, threshold, **settings)

    monkeypatch.setattr("benchmarks.schedulability.study.schedulability", recorded)
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path)

    rows = study(tmp_path)
    study(tmp_path, seed=1, thresholds=[1.0])

    assert asked == [(1.0, 0), (1.4, 0), (1.4, 0), (1.0, 1)]
    assert [row["threshold"] for row in rows] == [1.0] * (len(rows) // 2) + [1.4] * (len(rows) // 2)


def test_its_results_are_tables_figures_and_a_comparison(tmp_path):
    rows = study(tmp_path)

    (table,) = SCHEDULABILITY.shown(rows)
    first = table.rows[0]
    assert first == ["RC-comb", "1.00", "100.0%", f"{rows[0]['mean_size']:.2f}", "9.59", "0"]
    assert len(table.rows) == 2 * len(SCENARIOS["gpu_rc"].columns)
    (figure,) = SCHEDULABILITY.figures(rows)
    assert figure.data[0]["y"][0] == 100
    told = SCHEDULABILITY.sentences(rows)
    assert any("up to 1.0" in line and "published" in line for line in told)
    assert SCHEDULABILITY.flagged(rows) == (0, 0)


@pytest.mark.parametrize(
    "changes", [{"scenarios": ["tpu"]}, {"scenarios": []}, {"thresholds": [1.1]}]
)
def test_unknown_scenarios_and_thresholds_are_refused(tmp_path, changes):
    (name,) = changes

    with pytest.raises(ValueError, match=rf"studying\.{name}="):
        study(tmp_path, **changes)


@pytest.mark.slow
def test_workers_compute_what_one_process_does(tmp_path):
    assert study(tmp_path / "one") == study(tmp_path / "two", workers=2)
