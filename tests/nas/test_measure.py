"""Measuring, on a clock that the test turns and on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from nas.accuracy.base import Dataset
from nas.csv_tables import read_csv_table
from nas.errors import UserError
from nas.measure import CONTROL, MeasureConfig, OnDisturbance, measure, plan
from nas.measurements import append, judged, latency_of_space, mend, read, repeat_differences
from nas.search_space import NAS_BENCH_201
from runtime.backend import Backend, Device, Precision
from runtime.quiet import QuietConfig, Watch
from runtime.timing import Statistic, Stopwatch, TimingConfig


def config(**changes):
    settings = {
        "board": "board",
        "device": Device.cpu,
        "backend": Backend.torch,
        "dataset": Dataset.cifar100,
        "batch_size": 1,
        "core": 0,
        "shard": "1/1",
        "networks": 6,
        "repeats": 2,
        "together": 4,
        "statistic": Statistic.median,
        "on_disturbance": OnDisturbance.stop,
        "seed": 0,
        "out": "unused",
        "timing": TimingConfig(4, 2, 2, 0.05, 10, settle_s=0.01),
    }
    return MeasureConfig(**{**settings, **changes})


class Machine:
    """Network number n takes n microseconds, times the slowdown, of a clock that runs on demand."""

    def __init__(self):
        self.now_ns = 0
        self.slowdown = 1.0

    def inference(self, index):
        def run():
            self.now_ns += round(1000 * index * self.slowdown)

        return run

    @property
    def stopwatch(self):
        return Stopwatch(clock_ns=lambda: self.now_ns)

    @property
    def watch(self):
        return Watch(QuietConfig(), [])


def test_the_control_is_the_cell_of_3x3_convolutions():
    assert NAS_BENCH_201.operations(NAS_BENCH_201.architectures[CONTROL]) == ("nor_conv_3x3",) * 6


def test_the_id_of_a_device_says_its_precision():
    assert config().device_id == "board/torch/fp32/b1"
    assert config(precision=Precision.bf16).device_id == "board/torch/bf16/b1"
    assert config(backend=Backend.onnxruntime).device_id == "board/onnxruntime/fp32/b1"
    assert config(threads=4).device_id == "board/torch-t4/fp32/b1"


def test_parts_share_out_the_plan_and_repeat_what_another_has_measured():
    whole = plan(config(networks=29, repeats=11)).tolist()
    parts = [plan(config(networks=29, repeats=11, shard=f"{n}/4")).tolist() for n in (1, 2, 3, 4)]

    assert sorted(index for part in parts for index in part) == sorted(whole)
    assert all(len(set(part)) == len(part) for part in parts)


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b"])
def test_a_part_that_there_is_not_is_refused(shard):
    with pytest.raises(UserError, match="is not a part like"):
        plan(config(shard=shard))


def test_every_network_is_measured_once_and_some_are_repeated():
    order = plan(config(networks=None, repeats=20))

    assert len(order) == 6466 + 20
    assert len(set(NAS_BENCH_201.network_class[order])) == 6466
    assert order[-20:].tolist() == order[:20].tolist()


@pytest.mark.parametrize("changes", [{"networks": 0}, {"networks": 6467}, {"repeats": 7}])
def test_a_number_of_networks_that_there_is_not_is_refused(changes):
    with pytest.raises(UserError, match="is not between"):
        plan(config(**changes))


def test_each_network_gets_its_own_time_and_the_control_of_its_group():
    machine = Machine()

    groups = list(
        measure([5, 7, 9], config(together=2), machine.inference, machine.stopwatch, machine.watch)
    )

    assert [len(group) for group in groups] == [2, 1]
    for measured in (m for group in groups for m in group):
        assert measured.samples.ms.tolist() == [measured.index / 1000] * 4
        assert measured.control_ms == CONTROL / 1000
        assert measured.disturbances == ()


def disturbed(machine, groups):
    yield next(groups)
    machine.slowdown = 1.2
    yield from groups


def test_a_machine_that_is_not_quiet_stops_the_measurement_after_what_was_measured():
    machine = Machine()
    seen = []
    groups = measure(
        [5, 7, 9], config(together=1), machine.inference, machine.stopwatch, machine.watch
    )

    with pytest.raises(UserError, match=r"not quiet.*\+20.0%.*on_disturbance=flag"):
        seen.extend(disturbed(machine, groups))

    assert [measured.index for (measured,) in seen] == [5]


def test_a_flagged_measurement_leaves_its_cell_empty(tmp_path):
    machine, journal = Machine(), tmp_path / "journal.csv"
    flagging = config(together=1, on_disturbance=OnDisturbance.flag)
    groups = measure([0, 11, 284], flagging, machine.inference, machine.stopwatch, machine.watch)

    for group in disturbed(machine, groups):
        append(journal, group)

    latency_ms = latency_of_space(judged(read(journal), 0.05), Statistic.median)
    assert np.isnan(latency_ms[[11, 284]]).all()
    assert latency_ms[0] == 0.0


def test_a_network_measured_while_the_control_was_slow_is_left_out_though_it_came_first(tmp_path):
    machine, journal = Machine(), tmp_path / "journal.csv"
    machine.slowdown = 1.3
    flagging = config(together=1, on_disturbance=OnDisturbance.flag)
    for group in measure([5, 7], flagging, machine.inference, machine.stopwatch, machine.watch):
        append(journal, group)
        machine.slowdown = 1.0

    first, second = judged(read(journal), 0.05)

    assert "+30.0%" in first["disturbances"]
    assert second["disturbances"] == ""


def test_the_time_of_a_cell_is_not_that_of_another_which_is_the_same_network(tmp_path):
    machine, journal = Machine(), tmp_path / "journal.csv"
    (pair,) = np.flatnonzero(np.bincount(NAS_BENCH_201.network_class) == 2)[:1]
    (group,) = measure([int(pair)], config(), machine.inference, machine.stopwatch, machine.watch)
    append(journal, group)

    latency_ms = latency_of_space(read(journal), Statistic.median)

    assert latency_ms[pair] == pair / 1000
    assert np.isnan(latency_ms).sum() == NAS_BENCH_201.size - 1


def test_the_noise_is_the_difference_of_repeats(tmp_path):
    machine, journal = Machine(), tmp_path / "journal.csv"
    for slowdown in (1.0, 1.03):
        machine.slowdown = slowdown
        for group in measure([500], config(), machine.inference, machine.stopwatch, machine.watch):
            append(journal, group)

    differences = repeat_differences(read(journal), Statistic.median)

    assert differences.tolist() == pytest.approx([0.03])


def test_a_line_cut_off_by_a_kill_is_dropped_and_the_journal_goes_on(tmp_path):
    machine, journal = Machine(), tmp_path / "journal.csv"
    (group,) = measure([5, 7], config(), machine.inference, machine.stopwatch, machine.watch)
    append(journal, group)
    journal.write_bytes(journal.read_bytes()[:-5])

    mend(journal)
    append(journal, group[1:])

    assert [row["index"] for row in read(journal)] == ["5", "7"]


def run(folder, *overrides):
    return subprocess.run(
        [sys.executable, "-m", "nas.measure", f"out={folder}", *_last_of_each(*QUICK, *overrides)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _last_of_each(*overrides):
    return {text.split("=")[0]: text for text in overrides}.values()


QUICK = (
    "board=here",
    "dataset=imagenet16",
    "networks=4",
    "repeats=1",
    "together=1",
    "timing.samples=3",
    "timing.warm_up_window=1",
    "timing.warm_up_most=2",
    "timing.settle_s=0.01",
    "on_disturbance=flag",
    "quiet.control_drift=1000",  # a test machine is not quiet; this is no measurement
    "quiet.other_load=1000",
    "quiet.stolen=1000",
    "quiet.clock_drop=1",
)


def test_this_machine_is_measured_into_a_table_with_its_origin(tmp_path):
    finished = run(tmp_path)

    assert finished.returncode == 0, finished.stderr
    table = read_csv_table(tmp_path / "here-torch-fp32-b1_ms.csv")
    assert table.columns == ("here/torch/fp32/b1",)
    measured = table.values[0][~np.isnan(table.values[0])]
    assert len(measured) >= 4
    assert (measured > 0).all()
    origin = json.loads((tmp_path / "here-torch-fp32-b1_ms.json").read_text())
    assert origin["networks_measured"] == 4
    assert origin["statistic"] == "median"
    assert origin["versions"]["torch"]
    assert origin["settings"]["timing"]["samples"] == 3


def test_a_killed_measurement_goes_on_and_measures_nothing_twice(tmp_path):
    journal = tmp_path / "here-torch-fp32-b1.journal.csv"
    process = subprocess.Popen(
        [sys.executable, "-m", "nas.measure", f"out={tmp_path}", *QUICK], stdout=subprocess.DEVNULL
    )
    while not (journal.exists() and len(read(journal)) >= 2):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = [row["index"] for row in read(journal)]

    finished = run(tmp_path)

    assert finished.returncode == 0, finished.stderr
    after = [row["index"] for row in read(journal)]
    assert after[: len(before)] == before
    assert len(after) == 5
    assert after[0] == after[4]  # the repeat


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("device=cuda",), "no CUDA device"),
        (("backend=graph",), "device=cpu"),
        (("core=4096",), "core=4096 is not one of"),
        (("networks=0",), "networks=0"),
        (("together=0",), "together=0 must be at least 1"),
        (("timing.samples=0",), "timing.samples=0 must be at least 1"),
        (("shard=3/2",), "shard=3/2 is not a part"),
        (("threads=2", "core=4095"), "core=4095 is not one of"),
        (("backend=onnxruntime", "precision=bf16"), "computes in fp32, not bf16"),
        (("backend=onnxruntime", "device=cuda"), "no CUDAExecutionProvider"),
        (("batch_size=0",), "batch_size=0 must be at least 1"),
        (("board=???",), "board is not set"),
        (("statistic=mean",), "median"),
    ],
)
def test_what_cannot_be_measured_is_one_line(tmp_path, overrides, said):
    finished = run(tmp_path, *overrides)

    assert finished.returncode == 2, finished.stdout
    (line,) = finished.stderr.splitlines()
    assert line.startswith("edgenas: ")
    assert said in line


def test_times_of_another_data_set_are_not_mixed_in(tmp_path):
    assert run(tmp_path, "networks=1", "repeats=0").returncode == 0

    refused = run(tmp_path, "networks=2", "repeats=0", "dataset=cifar100")

    assert refused.returncode == 2
    assert "dataset=imagenet16, not cifar100" in refused.stderr


def test_more_networks_can_be_measured_later(tmp_path):
    assert run(tmp_path, "networks=1", "repeats=0").returncode == 0

    assert run(tmp_path, "networks=3", "repeats=0").returncode == 0

    assert len(read(tmp_path / "here-torch-fp32-b1.journal.csv")) == 3


def test_parts_on_several_cores_become_one_table(tmp_path):
    parts = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "nas.measure", f"out={tmp_path}", *QUICK),
                *("backend=onnxruntime", f"shard={number}/2", "repeats=2"),
            ],
            stdout=subprocess.DEVNULL,
        )
        for number in (1, 2)
    ]

    assert [part.wait(timeout=120) for part in parts] == [0, 0]

    origin = json.loads((tmp_path / "here-onnxruntime-fp32-b1_ms.json").read_text())
    assert (origin["networks_measured"], origin["measurements"]) == (4, 6)
    assert origin["repeats"] == 2
    rows = read(tmp_path / "here-onnxruntime-fp32-b1.part-1-of-2.journal.csv")
    assert len(rows) == 3
    times_ms = [float(ms) for ms in rows[0]["samples_ms"].split()]
    assert len(times_ms) == 3
    assert float(rows[0]["median_ms"]) == pytest.approx(np.median(times_ms), abs=1e-5)


def test_the_tail_goes_into_a_table_of_its_own_and_a_search_takes_it(tmp_path):
    assert run(tmp_path).returncode == 0
    finished = run(tmp_path, "statistic=p95")

    assert finished.returncode == 0, finished.stderr
    assert "0 to go" in finished.stdout
    tail = read_csv_table(tmp_path / "here-torch-fp32-b1-p95_ms.csv")
    median = read_csv_table(tmp_path / "here-torch-fp32-b1_ms.csv")
    assert tail.columns == ("here/torch/fp32/b1@p95",)
    assert np.nansum(tail.values - median.values) > 0


def test_what_was_disturbed_is_measured_again(tmp_path):
    disturbed = run(tmp_path, "quiet.other_load=-1", "networks=2", "repeats=0")
    again = run(tmp_path, "networks=2", "repeats=0")

    assert disturbed.returncode == 2
    assert "was disturbed" in disturbed.stderr
    assert again.returncode == 0, again.stderr
    assert "2 to go" in again.stdout
