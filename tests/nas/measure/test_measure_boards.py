"""`python -m nas.measure device=...` on live boards: real agents, in processes of this machine."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
from functools import partial

import numpy as np
import psutil
import pytest
from rich.console import Console

import latency.models.layer_table
import latency.probe.config
import nas.measure.command
from edgenas_core.files.keyed_table import read_csv_table
from latency.measuring.journal import layers_of, read
from latency.measuring.settings import MeasureConfig
from latency.models.layers import fit_layers
from latency.probe.board import Patience
from nas.measure.plan import completed, plan
from nas.spaces.nas_bench_201.plugin import SPACE

QUICK = (
    "dataset=imagenet16",
    "networks=2",
    "repeats=0",
    "timing.samples=3",
    "on_disturbance=flag",
    "tolerance=20000",  # a test machine is not quiet; this is no measurement
    "runtime=onnxruntime",
    f"python={sys.executable}",
    "board=board",
)
SLUG = "board-onnxruntime-fp32-b1"
TASK = SPACE.tasks["imagenet16"]


@pytest.fixture(scope="module")
def export_once():
    """Exports by what they are of: all tests measure the same few networks."""
    return functools.cache(latency.probe.config.exported)


@pytest.fixture
def run(in_process, tmp_path, monkeypatch, export_once):
    """Measures into the test's folder, in this process."""
    monkeypatch.setattr("latency.probe.config.exported", export_once)
    monkeypatch.setattr("latency.probe.config.PATIENCE", Patience(tries=2))

    def call(*overrides):
        last_of_each = {text.split("=")[0]: text for text in (*QUICK, *overrides)}.values()
        words = ["nas.measure", f"out={tmp_path / 'out'}", *last_of_each]
        return in_process(nas.measure.command.main, words)

    return call


def journals(tmp_path):
    return sorted(tmp_path.glob(f"out/{SLUG}.part-*-of-boards.journal.csv"))


@pytest.fixture
def over_ssh(sshd, monkeypatch):
    """Address of a board."""
    port, client = sshd
    monkeypatch.setenv("PATH", f"{client}:{os.environ['PATH']}")
    return f"ssh://127.0.0.1:{port}"


def test_boards_are_measured_into_one_table_whose_origin_has_their_facts(run, over_ssh, tmp_path):
    ssh = over_ssh
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nas.measure.table.faster_than_others_say", all_too_fast)
        status, stdout, stderr = run("device=cmd://", "networks=1")
    assert status == 0, stderr
    assert "implausibly fast" in stdout
    (first,) = journals(tmp_path)
    assert len({row["arch"] for row in read(first)}) == len(read(first)) - 1  # taken again

    status, stdout, stderr = run(f"device=[cmd://,{ssh}]", "networks=3")

    assert status == 0, stderr
    assert "2 to go" in stdout
    assert len(read(first)) >= 2  # what the first board had measured is not measured again
    assert sum(len(read(path)) for path in journals(tmp_path)) == 4
    table = read_csv_table(tmp_path / "out" / f"{SLUG}_ms.csv", SPACE)
    assert table.columns == ("board/onnxruntime/fp32/b1",)
    assert (table.values[0][~np.isnan(table.values[0])] > 0).sum() == 3
    origin = json.loads((tmp_path / "out" / f"{SLUG}_ms.json").read_text())
    assert set(origin["boards"]) == {"cmd://", ssh}
    assert origin["boards"][ssh]["python"] == sys.version.split()[0]
    assert origin["identity"]["runtime"] == "onnxruntime"
    assert origin["asked"]["threads"] == 1
    assert "live boards" in origin["measured"]
    assert origin["networks_measured"] == 3


def all_too_fast(_, architectures, __):
    return np.ones(len(architectures), bool)


@pytest.mark.slow
def test_a_few_probes_of_a_board_are_measured_and_the_rest_is_predicted(run, over_ssh, tmp_path):
    ssh = over_ssh

    status, stdout, stderr = run(*(f"device={ssh}", "networks=null", "probes=3", "transfer=true"))

    assert status == 0, stderr
    assert "15,625 architectures predicted" in stdout
    table = read_csv_table(tmp_path / "out" / f"{SLUG}-transferred.csv", SPACE)
    assert np.isfinite(table.column("board/onnxruntime/fp32/b1")).sum() == 3
    assert np.isfinite(table.column("board/onnxruntime/fp32/b1@predicted")).all()
    origin = json.loads((tmp_path / "out" / f"{SLUG}-transferred.json").read_text())
    assert set(origin["measured"]["boards"]) == {ssh}
    assert not list(tmp_path.glob("out/*_ms.*"))


def test_a_board_that_is_lost_for_good_is_one_line_and_the_same_command_goes_on(
    run, tmp_path, monkeypatch
):
    power = tmp_path / "power"
    power.touch()
    script = tmp_path / "board"
    script.write_text(f'#!/bin/sh\ntest -e {power} || {{ echo power is off >&2; exit 1; }}\n"$@"\n')
    script.chmod(0o755)
    append, before = nas.measure.command.append, psutil.Process().children(recursive=True)

    def append_and_cut_the_power(path, measured):
        append(path, measured)
        power.unlink()
        for child in {*psutil.Process().children(recursive=True)}.difference(before):
            child.kill()

    monkeypatch.setattr("nas.measure.command.append", append_and_cut_the_power)
    status, stdout, stderr = run(f"device=cmd://{script}")

    assert status == 2, stdout
    (line,) = stderr.splitlines()
    assert f"cmd://{script}: " in line
    assert "power is off" in line
    assert "run the same command" in line
    (journal,) = journals(tmp_path)
    (kept,) = read(journal)

    power.touch()
    monkeypatch.setattr("nas.measure.command.append", append)
    status, stdout, stderr = run(f"device=cmd://{script}")

    assert status == 0, stderr
    assert "1 to go" in stdout
    assert [row["arch"] for row in read(journal)][:1] == [kept["arch"]]
    assert len(read(journal)) == 2


def test_a_network_that_the_board_cannot_run_stops_it_or_leaves_its_field_empty(
    run, tmp_path, monkeypatch
):
    exported, texts = latency.probe.config.exported, []

    def damaged(space, task, batch_size, text, takes, **settings):
        texts.append(text)  # the first is the control
        content = exported(space, task, batch_size, text, takes, **settings)
        return content[: len(content) // 2] if texts[1:2] == [text] else content

    monkeypatch.setattr("latency.probe.config.exported", damaged)
    arguments = ("device=cmd://", "on_disturbance=flag")
    status, stdout, stderr = run(*arguments)

    assert status == 0, stderr
    name = texts[1]
    flat = " ".join(stdout.split())
    assert f"cannot run {name}: " in flat
    assert "stays empty" in flat
    (journal,) = journals(tmp_path)
    assert len(read(journal)) == 1

    status, _, stderr = run("device=cmd://", "on_disturbance=stop")

    assert status == 2
    (line,) = stderr.splitlines()
    assert f"cmd:// cannot run {name}" in line
    assert len(read(journal)) == 1


def test_another_load_on_the_board_stops_the_measurement(run, tmp_path):
    status, _, stderr = run("device=cmd://", "on_disturbance=stop", "tolerance=0")

    assert status == 2
    (line,) = stderr.splitlines()
    assert "is not quiet" in line
    assert not journals(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("device=jetson",), "device=jetson"),
        (("device=ssh://-o",), "device=ssh://-o"),
        (("device=cmd://", "runtime=graph"), "runtime=graph"),
        (("device=cmd://", "precision=bf16"), "precision=bf16"),
        (("device=cmd://", "precision=fp16"), "fp16 needs tensorrt"),
        (("device=cmd://", "tolerance=-1"), "tolerance=-1"),
        (("device=cmd://false",), "cmd://false: "),
    ],
)
def test_a_board_that_cannot_be_measured_is_one_line(run, tmp_path, overrides, expected):
    status, stdout, stderr = run(*overrides)

    assert status == 2, stdout
    (line,) = stderr.splitlines()
    assert line.startswith("edgenas: ")
    assert expected in line
    assert not (tmp_path / "out").exists()


def test_layers_are_timed_inside_networks_until_there_are_enough(run, tmp_path, monkeypatch):
    monkeypatch.setattr(latency.models.layer_table, "FEWEST_NETWORKS", 2)
    monkeypatch.setattr(latency.models.layer_table, "fit_layers", partial(fit_layers, trees=0))

    path = tmp_path / "out" / f"{SLUG}_layers.csv.gz"

    assert run("device=cmd://", "networks=3", "layers=5", "minutes=1e-9")[0] == 0
    (journal,) = journals(tmp_path)
    assert (len(read(journal)), path.exists()) == (1, False)  # too few, and the time was over

    lines = journal.read_text().splitlines()
    disturbed = lines[0].split(",").index("disturbances")
    fields = lines[1].split(",")
    journal.write_text(
        "\n".join(
            [lines[0], ",".join([*fields[:disturbed], "a load", *fields[disturbed + 1 :]]), ""]
        )
    )
    status, stdout, stderr = run("device=cmd://", "networks=3", "layers=5")

    assert (status, stderr) == (0, "")
    rows = read(journal)
    assert len(rows) == 3  # the disturbed one, and two that a model takes; each has more layers
    assert len({row["arch"] for row in rows}) == 2
    table = latency.models.layer_table.read_layer_table(path)
    assert table.networks == 2
    seen = [layer for row in rows[1:] for layer, _ in layers_of(row)]
    assert {*table.layers} == {*seen}
    assert f"{len(table.layers)} distinct layers of 5 asked for, in 2 networks" in stdout

    lines = journal.read_text().splitlines(keepends=True)
    # As a command without layers= writes them.
    journal.write_text("".join([*lines[:-1], lines[-1].rpartition(',"')[0] + ",\n"]))
    assert run("device=cmd://", "networks=3", "layers=5")[0] == 0
    assert [bool(layers_of(row)) for row in read(journal)] == [True, True, False, True]
    assert latency.models.layer_table.read_layer_table(path).networks == 2


@pytest.fixture
def doubtful(monkeypatch):
    """Layers of the candidates of each choice; from two networks on, the last candidate is chosen."""
    choices = []

    def last(_, candidates, __):
        choices.append(candidates)
        return [len(candidates) - 1]

    monkeypatch.setattr(nas.measure.command, "FEWEST_NETWORKS", 2)
    monkeypatch.setattr(nas.measure.command, "choose_doubtful", last)
    monkeypatch.setattr(latency.models.layer_table, "FEWEST_NETWORKS", 2)
    monkeypatch.setattr(latency.models.layer_table, "fit_layers", partial(fit_layers, trees=0))
    return choices


def test_networks_of_doubtful_layers_are_timed_next(run, tmp_path, doubtful):
    settings = completed(
        MeasureConfig(networks=4, layers=10_000, space=SPACE.name, device="cmd://"), TASK
    )
    order = [SPACE.text(row) for row in plan(settings, SPACE)]

    assert run("device=cmd://", "networks=4", "layers=10000")[0] == 0

    (journal,) = journals(tmp_path)
    assert [row["arch"] for row in read(journal)] == [*order[:2], order[3], order[2]]
    assert [len(candidates) for candidates in doubtful] == [2]
    assert all(layers for candidates in doubtful for layers in candidates)


def test_two_boards_share_a_queue_in_which_nothing_is_chosen(run, over_ssh, tmp_path, doubtful):
    ssh = over_ssh

    assert run(f"device=[cmd://,{ssh}]", "networks=4", "layers=10000")[0] == 0

    assert sum(len(read(path)) for path in journals(tmp_path)) == 4
    assert not doubtful


def test_no_candidate_is_exported_after_the_time(doubtful):
    pending, lines = ["no network"], Console(record=True, file=io.StringIO())
    settings = MeasureConfig(space=SPACE.name, dataset=TASK.name)

    order = nas.measure.command._doubtful_first(
        settings, SPACE, "a/onnxruntime/fp32/b1", 0.0, lines, pending, [[]]
    )

    assert order == pending
    assert not doubtful
