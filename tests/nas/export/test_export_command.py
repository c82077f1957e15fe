"""`python -m nas.export` on a real run: real files, a fresh interpreter, ONNX Runtime."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.machine.timing import TimingConfig
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.export import content
from nas.export.command import export
from nas.export.config import ExportForm, ExportPrecision, ExportTiming, Precisions
from nas.export.content import _allowed
from nas.export.latency import timed_here
from nas.export.network import IMAGES, initialise, outputs_of
from nas.export.record import compared_with_search
from nas.export.searched import find
from nas.spaces.nas_bench_201.plugin import SPACE

TASK = SPACE.tasks["cifar100"]
FILES = {
    "network.py",
    "weights.safetensors",
    "network.onnx",
    "check.py",
    "README.md",
    "export.json",
}


def command(*overrides):
    return [sys.executable, "-m", "nas.export", *overrides]


@pytest.fixture(scope="module")
def exported(run, config, tmp_path_factory):
    """The folder, what was printed, and the record."""
    copied_run, printed = tmp_path_factory.mktemp("own") / "run", StringIO()
    shutil.copytree(run, copied_run, ignore=shutil.ignore_patterns("figures", "tensorboard"))
    before = torch.get_num_threads()
    folder = export(config(run=str(copied_run)), Console(file=printed, highlight=False))
    assert folder == copied_run / "export"
    assert torch.get_num_threads() == before
    return folder, printed.getvalue(), json.loads((folder / "export.json").read_text())


def test_every_file_is_there_for_everyone_who_may_read_the_folder(exported):
    folder, _, _ = exported

    assert {path.name for path in folder.iterdir()} == FILES
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


@pytest.mark.usefixtures("one_thread")
def test_the_files_are_the_network_of_the_run(exported, run):
    folder, _, record = exported
    best = json.loads((run / "summary.json").read_text())["best"]
    architecture = SPACE.parse(best["arch"])
    network = initialise(SPACE, architecture, TASK)
    images = SPACE.example_input(architecture, TASK, IMAGES)
    expected = outputs_of(network, images)

    assert record["space"] == SPACE.name
    assert record["architecture"]["arch"] == best["arch"]
    assert record["architecture"]["index"] == best["index"]
    assert list(record["architecture"]["choices"]) == list(SPACE.positions)
    assert record["searched"]["latency_ms"] == best["latency_ms"]
    weights = load_file(folder / "weights.safetensors")
    assert all(torch.equal(weights[name], value) for name, value in network.state_dict().items())
    onnx = OnnxSession(folder / "network.onnx")(images[:1].numpy())
    error = np.abs(onnx - expected[:1].numpy()).max()
    assert error <= record["forms"][0]["max_abs_error"] <= 1e-4


def test_what_is_predicted_and_untrained_is_called_so_wherever_it_is_read(exported):
    folder, printed, record = exported

    for text in (printed, (folder / "README.md").read_text(), (folder / "network.py").read_text()):
        words = " ".join(text.split())
        assert Kind.surrogate.words in words
        assert Kind.regression.words in words
        assert "UNTRAINED" in words
    assert record["searched"]["accuracy_kind"] == "surrogate"
    assert record["searched"]["latency_kind"] == "regression"
    assert "UNTRAINED" in (folder / "README.md").read_text().splitlines()[0]
    assert printed.startswith("UNTRAINED")
    assert not record["trained"]


def test_the_time_taken_here_is_named_after_this_machine_and_compared_with_its_own_only(exported):
    _, printed, record = exported
    (form,) = record["forms"]
    here = form["latency"]

    assert here["device"].endswith("/onnxruntime/fp32/b1")
    assert here["device"] != record["searched"]["device"]
    assert here["samples"] == 5
    assert 0 < here["median_ms"] <= here["p95_ms"]
    assert "another device" in printed


def test_the_same_device_gets_the_ratio(run, exported):
    folder, _, _ = exported
    network = {ExportForm(ExportPrecision.fp32): (folder / "network.onnx").read_bytes()}
    noise = np.zeros((1, 3, 32, 32), np.float32)
    here = timed_here(network, noise, TimingConfig(samples=1), "board")[
        ExportForm(ExportPrecision.fp32)
    ]
    searched = replace(find(run, None, None).searched, device="board/onnxruntime/fp32/b1")
    searched = replace(searched, latency_ms=here.median_ms / 1.5)

    words = compared_with_search(searched, here)

    assert "1.500 times" in words
    assert Kind.regression.words in words


def test_a_file_beyond_the_tolerance_is_not_exported(run, config, tmp_path, monkeypatch):
    monkeypatch.setattr(content, "_TOLERANCE", 1e-30)

    with pytest.raises(UserError, match="1e-30"):
        export(config(run=str(run), out=str(tmp_path / "out")), Console(file=StringIO()))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("largest", "allowed"), [(3.0, 1e-4), (500.0, 5e-3)])
def test_large_outputs_may_differ_in_proportion(largest, allowed):
    outputs = np.array([[-largest], [1.0]], np.float32)

    assert _allowed(outputs) == pytest.approx(allowed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opset": 3}, "opset=3 .* 9 and 17"),
        ({"opset": 11, "precision": Precisions.int8}, "opset=11 .*opset=13"),
        ({"formats": []}, r"formats=\[\]"),
        ({"batch": 0}, "batch=0"),
        ({"batch": "many"}, "batch=many"),
        ({"timing": ExportTiming(samples=0)}, r"timing\.samples=0"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(run, config, changes, message):
    with pytest.raises(UserError, match=message):
        export(config(run=str(run), **changes), Console(file=StringIO()))


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system_that_names_it(
    run, config, tmp_path
):
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError, match="file"):
        export(config(run=str(run), out=f"{tmp_path}/file/export"), Console(file=StringIO()))


def test_ctrl_c_leaves_nothing_behind(run, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(f"run={run}", f"out={out}", "timing.samples=1000000"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list(tmp_path.glob("*.tmp/files/network.py")):
        time.sleep(0.01)  # what follows is the fresh interpreter, or the timing

    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=600)

    assert process.returncode == 130
    assert error == "edgenas: interrupted\n"
    assert list(tmp_path.iterdir()) == []
