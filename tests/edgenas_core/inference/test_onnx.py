"""Export to ONNX, quantisation, and inference in ONNX Runtime."""

import resource
import tempfile
import weakref
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import onnx_in_fp32, quantised
from edgenas_core.inference.formats.onnx_session import OnnxSession, Provider
from edgenas_core.inference.models.nas_bench_201 import CellNetwork, example_input


def test_a_network_computes_the_same_in_onnx_runtime():
    torch.manual_seed(0)
    network = CellNetwork(["nor_conv_3x3", "skip_connect", "avg_pool_3x3"] * 2, num_classes=10)
    images = torch.randn_like(example_input(32))
    with torch.inference_mode():
        expected = network.eval()(images)

    output = OnnxSession(onnx_bytes(network, [images]))(images.numpy())

    np.testing.assert_allclose(output, expected.numpy(), atol=1e-4)


def test_every_convolution_of_an_untrained_network_is_in_int8():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU()]
    equal_biases = nn.Sequential(*layers, nn.Conv2d(3, 3, 3, bias=False), nn.BatchNorm2d(3)).eval()
    images = torch.randn(1, 3, 8, 8)
    with torch.inference_mode():
        expected = equal_biases(images).numpy()

    model = onnx_bytes(equal_biases, [images])
    int8 = quantised(model, [images.numpy()], in_7_bits=True)  # exact without VNNI, too

    graph = onnx.load_from_string(int8).graph
    constants = {one.name for one in graph.initializer}
    scaled = {node.output[0] for node in graph.node if node.input[0] in constants}
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    assert len(convolutions) == 2
    assert {name for node in convolutions for name in node.input[1:]} <= scaled
    error = np.abs(OnnxSession(int8)(images.numpy()) - expected).max()
    assert 0 < error < 0.05 * np.abs(expected).max()


class FedByZeros(nn.Module):
    def __init__(self):
        super().__init__()
        self.live, self.dead = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)
        nn.init.normal_(
            self.dead.weight, std=30.0
        )  # a norm that saw no variance was folded into it
        nn.init.uniform_(self.dead.bias, 0.2, 0.4)

    def forward(self, images):
        return self.live(images) + self.dead(images * 0)


def depthwise():
    network = nn.Conv2d(8, 8, 3, groups=8, bias=False)
    nn.init.normal_(network.weight, std=1e-4)
    return network


@pytest.mark.parametrize(("build", "channels"), [(FedByZeros, 3), (depthwise, 8)])
def test_biases_beside_zeros_and_small_weights_survive_int8(build, channels):
    torch.manual_seed(0)
    network, images = build().eval(), torch.randn(1, channels, 8, 8)
    with torch.inference_mode():
        expected = network(images).numpy()

    model = onnx_bytes(network, [images])
    int8 = quantised(model, [images.numpy()], in_7_bits=True)  # exact without VNNI, too

    error = np.abs(OnnxSession(int8)(images.numpy()) - expected).max()
    assert error < 0.05 * np.abs(expected).max()


@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")
def test_layers_that_stay_in_fp32_or_are_refused_are_named():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 4, 2), nn.Conv2d(4, 4, 1))
    images = torch.randn(1, 3, 8, 8)

    assert onnx_in_fp32(quantised(onnx_bytes(network.eval(), [images]), [images.numpy()])) == [
        "ConvTranspose (1)"
    ]
    nn.init.constant_(network[2].weight, np.nan)
    with pytest.raises(ValueError, match=r"Conv \(2\).*precision=fp32"):
        quantised(onnx_bytes(network, [images]), [images.numpy()])


def test_two_inputs_keep_their_order():
    class Difference(nn.Module):
        def forward(self, a, b):
            return a - b

    a, b = torch.tensor([3.0]), torch.tensor([1.0])

    session = OnnxSession(onnx_bytes(Difference(), [a, b]))

    assert session(a.numpy(), b.numpy()) == 2.0


def test_fields_of_an_output_that_hold_tensors_are_exported():
    @dataclass
    class Answer:
        logits: torch.Tensor
        loss: torch.Tensor | None = None

    class Named(nn.Module):
        def forward(self, images):
            return Answer(images + 1)

    session = OnnxSession(onnx_bytes(Named(), [torch.ones(2)]))

    assert session(np.full(2, 3.0, "f4")).tolist() == [4.0, 4.0]


def test_a_bound_input_lives_as_long_as_the_inference():
    session, array = OnnxSession(onnx_bytes(nn.Identity(), [torch.ones(2)])), np.full(2, 3.0, "f4")
    input_ = weakref.ref(array)
    run = session.resident(array)

    del array

    assert input_() is not None
    assert run().numpy().tolist() == [3.0, 3.0]


def test_bytes_that_are_no_network_are_refused():
    with pytest.raises(ValueError, match="ONNX Runtime"):
        OnnxSession(b"not a network")


def test_a_missing_provider_is_named_with_the_available_ones():
    with pytest.raises(ValueError, match=r"TensorrtExecutionProvider\b.*CPUExecutionProvider"):
        OnnxSession(b"", provider=Provider.tensorrt)


def test_a_module_that_onnx_cannot_express_is_refused():
    class Sorted(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)[0]

    with pytest.raises(RuntimeError, match=r"'aten::linalg_svd'.*replace the layer$"):
        onnx_bytes(Sorted(), [torch.ones(2, 2)])


def test_no_layer_is_to_be_replaced_where_none_is_named():
    with pytest.raises(RuntimeError, match=r"ONNX: .*opset_version: 3$"):
        onnx_bytes(nn.Linear(2, 2), [torch.ones(2, 2)], opset=3)


def test_a_disk_that_is_full_is_not_called_an_error_of_torch():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            onnx_bytes(nn.Linear(64, 64), [torch.zeros(1, 64)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert raised.value.filename.startswith(tempfile.gettempdir())


class Attends(torch.nn.Module):
    def forward(self, tokens):
        return torch.nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)


@pytest.mark.parametrize(("latest", "expected"), [(17, 14), (None, None), (13, None)])
def test_the_opset_is_raised_to_what_an_operator_needs_and_no_further(latest, expected):
    tokens = torch.randn(1, 2, 4, 8)
    if expected is None:
        with pytest.raises(RuntimeError, match="version 14"):
            onnx_bytes(Attends(), [tokens], opset=13, latest_opset=latest)
        return

    content = onnx_bytes(Attends(), [tokens], opset=13, latest_opset=latest)

    assert onnx.load_from_string(content).opset_import[0].version == expected
