"""`python -m nas.measure` on this machine: real networks, real files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from known_devices import few_known_devices

import nas.measure.command
import nas.search.command
from edgenas_core.files.keyed_table import read_csv_table
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.kind import Kind
from latency.measuring.journal import read
from latency.sources.table import AutoLatencyConfig, TableLatencyConfig
from latency.sources.transfer import choose_calibration
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

QUICK = (
    "board=here",
    "dataset=imagenet16",
    "networks=4",
    "repeats=1",
    "timing.samples=3",
    "timing.settle_s=0.01",
    "on_disturbance=flag",
    "tolerance=20000",  # a test machine is not quiet; this is no measurement
)


def command(folder, *overrides):
    last_of_each = {text.split("=")[0]: text for text in (*QUICK, *overrides)}.values()
    return [sys.executable, "-m", "nas.measure", f"out={folder}", *last_of_each]


@pytest.fixture
def here(in_process, monkeypatch):
    """Runs a command in this process, which it may pin."""
    cores = os.sched_getaffinity(0)
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # the command sets it; what was there comes back
    yield in_process
    os.sched_setaffinity(0, cores)


@pytest.fixture
def run(here, tmp_path):
    """Measures into the test's folder, in this process."""
    return lambda *overrides: here(nas.measure.command.main, command(tmp_path, *overrides)[2:])


@pytest.fixture
def few_devices():
    with few_known_devices():
        yield


def test_this_machine_is_measured_into_a_table_with_its_origin(run, tmp_path):
    status, stdout, stderr = run()

    assert status == 0, stderr
    assert "by tolerance=20000" in " ".join(stdout.split())
    table = read_csv_table(tmp_path / "here-torch-fp32-b1_ms.csv", SPACE)
    assert table.columns == ("here/torch/fp32/b1",)
    measured = table.values[0][~np.isnan(table.values[0])]
    assert len(measured) == 4
    assert (measured > 0).all()
    origin = json.loads((tmp_path / "here-torch-fp32-b1_ms.json").read_text())
    assert origin["networks_measured"] == 4
    assert origin["statistic"] == "median"
    assert "4 of the 6,466" in origin["chosen"]
    assert 0 <= origin["control_largest_drift"] < 1000
    assert origin["versions"]["torch"]
    assert origin["settings"]["timing"]["samples"] == 3


@pytest.mark.slow  # a line cut off by a kill and a measurement that goes on are tested in this process, too
def test_a_killed_measurement_goes_on_and_measures_nothing_twice(run, tmp_path):
    journal = tmp_path / "here-torch-fp32-b1.journal.csv"
    one_by_one = command(tmp_path)
    process = subprocess.Popen(one_by_one, stdout=subprocess.DEVNULL)
    while not (journal.exists() and len(read(journal)) >= 2):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = [row["arch"] for row in read(journal)]

    status, _, stderr = run()

    assert status == 0, stderr
    after = [row["arch"] for row in read(journal)]
    assert after[: len(before)] == before
    assert len(after) == 5
    assert after[0] == after[4]  # the repeat


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("device=cuda",), "no CUDA device"),
        (("runtime=graph",), "device=cpu"),
        (("core=4096",), "core=4096 is not one of"),
        (("together=4",), "together= is gone"),
        (("backend=graph",), "backend= is now runtime="),
        (("timing.samples=0",), "timing.samples=0"),
        (("threads=2", "core=4095"), "core=4095 is not one of"),
        (("runtime=onnxruntime", "precision=bf16"), "int8, not bf16"),
        (("precision=int8",), "precision=int8"),
        (("runtime=onnxruntime", "device=cuda"), "no CUDAExecutionProvider"),
        (("batch_size=0",), "batch_size=0"),
        (("board=???",), "board is not set"),
        (("board=null",), "board is not set"),
        (("probes=2", "networks=null"), "probes=2"),
        (("probes=9999", "networks=null"), "probes=9999: 9999 "),
        (("probes=10",), "probes=10"),
        (("statistic=mean",), "median"),
        (("scenario=sm16",), "take device=cuda"),
        (("scenario=sm16", "device=cuda", "runtime=onnxruntime"), "scenario=sm16"),
    ],
)
def test_what_cannot_be_measured_is_one_line(run, overrides, expected):
    status, stdout, stderr = run(*overrides)

    assert status == 2, stdout
    (line,) = stderr.splitlines()
    assert line.startswith("edgenas: ")
    assert expected in line


def test_times_of_another_data_set_are_not_mixed_in(run):
    assert run("networks=1", "repeats=0")[0] == 0

    status, _, stderr = run("networks=2", "repeats=0", "dataset=cifar100")

    assert status == 2
    assert "dataset=imagenet16, not cifar100" in stderr


def test_more_networks_can_be_measured_later(run, tmp_path):
    assert run("networks=1", "repeats=0")[0] == 0

    assert run("networks=3", "repeats=0")[0] == 0

    assert len(read(tmp_path / "here-torch-fp32-b1.journal.csv")) == 3


def test_after_its_minutes_a_measurement_ends_with_a_table_and_can_go_on(run, tmp_path):
    journal = tmp_path / "here-torch-fp32-b1.journal.csv"

    status, stdout, stderr = run("minutes=1e-9")

    assert status == 0, stderr
    assert "minutes=1e-09" in stdout
    assert len(read(journal)) == 1
    assert json.loads((tmp_path / "here-torch-fp32-b1_ms.json").read_text())["measurements"] == 1
    assert run()[0] == 0
    assert len(read(journal)) == 5


def spinner(folder):
    """A hog that needs neither a large array nor long to start."""
    path = folder / "spinner.yaml"
    path.write_text("hogs: [spin]")
    return f"scenario={path}"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_what_a_hog_took_is_told_by_a_command_that_measures_nothing_more(run, tmp_path):
    origin = tmp_path / "here-torch-fp32-b1-hog-spin_ms.json"
    words = (spinner(tmp_path), "networks=1", "repeats=0")
    assert run(*words)[0] == 0
    (taken,) = json.loads(origin.read_text())["taken_by_each_beside_gb_per_s"]
    os.sched_setaffinity(0, range(os.cpu_count() or 1))

    status, stdout, stderr = run(*words)

    assert status == 0, stderr
    assert "0 to go" in stdout
    assert taken > 0
    assert json.loads(origin.read_text())["taken_by_each_beside_gb_per_s"] == [taken]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_a_hog_that_dies_is_one_line_and_what_was_measured_is_kept(run, tmp_path, monkeypatch):
    append = nas.measure.command.append

    def append_and_kill_the_hog(path, measured):
        append(path, measured)
        for child in psutil.Process().children():
            if child.name().startswith("hog"):
                child.kill()
                psutil.wait_procs([child], timeout=120)

    monkeypatch.setattr("nas.measure.command.append", append_and_kill_the_hog)

    scenario = spinner(tmp_path)

    status, _, stderr = run(scenario)

    assert status == 2
    (line,) = stderr.splitlines()
    assert scenario in line
    assert "same command" in line
    assert len(read(tmp_path / "here-torch-fp32-b1-hog-spin.journal.csv")) == 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_a_scenario_is_the_same_under_another_name_and_its_id_is_printed_as_it_is(run, tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).with_suffix(".yaml").write_text(
            "hogs: [spin]\nisolation: fine_lock\nlimit_mb_per_s: 100\n"
        )
    one = ("networks=1", "repeats=0")
    assert run(f"scenario={tmp_path / 'here.yaml'}", *one)[0] == 0
    os.sched_setaffinity(0, range(os.cpu_count() or 1))

    status, stdout, stderr = run(f"scenario={tmp_path / 'there.yaml'}", *one)

    assert status == 0, stderr
    # a name between colons would be a picture to rich
    assert "here/torch/fp32/b1|hog:spin+fine_lock+limit:100: 1 measurements" in stdout
    assert "0 to go" in stdout


def test_onnx_runtime_is_measured_by_its_name(run, tmp_path):
    status, _, stderr = run("runtime=onnxruntime", "networks=1", "repeats=0")

    assert status == 0, stderr
    table = read_csv_table(tmp_path / "here-onnxruntime-fp32-b1_ms.csv", SPACE)
    assert table.columns == ("here/onnxruntime/fp32/b1",)
    assert np.isfinite(table.values).sum() == 1


def test_the_tail_goes_into_a_table_of_its_own_and_is_read_as_what_it_is(
    run, tmp_path, monkeypatch
):
    assert run()[0] == 0
    status, stdout, stderr = run("statistic=p95")

    assert status == 0, stderr
    assert "0 to go" in stdout
    tail = read_csv_table(tmp_path / "here-torch-fp32-b1-p95_ms.csv", SPACE)
    median = read_csv_table(tmp_path / "here-torch-fp32-b1_ms.csv", SPACE)
    assert tail.columns == ("here/torch/fp32/b1@p95",)
    assert np.nansum(tail.values - median.values) > 0
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    oracle = TableLatencyConfig(statistic=Statistic.p95).build(
        "here/torch/fp32/b1", SPACE, TASKS["imagenet16"]
    )
    assert oracle.device == "here/torch/fp32/b1@p95"
    assert np.nansum(oracle.ms) == pytest.approx(np.nansum(tail.values))


@pytest.mark.usefixtures("few_devices")
def test_a_few_probes_are_measured_and_no_prediction_passes_for_a_measurement(
    run, tmp_path, monkeypatch
):
    status, stdout, stderr = run("networks=null", "probes=3", "repeats=0", "transfer=true")

    assert status == 0, stderr
    assert "3 measurements of 3 networks" in stdout
    assert not list(tmp_path.glob("*_ms.*"))
    path = tmp_path / "here-torch-fp32-b1-transferred.csv"
    name = "here/torch/fp32/b1"
    table = read_csv_table(path, SPACE)
    assert table.columns == (name, f"{name}@predicted", f"{name}@low", f"{name}@high")
    probes = np.flatnonzero(np.isfinite(table.column(name)))
    assert probes.tolist() == sorted(choose_calibration(SPACE, 3).tolist())
    origin = json.loads(path.with_suffix(".json").read_text())
    assert len(origin["probes"]) == origin["measured"]["networks_measured"] == 3
    assert origin["measured"]["versions"]["torch"]
    tables = tmp_path / "tables"
    tables.mkdir()
    path.rename(tables / path.name)
    monkeypatch.setenv("NAS_DATA", str(tables))
    oracle = AutoLatencyConfig().build(name, SPACE, TASKS["imagenet16"])
    assert (oracle.kind == Kind.transfer).sum() == NAS_BENCH_201.size - 3
    assert "nas.transfer" in oracle.description


def test_a_known_device_is_not_predicted_from_itself_and_nothing_is_measured_for_it(run, tmp_path):
    known = "board=xeon-emerald-rapids"

    status, stdout, stderr = run("networks=null", "probes=3", "transfer=true", known)

    assert status == 2, stdout
    assert "board=my-board" in stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_tail_that_was_measured_here_limits_a_search(here, run, tmp_path, monkeypatch):
    measured, _, stderr = run("networks=50", "repeats=0", "statistic=p95")
    assert measured == 0, stderr
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    tail_ms = np.nanmedian(read_csv_table(tmp_path / "here-torch-fp32-b1-p95_ms.csv", SPACE).values)

    status, stdout, stderr = here(
        nas.search.command.main,
        [
            *("nas.search", "device=here/torch/fp32/b1", "latency.statistic=p95"),
            *(f"T={tail_ms:.3f}ms", "reward=mnasnet", "budget=20", f"out={tmp_path / 'runs'}"),
        ],
    )

    assert status == 0, stderr
    expected = " ".join(stdout.split())
    assert "here/torch/fp32/b1@p95" in expected
    assert re.search("50 measured .*15,575 predicted", expected)


def test_what_was_disturbed_is_measured_again(run):
    disturbed, _, stderr = run("tolerance=0", "networks=2", "repeats=0")
    again, stdout, _ = run("networks=2", "repeats=0")

    assert disturbed == 2
    assert "under load" in stderr
    assert again == 0
    assert "2 to go" in stdout
