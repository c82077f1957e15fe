"""The time of a layer from its shape, on times that a known law made."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.papers.predictor.regression import (
    FEATURES,
    LayerFeatures,
    fit,
    layers,
    predicted_chain,
)
from runtime.network.decompose import Rule, decompose
from runtime.network.models.resnet import ResNet
from runtime.network.segment_kind import SegmentKind

LAW_MS = np.array([0.02, 1e-9, 0.0, 3e-8, 2e-8, 0.0, 0.0, 0.0])  # a synthetic device


def ms_of(layer):
    return float(LAW_MS @ layer.features)


def layers_of(module, *shape, rule=Rule.LAYER):
    x = torch.empty(shape, device="meta")
    return layers(decompose(module.to("meta").eval(), x, rule), x.nbytes)


@pytest.fixture(scope="module")
def resnet():
    with torch.device("meta"):
        return layers_of(ResNet(18), 1, 3, 64, 64)


def test_a_layer_is_described_by_what_it_computes_and_moves():
    (conv, norm) = layers_of(
        nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)),
        *(1, 4, 10, 10),
    )

    outputs = 8 * 5 * 5
    assert conv.kind == "conv 3x3/2"
    assert dict(zip(FEATURES, conv.features, strict=True)) == {
        "bytes_beyond_1_mb": 0,
        "bytes_beyond_16_mb": 0,
        "one": 1,
        "flops": 2 * outputs * 4 * 9,
        "input_bytes": 4 * 400,
        "output_bytes": 4 * outputs,
        "weight_bytes": 4 * 8 * 4 * 9,
        "patch_bytes": 4 * 5 * 5 * 4 * 9,
    }
    assert norm.kind == "norm"
    assert norm.features[2] == conv.features[3]


def test_a_kernel_of_one_needs_no_patches_and_a_depthwise_one_is_a_kind_of_its_own():
    (pointwise, depthwise) = layers_of(
        nn.Sequential(nn.Conv2d(4, 8, 1), nn.Conv2d(8, 8, 3, groups=8)), 1, 4, 6, 6
    )

    assert (pointwise.kind, pointwise.features[5]) == ("conv 1x1/1", 0)
    assert depthwise.kind == "conv dw 3x3/1"


def test_a_convolution_is_found_inside_its_fused_segment(resnet):
    with torch.device("meta"):
        fused = layers_of(ResNet(18), 1, 3, 64, 64, rule=Rule.FUSED)

    assert fused[0].kind == resnet[0].kind == "conv 7x7/2"


def test_the_law_is_recovered_from_noisy_times(resnet):
    noise = np.random.default_rng(0).normal(1, 0.03, len(resnet))
    timed = [(layer, ms_of(layer) * n) for layer, n in zip(resnet, noise, strict=True)]

    predictor = fit("synthetic", timed)

    error = [abs(predictor.ms(layer) / ms_of(layer) - 1) for layer in resnet]
    assert np.median(error) < 0.02
    assert sum(predictor.ms(layer) for layer in resnet) == pytest.approx(
        sum(map(ms_of, resnet)), rel=0.03
    )


def test_more_of_anything_is_never_predicted_faster(resnet):
    random = np.random.default_rng(1).uniform(0.1, 10, len(resnet))
    predictor = fit("synthetic", list(zip(resnet, random.tolist(), strict=True)))

    assert all(w >= 0 for weights in predictor.weights_ms.values() for w in weights)


def test_an_unseen_kernel_is_predicted_as_a_convolution_and_an_unseen_kind_is_refused(resnet):
    predictor = fit("synthetic", [(layer, ms_of(layer)) for layer in resnet])

    assert predictor.ms(LayerFeatures("conv 5x5/1", resnet[0].features)) > 0
    with pytest.raises(KeyError, match=r"softmax.*synthetic.*conv"):
        predictor.ms(LayerFeatures("softmax", resnet[0].features))


def test_a_time_that_is_none_is_refused(resnet):
    with pytest.raises(ValueError, match="conv 7x7/2"):
        fit("synthetic", [(resnet[0], 0.0)])


def test_a_chain_has_each_segments_time_on_each_lane(resnet):
    predictor = fit("synthetic", [(layer, ms_of(layer)) for layer in resnet])
    x = torch.empty(1, 3, 64, 64, device="meta")
    with torch.device("meta"):
        program = decompose(ResNet(18).eval(), x)

    chain = predicted_chain("resnet", program, x.nbytes, [predictor, None])

    assert len(chain) == len(program)
    assert chain.kinds[0] is SegmentKind.CONV
    assert chain.predicted_ms[0] == (predictor.ms(resnet[0]), math.inf)
