"""`python -m nas.search` as a user meets it: real processes, real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import commands
import numpy as np
import pyarrow.parquet as pq
import pytest
from searching import (
    ON_TABLES,
    XEON,
    command,
    events_of,
    one_line,
    only_run,
)

from latency.models.regression import embedded_models
from nas.report.summary import SCHEMA
from nas.runs import sweep
from nas.spaces.nas_bench_201.plugin import SPACE


def test_a_search_limits_the_tail_of_our_own_measurements(search_here, tmp_path):
    finished = search_here(
        tmp_path, f"device={XEON}", "latency.statistic=p95", "T=1ms", "budget=60", "reward=mnasnet"
    )

    assert finished.returncode == 0, finished.stderr
    out = " ".join(finished.stdout.split())
    assert f"{XEON}@p95" in out
    assert "6,338 measured" in out
    assert "9,287 predicted" in out
    page = (only_run(tmp_path) / "report.html").read_text()
    assert "p95: 95 of 100" in out
    assert "p95: 95 of 100" in page


MARGIN = embedded_models(SPACE)["jetson-nano/fp32/b1"].uncertainty.margin(0.95)


class TestOnABareMachine:
    """No data anywhere: the embedded surrogate and the embedded regression.

    They need no torch, which takes seconds to import.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, tmp_path_factory):
        runs = tmp_path_factory.mktemp("runs")
        program = (
            "import sys; sys.modules['torch'] = None; from nas.search.command import main; main()"
        )
        settings = ("reward=proposed", "T=17ms", "budget=400", f"out={runs}")
        bare = {name: value for name, value in os.environ.items() if name != "NAS_DATA"}
        done = commands.run([sys.executable, "-c", program, *settings], env=bare)
        assert done.returncode == 0, done.stderr
        return done, only_run(runs)

    def test_the_folder_is_named_after_the_run_and_holds_its_files(self, finished):
        folder = finished[1]

        assert folder.name.endswith("-proposed-jetson-nano-fp32-b1-T17ms")
        assert {path.name for path in folder.iterdir()} == {
            "config.yaml",
            "environment.json",
            "samples.parquet",
            "summary.json",
            "report.html",
            "tensorboard",
        }

    def test_the_summary_has_the_documented_fields_and_agrees_with_the_samples(self, finished):
        summary = json.loads((finished[1] / "summary.json").read_text())
        samples = pq.read_table(finished[1] / "samples.parquet").to_pydict()
        within = [
            (accuracy, arch)
            for accuracy, arch, ms in zip(
                samples["accuracy"], samples["arch"], samples["latency_ms"], strict=True
            )
            if ms <= 17 * np.exp(-MARGIN)
        ]

        assert summary["schema"] == SCHEMA
        assert summary["best"]["accuracy_searched"] == max(within)[0]
        assert summary["best"]["latency_ms"] <= summary["T_ms"] == 17.0
        assert summary["gap"] == pytest.approx(
            summary["optimum"]["accuracy_searched"] - summary["best"]["accuracy_searched"]
        )
        assert summary["gap"] >= 0
        assert 0.95 <= summary["best"]["within_T_probability"] < 1
        assert summary["best"]["latency_sd_ms"] > 0
        assert summary["feasible_share"] == pytest.approx(len(within) / 400)
        assert summary["samples"] == 400
        assert summary["accuracy_source"] == "surrogate"
        assert summary["latency_source"] == "regression"
        assert summary["best"]["latency_kind"] == "regression"
        assert summary["best"]["accuracy_kind"] == "surrogate"
        assert summary["latency_kinds"] == {"regression": 1.0}
        assert summary["states"] == {"done": 400}
        assert summary["device"] == "jetson-nano/fp32/b1"
        assert summary["settings"]["dataset"] == "cifar100"
        assert summary["seconds"] > 0
        assert 0 < summary["best"]["accuracy_test"] < 1

    def test_with_the_time_alone_there_are_no_other_limits(self, finished):
        done, folder = finished

        assert json.loads((folder / "summary.json").read_text())["limits"] == {}
        assert pq.read_schema(folder / "samples.parquet").names == [
            *("sample", "index", "arch", "state", "accuracy", "accuracy_kind", "latency_ms"),
            *("latency_kind", "feasible", "reward", "fidelity", "seconds", "error"),
        ]
        assert "energy" not in done.stdout

    def test_tensorboard_has_the_curves_and_the_limit(self, finished):
        events = events_of(finished[1])

        limit = [event.value for event in events.Scalars("latency_ms/T")]
        assert set(limit) == {17.0}
        for tag in (
            "reward/reward",
            "answer/accuracy",
            "answer/latency_ms",
            "search/share_within",
            "answer/best_accuracy",
            "search/gap",
            "search/optimum",
            "controller/entropy",
            "controller/entropy_target",
        ):
            assert events.Scalars(tag)[-1].step == 400, tag

    def test_tensorboard_begins_with_latency_against_t_and_accuracy(self, finished):
        landing, limit = (events_of(finished[1], within).Tags() for within in ("", "T"))

        first = sorted(landing["scalars"])[:3]
        assert first == ["answer/accuracy", "answer/best_accuracy", "answer/latency_ms"]
        assert limit["scalars"] == ["answer/latency_ms"]


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
def test_other_choices_run_to_their_end(search_here, tmp_path, synthetic_tables, overrides):
    finished = search_here(tmp_path, *ON_TABLES, "budget=30", *overrides, data=synthetic_tables)

    assert finished.returncode == 0, finished.stderr
    assert json.loads((only_run(tmp_path) / "summary.json").read_text())["samples"] == 30


def test_several_workers_run_to_the_end_of_the_budget(search_here, tmp_path, synthetic_tables):
    finished = search_here(tmp_path, *ON_TABLES, "workers=4", "budget=60", data=synthetic_tables)

    assert finished.returncode == 0, finished.stderr
    numbers = pq.read_table(only_run(tmp_path) / "samples.parquet")["sample"].to_pylist()
    assert sorted(numbers) == list(range(60))
    assert numbers != sorted(numbers)  # in the order of the answers


def test_a_sweep_makes_every_run_that_can_be_made_and_compares_them_at_the_end(
    search_here, tmp_path, synthetic_tables
):
    words = ["device=synthetic-board", "T=11ms,0.5ms,12ms", "budget=20", "reward=constrained"]
    sweep = tmp_path / "my sweep"

    finished = search_here(
        tmp_path, "-m", *words, f"hydra.sweep.dir='{sweep}'", data=synthetic_tables
    )

    assert "T=0.5ms" in one_line(finished)
    assert len(list(tmp_path.glob("*/*/summary.json"))) == 2
    labels = {line.split()[0] for line in finished.stdout.splitlines() if " ms " in line}
    assert labels >= {"T=11ms", "T=12ms"}
    assert "T=0.5ms" not in labels


def test_a_job_beside_others_labels_its_lines(capsys):
    out = sweep._Labelled("[3] ")

    for text in ("half a", " line\nand", " another\n"):
        out.write(text)

    assert capsys.readouterr().out == "[3] half a line\n[3] and another\n"


def test_a_preset_of_ones_own_and_hydras_options_work(search_here, tmp_path, synthetic_tables):
    presets = tmp_path / "presets" / "experiment"
    presets.mkdir(parents=True)
    (presets / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [{override /reward: constrained}]\nT: 12ms\nbudget: 20\n"
    )
    mine = (f"--config-dir={presets.parent}", "device=synthetic-board", "+experiment=mine")
    runs = tmp_path / "runs"

    shown = search_here(runs, "--cfg=job", *mine, data=synthetic_tables)
    finished = search_here(runs, *mine, data=synthetic_tables)

    assert "T: 12ms" in shown.stdout
    assert "constrained-synthetic-board-T12ms" in str(only_run(runs)), finished.stderr


def test_help_teaches_the_command_and_a_folder_of_the_users_called_conf_is_not_in_the_way(tmp_path):
    (tmp_path / "conf").mkdir()

    finished = subprocess.run(
        command(tmp_path, "--help"), cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert finished.returncode == 0
    for word in ("T=17ms", "device", "mnasnet_hard", "resume=", "controller.lr"):
        assert word in finished.stdout
