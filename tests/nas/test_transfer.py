"""From a file of calibration networks to a table, by the real commands."""

import csv
import json
import subprocess

import numpy as np
import pytest
from known_devices import KNOWN, few_known_devices

import nas.search.command
import nas.transfer
from edgenas_core.files.keyed_table import latency_files, read_csv_table
from edgenas_core.files.time_unit import TimeUnit
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.types.errors import UserError
from latency.devices.registry import registered
from latency.models.calibration import Calibration, read_calibration, write_calibration
from latency.models.regression import judge
from latency.models.transferred import write_transferred
from latency.sources.table import AutoLatencyConfig, TableLatencyConfig
from latency.sources.transfer import (
    TransferLatencyConfig,
    choose_calibration,
    known_latency,
    transfer_from,
)
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

ARCHITECTURES = NAS_BENCH_201.rows
STRINGS = NAS_BENCH_201.strings
DEVICES = 46


@pytest.fixture(autouse=True)
def bare_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _name: str(tmp_path / "cache"))


@pytest.fixture(scope="module", autouse=True)
def nothing_is_known_from_before(tmp_path_factory):
    """What is known is kept in a process; other tests of it may have had tables."""
    with few_known_devices():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NAS_DATA", str(tmp_path_factory.mktemp("bare")))
            known_latency(SPACE)
        yield


@pytest.fixture(scope="module")
def board_ms(nothing_is_known_from_before):  # noqa: ARG001 - before it
    """A synthetic board: a known one, with 3 % noise and at another level."""
    known = known_latency(SPACE)
    noise = np.random.default_rng(0).normal(0, 0.03, len(STRINGS))
    return 2.5 * np.exp(known.log_ms[2] + noise)


def sheet(path, rows, names=("arch", "latency_ms")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


@pytest.fixture(scope="module")
def ten():
    return choose_calibration(SPACE, 10)


@pytest.fixture(scope="module")
def predicted_board(ten, board_ms):
    return transfer_from(SPACE, "my-board", Calibration(ten, board_ms[ten]))


@pytest.fixture
def filled(tmp_path, board_ms, ten):
    indices = ten.tolist()
    return sheet(tmp_path / "sheets" / "probes.csv", [(STRINGS[i], board_ms[i]) for i in indices])


@pytest.fixture(autouse=True)
def sheets(tmp_path):
    (tmp_path / "sheets").mkdir()


@pytest.fixture
def transfer(in_process):
    """Runs the command in this process, which knows the devices already."""

    def call(*arguments):
        words = ["nas.transfer", *map(str, arguments)]
        return subprocess.CompletedProcess(words, *in_process(nas.transfer.main, words))

    return call


def test_every_device_is_known_on_a_bare_machine(monkeypatch):
    monkeypatch.setattr("latency.sources.transfer.registered", registered)

    known = known_latency.__wrapped__(SPACE)

    assert known.log_ms.shape == (DEVICES, len(STRINGS))
    assert np.isfinite(known.log_ms).all()


def test_probes_are_distinct_architectures_with_a_path(ten):
    assert len(np.unique(ten)) == 10
    assert NAS_BENCH_201.live_edges(ARCHITECTURES[ten]).any(axis=1).all()


def test_the_commands_lead_from_no_table_to_a_table(transfer, tmp_path, board_ms):
    probes, table = tmp_path / "sheets" / "probes.csv", tmp_path / "my-board_ms.csv"

    named = transfer("choose=10", f"out={probes}")
    assert named.returncode == 0, named.stderr
    rows = list(csv.DictReader(probes.read_text(encoding="utf-8").splitlines()))
    assert [row["latency_ms"] for row in rows] == [""] * 10
    indices = [STRINGS.index(row["arch"]) for row in rows]
    sheet(probes, [(STRINGS[i], board_ms[i]) for i in indices])
    predicted = transfer(f"probes={probes}", f"out={table}")

    assert predicted.returncode == 0, predicted.stderr
    assert "10 calibration networks" in predicted.stdout
    columns = read_csv_table(table, SPACE)
    assert columns.columns == (
        "my-board",
        "my-board@predicted",
        "my-board@low",
        "my-board@high",
    )
    assert np.flatnonzero(np.isfinite(columns.column("my-board"))).tolist() == sorted(indices)
    quality = judge(columns.column("my-board@predicted"), board_ms)
    assert quality.spearman > 0.95
    assert quality.within_10_percent > 0.65
    origin = json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))
    assert origin["device"] == "my-board"
    assert len(origin["probes"]) == 10
    assert 0 <= origin["held_out"]["within_10_percent"] <= 1
    assert origin["known_devices"] == len(KNOWN)


def test_a_predicted_table_never_passes_as_measured(tmp_path, predicted_board):
    probes = predicted_board.calibration
    write_transferred(tmp_path / "any name.csv", predicted_board)

    assert tuple(latency_files(tmp_path, SPACE)) == ("my-board",)
    strict = TableLatencyConfig().build("my-board", SPACE, TASKS["cifar100"])
    auto = AutoLatencyConfig().build("my-board", SPACE, TASKS["cifar100"])
    assert np.flatnonzero(strict.known(ARCHITECTURES)).tolist() == sorted(probes.index.tolist())
    assert np.array_equal(auto.look_up(ARCHITECTURES).is_predicted, ~strict.known(ARCHITECTURES))
    assert auto.answer(ARCHITECTURES).ms == pytest.approx(predicted_board.latency_ms, abs=1e-6)
    assert "15,615 predicted" in auto.description


def test_the_oracle_measures_nothing_but_the_probes(filled):
    oracle = TransferLatencyConfig(str(filled)).build("my-board", SPACE, TASKS["cifar100"])

    probes = read_calibration(filled, SPACE)
    expected = np.ones(len(STRINGS), bool)
    expected[probes.index] = False
    assert (oracle.device, oracle.source) == ("my-board", "transfer")
    assert np.array_equal(oracle.look_up(ARCHITECTURES).is_predicted, expected)
    assert np.array_equal(oracle.answer(ARCHITECTURES[probes.index]).ms, probes.latency_ms)


def test_a_search_on_a_new_device_marks_what_it_was_told(in_process, tmp_path, filled):
    words = [
        *("nas.search", "device=my-board", "latency=transfer"),
        *(f"latency.probes={filled}", "T=1s", "budget=30", f"out={tmp_path / 'runs'}"),
    ]

    status, told, error = in_process(nas.search.command.main, words)

    assert status == 0, error
    summary = json.loads(next((tmp_path / "runs").rglob("summary.json")).read_text("utf-8"))
    assert summary["latency_source"] == "transfer"
    assert "predicted" in told


def test_a_device_like_no_other_is_said(ten, predicted_board):
    times_ms = np.exp(np.random.default_rng(5).normal(2, 1, 10))

    odd = transfer_from(SPACE, "odd-board", Calibration(ten, times_ms))

    assert odd.quality.is_unlike
    assert not predicted_board.quality.is_unlike
    assert odd.quality.comparison.startswith("warning: ")


def test_a_sheet_that_may_hold_times_is_not_overwritten(filled):
    before = filled.read_bytes()

    with pytest.raises(UserError, match="out="):
        write_calibration(filled, SPACE, SPACE.architectures(np.arange(3)))

    assert filled.read_bytes() == before


def test_another_table_is_not_overwritten_but_its_own_is(tmp_path, predicted_board):
    other = sheet(tmp_path / "other.csv", [(STRINGS[0], 1.0)], ("arch", "other-board"))

    with pytest.raises(UserError, match=r"my-board.*out="):
        write_transferred(other, predicted_board)
    write_transferred(tmp_path / "own.csv", predicted_board)
    write_transferred(tmp_path / "own.csv", predicted_board)


@pytest.mark.parametrize("name", ["nb201_mine.csv", "table.txt"])
def test_a_table_is_named_as_one_that_holds_predictions(tmp_path, predicted_board, name):
    with pytest.raises(UserError, match=r"name a file \*\.csv"):
        write_transferred(tmp_path / name, predicted_board)


def test_a_known_device_is_not_predicted_from_itself(filled):
    with pytest.raises(UserError, match=r"device=my-board"):
        transfer_from(SPACE, "raspberry-pi-4/b1", read_calibration(filled, SPACE))


A, B, C, D = STRINGS[:4]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(A, 1), (B, 2)], "2 calibration networks"),
        ([(A, 1), (B, 2), (C, 3), ("|huh~0|", 4)], r"line 5: architecture '\|huh~0\|'"),
        ([(A, 1), (B, 2), (C.replace("~0", "~7"), 3)], "line 4: architecture"),
        ([(A, 1), (B, 2), (C, -3)], "line 4: .* is -3"),
        ([(A, 1), (B, 2), (C, 0)], r"is 0\.0 ms;"),
        ([(A, 1), (B, 2), (C, "nan")], "no latency_ms"),
        ([(A, 1), (B, 2), (C, "inf")], "is inf ms;"),
        ([(A, 1), (B, 2), (C, "3 ms")], "'3 ms'"),
        ([(A, 1), (B, 2), (C, "")], "line 4: .* no latency_ms"),
        ([(A, 1), (B, 2), (C,)], "line 4 has 1"),
        ([(A, 1), (B, 2), (C, 3), (A, 4)], "line 5: .* 4 ms .* 1 ms"),
        ([(A, 5), (B, 5), (C, 5)], "took 5 ms"),
    ],
)
def test_a_sheet_that_cannot_be_used_is_one_line(tmp_path, rows, expected):
    with pytest.raises(UserError, match=expected) as error:
        read_calibration(sheet(tmp_path / "probes.csv", rows), SPACE)

    assert "\n" not in str(error.value)


def test_times_in_seconds_are_read_as_such_or_refused_until_their_unit_is_said(tmp_path):
    rows = [(A, 0.01), (B, 0.02), (C, 0.03)]
    stated = sheet(tmp_path / "stated.csv", rows, ("arch", "latency_s"))
    wrong = sheet(tmp_path / "wrong.csv", rows)

    assert read_calibration(stated, SPACE).latency_ms.tolist() == [10, 20, 30]
    with pytest.raises(UserError, match=r"wrong\.csv.*latency\.unit="):
        read_calibration(wrong, SPACE)
    assert read_calibration(wrong, SPACE, TimeUnit.s).latency_ms.tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([(A, 1), (B, 2), (A, "1.0"), (C, 3)], ("arch", "latency_ms")),
        ([("x", 1, A), ("y", 2, B), ("z", 3, C)], ("note", "latency_ms", "arch")),
    ],
)
def test_equal_times_are_one_probe_and_other_columns_are_passed_over(tmp_path, rows, names):
    path = sheet(tmp_path / "probes.csv", rows, names)

    assert read_calibration(path, SPACE).latency_ms.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "no such table"),
        (b"arch,ms\n", "arch and latency_ms"),
        (b"arch,latency_ms,arch\n", "each once"),
        (b"arch,latency_ms,device\nx,1,a\ny,2,b\n", "several devices"),
        (b"\xff\xfe\x00", "no such table"),
        (b'arch,latency_ms\n"x,1\n', "no such table"),
    ],
)
def test_a_file_that_is_no_sheet_is_named(tmp_path, content, expected):
    path = tmp_path / "probes.csv"
    path.write_bytes(content)

    with pytest.raises(UserError, match=expected):
        read_calibration(path, SPACE)


def test_the_chosen_networks_are_exported_for_a_board_without_ssh(transfer, tmp_path, monkeypatch):
    folder = tmp_path / "new" / "to-time"
    monkeypatch.setattr("nas.transfer.choose_networks", lambda _space, count: ARCHITECTURES[:count])

    done = transfer("choose=3", f"export={folder}", "dataset=cifar10")

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "01.onnx", "02.onnx", "03.onnx", "probes.csv"
    ]  # fmt: skip
    outputs = OnnxSession(folder / "03.onnx")(np.zeros((1, 3, 32, 32), np.float32))
    assert outputs.shape == (1, 10)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["out=x.csv"], "choose=10"),
        (["choose=10"], "out is not set"),
        ([], "probes=<file>"),
        (["probes=x.csv", "export=y"], "out is not set"),
        (["probes=x.csv", "export=y", "out=x.csv"], "export=y is for choose="),
        (["choose=10", "out=nowhere/x.csv"], "out=nowhere/x.csv"),
        (["choose=2", "out=x.csv"], "choose=2"),
        (["choose=9999", "out=x.csv"], "choose=9999: 9999 "),
        (["probes=nowhere.csv", "out=x.csv"], "cannot read nowhere.csv"),
        (["choose=ten", "out=x.csv"], "ten"),
        (["choose=10", "out=x.csv", "space=toy_space"], "space=toy_space"),
    ],
)
def test_a_command_that_cannot_work_is_one_line_and_status_2(
    transfer, tmp_path, monkeypatch, arguments, expected
):
    monkeypatch.chdir(tmp_path)

    done = transfer(*arguments)

    assert done.returncode == 2
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.data
def test_ten_probes_of_a_device_of_help_meet_the_published_correlation(nas_data, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(nas_data))
    from benchmarks import transfer as benchmark  # noqa: PLC0415 - needs the data

    known = benchmark.training_tables()
    probes = known.choose(10)
    truths = [benchmark.measured(column) for column in benchmark.TEST]
    qualities = [judge(known.transfer(probes, t[probes]).latency_ms, t) for t in truths]

    assert np.mean([quality.spearman for quality in qualities]) >= 0.96
    assert np.mean([quality.within_10_percent for quality in qualities]) >= 0.74
