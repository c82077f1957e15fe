"""A trained network's folder is written and read as one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save

from edgenas_core.types.errors import UserError
from nas.fit.training.trained_folder import (
    INT8_WEIGHTS,
    RECORD,
    SCHEMA,
    WEIGHTS,
    Judged,
    Training,
    read_training,
    trained_folder,
    tuned_epochs_of,
    write_trained,
)

TRAINING = Training(
    schema=SCHEMA,
    state="finished",
    space="a_space",
    arch="|a~0|",
    data="digits",
    data_seed=0,
    data_name="digits",
    data_title="Digits",
    data_digest="00",
    classes=("0", "1"),
    side=8,
    mean=(0.5, 0.5, 0.5),
    sd=(0.2, 0.2, 0.2),
    recipe={"name": "modern", "lr": "0.1"},
    epochs=3,
    seed=7,
    trained_on="train",
    valid=Judged(0.9, 100),
    test=None,
    seconds=1.0,
    device="cpu",
    versions={"torch": "2"},
)


def test_what_was_written_is_read(tmp_path):
    folder = trained_folder(tmp_path, TRAINING.arch)
    weights = {"w": torch.arange(6.0).reshape(2, 3).T}

    write_trained(folder, weights, TRAINING)

    assert read_training(folder) == TRAINING
    assert torch.equal(load_file(folder / WEIGHTS)["w"], weights["w"])
    assert trained_folder(tmp_path, "|b~0|") != folder


def test_other_files_in_place_of_tuned_weights_are_named(tmp_path):
    file, weights = tmp_path / INT8_WEIGHTS, {"w": torch.zeros(1)}
    for content in (
        b"torn",
        save(weights),
        save(weights, {"a": "b"}),
        save(weights, {"epochs": "b"}),
    ):
        file.write_bytes(content)
        with pytest.raises(UserError, match=INT8_WEIGHTS):
            tuned_epochs_of(file)
    file.write_bytes(save(weights, {"epochs": "3"}))
    assert tuned_epochs_of(file) == 3


def test_what_is_none_is_refused_in_one_line(tmp_path):
    with pytest.raises(UserError, match=RECORD):
        read_training(tmp_path)
    write_trained(tmp_path, {}, replace(TRAINING, schema=9))
    with pytest.raises(UserError, match="schema 9"):
        read_training(tmp_path)
    (tmp_path / RECORD).write_text('{"schema": 1}')
    with pytest.raises(UserError, match="it has no state"):
        read_training(tmp_path)
