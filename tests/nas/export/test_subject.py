"""Which network is exported with which weights, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.export.config import ExportPrecision, Precisions
from nas.export.forms import _calibration
from nas.export.network import with_weights
from nas.export.subject import subject_of
from nas.fit.training.trained_folder import read_training, trained_folder, write_trained
from nas.spaces.nas_bench_201.plugin import SPACE

DIGITS = Task("digits", 10, 8)
CELL = ("none", "nor_conv_3x3", "none", "skip_connect", "none", "skip_connect")


@pytest.fixture
def weights(trained):
    return load_file(trained / "weights.safetensors")


def test_a_trained_folder_brings_everything(trained, config, digits):
    for settings in (config(weights=str(trained)), config(run=str(trained))):
        subject = subject_of(settings)

        assert subject.images.digest == digits.digest
        assert subject.task == digits.task
        assert subject.is_trained
        assert subject.searched is None
        assert "Digits: 2 epochs" in subject.weights_text


def test_a_folder_of_trained_networks_brings_its_only_one(trained, config, tmp_path):
    shutil.copytree(trained, tmp_path / "trained" / "a")

    assert subject_of(config(run=str(tmp_path))).is_trained
    shutil.copytree(trained, tmp_path / "trained" / "b")
    with pytest.raises(UserError, match=r"2 trained networks.*weights="):
        subject_of(config(run=str(tmp_path)))


def test_a_run_that_trained_its_network_exports_it_trained(run, trained, weights, config, tmp_path):
    copied = shutil.copytree(run, tmp_path / "run")
    best = json.loads((copied / "summary.json").read_text())["best"]["arch"]
    training = dataclasses.replace(read_training(trained), arch=best, state="interrupted")
    folder = trained_folder(copied, best)
    write_trained(folder, weights, training)

    for settings in (config(run=str(copied)), config(weights=str(folder))):
        subject = subject_of(settings)
        assert subject.arch == best
        assert subject.weights == folder / "weights.safetensors"
        assert subject.searched.named == "best"
        assert "hours=" in " ".join(subject.notes)

    other = subject_of(config(run=str(copied), arch=str(_another(copied))))
    assert not other.is_trained
    assert other.task.name == "digits"


def test_another_limit_of_a_run_that_was_timed_under_load_has_its_trained_network(
    run, trained, weights, config, tmp_path
):
    copied = shutil.copytree(run, tmp_path / "run")
    summary = json.loads((copied / "summary.json").read_text())
    best = summary["best"]["arch"]
    (copied / "summary.json").write_text(json.dumps(summary | {"front": []}))  # none is reliable
    training = dataclasses.replace(read_training(trained), arch=best)
    write_trained(trained_folder(copied, best), weights, training)
    limit_ms = summary["best"]["latency_ms"]

    assert subject_of(config(run=str(copied), T=f"{1.01 * limit_ms}ms")).arch == best
    with pytest.raises(UserError, match="no network within it"):
        subject_of(config(run=str(copied), T=f"{0.99 * limit_ms}ms"))


def _another(run):
    summary = json.loads((run / "summary.json").read_text())
    reported = [summary["optimum"], summary["mode"]]
    return next(
        network["index"] for network in reported if network["index"] != summary["best"]["index"]
    )


def test_an_architecture_needs_no_run(config):
    subject = subject_of(config(arch="1462", dataset="cifar10"))

    assert subject.index == 1462
    assert subject.task == SPACE.tasks["cifar10"]
    assert subject.weights_text.startswith("UNTRAINED")
    on_images = subject_of(config(arch="1462", data="digits", side=8)).task
    assert (on_images.num_classes, on_images.image_side) == (10, 8)


def test_weights_from_elsewhere_come_back(trained, config, digits):
    file = trained / "weights.safetensors"
    arch = read_training(trained).arch

    subject = subject_of(config(arch=arch, weights=str(file), data="digits", side=8))

    assert subject.is_trained
    assert any("elsewhere" in note for note in subject.notes)
    assert with_weights(SPACE, subject.architecture, digits.task, subject.weights)


def test_int8_needs_images_of_a_trained_network(trained, config):
    file = str(trained / "weights.safetensors")
    arch = read_training(trained).arch
    settings = config(arch=arch, weights=file, dataset="cifar10", precision=Precisions.int8)

    subject = subject_of(settings)

    assert any("data=" in note for note in subject.notes)
    left_to_us = subject.precisions(config())
    assert left_to_us == (ExportPrecision.fp32, ExportPrecision.fp16)
    with pytest.raises(UserError, match="data="):
        next(_calibration(subject, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "run=.*weights=.*arch="),
        ({"which": "best", "arch": "1462"}, "which=best .* set run="),
        ({"arch": "1462", "space": "no_space"}, "space=no_space"),
        ({"arch": "1462", "dataset": "mnist"}, "dataset=mnist"),
        ({"arch": "1462", "weights": "no.safetensors"}, r"weights=no\.safetensors"),
        ({"arch": "1462", "weights": "."}, r"weights=\. .*training\.json"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, message, config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "which" in changes:
        from nas.export.searched import Which  # noqa: PLC0415 - names of parameters stay text

        changes = {**changes, "which": Which[changes["which"]]}

    with pytest.raises(UserError, match=message):
        subject_of(config(**changes))


def test_images_that_were_not_trained_on_are_refused(trained, config, tmp_path):
    copied = shutil.copytree(trained, tmp_path / "trained")
    record = json.loads((copied / "training.json").read_text())
    (copied / "training.json").write_text(json.dumps({**record, "data_digest": "0"}))

    with pytest.raises(UserError, match="data=digits"):
        subject_of(config(weights=str(copied)))
    with pytest.raises(UserError, match="arch=1462"):
        subject_of(config(weights=str(trained), arch="1462"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda tensors: tensors.pop("stem.0.weight"), r"stem\.0\.weight .* none"),
        (lambda tensors: tensors.update(other=torch.zeros(1)), r"other .* \(1,\).* none"),
        (
            lambda tensors: tensors.update({"classifier.bias": torch.zeros(3)}),
            r"classifier\.bias .* \(3,\).* \(10,\)",
        ),
        (lambda tensors: tensors["stem.0.weight"].fill_(float("nan")), r"stem\.0\.weight.*finite"),
    ],
)
def test_weights_of_another_network_are_refused(spoil, message, weights, tmp_path):
    tensors = {name: tensor.clone() for name, tensor in weights.items()}
    spoil(tensors)
    save_file(tensors, tmp_path / "w.safetensors")
    architecture = SPACE.from_operations(CELL)

    with pytest.raises(UserError, match=message):
        with_weights(SPACE, architecture, DIGITS, tmp_path / "w.safetensors")


def test_a_file_that_is_no_safetensors_is_refused(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"PK\x03\x04 pickled")

    with pytest.raises(UserError, match="not a safetensors"):
        with_weights(SPACE, SPACE.control(), DIGITS, tmp_path / "w.safetensors")
