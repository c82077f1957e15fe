"""`python -m nas.search` as a user meets it: real processes, real files."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from nas.csv_writer import write_csv_table
from nas.samples import read_journal, read_parquet
from nas.search_space import NAS_BENCH_201

ON_TABLES = ("device=synthetic-board", "T=11ms")


def command(runs, *overrides):
    return [sys.executable, "-m", "nas.search", *overrides, f"runs={runs}"]


def resume(folder, *overrides, data):
    environment = {k: v for k, v in os.environ.items() if k != "NAS_DATA"}
    if data is not None:
        environment["NAS_DATA"] = str(data)
    return subprocess.run(
        [sys.executable, "-m", "nas.search", f"resume={folder}", *overrides],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def search(runs, *overrides, data=None, **options):
    environment = {k: v for k, v in os.environ.items() if k != "NAS_DATA"}
    if data is not None:
        environment["NAS_DATA"] = str(data)
    return subprocess.run(
        command(runs, *overrides),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )


def events_of(folder):
    events = EventAccumulator(str(folder / "tensorboard"), {"images": 0, "scalars": 0})
    return events.Reload()


def only_run(runs):
    (folder,) = runs.glob("*/*")
    return folder


def one_line(finished):
    """The error a user sees, after checking that it is one line and nothing else."""
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "Traceback" not in finished.stdout + finished.stderr
    lines = finished.stderr.splitlines()
    assert len(lines) == 1, finished.stderr
    assert lines[0].startswith("edgenas: ")
    return lines[0]


def test_a_search_on_our_own_measurements_needs_no_file(tmp_path):
    finished = search(
        tmp_path, "device=h200/torch-graph/fp32/b1", "T=0.6ms", "reward=constrained", "budget=60"
    )

    assert finished.returncode == 0, finished.stderr
    assert "table" in finished.stdout
    assert "15,625 measured cells" in " ".join(finished.stdout.split())


XEON = "xeon-emerald-rapids/onnxruntime/fp32/b1"


def test_a_search_limits_the_tail_of_our_own_measurements(tmp_path):
    finished = search(
        tmp_path, f"device={XEON}", "latency.statistic=p95", "T=1ms", "budget=60", "reward=mnasnet"
    )

    assert finished.returncode == 0, finished.stderr
    said = " ".join(finished.stdout.split())
    assert f"{XEON}@p95" in said
    assert "6,338 measured cells" in said
    assert "9,287 predicted by regression" in said


def test_a_search_on_measurements_only_is_refused_where_some_are_missing(tmp_path):
    finished = search(
        tmp_path, f"device={XEON}", "latency=table", "T=1ms", "budget=60", "reward=mnasnet"
    )

    line = one_line(finished)
    assert f"9,287 of the 15,625 architectures were not measured on {XEON}" in line
    assert "latency=auto, predicts them and marks them" in line


class TestOnABareMachine:
    """No data anywhere: the embedded surrogate and the embedded regression."""

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, tmp_path_factory):
        runs = tmp_path_factory.mktemp("runs")
        done = search(runs, "reward=proposed", "T=17ms", "budget=400")
        assert done.returncode == 0, done.stderr
        return done, only_run(runs)

    def test_the_first_and_the_last_line_name_the_sources_as_predictions(self, finished):
        lines = finished[0].stdout.splitlines()

        for line in (lines[0], lines[-1]):
            assert "surrogate" in line
            assert "regression" in line
            assert "predicted" in line

    def test_the_folder_is_named_after_the_run_and_holds_its_files(self, finished):
        folder = finished[1]

        assert folder.name.endswith("-proposed-jetson-nano-fp32-b1-T17ms")
        assert {path.name for path in folder.iterdir()} == {
            "config.yaml",
            "environment.json",
            "samples.parquet",
            "summary.json",
            "checkpoint.npz",
            "report.html",
            "figures",
            "tensorboard",
        }
        for name in ("heatmap", "curves", "scatter"):
            assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")

    def test_the_summary_has_the_documented_fields_and_agrees_with_the_samples(self, finished):
        summary = json.loads((finished[1] / "summary.json").read_text())
        samples = pq.read_table(finished[1] / "samples.parquet").to_pydict()
        within = [
            (accuracy, arch)
            for accuracy, arch, ms in zip(
                samples["accuracy"], samples["arch"], samples["latency_ms"], strict=True
            )
            if ms <= 17
        ]

        assert summary["best"]["accuracy_valid"] == max(within)[0]
        assert summary["best"]["latency_ms"] <= summary["T_ms"] == 17.0
        assert summary["gap"] == pytest.approx(
            summary["optimum"]["accuracy_valid"] - summary["best"]["accuracy_valid"]
        )
        assert summary["gap"] >= 0
        assert summary["feasible_share"] == pytest.approx(len(within) / 400)
        assert summary["samples"] == 400
        assert summary["accuracy_source"] == "surrogate"
        assert summary["latency_source"] == "regression"
        assert summary["best"]["latency_predicted"] is True
        assert summary["device"] == "jetson-nano/fp32/b1"
        assert summary["dataset"] == "cifar100"
        assert summary["seconds"] > 0
        assert 0 < summary["best"]["accuracy_test"] < 1

    def test_with_the_time_alone_nothing_is_said_of_other_limits(self, finished):
        done, folder = finished

        assert "limits" not in json.loads((folder / "summary.json").read_text())
        assert pq.read_schema(folder / "samples.parquet").names == [
            *("sample", "index", "arch", "accuracy", "accuracy_test", "accuracy_predicted"),
            *("latency_ms", "latency_predicted", "feasible", "reward"),
        ]
        assert "energy" not in done.stdout

    def test_tensorboard_has_the_curves_the_limit_the_figures_and_the_settings(self, finished):
        events = events_of(finished[1])
        tags = events.Tags()

        limit = [event.value for event in events.Scalars("latency_ms/T")]
        assert set(limit) == {17.0}
        for tag in (
            "reward/mean of the last 100",
            "accuracy/mean of the last 100",
            "latency_ms/mean of the last 100",
            "search/feasible share",
            "search/best within T",
            "search/gap to the optimum",
            "search/optimum within T",
            "accuracy/low end of the middle 80 percent",
            "latency_ms/high end of the middle 80 percent",
            "operations 0 to 3/nor_conv_3x3",
            "controller/entropy",
            "controller/baseline",
        ):
            assert events.Scalars(tag)[-1].step == 400, tag
        assert {f"figures/{name}" for name in ("heatmap", "curves", "scatter")} == set(
            tags["images"]
        )
        assert "hparams" in str(events.PluginTagToContent("hparams"))

    def test_tensorboards_layout_names_curves_that_are_there(self, finished):
        events = events_of(finished[1])
        (tensor,) = events.Tensors("custom_scalars__config__")
        layout = Layout.FromString(tensor.tensor_proto.string_val[0])

        tags = set(events.Tags()["scalars"])
        charts = [chart for category in layout.category for chart in category.chart]
        assert len(charts) == 5 + 6
        for chart in charts:
            margins = [
                name
                for series in chart.margin.series
                for name in (series.value, series.lower, series.upper)
            ]
            assert {*chart.multiline.tag, *margins} <= tags, chart.title


def test_a_real_table_is_preferred_and_named(tmp_path, synthetic_tables):
    finished = search(tmp_path, *ON_TABLES, "budget=50", data=synthetic_tables)

    assert finished.returncode == 0, finished.stderr
    assert "nb201_accuracy.csv" in finished.stdout.splitlines()[0]
    summary = json.loads((only_run(tmp_path) / "summary.json").read_text())
    assert (summary["accuracy_source"], summary["latency_source"]) == ("table", "table")
    assert summary["best"]["latency_predicted"] is False


@pytest.mark.parametrize(
    "overrides",
    [
        ("reward=mnasnet_hard", "dataset=cifar10"),
        ("reward=constrained", "dataset=imagenet16", "controller=uniform"),
        ("reward=absolute", "epochs=12", "controller.batch_size=7"),
        ("reward=constrained", "controller=evolution", "controller.population_size=10"),
        ("reward=constrained", "controller=local_search"),
        ("reward=proposed", "controller=exhaustive"),
        ("reward=constrained", "controller=tpe"),
    ],
)
def test_other_choices_run_to_their_end(tmp_path, synthetic_tables, overrides):
    finished = search(tmp_path, *ON_TABLES, "budget=30", *overrides, data=synthetic_tables)

    assert finished.returncode == 0, finished.stderr
    assert json.loads((only_run(tmp_path) / "summary.json").read_text())["samples"] == 30


@pytest.mark.parametrize(("controller", "library"), [("tpe", "optuna"), ("nsga2", "pymoo")])
def test_a_searcher_whose_library_is_missing_says_how_to_get_it(tmp_path, controller, library):
    without = f"import sys; sys.modules[{library!r}] = None; import runpy; sys.argv = sys.argv[1:]"
    finished = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{without}; runpy.run_module('nas.search', run_name='__main__')",
            "nas.search",
            f"controller={controller}",
            f"runs={tmp_path}",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert "pip install 'edgenas[searchers]'" in one_line(finished)
    assert not list(tmp_path.iterdir())


def test_a_sweep_makes_a_run_of_each_combination(tmp_path, synthetic_tables):
    finished = search(
        tmp_path,
        "-m",
        *ON_TABLES,
        "reward=proposed,constrained",
        "seed=0,1",
        "budget=20",
        data=synthetic_tables,
    )

    assert finished.returncode == 0, finished.stderr
    assert len(list(tmp_path.glob("*/*/summary.json"))) == 4


def test_a_sweep_goes_on_after_a_run_that_cannot_be_made_and_says_so_at_the_end(
    tmp_path, synthetic_tables
):
    finished = search(
        tmp_path,
        "-m",
        "device=synthetic-board",
        "T=0.5ms,11ms",
        "budget=20",
        "reward=constrained",
        data=synthetic_tables,
    )

    assert "T=0.5ms cannot be met" in one_line(finished)
    assert len(list(tmp_path.glob("*/*/summary.json"))) == 1


def test_a_folder_of_the_users_that_is_called_conf_is_not_in_the_way(tmp_path, synthetic_tables):
    (tmp_path / "conf").mkdir()

    finished = search(
        tmp_path / "runs", *ON_TABLES, "budget=20", data=synthetic_tables, cwd=tmp_path
    )

    assert finished.returncode == 0, finished.stderr


def test_a_table_with_holes_is_refused_before_the_first_sample(tmp_path, synthetic_tables):
    data = tmp_path / "data"
    data.mkdir()
    row = (synthetic_tables / "nb201_latency_ms.csv").read_text().splitlines()[7]
    damaged(synthetic_tables, data, row, row.rsplit(",", 1)[0] + ",")
    runs = tmp_path / "runs"

    line = one_line(search(runs, *ON_TABLES, "latency=table", data=data))
    filled = search(
        runs, *ON_TABLES, "latency=table", "latency.unmeasured=regression", "budget=20", data=data
    )

    assert row.split(",")[1] in line
    assert "latency.unmeasured=regression" in line
    assert filled.returncode == 0, filled.stderr
    assert "1 predicted by regression" in filled.stdout


def test_help_teaches_the_command(tmp_path):
    finished = search(tmp_path, "--help")

    assert finished.returncode == 0
    for word in ("T=17ms", "device", "mnasnet_hard", "resume=", "controller.lr"):
        assert word in finished.stdout


def wait_until(condition, process):
    """Wait for what a process is to do, but neither for one that has ended nor for ever."""
    end_s = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "the process ended before it could be interrupted"
        assert time.monotonic() < end_s, "the process took a minute"
        time.sleep(0.002)


def interrupted(runs, data, when, *overrides, send=signal.SIGKILL):
    """Start a search, and stop it as soon as `when(folder)` holds."""
    process = subprocess.Popen(
        command(runs, *{text.split("=")[0]: text for text in (*ON_TABLES, *overrides)}.values()),
        env={**os.environ, "NAS_DATA": str(data)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            wait_until(lambda: any(map(when, runs.glob("*/*"))), process)
            process.send_signal(send)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    return only_run(runs), out, err, process.returncode


BUDGET = "budget=5000"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, synthetic_tables):
    runs = tmp_path_factory.mktemp("whole")
    assert search(runs, *ON_TABLES, BUDGET, data=synthetic_tables).returncode == 0
    return only_run(runs)


def samples_of(folder):
    return read_parquet(folder / "samples.parquet")


def evidence(folder):
    """The page, but for where, when and how it was made."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    return page[: page.index('<section aria-labelledby="provenance">')]


def has_sampled(count):
    """Whether the journal holds that many samples, the first line being its header."""

    def when(folder):
        journal = folder / "samples.csv"
        return journal.exists() and journal.read_bytes().count(b"\n") > count

    return when


@pytest.mark.parametrize(
    ("when", "send"),
    [
        pytest.param(has_sampled(0), signal.SIGKILL, id="kill at the start"),
        pytest.param(has_sampled(500), signal.SIGKILL, id="kill early"),
        pytest.param(has_sampled(3000), signal.SIGKILL, id="kill late"),
        pytest.param(
            lambda folder: (folder / "figures").exists(), signal.SIGKILL, id="kill at the end"
        ),
        pytest.param(has_sampled(2000), signal.SIGINT, id="Ctrl-C"),
    ],
)
def test_an_interrupted_run_goes_on_to_the_same_samples_and_page_and_loses_none(
    tmp_path, synthetic_tables, uninterrupted, when, send
):
    folder, out, err, status = interrupted(tmp_path, synthetic_tables, when, BUDGET, send=send)
    sampled = len(read_journal(folder / "samples.csv"))
    if send is signal.SIGINT:
        assert status == 130
        assert err == "edgenas: interrupted\n"
        assert f"resume={folder}" in out

    resumed = resume(folder, data=synthetic_tables)

    assert resumed.returncode == 0, resumed.stderr
    (going_on,) = re.findall(r"going on from sample ([0-9,]+)", resumed.stdout)
    assert sampled - 16 < int(going_on.replace(",", "")) <= sampled  # a batch may be cut off
    samples, whole = samples_of(folder), samples_of(uninterrupted)
    for name in ("architectures", "accuracy", "latency_ms", "rewards"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(whole, name))
    assert evidence(folder) == evidence(uninterrupted)
    assert "nas.search device=synthetic-board T=11ms" in (folder / "report.html").read_text()


def test_a_run_that_is_interrupted_twice_goes_on_to_the_same_samples(
    tmp_path, synthetic_tables, uninterrupted
):
    folder, *_ = interrupted(tmp_path, synthetic_tables, has_sampled(500), BUDGET)
    again = subprocess.Popen(
        [sys.executable, "-m", "nas.search", f"resume={folder}"],
        env={**os.environ, "NAS_DATA": str(synthetic_tables)},
        stdout=subprocess.DEVNULL,
    )
    with again:
        wait_until(lambda: has_sampled(2500)(folder), again)
        again.kill()

    assert resume(folder, data=synthetic_tables).returncode == 0

    np.testing.assert_array_equal(
        samples_of(folder).architectures, samples_of(uninterrupted).architectures
    )
    assert evidence(folder) == evidence(uninterrupted)


def test_a_run_is_not_resumed_with_other_data(tmp_path, synthetic_tables):
    folder, *_ = interrupted(tmp_path, synthetic_tables, has_sampled(100), BUDGET)
    other = tmp_path / "other"
    other.mkdir()
    for name in ("nb201_accuracy.csv", "nb201_latency_ms.csv"):
        (other / name).write_bytes((synthetic_tables / name).read_bytes())
    columns = (other / "nb201_accuracy.csv").read_text().splitlines()
    changed = [columns[0]] + [f"{line.rsplit(',', 6)[0]}{',50.0' * 6}" for line in columns[1:]]
    (other / "nb201_accuracy.csv").write_text("\n".join(changed) + "\n")

    line = one_line(resume(folder, data=other))

    assert "resume it with the data it was begun with" in line


def test_a_run_on_tables_is_not_resumed_with_predictions(tmp_path, synthetic_tables):
    """Tables of a registered device, so that its embedded model could take over unnoticed."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("nb201_accuracy.csv", "nb201_latency_ms.csv"):
        text = (synthetic_tables / name).read_text()
        (data / name).write_text(text.replace("synthetic-board", "help-raspi4", 1))
    runs = tmp_path / "runs"
    folder, *_ = interrupted(runs, data, has_sampled(100), BUDGET, "device=help-raspi4", "T=20ms")

    line = one_line(resume(folder, data=None))

    assert "begun with accuracy=table" in line


def test_a_run_that_another_process_still_writes_is_left_alone(tmp_path, synthetic_tables):
    process = subprocess.Popen(
        command(tmp_path, *ON_TABLES, "budget=100000000"),
        env={**os.environ, "NAS_DATA": str(synthetic_tables)},
        stdout=subprocess.DEVNULL,
    )
    with process:
        try:
            wait_until(lambda: any(map(has_sampled(100), tmp_path.glob("*/*"))), process)
            refused = resume(only_run(tmp_path), data=synthetic_tables)
        finally:
            process.kill()

    assert "is being written by another process" in one_line(refused)
    assert len(read_journal(only_run(tmp_path) / "samples.csv")) > 0


@pytest.mark.parametrize("controller", ["evolution", "local_search", "exhaustive"])
def test_every_searcher_goes_on_to_the_same_samples(tmp_path, synthetic_tables, controller):
    settings = (f"controller={controller}", "controller.batch_size=1", BUDGET)
    whole = search(tmp_path / "whole", *ON_TABLES, *settings, data=synthetic_tables)
    assert whole.returncode == 0, whole.stderr
    folder, *_ = interrupted(
        tmp_path / "cut",
        synthetic_tables,
        lambda folder: (folder / "checkpoint.npz").exists(),
        *settings,
    )

    resumed = resume(folder, data=synthetic_tables)

    assert resumed.returncode == 0, resumed.stderr
    expected = read_parquet(only_run(tmp_path / "whole") / "samples.parquet")
    samples = read_parquet(folder / "samples.parquet")
    for name in ("architectures", "rewards"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(expected, name))


class TestUnderThreeLimits:
    """Time, energy and parameters; the energies are synthetic."""

    LIMITS = (*ON_TABLES, "E=6mJ", "P=900k")

    @pytest.fixture(scope="class")
    @classmethod
    def tables(cls, tmp_path_factory, synthetic_tables):
        data = tmp_path_factory.mktemp("with_energy")
        for path in synthetic_tables.iterdir():
            (data / path.name).symlink_to(path)
        energies_mj = np.random.default_rng(0).uniform(1, 12, NAS_BENCH_201.size)
        write_csv_table(data / "nb201_energy_mj.csv", {"synthetic-board": energies_mj})
        return data

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, tmp_path_factory, tables):
        runs = tmp_path_factory.mktemp("runs")
        done = search(runs, *cls.LIMITS, "reward=constrained", "budget=300", data=tables)
        assert done.returncode == 0, done.stderr
        return done, only_run(runs)

    def test_what_is_found_is_within_all_of_them(self, finished):
        summary = json.loads((finished[1] / "summary.json").read_text())

        for name in ("best", "optimum"):
            assert summary[name]["latency_ms"] <= 11
            assert summary[name]["energy_mj"] <= 6
            assert summary[name]["parameters"] <= 900_000
        assert summary["gap"] >= 0
        assert summary["limits"]["E"]["cost"] == "energy_mj"
        assert summary["limits"]["P"]["limit"] == 900_000
        assert 0 < summary["feasible_share"] < summary["limits"]["E"]["feasible_share"] < 1

    def test_the_samples_have_their_costs(self, finished):
        table = pq.read_table(finished[1] / "samples.parquet")

        within = np.ones(len(table), bool)
        for name, bound in (("latency_ms", 11), ("energy_mj", 6), ("parameters", 900_000)):
            within &= table[name].to_numpy() <= bound
        np.testing.assert_array_equal(table["feasible"].to_numpy(), within)

    def test_they_are_told_before_the_search_and_after_it(self, finished):
        done, folder = finished

        text = " ".join(done.stdout.split())
        assert "T = 11 ms, E = 6 mJ, P = 0.9 M" in text
        assert "of the space is within T, E and P" in text
        assert "best within T, E and P" in text
        assert folder.name.endswith("-T11ms-E6mJ-P0.9M")

    def test_tensorboard_has_their_curves(self, finished):
        events = EventAccumulator(str(finished[1] / "tensorboard"), {"scalars": 0})
        events.Reload()

        assert {event.value for event in events.Scalars("energy_mj/E")} == {6.0}
        assert events.Scalars("parameters/mean of the last 100")[-1].step == 300

    def test_a_run_is_not_resumed_with_other_energies(self, tmp_path, tables):
        data = tmp_path / "data"
        data.mkdir()
        for path in tables.iterdir():
            (data / path.name).write_bytes(path.read_bytes())
        limits = (*self.LIMITS[2:], "reward=mnasnet")
        folder, *_ = interrupted(tmp_path / "runs", data, has_sampled(100), BUDGET, *limits)
        other_mj = np.random.default_rng(1).uniform(1, 12, NAS_BENCH_201.size)
        write_csv_table(data / "nb201_energy_mj.csv", {"synthetic-board": other_mj})

        line = one_line(resume(folder, data=data))

        assert "has reward" in line
        assert "resume it with the data it was begun with" in line

    @pytest.mark.parametrize(
        ("overrides", "hint"),
        [
            (("E=0.1mJ",), "E = 0.1 mJ cannot be met: the least is 1 mJ"),
            (("P=4MB",), "P counts parameters"),
        ],
    )
    def test_a_wrong_one_is_one_line(self, tmp_path, tables, overrides, hint):
        line = one_line(search(tmp_path, *ON_TABLES, *overrides, data=tables))

        assert hint in line
        assert not list(tmp_path.iterdir())


class TestResumeIsRefused:
    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, tmp_path_factory, synthetic_tables):
        runs = tmp_path_factory.mktemp("runs")
        search(runs, *ON_TABLES, "budget=20", data=synthetic_tables)
        return only_run(runs)

    def test_for_a_folder_that_is_no_run(self, tmp_path, synthetic_tables):
        line = one_line(resume(tmp_path, data=synthetic_tables))

        assert "is not the folder of a run" in line

    def test_for_a_run_that_has_finished(self, finished, synthetic_tables):
        assert "has finished already" in one_line(resume(finished, data=synthetic_tables))

    def test_with_other_settings(self, finished, synthetic_tables):
        (finished / "summary.json").unlink()

        line = one_line(resume(finished, "seed=3", data=synthetic_tables))

        assert "leave out seed=3" in line

    def test_with_a_corrupt_checkpoint(self, finished, synthetic_tables):
        (finished / "summary.json").unlink(missing_ok=True)
        (finished / "samples.csv").write_text("index,accuracy,latency_ms,reward\n")
        (finished / "checkpoint.npz").write_bytes(b"PK\x03\x04 not a checkpoint")

        line = one_line(resume(finished, data=synthetic_tables))

        assert "is not a checkpoint" in line


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("T=17",), "write T=17ms"),
        (("T=0.1ms", "reward=constrained"), "cannot be met on synthetic-board"),
        (("T=1ms",), "needs T > 1ms"),
        (("budget=0",), "budget=0 must be at least 1"),
        (("budget=many",), "budget"),
        (("seed=-1",), "seed=-1 must be at least 0"),
        (("device=synthetic-bord",), "synthetic-board"),
        (("reward=best",), "constrained"),
        (("dataset=mnist",), "cifar100"),
        (("controller.lr=-1",), "controller.lr=-1 must be positive"),
        (("controller.batch_size=0",), "controller.batch_size=0 must be at least 1"),
        (("epochs=13",), "13"),
        (("budgt=10",), "budgt"),
        (("+budgt=10",), "neither added nor removed"),
        (("reward.target_ms=5",), "set T="),
        (("reward=absolute", "reward.slope=nan"), "must be negative"),
        (("reward=mnasnet", "reward.exponent_beyond=nan"), "is not finite"),
        (("controller.lr=inf",), "must be positive and finite"),
        (("controller.hidden_size=1000000000",), "between 1 and"),
        (("reward.latency_weight=2",), "between 0 and 1"),
        (("latency=nats",), "latency.archive is not set"),
        (("accuracy=nats",), "accuracy.archive is not set"),
        (("reward=null",), "reward=null: each of these is chosen by its name"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it_and_leaves_no_run(
    tmp_path, synthetic_tables, overrides, said
):
    settings = {text.split("=")[0]: text for text in (*ON_TABLES, *overrides)}

    finished = search(tmp_path, *settings.values(), data=synthetic_tables)

    assert said in one_line(finished)
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.parametrize("lr", ["1e300", "1e38"])
def test_a_policy_that_diverges_is_one_line_that_names_the_setting(tmp_path, synthetic_tables, lr):
    finished = search(tmp_path, *ON_TABLES, f"controller.lr={lr}", data=synthetic_tables)

    assert "lower controller.lr" in one_line(finished)
    assert not list(tmp_path.rglob("summary.json"))


def damaged(tables, folder, old, new, file="nb201_latency_ms.csv"):
    for name in ("nb201_accuracy.csv", "nb201_latency_ms.csv"):
        text = (tables / name).read_text()
        (folder / name).write_text(text.replace(old, new, 1) if name == file else text)
    return folder


@pytest.mark.parametrize("value", ["-1", "0", "nan", "inf", "fast"])
def test_a_latency_that_is_none_is_one_line_that_names_the_file(tmp_path, synthetic_tables, value):
    data = tmp_path / "data"
    data.mkdir()
    text = (synthetic_tables / "nb201_latency_ms.csv").read_text()
    row = text.splitlines()[1]
    damaged(synthetic_tables, data, row, row.rsplit(",", 1)[0] + "," + value)

    line = one_line(search(tmp_path / "runs", *ON_TABLES, data=data))

    assert "nb201_latency_ms.csv" in line


@pytest.mark.parametrize("keep", [10_001, 10_000.5])
def test_a_truncated_table_is_one_line_that_names_it(tmp_path, synthetic_tables, keep):
    data = tmp_path / "data"
    data.mkdir()
    damaged(synthetic_tables, data, "", "")
    lines = (data / "nb201_accuracy.csv").read_text().splitlines(keepends=True)
    whole = lines[: int(keep)]
    half = [lines[int(keep)][:40]] if keep % 1 else []
    (data / "nb201_accuracy.csv").write_text("".join(whole + half))

    line = one_line(search(tmp_path / "runs", *ON_TABLES, data=data))

    assert "nb201_accuracy.csv" in line


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, synthetic_tables):
    (tmp_path / "file").write_text("in the way")

    line = one_line(search(tmp_path / "file" / "runs", *ON_TABLES, data=synthetic_tables))

    assert str(tmp_path / "file") in line


@pytest.mark.parametrize(
    ("bytes_a_file", "budget", "full"),
    [(100_000, 20_000, "samples.csv"), (150_000, 2_000, "tensorboard")],
)
def test_a_full_disk_is_one_line_and_loses_no_sample(
    tmp_path, synthetic_tables, bytes_a_file, budget, full
):
    def no_larger_file():
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))

    finished = search(
        tmp_path,
        *ON_TABLES,
        "controller.hidden_size=4",  # a small checkpoint
        "controller.batch_size=1",
        f"budget={budget}",
        data=synthetic_tables,
        preexec_fn=no_larger_file,
    )

    line = one_line(finished)
    assert full in line
    assert "resume=" in line
    folder = only_run(tmp_path)
    assert len(read_journal(folder / "samples.csv")) > 500
    assert resume(folder, data=synthetic_tables).returncode == 0
