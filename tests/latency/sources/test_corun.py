"""`latency=corun`: tables measured in a scenario, scenarios between measured ones, live times."""

import csv
import json
import os
import shutil

import numpy as np
import pytest

import nas.search.command
from common.types.errors import UserError
from latency.base import LiveOracle
from latency.measuring.here import timed_here
from latency.sources.corun import CorunLatencyConfig
from latency.sources.table import AutoLatencyConfig
from nas.data.listing import known_devices
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS, TASKS
from runtime.machine.timing import Statistic
from runtime.network.backend import Device

BOARD = "my-board/onnxruntime/fp32/b1"
HOG = f"{BOARD}|hog:memory"
ARCHITECTURES = NAS_BENCH_201.rows
SOLO_MS = 2 + (OPERATIONS.index("nor_conv_3x3") == ARCHITECTURES).sum(axis=1) * 3.0
HOG_MS = 1.2 * SOLO_MS**1.1
TAKEN_GB_PER_S = 20.0


def write_table(folder, name, columns, indices, taken=None):
    path = folder / f"{name}_ms.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["arch", *columns])
        for i in indices:
            writer.writerow([NAS_BENCH_201.strings[i], *(values[i] for values in columns.values())])
    if taken is not None:
        path.with_suffix(".json").write_text(json.dumps({"taken_by_each_beside_gb_per_s": [taken]}))


@pytest.fixture(scope="module")
def shared_tables(tmp_path_factory):
    """A folder of tables with the board alone and beside an unlimited hog; read only."""
    data = tmp_path_factory.mktemp("tables")
    write_table(data, "alone", {BOARD: SOLO_MS}, range(15_625))
    write_table(data, "hog", {HOG: HOG_MS}, range(0, 15_625, 40), TAKEN_GB_PER_S)
    return data


@pytest.fixture(autouse=True)
def tables(shared_tables, monkeypatch):
    """The data folder of each test."""
    monkeypatch.setenv("NAS_DATA", str(shared_tables))


@pytest.fixture
def folder(shared_tables, tables, tmp_path, monkeypatch):  # noqa: ARG001 - `tables` sets another first
    """A copy of the data folder, to write to."""
    data = shutil.copytree(shared_tables, tmp_path / "data")
    monkeypatch.setenv("NAS_DATA", str(data))
    return data


def test_a_measured_scenario_is_a_table_and_its_holes_are_predicted():
    oracle = CorunLatencyConfig("hog").build(BOARD, SPACE, TASKS["cifar10"])

    assert (oracle.device, oracle.source) == (HOG, "corun")
    assert oracle.answer(ARCHITECTURES).ms == pytest.approx(HOG_MS, rel=0.02)
    assert (~oracle.look_up(ARCHITECTURES).is_predicted).sum() == 391
    assert "391 measured" in oracle.description
    assert 0 < oracle.uncertainty.margin(0.95) < 0.05


@pytest.mark.parametrize(
    ("config", "device", "complaint"),
    [
        (CorunLatencyConfig("beside_nb201"), BOARD, r"beside:nb201.*hog:memory"),
        (CorunLatencyConfig(None), BOARD, "scenario=hog"),
        (CorunLatencyConfig("hogs"), BOARD, "did you mean hog"),
        (CorunLatencyConfig("hog"), HOG, "device=my-board.*hog"),
        (CorunLatencyConfig("hog", confirm_top=-1), BOARD, "confirm_top=-1"),
        (CorunLatencyConfig("hog"), f"{BOARD}@p99", "@p99"),
    ],
)
def test_what_cannot_be_is_one_line(config, device, complaint):
    with pytest.raises(UserError, match=complaint):
        config.build(device, SPACE, TASKS["cifar10"])


def test_a_device_that_does_not_say_how_it_runs_cannot_be_timed_here(folder):
    write_table(folder, "short", {"board|hog:memory": HOG_MS, "board": SOLO_MS}, range(15_625))

    with pytest.raises(UserError, match="device=board"):
        CorunLatencyConfig("hog", confirm_top=2).build("board", SPACE, TASKS["cifar10"])


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_the_best_are_timed_here_beside_the_hog():
    before = os.sched_getaffinity(0)
    oracle = CorunLatencyConfig("hog", confirm_top=1).build(BOARD, SPACE, TASKS["cifar10"])
    assert isinstance(oracle, LiveOracle)
    smallest = ARCHITECTURES[np.flatnonzero((ARCHITECTURES == 0).all(1))]

    try:
        times_ms = [float(ms) for _ in range(2) for ms in oracle.measure_again(smallest).ms]
    finally:
        os.sched_setaffinity(0, before)

    assert len(times_ms) == 2
    assert all(0 < ms < 1000 for ms in times_ms)
    assert "the best 1 are" in oracle.description


def test_a_scenario_that_was_not_measured_is_answered_with_those_that_were():
    with pytest.raises(UserError, match=r"hog:memroy .*hog:gpu_memory,"):
        AutoLatencyConfig().build("h200/torch-graph/fp32/b1|hog:memroy", SPACE, TASKS["cifar10"])
    with pytest.raises(UserError, match=r"xeon.*none"):
        AutoLatencyConfig().build("xeon-emerald-rapids/torch/fp32/b1|x", SPACE, TASKS["cifar10"])


def test_what_was_measured_in_scenarios_is_listed():
    listed = {row.device.id: row.measured_count for row in known_devices(SPACE)}

    assert listed["h200/torch-graph/fp32/b1|sm:16"] == 300
    assert listed[HOG] == 391


def test_the_tail_is_found_by_its_id_and_by_the_statistic_alike():
    by_id, by_setting = (
        config.build(f"h200/torch-graph/fp32/b1|sm:16{tail}", SPACE, TASKS["cifar10"])
        for config, tail in (
            (AutoLatencyConfig(), "@p99"),
            (AutoLatencyConfig(Statistic.p99), ""),
        )
    )

    assert by_id.device == by_setting.device == "h200/torch-graph/fp32/b1|sm:16@p99"
    assert (by_id.ms == by_setting.ms).all()
    with pytest.raises(UserError, match=r"p99, .*latency\.statistic=p95"):
        AutoLatencyConfig(Statistic.p95).build(f"{HOG}@p99", SPACE, TASKS["cifar10"])


def test_a_gpu_that_is_not_asked_for_is_told_in_the_words_of_a_search():
    with pytest.raises(UserError, match=r"latency\.here=cpu: scenario=sm16 .*GPU"):
        timed_here(BOARD, "sm16", SPACE, TASKS["cifar10"], Device.cpu)


def test_a_damaged_table_is_named_and_not_taken_for_none(folder):
    write_table(folder, "hog", {HOG: -HOG_MS}, range(100))

    with pytest.raises(UserError, match="a latency is positive"):
        CorunLatencyConfig("hog").build(BOARD, SPACE, TASKS["cifar10"])


def searched(in_process, tmp_path, *words):
    """What was printed, and the summary of a search of three samples in the hog."""
    status, stdout, stderr = in_process(
        nas.search.command.main,
        [
            "nas.search",
            *(f"device={BOARD}", "latency=corun", "scenario=hog", "controller=uniform"),
            *("budget=3", f"runs={tmp_path / 'runs'}", *words),
        ],
    )
    assert status == 0, stderr
    (written,) = (tmp_path / "runs").glob("**/summary.json")
    return stdout + stderr, json.loads(written.read_text())


def test_a_search_warns_of_a_scenario_that_is_hardly_known(in_process, tmp_path, folder):
    noise = np.exp(np.random.default_rng(3).normal(0, 0.6, 15_625))
    write_table(folder, "hog", {HOG: SOLO_MS * noise}, range(0, 15_625, 300))

    printed, _ = searched(in_process, tmp_path, "T=17ms")

    (warning,) = [one for one in printed.splitlines() if one.startswith("warning: latencies")]
    assert "median error of" in warning
    (told,) = {one for one in printed.splitlines() if "latency table: " in one}
    assert "held-out" in told


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_where_no_time_is_confirmed_a_search_ends_as_where_no_sample_meets_t(
    in_process, tmp_path, folder
):
    write_table(folder, "alone", {BOARD: SOLO_MS / 1e4}, range(15_625))  # faster than any machine
    write_table(folder, "hog", {HOG: HOG_MS / 1e4}, range(0, 15_625, 40), TAKEN_GB_PER_S)
    before = os.sched_getaffinity(0)

    try:
        told = searched(
            in_process, tmp_path / "a", "T=1us", "latency.confirm_top=3", "reward=constrained"
        )
    finally:
        os.sched_setaffinity(0, before)
    one_alone_ms = np.where(np.arange(15_625) == 0, 1e-6, HOG_MS / 1e4)
    write_table(folder, "hog", {HOG: one_alone_ms}, range(0, 15_625, 40), TAKEN_GB_PER_S)
    never = searched(in_process, tmp_path / "b", "T=2e-6ms", "reward=constrained")

    for printed, summary in (told, never):
        assert summary["best"] is None
        (line,) = [one for one in printed.splitlines() if one.startswith("No network wins: ")]
        assert "no trial" in line
    assert {one["within_T"] for one in told[1]["confirmation"]} == {False}
    assert never[1]["confirmation"] is None
