"""`python -m nas.export` on a real run: real files, a fresh interpreter, ONNX Runtime."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from nas.export.command import export
from nas.export.config import ExportConfig
from nas.export.folder import require_place
from nas.export.found import find
from nas.export.network import images_of, initialised, outputs_of
from nas.export.record import Checked, record
from nas.export.this_machine import device_id
from nas.spaces.nas_bench_201.plugin import SPACE
from runtime.machine.timing import TimingConfig
from runtime.network.formats.onnx_session import OnnxSession
from runtime.shell.errors import UserError

TASK = SPACE.tasks["cifar100"]
FILES = {"network.py", "weights.safetensors", "network.onnx", "README.md", "export.json"}


def config(run, **changes):
    settings = {
        "run": str(run),
        "which": None,
        "arch": None,
        "out": None,
        "seed": 5,
        "opset": 13,
        "tolerance": 1e-4,
        "board": None,
        "timing": TimingConfig(samples=5, warm_up_window=2, warm_up_most=10),
    }
    return ExportConfig(**{**settings, **changes})


def command(*overrides):
    return [sys.executable, "-m", "nas.export", *overrides]


def refused(*overrides):
    """The one line that a user sees."""
    done = subprocess.run(command(*overrides), capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    """The folder, what was said, and the record."""
    own, said = tmp_path_factory.mktemp("own") / "run", StringIO()
    shutil.copytree(run, own, ignore=shutil.ignore_patterns("figures", "tensorboard"))
    before = torch.get_num_threads()
    folder = export(config(own), Console(file=said, highlight=False))
    assert folder == own / "export"
    assert torch.get_num_threads() == before
    return folder, said.getvalue(), json.loads((folder / "export.json").read_text())


def test_every_file_is_there_with_its_hash_and_for_everyone_who_may_read_the_folder(exported):
    folder, _, record = exported

    assert {path.name for path in folder.iterdir()} == FILES
    for name, digest in record["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


@pytest.mark.usefixtures("one_thread")
def test_the_files_are_the_network_of_the_run(exported, run):
    folder, _, record = exported
    best = json.loads((run / "summary.json").read_text())["best"]
    architecture = SPACE.parse(best["arch"])
    network = initialised(SPACE, architecture, TASK, seed=5)
    images = images_of(SPACE, architecture, TASK)
    expected = outputs_of(network, images)

    assert record["space"] == SPACE.name
    assert record["architecture"]["arch"] == best["arch"]
    assert record["architecture"]["index"] == best["index"]
    assert list(record["architecture"]["choices"]) == list(SPACE.positions)
    assert record["oracle"]["latency_ms"] == best["latency_ms"]
    weights = load_file(folder / "weights.safetensors")
    assert all(torch.equal(weights[name], value) for name, value in network.state_dict().items())
    onnx = OnnxSession(folder / "network.onnx")(images[:1].numpy())
    error = np.abs(onnx - expected[:1].numpy()).max()
    assert error <= record["checks"]["onnx"]["max_abs_error"] <= 1e-4


def test_an_export_is_known_again_as_that_of_its_network(exported):
    folder, _, record = exported
    arch = record["architecture"]["arch"]

    require_place(folder, arch, SPACE.name, TASK)
    with pytest.raises(UserError, match="another network"):
        require_place(folder, arch, SPACE.name, SPACE.tasks["cifar10"])


def test_what_is_predicted_and_untrained_is_called_so_wherever_it_is_read(exported):
    folder, said, record = exported

    for text in (said, (folder / "README.md").read_text(), (folder / "network.py").read_text()):
        words = " ".join(text.split())
        assert "PREDICTED by the surrogate" in words
        assert "PREDICTED by regression" in words
        assert re.search("not trained|NOT TRAINED|untrained", words)
    assert record["accuracy"]["kind"] == "surrogate"
    assert record["oracle"]["kind"] == "regression"
    assert "bit-exact" in said
    assert re.search(r"max abs error [\d.e-]+ against torch, allowed 0.0001", said)


def test_the_time_taken_here_is_named_after_this_machine_and_compared_with_its_own_only(exported):
    _, said, record = exported
    here = record["this_machine"]

    assert here["device"] == device_id(None) != record["oracle"]["device"]
    assert here["samples"] == 5
    assert 0 < here["median_ms"] <= here["p95_ms"]
    assert record["ratio_to_oracle"] is None
    assert "this machine: median" in said
    assert "not compared: another device" in said


def test_the_same_device_gets_the_ratio(run):
    found = replace(find(run, None, None), device="board/onnxruntime/fp32/b1", latency_ms=2.0)
    checked = Checked(4, 1e-7, 1e-4, 1.0, 1000, (1, 3, 32, 32))
    here = {"device": device_id("board"), "median_ms": 3.0}

    written = record(found, checked, here, seed=0, opset=13)

    assert written["ratio_to_oracle"] == 1.5
    assert "1.500 times" in written["comparison"]
    assert "predicted by regression" in written["comparison"]


def test_a_file_beyond_the_tolerance_is_not_exported(run, tmp_path):
    with pytest.raises(UserError, match=r"tolerance=1e-30; nothing was exported"):
        export(config(run, out=str(tmp_path / "out"), tolerance=1e-30), Console(file=StringIO()))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed=-1 is not between"),
        ({"opset": 3}, "opset=3 is not between 9 and 17"),
        ({"tolerance": float("nan")}, "tolerance=nan must be positive"),
        ({"timing": TimingConfig(samples=0)}, r"timing\.samples=0 must be at least 1"),
        ({"timing": TimingConfig(turn=-1)}, r"timing\.turn=-1 must be at least 1"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(run, changes, message):
    with pytest.raises(UserError, match=message):
        export(config(run, **changes), Console(file=StringIO()))


def test_an_architectures_text_is_read_from_the_command_line_as_it_is_printed(run):
    unknown = "|conv~0|+|none~0|none~1|+|none~0|none~1|none~2|"

    line = refused(f"run={run}", f"arch={unknown}")

    assert "'conv'" in line
    assert all(name in line for name in SPACE.options(0))


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system_that_names_it(run, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError, match="file"):
        export(config(run, out=f"{tmp_path}/file/export"), Console(file=StringIO()))


def test_ctrl_c_leaves_nothing_behind(run, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(f"run={run}", f"out={out}", "timing.samples=1000000"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    for line in process.stdout:
        if "max abs error" in line:  # what follows is the fresh interpreter, or the timing
            break

    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)

    assert process.returncode == 130
    assert error == "edgenas: interrupted\n"
    assert list(tmp_path.iterdir()) == []
