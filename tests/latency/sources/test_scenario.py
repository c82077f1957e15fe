"""`scenario=`: tables measured in a scenario, scenarios between measured ones, live times."""

import csv
import json
import shutil

import pytest

from edgenas_core.machine.timing import Statistic
from edgenas_core.types.errors import UserError
from latency.sources.table import AutoLatencyConfig
from latency.sources.transfer import TransferLatencyConfig
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS, TASKS

BOARD = "my-board/onnxruntime/fp32/b1"
HOG = f"{BOARD}|hog:memory"
ARCHITECTURES = NAS_BENCH_201.rows
SOLO_MS = 2 + (OPERATIONS.index("nor_conv_3x3") == ARCHITECTURES).sum(axis=1) * 3.0
HOG_MS = 1.2 * SOLO_MS**1.1
TAKEN_GB_PER_S = 20.0


def in_scenario(scenario, device=BOARD):
    """The latencies of a device in a scenario."""
    config = AutoLatencyConfig()
    named = config.in_scenario(device, scenario, SPACE)
    return config.build(named, SPACE, TASKS["cifar10"])


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
    oracle = in_scenario("hog")

    assert (oracle.device, oracle.source) == (HOG, "table")
    assert oracle.answer(ARCHITECTURES).ms == pytest.approx(HOG_MS, rel=0.02)
    assert (~oracle.look_up(ARCHITECTURES).is_predicted).sum() == 391
    assert "391 measured" in oracle.description
    assert 0 < oracle.uncertainty.margin(0.95) < 0.05


@pytest.mark.parametrize(
    ("scenario", "device", "complaint"),
    [
        ("beside_nb201", BOARD, r"beside:nb201.*hog:memory"),
        ("hogs", BOARD, "did you mean hog"),
        ("hog", HOG, "device=my-board.*hog"),
        ("hog", f"{BOARD}@p99", "@p99"),
    ],
)
def test_what_cannot_be_is_one_line(scenario, device, complaint):
    with pytest.raises(UserError, match=complaint):
        in_scenario(scenario, device)


def test_a_source_without_scenarios_names_one_that_has_them():
    with pytest.raises(UserError, match=r"scenario=hog .*latency=auto"):
        TransferLatencyConfig("probes.csv").in_scenario(BOARD, "hog", SPACE)


def test_a_scenario_that_was_not_measured_is_answered_with_those_that_were():
    with pytest.raises(UserError, match=r"hog:memroy .*hog:gpu_memory,"):
        AutoLatencyConfig().build("h200/torch-graph/fp32/b1|hog:memroy", SPACE, TASKS["cifar10"])
    with pytest.raises(UserError, match=r"xeon.*none"):
        AutoLatencyConfig().build("xeon-emerald-rapids/torch/fp32/b1|x", SPACE, TASKS["cifar10"])


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


def test_a_damaged_table_is_named_and_not_taken_for_none(folder):
    write_table(folder, "hog", {HOG: -HOG_MS}, range(100))

    with pytest.raises(UserError, match=r"hog_ms\.csv: every latency of my-board"):
        in_scenario("hog")
