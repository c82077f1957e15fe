"""`python -m nas.fit data=...`: what is refused, and a whole search of a small space on digits."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from searching import interrupted, one_line, only_run, resume, sampled
from stand_in import context, made
from synthetic import Oracle

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies
from nas.export.searched import find
from nas.fit.data.image_set import ImageSet
from nas.fit.own_images import StagedConfig
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.stages import Result, StageJob
from nas.fit.run.entries import confirmed, default_first
from nas.fit.run.scratch import shares_of, smaller_neighbours, trainable, with_first
from nas.fit.training.trained_folder import read_training, trained_folder
from nas.spaces.registry import space_named

OFFLINE = ("start=scratch", "latency=regression", "device=jetson-nano/fp32/b1")


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        (["side=32"], "data="),
        (["data=digits", "accuracy=staged"], "start=scratch"),
        (["data=digits", "start=network", "device=jetson-nano/fp32/b1"], "start=scratch"),
        (["data=digits", "accuracy=surrogate", "device=jetson-nano/fp32/b1"], "accuracy="),
        (["data=digits", "dataset=cifar10"], "dataset="),
        (["data=digits", "side=16", "device=jetson-nano/fp32/b1"], "device=jetson-nano/fp32/b1"),
        (["data=digits", "hours=0"], "hours=0"),
        (["data=digits", *OFFLINE, "hours=1e-6"], "hours=1e-06"),
    ],
)
def test_settings_that_do_not_go_with_own_images_are_one_line(fit_here, tmp_path, settings, hint):
    assert hint in one_line(fit_here(tmp_path, *settings))


@dataclass
class Live(Oracle):
    """A board that times networks again: at as many milliseconds as their first choice."""

    confirm_top: int = 2
    kind: Kind = Kind.measured  # of the second times

    def remember(self, architectures, latencies):
        """Nothing."""

    def measure_again(self, architectures, *, in_fp32=False):  # noqa: ARG002
        return Latencies(architectures[:, 0].astype(float), np.array([self.kind], np.int8))


def _confirmed(kinds, first_ms, again_ms, second_kind=Kind.measured):
    """Which of four networks, with times and those of a second look at them, is within 4 ms."""
    problem = {
        "oracle": Live(kind=second_kind),
        "limit_ms": 4.0,
        "space": SimpleNamespace(text=str),
    }
    rows, latencies = np.array(again_ms)[:, None], (np.array(first_ms), np.array(kinds, np.int8))
    candidates = Candidates(rows, *latencies, np.ones(4), np.zeros(4), 4, 4, 4, 0.0, 0.0)
    return confirmed(context(problem=problem), candidates, [0, 1, 2, 3])


def test_measured_candidates_are_timed_again_where_the_best_predictions_miss():
    kinds = [Kind.regression, Kind.regression, Kind.measured, Kind.measured]

    assert _confirmed(kinds, [2.0] * 4, [9, 8, 7, 3]) == (3, 3.0, Kind.measured)


def test_the_fastest_are_timed_again_where_the_board_is_slower_than_before():
    chosen = _confirmed([Kind.regression] * 4, [3.9, 3.8, 3.7, 1.0], [9, 8, 7, 3])

    assert chosen == (3, 3.0, Kind.measured)


def test_where_neither_the_best_nor_the_fastest_hold_more_timings_are_advised():
    with pytest.raises(UserError, match="networks="):
        _confirmed([Kind.regression] * 4, [2.0] * 4, [9, 8, 7, 3])


def test_second_times_of_a_busy_machine_do_not_end_a_search_without_an_answer():
    chosen = _confirmed([Kind.measured] * 4, [2.0] * 4, [9, 8, 7, 5], Kind.disturbed)

    assert chosen == (0, 2.0, Kind.measured)


def test_a_regressed_latency_of_a_winner_is_replaced_by_the_answer_of_the_source():
    answers = {9: 9.0, 3: 3.5}

    def answer(rows):
        return Latencies(
            np.array([answers[int(row[0])] for row in rows]), np.full(1, Kind.published, np.int8)
        )

    problem = {"oracle": SimpleNamespace(answer=answer, device="chip"), "limit_ms": 4.0}
    kinds = np.array([Kind.regression, Kind.regression], np.int8)
    candidates = Candidates(
        np.array([[9], [3]]),
        np.array([2.0, 2.0]),
        kinds,
        np.ones(2),
        np.zeros(2),
        2,
        2,
        2,
        0.0,
        0.0,
    )

    chosen = confirmed(context(problem=problem), candidates, [0, 1])

    assert chosen == (1, 3.5, Kind.published)


@pytest.mark.parametrize(("judges", "winner"), [(150, 0.775), (500, 0.40)])
def test_on_a_cpu_few_validation_images_leave_more_time_to_the_winner(monkeypatch, judges, winner):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    shares = shares_of(StagedConfig("auto"), made(ImageSet, valid=range(judges)))

    assert 1 - sum(shares.values()) == pytest.approx(winner)
    assert shares["scores"] == StagedConfig.shares["scores"]


@pytest.mark.parametrize(
    ("best", "judges", "first"),
    [(0.70, 150, 1), (0.72, 150, 0), (0.62, 2000, 1), (0.64, 2000, 0), (np.nan, 150, 1)],
)
def test_the_default_network_is_replaced_by_what_is_better_beyond_chance(best, judges, first):
    results = {
        StageJob(1, 0): Result(0.3, 1.0),
        StageJob(1, 1): Result(0.6, 1.0),  # 5.7 points are two deviations on 2 x 150 images
        StageJob(0, 0): Result(0.9, 1.0),
        StageJob(0, 1): Result(best, 1.0),
    }

    assert default_first([0, 2, 1], 1, results, judges)[0] == first


def test_a_default_network_that_was_trained_for_no_length_of_the_first_is_first():
    results = {StageJob(0, 1): Result(0.9, 1.0), StageJob(1, 0): Result(0.2, 1.0)}

    assert default_first([0, 2, 1], 1, results, 150) == [1, 0, 2]
    assert default_first([0, 2], 3, results, 150) == [3, 0, 2]


def test_the_default_network_and_smaller_ones_near_it_are_considered_first():
    space = space_named("residual")
    task = space.tasks["images"]

    rows = smaller_neighbours(space, space.default_network, task)
    flops = space.costs(rows, task)["flops"]

    assert (rows[0] == space.default_network).all()
    assert ((rows[1:] != rows[0]).sum(-1) == 1).all()
    assert (np.diff(flops) < 0).all()
    assert flops[-1] < flops[0] / 10


def test_a_default_network_whose_training_failed_is_not_preferred():
    results = {StageJob(0, 0): Result(0.2, 1.0), StageJob(1, 0): Result(np.nan, 1.0)}

    assert default_first([0, 2], 1, results, 150) == [0, 2]


@pytest.mark.parametrize(
    ("kept", "first", "timed"), [([0, 2], [0, 2], []), ([2], [1, 2], [0, 1]), ([3], [3], [0, 1])]
)
def test_only_default_networks_that_are_not_considered_yet_are_timed(kept, first, timed):
    asked = []

    def is_enough(at):
        asked.append(at)
        return 2 in kept and at == 1

    assert with_first(np.array(kept), [0, 1], is_enough).tolist() == first
    assert asked == timed


def test_the_largest_that_can_be_trained_is_found_although_every_epoch_takes_a_while():
    flops = np.random.default_rng(0).permutation(np.arange(1.0, 101))

    def epochs_of(at):
        return 10_000 / (20 + float(flops[at]))

    kept, epochs = trainable(flops, epochs_of, 125.0)

    assert 52 <= len(kept) <= 60  # 60 by these times
    assert flops[kept].max() == len(kept)
    assert 125 <= epochs <= 10_000 / (20 + len(kept))
    assert len(trainable(flops, epochs_of, 1000.0)[0]) == 26
    assert len(trainable(flops, epochs_of, 10.0)[0]) == 100


@pytest.fixture
def toy_search(monkeypatch, tmp_path):
    """Settings of a search of tests/plugins/toy_space, whose networks train in a second."""
    table = tmp_path / "data" / "toy_space" / "synthetic_ms.csv"
    table.parent.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3] / "plugins" / "toy_space"))
    space = space_named("toy_space")
    rows = np.unique(space.sample(np.random.default_rng(1), 80), axis=0)
    ms = 0.3 + 0.1 * rows[..., 0] + 3e-6 * space.costs(rows, space.tasks["shapes"])["flops"]
    lines = [f"{space.text(row)},{row_ms:.6f}" for row, row_ms in zip(rows, ms, strict=True)]
    table.write_text("\n".join(["arch,synthetic-board", *lines, ""]))
    return (
        "space=toy_space",
        "device=synthetic-board",
        "T=1.1ms",
        "data=digits",
        "start=scratch",
        "hours=0.02",
        "epochs=3",
    )


@pytest.mark.slow
def test_a_killed_search_goes_on_and_ends_with_a_trained_network(toy_search, tmp_path):
    data, runs = tmp_path / "data", tmp_path / "runs"
    folder, *_ = interrupted(
        runs,
        data,
        lambda folder: sampled(folder) >= 2,
        *toy_search,
        "export=true",
        module="nas.fit",
        send=signal.SIGKILL,
    )
    paid = sampled(folder)

    finished = resume(folder, data=data, module="nas.fit")

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[0] == f"reading {folder}"
    assert f"going on after {paid:,} trainings" in finished.stdout
    summary = json.loads((only_run(runs) / "summary.json").read_text())
    best = summary["best"]
    assert best["latency_ms"] <= summary["T_ms"]
    assert best["accuracy_kind"] == "trained"
    if not torch.cuda.is_available():  # else more is trained than can be ranked by chance
        assert best["arch"] == "blocks=1 k1=3 w1=12 e1=4 a1=relu"  # the default network
    assert [stage["name"] for stage in summary["stages"]][:3] == ["draw", "proxies", "short"]
    assert summary["stages"][-1]["name"] == "full"
    training = read_training(trained_folder(folder, best["arch"]))
    assert training.state == "finished"
    assert training.test.fraction == best["accuracy_test"]
    assert training.valid.fraction == best["accuracy_searched"]
    trials = pq.read_table(folder / "samples.parquet").to_pylist()
    trained = [(trial["arch"], trial["fidelity"]) for trial in trials]
    assert len(set(trained)) == len(trained)
    assert trained[-1][0] == best["arch"]
    assert summary["device"] in (folder / "report.html").read_text()
    assert "reward" not in (folder / "report.html").read_text()
    record = json.loads((folder / "export" / "export.json").read_text())
    assert record["trained"]
    assert [form["precision"] for form in record["forms"]] == ["fp32", "fp16", "int8"]
    rows = [line.split() for line in finished.stdout.splitlines() if " MB " in line]
    assert ["network-int8.onnx", "int8"] in [row[:2] for row in rows]


@pytest.mark.slow
def test_each_of_several_limits_gets_its_trained_network(toy_search, fit_here, tmp_path):
    data, runs = tmp_path / "data", tmp_path / "my runs"
    settings = [each for each in toy_search if not each.startswith("T=")]

    finished = fit_here(runs, *settings, "T=[0.7ms,1.1ms]", "export=true", data=data)

    assert finished.returncode == 0, finished.stderr
    folder = only_run(runs)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["T_ms"] == 1.1
    small = find(folder, None, None, 0.7)
    assert small.searched.latency_ms <= 0.7
    assert read_training(trained_folder(folder, small.arch)).epochs >= 1
    assert "T = 0.7ms: " in finished.stdout
    names = [each["limits"] for each in summary["handed"]]
    assert names == [{"T": "1.1ms"}, {"T": "0.7ms"}]
    assert summary["handed"][1]["arch"] == small.arch
    assert folder.name.endswith("-T0.7-1.1ms")
    exported = json.loads((folder / "export-T0.7ms" / "export.json").read_text())
    assert exported["architecture"]["arch"] == small.arch
    assert exported["trained"]
    page, steps = (folder / "report.html").read_text(), folder / "next_steps.json"
    assert "One network for each limit" in page
    assert "What to do next" in page
    wrong = json.loads(steps.read_text())["wrong_of_100"]
    assert 0 <= wrong["low"] < wrong["high"] <= 100
    assert wrong["kind"].startswith("measured on")
