"""Int8 files: what stays in fp32, what their weights saturate, and how accurate they are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import onnx
import pytest
import torch
from onnx.numpy_helper import to_array
from torch import nn

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from nas.export.accuracy import prepare
from nas.export.int8 import Int8Source, _Rounding, correct_biases, int8_accuracy
from nas.fit.data.image_set import Images
from nas.fit.data.open import open_images


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return open_images("digits", side=8, cache=tmp_path_factory.mktemp("cache"))


def network(largest=1.0):
    """A network with a channel of this range that its classifier does not read."""
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 10))
    with torch.no_grad():
        made[0].weight[0] *= largest
        made[2].weight *= 20
        made[2].weight[:, :36] = 0
    return made


def test_layers_that_lose_most_stay_in_fp32(images):
    made = nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), network(1e5))
    with torch.no_grad():
        labels = made(torch.from_numpy(prepare(images.valid, images, 8, slice(None)))).argmax(1)
    own = replace(images, valid=Images(images.valid.pixels, labels.numpy()))
    write = partial(onnx_bytes, examples=[torch.zeros(1, 3, 8, 8)])

    int8 = Int8Source(made.eval(), own, 8).onnx(write)

    assert {"2.0", "2.2"} <= {*int8.in_fp32}
    assert int8.lost[0] > 0.3
    assert int8.lost[1] < 0.05


def test_products_of_weights_of_7_bits_do_not_saturate(images):
    file = onnx_bytes(network(), [torch.zeros(1, 3, 8, 8)])
    batches = Int8Source(network(), images, 8).calibration(1)

    largest = [
        max(
            int(abs(to_array(each).astype(int)).max())
            for each in onnx.load_from_string(
                quantised(file, batches, in_7_bits=is_narrow)
            ).graph.initializer
            if each.data_type == onnx.TensorProto.INT8
        )
        for is_narrow in (False, True)
    ]

    assert largest == [127, 64]
    assert 2 * 255 * largest[1] < 2**15 < 2 * 255 * largest[0]


def test_channels_that_rounding_shifts_are_shifted_back(images):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(8)
    made = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with torch.no_grad():
        made[0].weight[:, 0, 0, 0] = 20  # the others have few steps of 20 / 127
    exact = _Rounding(made, images, 8).exact
    before = norm.running_mean.clone()

    corrected = correct_biases(made, images, 8)

    shifts = [
        (_Rounding(each, images, 8).rounded() - exact).mean(0).abs().max()
        for each in (made, corrected)
    ]
    assert shifts[1] < 0.01 * shifts[0]
    assert torch.equal(norm.running_mean, before)


def test_the_accuracy_of_an_int8_file_weighs_classes_that_differ_in_size(images):
    counted = {0: 60, 1: 5}
    which = np.concatenate(
        [np.flatnonzero(images.valid.labels == label)[:count] for label, count in counted.items()]
    )
    valid = Images(images.valid.pixels[which], images.valid.labels[which])
    constant = network()
    with torch.no_grad():
        constant[2].weight.zero_()
        constant[2].bias.copy_(torch.eye(10)[0])

    accuracy = int8_accuracy(constant, replace(images, valid=valid), 8)

    assert accuracy.valid.fraction == accuracy.valid_fp32.fraction == pytest.approx(0.5)
