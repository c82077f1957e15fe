"""Networks of ONNX files: read with limits, converted to torch, cut as any other."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.types.errors import UserError
from nas.fit.starts.elastic.loading import named_space
from nas.fit.starts.onnx_file.graph import read_graph
from nas.fit.starts.onnx_file.module import network_of_file
from nas.fit.starts.uncuttable import UncuttableFileError

needs_converter = pytest.mark.skipif(find_spec("onnx2torch") is None, reason="an extra")


class Shuffled(nn.Module):
    """Two branches whose channels are shuffled, as ShuffleNet's, with sizes that the graph computes."""

    def __init__(self):
        super().__init__()
        first = nn.Conv2d(3, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.Hardswish()
        self.stem = nn.Sequential(*first, nn.Conv2d(64, 32, 3, 1, 1), nn.PReLU(32))
        self.branch = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU6())
        self.last = nn.Linear(32, 10)

    def forward(self, images):
        left, right = self.stem(images).chunk(2, 1)
        maps = torch.cat([left, self.branch(right)], 1)
        n, c, h, w = maps.shape
        maps = maps.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, -1, h, w)
        return self.last(maps.mean((2, 3))).softmax(1)


def saved(tmp_path, network, side=32, **settings):
    torch.manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_var, 0.5, 2)
    file = tmp_path / "model.onnx"
    file.write_bytes(onnx_bytes(network.eval(), [torch.randn(1, 3, side, side)], **settings))
    return file


@needs_converter
def test_a_file_answers_as_its_network_and_its_parts_have_fewer_channels(tmp_path):
    network = Shuffled()
    space = named_space(str(saved(tmp_path, network, dynamic_batch=True)))
    task, images = space.tasks[space.default_task], torch.randn(5, 3, 32, 32)

    with torch.no_grad():
        whole = space.network(space.largest, task)(images).softmax(1)
        small = space.network(space.smallest(), task)

    torch.testing.assert_close(whole, network(images), rtol=1e-4, atol=1e-5)
    assert any("softmax is left out" in line for line in space.report)
    assert small(images).shape == (5, 10)
    sizes = [sum(each.numel() for each in net.parameters()) for net in (small, space.whole)]
    assert sizes[0] < sizes[1] / 1.5
    assert space.tasks["images"].channels == 3
    assert space.structure.classes == 10


def test_quantised_weights_are_what_their_integers_stand_for(tmp_path):
    # given a product with int8 weights between quantisations of activations
    weights = np.array([[2, -3], [4, 5]], np.int8)
    constants = {"w": weights, "s": np.float32(0.5), "z": np.int8(0), "a": np.float32(0.01)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "a", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "a", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 2])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    file = tmp_path / "qdq.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    file.write_bytes(model.SerializeToString())

    read = read_graph(file, None)

    held = [numpy_helper.to_array(each) for each in read.model.graph.initializer]
    assert [node.op_type for node in read.model.graph.node] == ["MatMul"]
    assert any(np.array_equal(each, weights * 0.5) for each in held)
    assert "quantisations of activations" in read.notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no protobuf", "is no ONNX file"),
        ("two inputs", "has 2 inputs, x, z"),
        ("free size", "set side="),
        ("huge", "asks for a tensor"),
        ("elsewhere", "in another file"),
    ],
)
def test_what_is_no_network_of_one_image_is_refused_in_one_line(tmp_path, content, message):
    file = tmp_path / "model.onnx"
    file.write_bytes(content if isinstance(content, bytes) else wrong(content))

    with pytest.raises(UserError, match=message):
        read_graph(file, None)


@pytest.mark.parametrize("depends_on_values", [False, True])
def test_a_size_that_no_inference_of_shapes_knows_is_bounded_by_a_limit_of_memory(
    tmp_path, depends_on_values
):
    # given 24 GB of zeros, whose number is computed from constants or from the values of the image
    node = helper.make_node
    number = ["x" if depends_on_values else "one"]
    nodes = [
        node("ReduceMax", number, ["largest"], keepdims=0),
        node("Mul", ["largest", "many"], ["product"]),
        node("Abs", ["product"], ["size"]),
        node("Reshape", ["size", "list"], ["sizes"]),
        node("Cast", ["sizes"], ["shape"], to=TensorProto.INT64),
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("ReduceMax", ["zeros"], ["zero"]),
        node("Add", ["x", "zero"], ["y"]),
    ]
    constants = {"one": np.ones(1, np.float32), "many": np.float32(6e9), "list": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "hidden",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    file = tmp_path / "hidden.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    file.write_bytes(model.SerializeToString())

    with pytest.raises(UserError, match=r"more than 3.0 GB of memory"):
        network_of_file(file, None)


@needs_converter
def test_a_file_of_16_bits_is_computed_in_32(tmp_path):
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))
    file = saved(tmp_path, network)
    model = onnx.load(file)
    for weight in model.graph.initializer:
        halved = numpy_helper.to_array(weight).astype(np.float16)
        weight.CopyFrom(numpy_helper.from_array(halved, weight.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    del model.graph.value_info[:]
    onnx.save(model, file)

    read, _, notes = network_of_file(file, None)

    images = torch.randn(2, 3, 32, 32)
    assert {each.dtype for each in read.parameters()} == {torch.float32}
    torch.testing.assert_close(read(images), network(images), rtol=1e-2, atol=1e-2)
    assert "in 32 bits" in notes[1]


class ForOneImage(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.last = nn.Conv2d(3, 16, 3, 2, 1), nn.Linear(16 * 64, 10)

    def forward(self, images):
        return self.last(self.features(images).relu().reshape(1, 16 * 64))


@needs_converter
def test_a_reshape_to_one_image_takes_a_batch(tmp_path):
    network = ForOneImage()

    read, _, _ = network_of_file(saved(tmp_path, network, side=16), None)

    images = torch.randn(3, 3, 16, 16)
    expected = torch.cat([network(image[None]) for image in images])
    torch.testing.assert_close(read(images), expected, rtol=1e-4, atol=1e-5)


@needs_converter
def test_an_output_without_a_shape_is_no_reason_to_refuse_a_file(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "free",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    file = tmp_path / "free.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    file.write_bytes(model.SerializeToString())

    network, shape, _ = network_of_file(file, None)

    assert shape == (3, 8, 8)
    assert network(-torch.ones(2, 3, 8, 8)).shape == (2, 3, 8, 8)


def wrong(kind):
    size = "h" if kind == "free size" else 1
    names = ["x", "z"] if kind == "two inputs" else ["x"]
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    constants = []
    if kind == "huge":
        constants = [numpy_helper.from_array(np.array([1, 3, 2**17, 2**17]), "shape")]
        nodes = [
            helper.make_node("Expand", ["x", "shape"], ["large"]),
            helper.make_node("ReduceMax", ["large"], ["y"]),
        ]
    graph = helper.make_graph(
        nodes,
        "wrong",
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, [1, 3, size, 1]) for each in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        constants,
    )
    if kind == "elsewhere":
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/etc/passwd")
        graph.initializer.append(tensor)
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@needs_converter
def test_an_operator_without_a_counterpart_in_torch_is_named(tmp_path):
    node = helper.make_node("LpNormalization", ["x"], ["y"])
    values = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [1, 3, 8, 8]) for each in "xy"]
    graph = helper.make_graph([node], "norm", values[:1], values[1:])
    file = tmp_path / "norm.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    file.write_bytes(model.SerializeToString())

    with pytest.raises(UncuttableFileError, match=r"does not convert: LpNormalization"):
        named_space(str(file))
