"""An ONNX file is read and simplified: fixed sizes, folded constants, floating-point weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import onnx
from numpy import ndarray
from onnx import helper, numpy_helper

from edgenas_core.files.safe_file import read_bytes
from edgenas_core.types.errors import UserError
from nas.fit.starts.onnx_file.bounded import UnrunnableGraphError, answers, optimised

MOST_BYTES = 2**30
"""Largest file that is read, and the most that one tensor of its graph may take."""

BATCH = "batch"
"""Name of the free dimension."""

_QUANTISE, _DEQUANTISE = "QuantizeLinear", "DequantizeLinear"

_INTEGER_OPERATORS = ("QLinear", "ConvInteger", "MatMulInteger", "DynamicQuantize")
"""Beginnings of operators that compute in integers, which cannot be trained."""


@final
@dataclass(frozen=True)
class OnnxGraph:
    """A graph of one input whose sizes are known but for the batch."""

    model: onnx.ModelProto
    shape: tuple[int, ...]  # of one input, without the batch
    notes: tuple[str, ...]  # one sentence for each thing that differs from the file


def read_graph(path: Path, size: int | tuple[int, ...] | None) -> OnnxGraph:
    """Read a file without running what it names, and simplify its graph.

    Args:
      path: of the file.
      size: height and width of its images, or shape of one input, where the file leaves them free, or instead
        of the file's.

    Raises:
      UserError: if it cannot be read, has several inputs, or sizes that neither it nor `size` say.
    """
    refuse = partial(_refusal, path)
    model, notes = _loaded(path, refuse), []
    if _widen_halves(model):
        notes.append("numbers of 16 bits are computed in 32 bits")
    shape = _fix_sizes(model, size, refuse)
    if count := _leave_out_quantisation(model.graph):
        notes.append(
            f"{count} quantisations of activations are left out; weights are what their integers stand for"
        )
    model = _optimised(model, refuse)
    _free_batch_of_reshapes(model.graph)
    _fold_sizes(model, shape, refuse)
    if _leave_out_last_softmax(model):
        notes.append("its last softmax is left out: outputs are logits")
    return OnnxGraph(model, shape, tuple(notes))


def _loaded(path: Path, refuse: Any) -> onnx.ModelProto:
    """The model of a file that holds a graph of floating-point numbers, with all of its weights."""
    try:
        model = onnx.load_from_string(read_bytes(path, MOST_BYTES))
    except UserError:
        raise
    except OSError as error:
        raise refuse(f"cannot be read: {error}") from error
    except Exception as error:  # of protobuf, by the file's content
        raise refuse(f"is no ONNX file: {first_words(error)}") from error
    graph = model.graph
    for output in graph.output:  # a shape is optional, but for onnx's checker
        output.type.tensor_type.shape.SetInParent()
    external = [each.name for each in graph.initializer if each.external_data]
    if external:
        raise refuse(f"keeps {external[0]} in another file; save it with its weights inside")
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # of onnx's checker, by the file's content
        raise refuse(f"is no ONNX file: {first_words(error)}") from error
    attributes = [each for node in graph.node for each in node.attribute]
    if any(each.g.node or each.graphs for each in attributes):
        raise refuse("has branches or loops (If, Loop or Scan), which cannot be trained")
    integer = sorted({n.op_type for n in graph.node if n.op_type.startswith(_INTEGER_OPERATORS)})
    if integer:
        raise refuse(
            f"computes in integers ({', '.join(integer)}); give the float file, or one with QDQ nodes"
        )
    return model


def _widen_halves(model: onnx.ModelProto) -> bool:
    """Turn all numbers of 16 bits into those of 32, which torch trains; whether there were any."""
    half, full = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    graph, found = model.graph, False
    attributes = [each for node in graph.node for each in node.attribute]
    for tensor in (*graph.initializer, *(each.t for each in attributes if each.HasField("t"))):
        if tensor.data_type == half:
            values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
            found = True
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == half:
                attribute.i = full
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == half:
            value.type.tensor_type.elem_type = full
            found = True
    return found


def _refusal(path: Path, reason: str) -> UserError:
    return UserError(f"network={path} {reason}")


def first_words(error: BaseException) -> str:
    """The first line of an error, at most 200 characters."""
    return next(iter((str(error) or repr(error)).strip().splitlines()), "")[:200]


def _fix_sizes(
    model: onnx.ModelProto, size: int | tuple[int, ...] | None, refuse: Any
) -> tuple[int, ...]:
    """Shape of one input; the model is given it, with a free batch."""
    graph = model.graph
    constants = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(each.name for each in inputs)
        raise refuse(
            f"has {len(inputs)} inputs, {names}; a network of one input can be made smaller"
        )
    (first,) = inputs
    kind = first.type.tensor_type
    if kind.elem_type != onnx.TensorProto.FLOAT:
        name = onnx.TensorProto.DataType.Name(kind.elem_type)
        raise refuse(f"takes {name}, not FLOAT")
    sizes = [dim.dim_value if dim.dim_value > 0 else None for dim in kind.shape.dim]
    is_image = len(sizes) == 4
    if (isinstance(size, int) and not is_image) or (
        isinstance(size, tuple) and len(size) != len(sizes) - 1
    ):
        raise refuse(
            f"has an input of shape {sizes}, the batch included; leave out side= and input="
        )
    if isinstance(size, int):
        sizes[2:] = [size, size]
    elif size is not None:
        sizes[1:] = size
    sizes[1:2] = sizes[1:2] and [sizes[1] or _channels(graph, first.name)]
    if len(sizes) < 2 or not all(sizes[1:]):
        raise refuse(
            "leaves the size of its images free; set side=, their pixels, or input=1x40x101"
        )
    shape = tuple(int(each or 0) for each in sizes[1:])
    del graph.input[:]
    graph.input.append(helper.make_tensor_value_info(first.name, kind.elem_type, [BATCH, *shape]))
    del graph.value_info[:]
    outputs = [helper.make_empty_tensor_value_info(each.name) for each in graph.output]
    for made, each in zip(outputs, graph.output, strict=True):
        made.type.tensor_type.elem_type = each.type.tensor_type.elem_type
    del graph.output[:]
    graph.output.extend(outputs)
    return shape


def _channels(graph: onnx.GraphProto, name: str) -> int | None:
    """Channels that the first convolution of an input reads."""
    weights = {each.name: each.dims for each in graph.initializer}
    readers = (node for node in graph.node if node.op_type == "Conv" and name in node.input[:1])
    first = next(readers, None)
    return (
        int(weights[first.input[1]][1]) if first is not None and first.input[1] in weights else None
    )


def _leave_out_quantisation(graph: onnx.GraphProto) -> int:
    """Join what pairs of quantisation and dequantisation stand between; return their number."""
    made = {name: node for node in graph.node for name in node.output}
    renamed: dict[str, str] = {}
    for node in graph.node:
        before = made.get(node.input[0]) if node.op_type == _DEQUANTISE else None
        if before is not None and before.op_type == _QUANTISE:
            renamed[node.output[0]] = before.input[0]
    outputs = {each.name for each in graph.output}
    for node in graph.node:
        for at, name in enumerate(node.input):
            while name in renamed:
                name = renamed[name]  # noqa: PLW2901 - a chain of them
            node.input[at] = name
    for name in outputs & set(renamed):
        graph.node.append(helper.make_node("Identity", [renamed[name]], [name]))
    kept = [
        node
        for node in graph.node
        if not renamed.keys() & set(node.output) or node.op_type == "Identity"
    ]
    read = {name for node in kept for name in node.input} | outputs
    kept = [node for node in kept if node.op_type != _QUANTISE or node.output[0] in read]
    del graph.node[:]
    graph.node.extend(kept)
    return len(renamed)


def _optimised(model: onnx.ModelProto, refuse: Any) -> onnx.ModelProto:
    """The model with constants folded and additions, products and normalisations merged into convolutions."""
    require_small_tensors(model, refuse)
    try:
        return onnx.load_from_string(optimised(model.SerializeToString()))
    except UnrunnableGraphError as error:
        raise refuse(f"cannot be loaded by ONNX Runtime: {error}") from error


def _free_batch_of_reshapes(graph: onnx.GraphProto) -> None:
    """Let reshapes to a batch of 1, as exporters of one image write them, keep the size of the batch."""
    constants = {each.name: each for each in graph.initializer}
    for number, node in enumerate(graph.node):
        target = constants.get(node.input[1]) if node.op_type == "Reshape" else None
        if target is None or len(sizes := numpy_helper.to_array(target)) < 2 or sizes[0] != 1:
            continue
        free = np.array([0, *sizes[1:]], np.int64)  # 0 copies the size of the input
        node.input[1] = f"{target.name}/free{number}"
        graph.initializer.append(numpy_helper.from_array(free, node.input[1]))


def require_small_tensors(model: onnx.ModelProto, refuse: Any) -> None:
    """Refuse a graph that asks for more memory than a network of its file's size needs."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value in inferred.graph.value_info:
        sizes = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        if float(np.prod(sizes, dtype=np.float64)) * 4 > MOST_BYTES:
            raise refuse(
                f"asks for a tensor {value.name} of {sizes}, more than {MOST_BYTES:,} bytes"
            )


def _fold_sizes(model: onnx.ModelProto, shape: tuple[int, ...], refuse: Any) -> None:
    """Replace integers that are computed from sizes by their values, which do not depend on the images.

    A shape that depends on the batch has -1 in its place.
    """
    graph = model.graph
    shapes = {out for node in graph.node if node.op_type == "Shape" for out in node.output}
    known = shapes | {each.name for each in graph.initializer} | {""}
    sizes: list[str] = []
    for node in graph.node:
        if node.op_type == "Shape" or (node.input and set(node.input) <= known):
            known.update(node.output)
            sizes += [name for name in node.output if name not in sizes]
    if not sizes:
        return
    one, two = (_values(model, sizes, (batch, *shape), refuse) for batch in (2, 3))
    batch_sized = set()
    for name in sizes:
        value = one[name]
        if not np.array_equal(value, two[name]):
            batch_sized.add(name)
            value = _free_of_batch(value, two[name])
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    for node in graph.node:
        wrong = batch_sized.intersection(node.input) if not set(node.output) <= set(sizes) else None
        if wrong and (
            node.op_type != "Reshape" or (one[node.input[1]] != two[node.input[1]]).sum() > 1
        ):
            raise refuse(
                f"{node.op_type} {node.name} computes with the size of the batch, which is not known"
            )
    kept = [node for node in graph.node if not set(node.output) <= set(sizes)]
    del graph.node[:]
    graph.node.extend(kept)


def _free_of_batch(one: ndarray, two: ndarray) -> ndarray:
    """A target of a reshape that is right for both batches: 0 copies the first size, -1 is what is left."""
    if one.shape != two.shape:
        return one
    return np.where(one == two, one, 0 if (one == -1).any() else -1)


def _values(
    model: onnx.ModelProto, names: list[str], shape: tuple[int, ...], refuse: Any
) -> dict[str, ndarray]:
    """Values of tensors inside the graph, for noise of this shape."""
    extended = onnx.ModelProto()
    extended.CopyFrom(model)
    del extended.graph.output[:]
    inferred = {
        each.name: each for each in onnx.shape_inference.infer_shapes(model).graph.value_info
    }
    extended.graph.output.extend(
        inferred.get(name) or helper.make_empty_tensor_value_info(name) for name in names
    )
    try:
        values = answers(extended.SerializeToString(), noise(shape))
    except UnrunnableGraphError as error:
        raise refuse(f"does not run on inputs of shape {shape[1:]}: {error}") from error
    return dict(zip(names, values, strict=True))


def noise(shape: tuple[int, ...]) -> ndarray:
    """Numbers of mean 0 and standard deviation 1, always the same."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _leave_out_last_softmax(model: onnx.ModelProto) -> bool:
    """Take the softmax after the classes of images off, where that is the only output."""
    graph = model.graph
    last = graph.node[-1] if graph.node else None
    if last is None or len(graph.output) != 1 or last.op_type != "Softmax":
        return False
    if graph.output[0].name not in last.output:
        return False
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    before = next((each for each in inferred if each.name == last.input[0]), None)
    if before is None or len(before.type.tensor_type.shape.dim) != 2:
        return False
    graph.node.pop()
    graph.output[0].name = last.input[0]
    return True
