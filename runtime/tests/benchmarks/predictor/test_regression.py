"""Layers in words, and eq. 6 as printed."""

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.predictor.regression import fit_plain, layers, operator_of, predicted_chain
from edgenas_core.inference.models.resnet import ResNet
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.network.segment_kind import SegmentKind
from latency.models.layers import fit_layers, kind_of, regression_inputs


def layers_of(module, *shape, rule=Rule.LAYER):
    x = torch.empty(shape, device="meta")
    return layers(decompose(module.to("meta").eval(), x, rule), x.shape)


def linear(channels):
    return f"Gemm float[1,{channels}] float[10,{channels}] > float[1,10]"


def test_a_layer_is_described_by_what_it_computes_and_moves():
    (conv, norm) = layers_of(
        nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)),
        *(1, 4, 10, 10),
    )

    assert conv == "Conv float[1,4,10,10] float[8,4,3,3] > float[1,8,5,5]"
    assert norm == "norm float[1,8,5,5] > float[1,8,5,5]"
    outputs = 8 * 5 * 5
    assert regression_inputs([conv]).tolist() == [[1, 400, 8 * 4 * 9, outputs, outputs * 4 * 9]]


def test_layers_have_the_kinds_of_the_layer_model():
    module = nn.Sequential(
        nn.Conv2d(4, 8, 1),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 5),
    )

    pointwise, depthwise, pool, _, classifier = layers_of(module, 1, 4, 6, 6)

    assert kind_of(pointwise).endswith("1x1")
    assert kind_of(depthwise).endswith("depthwise")
    assert operator_of(pool) == "MaxPool2d"
    assert regression_inputs([classifier])[0, -1] == 32 * 5


def test_a_convolution_is_found_inside_its_fused_segment():
    with torch.device("meta"):
        fused, alone = (
            layers_of(ResNet(18), 1, 3, 64, 64, rule=rule)[0] for rule in (Rule.FUSED, Rule.LAYER)
        )

    assert "float[64,3,7,7]" in fused
    assert "float[64,3,7,7]" in alone


def test_the_source_s_equation_is_recovered_with_weights_of_any_sign():
    seen = [*map(linear, range(100, 4000, 100))]
    us = np.array([5000 - regression_inputs([layer])[0, -1] / 100 for layer in seen])

    model = fit_plain(seen, us)

    assert model.predict_us([linear(5000)]) == pytest.approx([5000 - 500])
    assert np.isnan(model.predict_us(["softmax float[1,5] > float[1,5]"])).all()


def test_a_chain_has_each_segments_time_on_each_lane():
    x = torch.empty(1, 3, 64, 64, device="meta")
    with torch.device("meta"):
        program = decompose(ResNet(18).eval(), x)
    words = layers(program, x.shape)
    models = [fit_layers(words, np.full(len(words), us), trees=0) for us in (1.0, 2.0)]

    chain = predicted_chain("resnet", program, x.shape, models)

    assert len(chain) == len(program)
    assert chain.kinds[0] is SegmentKind.CONV
    assert chain.predicted_ms[0] == pytest.approx(
        [model.predict_us(words)[0] / 1e3 for model in models]
    )
