"""experiment=contention from end to end on two cores, as small as it goes."""

import os
import time

import pytest
from bench_settings import bench_config

from benchmarks.contention import on_cpu as contention
from benchmarks.contention.experiment import CONTENTION
from benchmarks.contention.interleaved import ConditionTimes
from benchmarks.contention.rows import rows_of as rows_of_taken


def config(**changes):
    chosen = {"iterations": 2, "limits": [100.0, 1000.0]}
    return bench_config("contention", **{**chosen, **changes})


def rows_of(*steps, **changes):
    found = []
    for step in contention.steps(config(workloads=[*steps], **changes)):
        found += step.run()
    return found


@pytest.fixture
def two_cores():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")


@pytest.mark.slow  # tests beside it leave its hogs no processor to steal bandwidth with
@pytest.mark.usefixtures("two_cores")
def test_a_network_is_measured_under_every_scenario():
    before = os.sched_getaffinity(0)
    rows = rows_of("conv64", "locks")

    assert os.sched_getaffinity(0) == before
    measured = {row["scenario"]: row for row in rows if "p99_ms" in row}
    most = len(before) - 1
    assert {"solo", "spin", f"corun{most}", "fine_lock 100", "fine_lock 1000", "stop"} <= {
        *measured
    }
    for row in measured.values():
        assert row["n"] == 4
        assert row["ms"] <= row["p99_ms"] <= row["worst_ms"]
        assert row["cpu_ms"] > 0
    assert measured["solo"]["stolen_gb_per_s"] == 0
    assert measured["fine_lock 100"]["stolen_gb_per_s"] < measured["corun1"]["stolen_gb_per_s"]
    (curve,) = [row for row in rows if row["part"] == "curve"]
    assert len(curve["fitted"]) == len(curve["slowdown"]) >= 4
    assert all(table.rows for table in CONTENTION.shown(rows))


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_the_coarse_lock_starves_the_pipeline_and_leaves_rows_of_every_other_step():
    rows = rows_of("hogs", "pipeline", "worst", iterations=4)

    rate = {row["scenario"]: row["ms"] for row in rows if row["part"] == "pipeline"}
    assert rate["coarse_lock 10"] > 3 * rate["fine_lock 10"]  # the known flaw of the coarse one
    assert {row["hog"] for row in rows if row["part"] == "hogs"} >= {"memory", "spin"}
    assert len([row for row in rows if row["part"] == "worst"]) == 3


def test_what_a_spinner_stores_in_its_cache_stands_in_no_column_of_bandwidth():
    taken = {
        name: ConditionTimes([([1.0] * 4, [1.0] * 4)], [gb_per_s])
        for name, gb_per_s in (("solo", []), ("spin", [71.0]), ("corun1", [14.0]))
    }
    rows = [
        *rows_of_taken("network", "nb201", taken),
        {
            "part": "hogs",
            "hog": "spin",
            "hogs": 1,
            "limit_mb_per_s": None,
            "in_cache_gb_per_s": [71],
            "stolen_gb_per_s": 0.0,
        },
    ]

    hogs, networks = (table for table in CONTENTION.shown(rows) if "hogs" in table.title.lower())

    assert rows[1]["in_cache_gb_per_s"] == [71.0]
    assert rows[1]["stolen_gb_per_s"] == 0
    assert hogs.rows == [["spin", "1", "", "", "0.00"]]
    assert [row[-2] for row in networks.rows] == ["0.00", "0.00", "14.00"]


def test_the_coarse_lock_makes_the_networks_own_cpu_part_wait():
    charge = contention.own_cpu_limit(10)
    begin_s = time.perf_counter()
    for _ in range(4):
        charge(2**19)

    assert time.perf_counter() - begin_s > 0.14  # 1.5 MB at 10 MB/s, and the last on credit


def test_one_core_is_too_few_and_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr(contention, "usable_cores", lambda: [0])

    with pytest.raises(ValueError, match="two cores"):
        contention.steps(config())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"workloads": ["nb301"]}, "workloads="),
        ({"limits": [0.0]}, "limits="),
        ({"iterations": 0}, "iterations=0"),
    ],
)
@pytest.mark.usefixtures("two_cores")
def test_a_bad_value_is_named(changes, named):
    with pytest.raises(ValueError, match=named):
        contention.steps(config(**changes))
