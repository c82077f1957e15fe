"""A trained network's folder is written and read as one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from edgenas_core.types.errors import UserError
from nas.fit.training.trained_folder import (
    RECORD,
    SCHEMA,
    WEIGHTS,
    Judged,
    Training,
    read_training,
    trained_folder,
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


def test_what_is_none_is_refused_in_one_line(tmp_path):
    with pytest.raises(UserError, match=RECORD):
        read_training(tmp_path)
    write_trained(tmp_path, {}, replace(TRAINING, schema=9))
    with pytest.raises(UserError, match="schema 9"):
        read_training(tmp_path)
    (tmp_path / RECORD).write_text('{"schema": 1}')
    with pytest.raises(UserError, match="it has no state"):
        read_training(tmp_path)
