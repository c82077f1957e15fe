"""Where latencies come from, and what is said of them."""

import csv
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgenas_core.files import keyed_table
from edgenas_core.files.time_unit import TimeUnit
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import UnmeasuredError
from latency.devices.bundled import bundled_paths
from latency.models.regression import embedded_models
from latency.sources.table import (
    AutoLatencyConfig,
    RegressionLatencyConfig,
    TableLatencyConfig,
)
from nas.data.listing import known_devices
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS, TASKS

JETSON = "jetson-nano/fp32/b1"
ARCHITECTURES = NAS_BENCH_201.rows
LAW_MS = 2 + (OPERATIONS.index("nor_conv_3x3") == ARCHITECTURES).sum(axis=1) * 3.0


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("NAS_DATA", str(data))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _name: str(tmp_path / "cache"))
    return data


def write_column(folder, column, values_ms, indices, name="own.csv"):
    write_columns(folder, {column: dict(zip(indices, values_ms[indices], strict=True))}, name)


def write_columns(folder, columns, name="own.csv"):
    """Milliseconds by number, of each column; what a column lacks is an empty field."""
    rows = sorted({index for values_ms in columns.values() for index in values_ms})
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["arch", *columns])
        for index in rows:
            fields = [values_ms.get(index, "") for values_ms in columns.values()]
            writer.writerow([NAS_BENCH_201.strings[index], *fields])


def test_a_table_answers_with_what_the_file_holds(folder):
    write_column(folder, "my-board", LAW_MS, range(15_625))

    oracle = TableLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])

    assert np.array_equal(oracle.answer(ARCHITECTURES).ms, LAW_MS)
    assert not oracle.look_up(ARCHITECTURES).is_predicted.any()
    assert (oracle.device, oracle.source) == ("my-board", "table")
    assert "15,625 measured" in oracle.description


def test_each_csv_is_opened_once_and_the_device_s_own_once_more_until_it_is_cached(
    folder, monkeypatch
):
    write_column(folder, "my-board", LAW_MS, range(15_625), "chosen.csv")
    for other in ("a", "b"):
        write_column(folder, other, LAW_MS, range(100), f"{other}.csv")
    opens = Counter()
    open_path = Path.open

    def counted(path, *arguments, **named):
        opens[path.name] += path.suffix == ".csv"
        return open_path(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", counted)
    table = TableLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])
    first = +opens
    keyed_table._read_first_lines.cache_clear()  # as another process starts
    opens.clear()
    again = TableLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])

    assert np.array_equal(table.ms, again.ms)
    assert first == {"chosen.csv": 2, "a.csv": 1, "b.csv": 1}
    assert +opens == {"chosen.csv": 1, "a.csv": 1, "b.csv": 1}


def test_an_id_and_its_column_name_the_same_device(folder):
    write_column(folder, "latbench-embedded-gpu-jetson-nano-fp32", LAW_MS, range(100))

    by_id = TableLatencyConfig().build(JETSON, SPACE, TASKS["cifar100"])
    by_column = TableLatencyConfig().build(
        "latbench-embedded-gpu-jetson-nano-fp32", SPACE, TASKS["cifar100"]
    )

    assert by_id.device == by_column.device == JETSON
    assert np.array_equal(by_id.ms, by_column.ms, equal_nan=True)


def test_an_architecture_that_was_not_measured_is_an_error_until_predictions_are_asked_for(folder):
    write_column(folder, "my-board", LAW_MS, range(1_000))

    strict = TableLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])
    filled = AutoLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])

    assert "14,625 not measured" in strict.description
    with pytest.raises(UnmeasuredError, match="my-board"):
        strict.answer(ARCHITECTURES[1_000])
    assert np.array_equal(filled.answer(ARCHITECTURES[:1_000]).ms, LAW_MS[:1_000])
    assert filled.answer(ARCHITECTURES).ms == pytest.approx(LAW_MS, abs=0.5)
    assert np.array_equal(filled.look_up(ARCHITECTURES).is_predicted, np.arange(15_625) >= 1_000)
    assert "14,625 predicted" in filled.description


@pytest.mark.parametrize("column", [JETSON, "latbench-embedded-gpu-jetson-nano-fp32"])
@pytest.mark.parametrize("source", [AutoLatencyConfig, RegressionLatencyConfig])
def test_own_times_of_a_known_device_are_completed_by_a_model_of_themselves(folder, column, source):
    write_column(folder, column, 20 + 10 * LAW_MS, range(0, 15_625, 130))

    table = source().build(JETSON, SPACE, TASKS["cifar100"])

    ratio = table.answer(ARCHITECTURES).ms / (20 + 10 * LAW_MS)
    assert np.median(np.abs(ratio - 1)) < 0.1
    assert table.device == JETSON
    assert "own.csv" in table.description
    assert "15,284" not in table.description


@pytest.mark.parametrize("source", [AutoLatencyConfig, RegressionLatencyConfig])
def test_few_own_times_of_a_known_device_are_not_completed_by_another_board(folder, source):
    write_column(folder, JETSON, LAW_MS, range(49))

    with pytest.raises(UserError, match=r"own\.csv.* 49 .*50"):
        source().build(JETSON, SPACE, TASKS["cifar100"])


def test_the_times_that_an_embedded_model_was_fitted_on_are_completed_by_it(folder):
    embedded = RegressionLatencyConfig().build(JETSON, SPACE, TASKS["cifar100"])
    noise = np.random.default_rng(0).normal(0, 0.02, len(ARCHITECTURES))
    count = embedded_models(SPACE)[JETSON].measured_count
    write_column(folder, JETSON, embedded.ms * np.exp(noise), range(count))

    table = AutoLatencyConfig().build(JETSON, SPACE, TASKS["cifar100"])

    assert np.array_equal(table.answer(ARCHITECTURES[count:]).ms, embedded.ms[count:])
    assert "LatBench" in table.description


def test_without_any_file_auto_predicts_and_says_so():
    oracle = AutoLatencyConfig().build(JETSON, SPACE, TASKS["cifar100"])

    assert oracle.source == "regression"
    assert oracle.look_up(ARCHITECTURES).is_predicted.all()
    assert "every latency" in oracle.description
    assert "held-out R2" in oracle.description
    assert re.search("341 .*extrapolated", oracle.description)


@pytest.mark.parametrize("device", embedded_models(SPACE))
def test_every_prediction_of_every_embedded_model_is_positive(device):
    oracle = RegressionLatencyConfig().build(device, SPACE, TASKS["cifar10"])

    assert (oracle.ms > 0).all()
    assert oracle.instant


def test_regression_fits_a_device_that_has_no_embedded_model(folder):
    write_column(folder, "my-board", LAW_MS, range(2_000))

    oracle = RegressionLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])

    assert oracle.look_up(ARCHITECTURES).is_predicted.all()
    assert oracle.answer(ARCHITECTURES).ms == pytest.approx(LAW_MS, abs=0.5)
    assert "fitted now on 2,000" in oracle.description


def test_cells_with_unneeded_operations_are_no_faster_than_as_timed_where_none_was_timed(folder):
    canonical = np.unique(SPACE.numbers(SPACE.canonical(ARCHITECTURES)))[::20]
    write_column(folder, "my-board", LAW_MS, canonical)

    oracle = AutoLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])

    as_timed = oracle.ms[SPACE.numbers(SPACE.canonical(ARCHITECTURES))]
    is_predicted = oracle.look_up(SPACE.canonical(ARCHITECTURES)).is_predicted
    assert is_predicted.sum() > 10_000
    assert (oracle.ms >= as_timed - 1e-9)[is_predicted].all()
    assert oracle.uncertainty.spread is not None


def test_regression_refuses_to_guess_from_a_handful_of_architectures(folder):
    write_column(folder, "my-board", LAW_MS, range(49))

    with pytest.raises(UserError, match=r"49 .*50.*networks=100"):
        AutoLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])


def test_a_file_that_is_not_read_is_a_warning_though_the_device_is_known(folder):
    (folder / "nano.csv").write_text("network,jetson-nano/fp32/b1\na,1\n")

    for source in (AutoLatencyConfig, RegressionLatencyConfig):
        (warning,) = source().build(JETSON, SPACE, TASKS["cifar100"]).warnings
        assert "nano.csv" in warning


def test_seconds_are_read_as_such(folder):
    write_column(folder, "board_s", LAW_MS / 1000, range(100))
    write_column(folder, "other", LAW_MS / 1000, range(100), "other.csv")

    for oracle in (
        TableLatencyConfig().build("board_s", SPACE, TASKS["cifar100"]),
        TableLatencyConfig(unit=TimeUnit.s).build("other", SPACE, TASKS["cifar100"]),
    ):
        assert oracle.answer(ARCHITECTURES[:100]).ms == pytest.approx(LAW_MS[:100])
    with pytest.raises(UserError, match=r"other\.csv.*latency\.unit="):
        TableLatencyConfig().build("other", SPACE, TASKS["cifar100"])


def test_an_unknown_device_is_answered_with_the_nearest_names(folder):
    write_column(folder, "my-board", LAW_MS, range(3))

    with pytest.raises(UserError, match=r"jetson-nano/fp32/b1.*list"):
        AutoLatencyConfig().build("jetson-nano", SPACE, TASKS["cifar10"])
    with pytest.raises(UserError, match="my-board"):
        AutoLatencyConfig().build("my-bord", SPACE, TASKS["cifar10"])


@pytest.mark.parametrize("part", ["", ".part-1-of-2"])
def test_the_journal_of_a_measurement_is_no_table_and_the_way_on_is_named(folder, part):
    journal = folder / f"mine-torch-fp32-b1{part}.journal.csv"
    journal.write_text(f"arch,median_ms\n{NAS_BENCH_201.strings[7]},1.0\n")

    with pytest.raises(UserError, match=rf"{journal.name} .*nas\.measure.* out={folder}"):
        AutoLatencyConfig().build("mine/torch/fp32/b1", SPACE, TASKS["cifar10"])


def test_a_table_that_is_not_there_is_answered_with_the_way_out():
    with pytest.raises(UserError, match=r"latency=auto"):
        TableLatencyConfig().build(JETSON, SPACE, TASKS["cifar10"])


@pytest.mark.parametrize("wrong_ms", [0.0, -1.5])
def test_a_latency_that_is_not_positive_is_named(folder, wrong_ms):
    values_ms = LAW_MS.copy()
    values_ms[7] = wrong_ms
    write_column(folder, "my-board", values_ms, range(100))

    with pytest.raises(UserError) as error:
        AutoLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])

    for part in ("own.csv", "my-board", NAS_BENCH_201.strings[7], f"{wrong_ms:g} ms"):
        assert part in str(error.value)


H200 = "h200/torch-graph/fp32/b1"


def test_our_own_table_is_found_on_a_bare_machine():
    oracle = AutoLatencyConfig().build(H200, SPACE, TASKS["cifar100"])

    assert (oracle.device, oracle.source) == (H200, "table")
    assert not oracle.look_up(ARCHITECTURES).is_predicted.any()
    assert "edgenas's own measurements" in oracle.description
    assert "15,625 measured" in oracle.description


@pytest.mark.parametrize("device", bundled_paths(SPACE))
def test_what_our_own_tables_lack_is_predicted_and_marked(device):
    strict = TableLatencyConfig().build(device, SPACE, TASKS["cifar100"])
    filled = AutoLatencyConfig().build(device, SPACE, TASKS["cifar100"])

    lacking = ~strict.known(ARCHITECTURES)
    assert np.array_equal(filled.look_up(ARCHITECTURES).is_predicted, lacking)
    assert (filled.ms > 0).all()
    by = "by the slowdown of" if "|" in device else "predicted by regression"
    assert (by in filled.description) == lacking.any()


@pytest.mark.parametrize("column", [H200, "edgenas-h200-torch-graph-fp32-b1"])
def test_a_file_of_the_user_comes_before_our_own_table(folder, column):
    write_column(folder, column, LAW_MS, range(100))

    oracle = TableLatencyConfig().build(H200, SPACE, TASKS["cifar100"])

    assert "100 measured" in oracle.description
    assert np.array_equal(oracle.answer(ARCHITECTURES[:100]).ms, LAW_MS[:100])


def test_a_tail_of_our_own_tables_is_another_device_and_longer():
    device = "xeon-emerald-rapids/onnxruntime/fp32/b1"
    median = AutoLatencyConfig().build(device, SPACE, TASKS["cifar100"])
    tail = AutoLatencyConfig(Statistic.p95).build(device, SPACE, TASKS["cifar100"])

    measured = median.kind == Kind.measured
    assert tail.device == f"{device}@p95"
    assert (tail.ms[measured] >= median.ms[measured]).all()
    assert np.array_equal(tail.kind, median.kind)


def test_near_zero_latencies_are_kept_and_counted(folder):
    connected = NAS_BENCH_201.live_edges(ARCHITECTURES).any(axis=1)
    write_column(folder, "my-board", np.where(connected, LAW_MS, 0.02), range(15_625))

    oracle = TableLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])

    assert oracle.ms.min() == 0.02
    assert "341 of them are" in oracle.description


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (TASKS["cifar100"], None),
        (TASKS["cifar10"], "measured for cifar100"),
        (TASKS["imagenet16"], "32 pixels wide, not 16"),
    ],
)
def test_another_data_set_than_the_measured_one_is_said(dataset, expected):
    description = AutoLatencyConfig().build(JETSON, SPACE, dataset).description

    assert ("measured for" in description) == (expected is not None)
    assert expected is None or expected in description


def test_every_device_has_a_row_with_what_a_search_can_use_now(folder):
    write_column(folder, "help-fpga", LAW_MS, range(10))

    rows = {row.device.id: row for row in known_devices(SPACE)}

    assert rows["fpga/b1"].sources == ("table", "regression")
    assert rows["fpga/b1"].measured_count == 10
    assert rows[JETSON].sources == ("regression",)
    assert rows[JETSON].measured_count is None
    assert rows[JETSON].quality.r2 > 0.95
    assert rows["pixel-2/b1"].flaws[-1] == "whole milliseconds"
    assert rows[H200].sources == ("table",)
    assert rows[H200].measured_count == 15_625


def test_a_column_that_cannot_be_used_is_listed_with_the_reason(folder):
    write_column(folder, "my-board", np.zeros(15_625), range(10))

    row = known_devices(SPACE)[-1]

    assert (row.device.id, row.sources, row.quality) == ("my-board", (), None)
    assert "0 ms" in row.flaws[0]


@pytest.mark.data
def test_the_default_device_is_measured_but_for_341_architectures(nas_data, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(nas_data))

    oracle = AutoLatencyConfig().build(JETSON, SPACE, TASKS["cifar100"])

    without_path = ~NAS_BENCH_201.live_edges(ARCHITECTURES).any(axis=1)
    assert np.array_equal(oracle.look_up(ARCHITECTURES).is_predicted, without_path)
    assert re.search("15,284 measured .*341 predicted", oracle.description)


@pytest.mark.data
def test_every_published_column_is_registered_and_usable(nas_data, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(nas_data))

    rows = [
        row
        for row in known_devices(SPACE)
        if row.measured_count is not None and row.device.id not in bundled_paths(SPACE)
    ]

    assert len(rows) == 40
    assert all(row.sources == ("table", "regression") for row in rows)


class TestInAScenario:
    """Columns of `my-board` and of `my-board|hog:memory`, where slow cells suffer more."""

    SCENARIO = "my-board|hog:memory"
    SLOW_MS = 1.2 * LAW_MS**1.1

    def write(self, folder, scenario_ms, cells):
        scenario = {index: scenario_ms[index] for index in cells}
        alone = dict(enumerate(LAW_MS))
        write_columns(folder, {"my-board": alone, self.SCENARIO: scenario})

    @pytest.fixture
    def both(self, folder):
        cells = list(range(0, 15_625, 40))
        self.write(folder, self.SLOW_MS, cells)
        return cells

    def test_the_rest_is_predicted_from_the_latency_alone(self, both):
        oracle = AutoLatencyConfig().build(self.SCENARIO, SPACE, TASKS["cifar10"])

        assert oracle.answer(ARCHITECTURES).ms == pytest.approx(self.SLOW_MS, rel=0.02)
        assert np.flatnonzero(~oracle.look_up(ARCHITECTURES).is_predicted).tolist() == both
        assert "15,234 predicted" in oracle.description
        assert oracle.device == self.SCENARIO

    def test_a_table_alone_says_nothing_of_architectures_that_were_not_timed(self, both):
        oracle = TableLatencyConfig().build(self.SCENARIO, SPACE, TASKS["cifar10"])

        assert oracle.known(ARCHITECTURES).sum() == len(both)

    def test_a_handful_of_architectures_is_refused(self, folder):
        self.write(folder, self.SLOW_MS, range(5))

        with pytest.raises(UserError, match=r"5 .* in common.*20"):
            AutoLatencyConfig().build(self.SCENARIO, SPACE, TASKS["cifar10"])

    def _oracle(self, folder, scenario_ms, cells):
        self.write(folder, scenario_ms, cells)
        return AutoLatencyConfig().build(self.SCENARIO, SPACE, TASKS["cifar10"])

    def test_one_factor_is_taken_where_it_errs_less_on_held_out_architectures(self, folder):
        rng = np.random.default_rng(3)
        outliers = np.where(rng.random(15_625) < 0.3, 4.0, 1.0)  # which no cell foretells

        oracle = self._oracle(folder, 1.3 * LAW_MS * outliers, range(0, 15_625, 300))

        predicted = oracle.look_up(ARCHITECTURES).is_predicted
        ratio = (oracle.answer(ARCHITECTURES).ms / LAW_MS)[predicted]
        assert ratio == pytest.approx(1.3)
        assert "errs by 0.0%" in oracle.description
        assert "ridge regression by" in oracle.description
        assert oracle.warnings == ()

    def test_where_both_err_by_more_than_a_tenth_a_warning_says_so(self, folder):
        noise = np.exp(np.random.default_rng(3).normal(0, 0.6, 15_625))

        oracle = self._oracle(folder, LAW_MS * noise, range(0, 15_625, 300))

        (warning,) = oracle.warnings
        assert "median error of" in warning

    def test_what_was_measured_in_a_scenario_only_asks_for_the_table_alone(self, folder):
        write_column(folder, self.SCENARIO, LAW_MS, range(100))

        with pytest.raises(UserError, match=r"my-board .*scenarios"):
            AutoLatencyConfig().build(self.SCENARIO, SPACE, TASKS["cifar10"])
        with pytest.raises(UserError, match="without scenario="):
            AutoLatencyConfig().build("my-board", SPACE, TASKS["cifar10"])

    def test_a_tail_that_is_in_no_table_names_the_step_that_makes_one(self, both):
        assert both
        with pytest.raises(UserError, match=r"nas.measure` .*statistic=p99"):
            AutoLatencyConfig(Statistic.p99).build("my-board", SPACE, TASKS["cifar10"])
