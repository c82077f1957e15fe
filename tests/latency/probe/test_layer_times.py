"""Layers of a network by ONNX Runtime's own profile."""

import numpy as np
import pytest
import torch
from torch import nn

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from latency.probe.agent import OnnxRuntime
from latency.probe.layer_times import layer_times


@pytest.mark.parametrize("is_int8", [False, True])
def test_a_profile_tells_the_shapes_and_kernels_of_fused_layers(is_int8):
    torch.manual_seed(0)
    images = torch.randn(1, 16, 8, 8)
    network = nn.Sequential(nn.Conv2d(16, 32, 3, groups=16), nn.ReLU(), nn.Conv2d(32, 16, 1))
    onnx = onnx_bytes(network.eval(), [images])
    if is_int8:
        onnx = quantised(onnx, [images.numpy()])

    layers = layer_times(OnnxRuntime("CPUExecutionProvider", 1).layers(onnx, 3), onnx)

    convolutions = [words for words, _ in layers if "Conv" in words.split()[0]]
    assert len(convolutions) == 2  # the ReLU is part of the first
    kernels = ("(3x3:16)", "(1x1:1)") if is_int8 else ("[32,1,3,3]", "[16,32,1,1]")
    for words, kernel in zip(convolutions, kernels, strict=True):
        assert kernel in words
    assert np.isfinite([us for _, us in layers]).all()


@pytest.mark.parametrize("profiled", [[["a", "Add >", -1]], [["a", "Add >", "x"]], [["a"]]])
def test_a_profile_that_makes_no_sense_is_refused(profiled):
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds; a board's answer makes no sense
        layer_times(profiled, b"")
