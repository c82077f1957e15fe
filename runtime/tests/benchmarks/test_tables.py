"""What experiments show, of rows small enough to check by eye."""

import pytest

from benchmarks.command import EXPERIMENTS
from benchmarks.experiment import with_spread
from benchmarks.pages import results_page
from benchmarks.results import PaperResults, summary

BUSY = {"bin_ms": 1.0, "streams_busy": [1.0, 2.0]}
ROWS = {
    "qs": [
        {
            "workload": "vgg15",
            "mode": "captured",
            "way": way,
            "bound_ms": 5.0,
            "busy": BUSY,
            **summary([ms]),
        }
        for way, ms in (("queue_stream", 10.0), ("multi_context", 20.0), ("serial", 15.0))
    ]
    + [{"workload": "vgg15", "mode": "captured", "way": "fork_join", "error": "none left"}],
    "coschedule": [
        {
            "workload": "nb201",
            "where": "16 multiprocessors",
            "gpu_lanes": 31,
            "cpu_lanes": 14,
            "variant": variant,
            "cpu_to_gpu_rate": 1.0,
            "sum_of_rates_ms": 10.0,
            "bound_against_gpu": -0.5,
            "against_gpu": ms / 20 - 1,
            "overlap": 2 - ms / 10,
            "above_sum_of_rates": ms / 10 - 1,
            **summary([ms]),
        }
        for variant, ms in (("gpu_only", 20.0), ("cpu_only", 20.0), ("queue_time", 12.0))
    ],
    "simulator": [
        {
            "workload": "nb201",
            "rule": "whole",
            "arrivals": "closed",
            "policy": "queue_time",
            "simulated_ms": 9.5,
            "error_of_simulator": -0.05,
            "bound_ms": 9.0,
            **summary([10.0]),
        }
    ],
}
SHOWN = {
    "qs": ["-50.0%", "-40.8%", "-33.3%", "failed", "0.50"],
    "coschedule": ["-40.0%", "+20.0%", "0.80"],
    "simulator": ["-5.0%"],
}


def test_one_round_has_no_spread():
    assert with_spread(summary([10.0])) == "10.00"
    assert with_spread(summary([9.0, 10.0, 11.0])) == "10.00 ±5%"


@pytest.mark.parametrize("experiment", [*ROWS])
def test_an_experiment_shows_its_rows(experiment):
    cells = {
        cell
        for table in EXPERIMENTS[experiment].shown(ROWS[experiment])
        for row in table.rows
        for cell in row
    }
    assert set(SHOWN[experiment]) <= cells


@pytest.mark.parametrize("experiment", [*ROWS])
def test_an_experiment_that_was_interrupted_at_once_is_shown(experiment):
    results = PaperResults(experiment, {}, {"cpu": "a core", "versions": {}})

    assert EXPERIMENTS[experiment].shown(results.rows) == []
    assert "interrupted" in results_page(results, EXPERIMENTS[experiment]).html()
