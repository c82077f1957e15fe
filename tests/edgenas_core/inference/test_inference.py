"""Prepared inference: precision, captured graphs and ONNX Runtime."""

import numpy as np
import pytest
import torch
from torch import nn

from edgenas_core.inference.backend import Backend, Device, Precision
from edgenas_core.inference.inference import prepare


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        (Precision.fp32, torch.float32),
        (Precision.bf16, torch.bfloat16),
        (Precision.fp16, torch.float16),
    ],
)
def test_weights_input_and_output_have_the_precision(precision, dtype):
    network = nn.Linear(4, 2)

    output = prepare(network, torch.ones(1, 4), Device.cpu, Backend.torch, precision)()

    assert output.dtype == network.weight.dtype == dtype


def test_half_precision_is_close_to_single_precision():
    torch.manual_seed(0)
    network, images = nn.Linear(64, 8), torch.randn(1, 64)

    exact = prepare(network, images, Device.cpu, Backend.torch)().clone()
    rounded = prepare(network, images, Device.cpu, Backend.torch, Precision.bf16)()

    assert (rounded - exact).norm() < 0.02 * exact.norm()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_graph_keeps_its_weights_and_input_while_others_are_captured():
    def convolution(seed, backend):
        torch.manual_seed(seed)
        return prepare(nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8), Device.cuda, backend)

    expected = [convolution(seed, Backend.torch)().cpu() for seed in range(4)]

    graphs = [convolution(seed, Backend.graph) for seed in range(4)]

    for graph, output in zip(graphs, expected, strict=True):
        torch.testing.assert_close(graph().cpu(), output)


def test_onnx_runtime_computes_what_torch_does_on_an_input_bound_once():
    torch.manual_seed(0)
    network, images = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8)
    expected = prepare(network, images, Device.cpu, Backend.torch)()

    run = prepare(network, images, Device.cpu, Backend.onnxruntime)
    first = run().numpy().copy()
    second = run().numpy()

    np.testing.assert_allclose(first, expected.numpy(), atol=1e-5)
    np.testing.assert_array_equal(first, second)


def test_int8_is_close_to_single_precision_and_not_it():
    torch.manual_seed(0)
    # one channel: sums of two 8-bit products saturate on x86 processors without VNNI
    network, images = nn.Conv2d(1, 4, 1), torch.randn(1, 1, 8, 8)

    exact, rounded = (
        prepare(network, images, Device.cpu, Backend.onnxruntime, precision)().numpy()
        for precision in (Precision.fp32, Precision.int8)
    )

    assert 0 < np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("device", "precision", "named"),
    [
        (Device.cpu, Precision.fp16, "fp32 or int8, not fp16; use backend=torch"),
        (Device.cpu, Precision.bf16, "fp32 or int8, not bf16; use backend=torch"),
        (Device.cuda, Precision.bf16, "fp32 or fp16, not bf16; use backend=torch"),
        (Device.cuda, Precision.fp16, "CUDAExecutionProvider"),
        (Device.cuda, Precision.int8, "device=cpu backend=onnxruntime, not for device=cuda"),
    ],
)
def test_what_onnx_runtime_cannot_run_is_refused_with_the_reason(device, precision, named):
    if device is Device.cuda and "CUDAExecutionProvider" in named and torch.cuda.is_available():
        pytest.skip("needs a machine without CUDA")

    with pytest.raises(ValueError, match=named):
        prepare(nn.Linear(4, 2), torch.ones(1, 4), device, Backend.onnxruntime, precision)
