"""Convert torch networks to TFLite in fp32 and int8, by litert-torch and its quantiser."""

from __future__ import annotations

import copy
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Float, Float32
from numpy import ndarray
from torch import Tensor, nn

from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.inference.formats.onnx_quantisation import LEAST_RANGE


def require_converter() -> None:
    """Refuse to convert where the converter is missing.

    Raises:
      ValueError: if litert-torch or its quantiser is not installed.
    """
    for package in ("litert_torch", "ai_edge_quantizer", "ai_edge_litert"):
        if find_spec(package) is None:
            raise ValueError(
                f"TFLite files need {package}, which is not installed: {how_to_install('tflite')}"
            )


def tflite_bytes(network: nn.Module, images: Float[Tensor, "b c h w"]) -> bytes:
    """The network in fp32 for batches of this shape; its images are channels-last, as TFLite's kernels take them.

    Raises:
      ValueError: if the converter is not installed, or cannot convert the network.
    """
    require_converter()
    with quiet():
        import litert_torch  # noqa: PLC0415 - an extra that takes seconds to import
        from litert_torch.progress import console  # noqa: PLC0415 - loaded when needed

        console.quiet = True
        # of other layouts another layer's weights may be written: google-ai-edge/litert-torch, issue 1061
        for weight in (*network.parameters(), *network.buffers()):
            weight.data = weight.data.contiguous()
        example = images.permute(0, 2, 3, 1).contiguous()
        is_training = network.training
        try:
            channels_last = litert_torch.to_channel_last_io(network, args=[0]).eval()
            content: bytes = litert_torch.convert(channels_last, (example,)).model_content()
        except Exception as error:  # its errors have no common base class
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"litert-torch cannot convert this network: {reason}; replace the layer, or leave TFLite out "
                f"by formats=[onnx]"
            ) from error
        finally:
            network.train(is_training)
        _require_runnable(content)
    return content


def _require_runnable(tflite: bytes) -> None:
    """Refuse operators that the converter writes and LiteRT lacks, with their layers."""
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - an extra

    try:
        Interpreter(model_content=tflite)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        kind = re.search(r"opcode '(\w+)'", reason)
        layers = [each for each in in_fp32(tflite) if kind and each.startswith(f"{kind[1]} ")]
        raise ValueError(
            f"LiteRT cannot run this network: it has no {', '.join(layers) or reason}; replace the layer, or leave "
            f"TFLite out by formats=[onnx]"
        ) from error


def tflite_quantised(tflite: bytes, batches: Iterable[Float32[ndarray, "b c h w"]]) -> bytes:
    """The network in int8, its input and output too: weights per channel, activations per tensor.

    Args:
      tflite: a network of one input, channels last.
      batches: images that the scales are calibrated on, channels first.

    Raises:
      ValueError: if the quantiser is not installed, or cannot quantise the network.
    """
    require_converter()
    with quiet():
        from ai_edge_quantizer import quantizer, recipe  # noqa: PLC0415 - an extra

        steps = quantizer.Quantizer(_ready_to_quantise(tflite), recipe.static_wi8_ai8())
        signature, name = _signature_of(tflite)
        inputs = [{name: np.ascontiguousarray(np.moveaxis(batch, 1, -1))} for batch in batches]
        try:
            calibration = steps.calibrate({signature: inputs})
            made = steps.quantize(calibration, enable_progress_report=False)
        except Exception as error:  # its errors have no common base class
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"ai-edge-quantizer cannot quantise this network: {reason}; replace the layer, or leave int8 out "
                f"by precision=fp32"
            ) from error
        return bytes(made.quantized_model)


def _signature_of(tflite: bytes) -> tuple[str, str]:
    """Names of the first signature of a file and of its input.

    Raises:
      ValueError: if it has no signature, by which the quantiser runs it.
    """
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - an extra

    signatures = Interpreter(model_content=tflite).get_signature_list()
    for name, about in signatures.items():
        (taken,) = about["inputs"]
        return name, taken
    raise ValueError("the file has no signature, by which the quantiser runs it; convert it again")


def _ready_to_quantise(tflite: bytes) -> bytes:
    """The network with ranges that 8 bits can hold, and operations that the quantiser knows."""
    from ai_edge_litert.tools import flatbuffer_utils  # noqa: PLC0415 - an extra

    model = flatbuffer_utils.read_model_from_bytearray(bytearray(tflite))
    _widen_small_channels(model)
    _replace_leaky_relus(model)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _widen_small_channels(model: Any) -> None:
    """Give each channel of weights that are all smaller than `LEAST_RANGE` one weight of that size.

    Of a channel whose scale is near 0 the 32-bit bias, in units of that scale, would saturate.
    """
    from ai_edge_litert import schema_py_generated as schema  # noqa: PLC0415 - an extra

    kinds = schema.BuiltinOperator
    axes = {kinds.CONV_2D: 0, kinds.DEPTHWISE_CONV_2D: 3, kinds.FULLY_CONNECTED: 0}
    for graph in model.subgraphs:
        for operation in graph.operators:
            kind = model.operatorCodes[operation.opcodeIndex].builtinCode
            tensor = graph.tensors[operation.inputs[1]] if kind in axes else None
            if tensor is None or (data := model.buffers[tensor.buffer].data) is None:
                continue
            weights = np.array(data, np.uint8).view(np.float32)
            channels = np.moveaxis(weights.reshape(tensor.shape), axes[kind], 0)
            first = (slice(None), *[0] * (channels.ndim - 1))
            is_small = abs(channels).max(tuple(range(1, channels.ndim))) < LEAST_RANGE
            channels[first][is_small] = LEAST_RANGE
            model.buffers[tensor.buffer].data = weights.view(np.uint8)


def _replace_leaky_relus(model: Any) -> None:
    """Write each LEAKY_RELU of slope a as relu(x) - relu(-a x): the quantiser knows RELU, MUL and SUB."""
    from ai_edge_litert import schema_py_generated as schema  # noqa: PLC0415 - an extra

    kinds = schema.BuiltinOperator

    def code_of(kind: int) -> int:
        """Number of a kind of operations in the model, which gets it where it lacks it."""
        known = [each.builtinCode for each in model.operatorCodes]
        if kind not in known:
            code = schema.OperatorCodeT()
            code.builtinCode = code.deprecatedBuiltinCode = kind
            code.version = 1
            model.operatorCodes.append(code)
            return len(known)
        return known.index(kind)

    def added(kind: int, inputs: list[int], output: int, options: Any = None) -> Any:
        """An operation of this kind."""
        operation = schema.OperatorT()
        operation.opcodeIndex = code_of(kind)
        operation.inputs, operation.outputs = inputs, [output]
        operation.builtinOptions = options
        operation.builtinOptionsType = 0
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            operation.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        return operation

    for graph in model.subgraphs:
        operations = []
        for operation in graph.operators:
            if model.operatorCodes[operation.opcodeIndex].builtinCode != kinds.LEAKY_RELU:
                operations.append(operation)
                continue
            (source,), (target,) = operation.inputs, operation.outputs
            # a tensor for the slope, and two for the parts of the result
            first = len(graph.tensors)
            slope, positive, negative = (copy.deepcopy(graph.tensors[target]) for _ in range(3))
            slope.shape = slope.shapeSignature = np.array([1], np.int32)
            for tensor, name in ((slope, b"slope"), (positive, b"above"), (negative, b"below")):
                tensor.buffer, tensor.name = 0, tensor.name + b"/" + name
            slope.buffer = len(model.buffers)
            graph.tensors += [slope, positive, negative]
            data = schema.BufferT()
            data.data = np.array([-operation.builtinOptions.alpha], np.float32).view(np.uint8)
            model.buffers.append(data)
            product = schema.MulOptionsT()
            product.fusedActivationFunction = schema.ActivationFunctionType.RELU
            operations += [
                added(kinds.RELU, [source], first + 1),
                added(kinds.MUL, [source, first], first + 2, product),
                added(kinds.SUB, [first + 1, first + 2], target, schema.SubOptionsT()),
            ]
        graph.operators = operations
        _number_in_order(model, graph)


def _number_in_order(model: Any, graph: Any) -> None:
    """Number the tensors of a graph in the order in which they are written.

    TFLite Micro places activations of one size by their numbers; in another order they take more memory.
    """
    written = dict.fromkeys(range(len(graph.tensors)), -1)
    for at, operation in enumerate(graph.operators):
        written |= dict.fromkeys(map(int, operation.outputs), at)
    order = sorted(written, key=lambda number: written[number])
    place = {number: at for at, number in enumerate(order)} | {-1: -1}  # -1: an input left out

    def moved(numbers: Iterable[int]) -> list[int]:
        return [place[int(number)] for number in numbers]

    graph.tensors = [graph.tensors[number] for number in order]
    graph.inputs, graph.outputs = moved(graph.inputs), moved(graph.outputs)
    for operation in graph.operators:
        operation.inputs, operation.outputs = moved(operation.inputs), moved(operation.outputs)
    for signature in model.signatureDefs or ():
        if model.subgraphs[signature.subgraphIndex] is graph:
            for each in (*signature.inputs, *signature.outputs):
                each.tensorIndex = place[int(each.tensorIndex)]


def in_fp32(tflite: bytes) -> list[str]:
    """Operations of an int8 network that are computed in fp32, as the quantiser knows no other: kind and layer."""
    from ai_edge_litert import schema_py_generated as schema  # noqa: PLC0415 - an extra
    from ai_edge_litert.tools import flatbuffer_utils  # noqa: PLC0415 - loaded when needed

    model = flatbuffer_utils.read_model_from_bytearray(bytearray(tflite))
    names = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    layers = []
    for graph in model.subgraphs:
        for operation in graph.operators:
            output = graph.tensors[operation.outputs[0]]
            kind = names[model.operatorCodes[operation.opcodeIndex].builtinCode]
            if output.type == schema.TensorType.FLOAT32 and kind != "DEQUANTIZE":
                layer = output.name.decode().split(";")[0].split("/")[-1]
                layers.append(f"{kind} ({layer})")
    return layers


def without_names(tflite: bytes) -> bytes:
    """The same network without the names of its tensors, which may take more bytes than a small one's weights."""
    from ai_edge_litert.tools import flatbuffer_utils  # noqa: PLC0415 - an extra

    model = flatbuffer_utils.read_model_from_bytearray(bytearray(tflite))
    flatbuffer_utils.strip_strings(model)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what the converter and its C++ libraries print and warn about, in a block."""
    sys.stderr.flush()
    before, disabled = os.dup(2), logging.root.manager.disable
    with open(os.devnull, "w") as nowhere, warnings.catch_warnings():  # noqa: PTH123 - no path
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
            logging.disable(disabled)
