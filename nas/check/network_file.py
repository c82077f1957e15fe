"""A network file of any maker: what it takes, its answers, and the outputs of its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Float32, Shaped
from numpy import ndarray

from edgenas_core.files.safe_file import read_bytes
from edgenas_core.inference.formats.tflite_export import quiet
from edgenas_core.types.errors import UserError

MOST_BYTES = 2**30
_TYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8", "tensor(int8)": "int8"}
_HEAVY = {"Conv", "Gemm", "MatMul", "ConvTranspose"}
_HEAVY_TFLITE = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}
_AFTER = {"BatchNormalization", "Relu", "Clip"}
"""Operations that other formats merge into the layer before them."""


@final
@dataclass(frozen=True)
class InputForm:
    """What a network takes: one image at a time."""

    height: int | None  # None: any
    width: int | None
    channels: int
    is_channels_last: bool
    dtype: str
    scale: float = 0.0  # of whole numbers: value = scale * (number - zero)
    zero: int = 0

    @classmethod
    def of(cls, shape: list[int | None], dtype: str, where: str, **scales: Any) -> InputForm:
        """The form of a shape (n, c, h, w) or (n, h, w, c).

        Raises:
          UserError: if it is no image.
        """
        is_last = len(shape) == 4 and shape[3] in {1, 3} and shape[1] not in {1, 3}
        if len(shape) != 4 or shape[3 if is_last else 1] not in {1, 3} or not dtype:
            raise UserError(
                f"{where} takes {dtype or 'another type'} of shape {shape}; check compares networks that take one "
                f"image: (1, 3, h, w) or (1, h, w, 3) of float32, uint8 or int8"
            )
        if shape[0] not in {None, 1}:
            raise UserError(
                f"{where} takes {shape[0]} images at once; check compares networks that take one: export it with a batch "
                f"of 1, or a dynamic one"
            )
        height, width = shape[1:3] if is_last else shape[2:]
        channels = shape[3 if is_last else 1] or 3
        return cls(height or None, width or None, channels, is_last, dtype, **scales)

    @property
    def range(self) -> tuple[float, float] | None:
        """Least and largest value that whole numbers hold; None of floating-point numbers."""
        if not self.scale:
            return None
        limits = np.iinfo(self.dtype)
        return self.scale * (limits.min - self.zero), self.scale * (limits.max - self.zero)

    def numbers(self, images: Float32[ndarray, "b 3 h w"]) -> Shaped[ndarray, "b ..."]:
        """Prepared images as the network takes them."""
        if self.channels == 1:
            images = images.mean(1, keepdims=True)
        if self.is_channels_last:
            images = images.transpose(0, 2, 3, 1)
        if self.dtype != "float32":
            least, most = np.iinfo(self.dtype).min, np.iinfo(self.dtype).max
            scaled = images / self.scale + self.zero if self.scale else images
            images = np.clip(np.rint(scaled), least, most)
        return np.ascontiguousarray(images.astype(self.dtype))


@final
@dataclass(frozen=True)
class Layer:
    """One convolution or product of matrices, on one image."""

    name: str
    values: list[Float32[ndarray, "c *hw"]]  # its output, and after what may be merged into it
    highest: float | None  # value that its 8 bits hold; None: of floating-point numbers
    step: float  # of its 8 bits
    weight_scales: int  # 0: of floating-point numbers
    is_depthwise: bool


def open_network(path: Path) -> OnnxFile | TfliteFile:
    """Open a file by its suffix, without executing anything of it.

    Raises:
      UserError: if it is neither .onnx nor .tflite, or its runtime cannot load it.
      OSError: if it cannot be read.
    """
    if path.suffix not in {".onnx", ".tflite"}:
        raise UserError(f"{path} is no .onnx and no .tflite file; check compares such files")
    content = read_bytes(path, MOST_BYTES)
    if path.suffix == ".onnx":
        return OnnxFile(path, content)
    try:
        return TfliteFile(path, content)
    except ImportError as error:
        raise UserError(f"{path} needs LiteRT: pip install ai-edge-litert") from error


@final
class OnnxFile:
    """An .onnx file in ONNX Runtime; its weights lie in the file."""

    def __init__(self, path: Path, content: bytes) -> None:
        import onnx  # noqa: PLC0415 - seconds that a refused command does not pay

        self.path = path
        try:
            self._model = onnx.load_from_string(content)
            self._session = _session(content)
            (image,), (output, *_) = self._session.get_inputs(), self._session.get_outputs()
        except Exception as error:  # its errors have no common base class
            raise UserError(f"{path}: ONNX Runtime cannot run it: {error!s:.200}") from error
        shape = [each if isinstance(each, int) and each > 0 else None for each in image.shape]
        self.form = InputForm.of(shape, _TYPES.get(image.type, ""), str(path))
        self._input, self._output = image.name, output.name
        kinds = {node.op_type for node in self._model.graph.node}
        self.is_quantised = any("Quantize" in kind or kind.startswith("Q") for kind in kinds)

    def __call__(self, numbers: Shaped[ndarray, "1 ..."]) -> Float32[ndarray, "1 classes"]:
        """Outputs for one image."""
        try:
            outputs = self._session.run([self._output], {self._input: numbers})
        except Exception as error:  # any error of a foreign library
            shape = "x".join(map(str, numbers.shape))
            raise UserError(
                f"{self.path}: ONNX Runtime cannot run it on an input of {shape}: {error!s:.200}"
            ) from error
        return np.asarray(outputs[0], np.float32)

    def layers(self, numbers: Shaped[ndarray, "1 ..."]) -> Iterator[Layer]:
        """Every layer, by a copy of the network that gives the outputs of all."""
        import onnx  # noqa: PLC0415 - loaded when needed

        graph = self._model.graph
        made = {name: node for node in graph.node for name in node.output}
        following: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                following.setdefault(name, []).append(node)
        stored = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
        # Each layer's output, and those after operations that another format would merge into it.
        chains = []
        for node in graph.node:
            if node.op_type not in _HEAVY:
                continue
            chain, after = [node.output[0]], following.get(node.output[0], [])
            while len(after) == 1 and after[0].op_type in _AFTER:
                chain.append(after[0].output[0])
                after = following.get(chain[-1], [])
            chains.append((node, chain, after))
        extended = onnx.ModelProto()
        extended.CopyFrom(self._model)
        names = [name for _, chain, _ in chains for name in chain]
        present = {each.name for each in graph.output}
        extended.graph.output.extend(
            onnx.ValueInfoProto(name=name) for name in names if name not in present
        )
        session = _session(extended.SerializeToString())
        values = dict(zip(names, session.run(names, {self._input: numbers}), strict=True))
        for node, chain, after in chains:
            scale, zero = _quantised_as(after, stored)
            arrays = [np.asarray(values[name][0]) for name in chain]
            highest = None
            if scale:
                limits = np.iinfo(zero.dtype)
                highest = float(scale * (limits.max - int(zero)))
            weight, scales = _weight_of(node, made, stored)
            groups = next((each.i for each in node.attribute if each.name == "group"), 1)
            is_depthwise = groups > 1 and weight is not None and weight.shape[1] == 1
            yield Layer(node.name or chain[0], arrays, highest, scale, scales, is_depthwise)


def _session(content: bytes) -> Any:
    import onnxruntime  # noqa: PLC0415 - loaded when needed

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _quantised_as(after: list[Any], stored: dict[str, ndarray]) -> tuple[float, Any]:
    """Scale and zero point of a layer's output in 8 bits; 0 of floating-point numbers."""
    if not after or after[0].op_type != "QuantizeLinear":
        return 0.0, np.uint8(0)
    scale, zero = (stored.get(name) for name in after[0].input[1:3])
    if scale is None or zero is None or scale.size != 1:
        return 0.0, np.uint8(0)
    return float(scale.ravel()[0]), zero.ravel()[0]


def _weight_of(
    node: Any, made: dict[str, Any], stored: dict[str, ndarray]
) -> tuple[ndarray | None, int]:
    """Weights of a layer as they are stored, and the number of their scales; 0 of floating-point numbers."""
    name, scale = node.input[1], None
    if name in made and made[name].op_type == "DequantizeLinear":
        name, scale = made[name].input[0], stored.get(made[name].input[1])
    return stored.get(name), 0 if scale is None else scale.size


@final
class TfliteFile:
    """A .tflite file in LiteRT."""

    def __init__(self, path: Path, content: bytes) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: PLC0415 - an extra

        self.path = path
        # Kernels of XNNPACK keep no outputs of layers.
        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._read: Callable[[], Any] = lambda: Interpreter(
            model_content=content,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=plain,
        )
        try:
            with quiet():
                self._interpreter = Interpreter(model_content=content, num_threads=1)
                self._interpreter.allocate_tensors()
            (image,) = self._interpreter.get_input_details()
            output, *_ = self._interpreter.get_output_details()
        except (ValueError, RuntimeError) as error:
            raise UserError(f"{path}: LiteRT cannot run it: {error!s:.200}") from error
        scale, zero = image["quantization"]
        self.form = InputForm.of(
            [int(each) for each in image["shape"]],
            np.dtype(image["dtype"]).name,
            str(path),
            scale=float(scale),
            zero=int(zero),
        )
        self._input, self._output = image, output
        self.is_quantised = any(
            each["dtype"] in {np.int8, np.uint8} for each in self._interpreter.get_tensor_details()
        )

    def __call__(self, numbers: Shaped[ndarray, "1 ..."]) -> Float32[ndarray, "1 classes"]:
        """Outputs for one image."""
        self._interpreter.set_tensor(self._input["index"], numbers)
        self._interpreter.invoke()
        return _real(self._interpreter.get_tensor(self._output["index"]), self._output)

    def layers(self, numbers: Shaped[ndarray, "1 ..."]) -> Iterator[Layer]:
        """Every layer, by the reference kernels."""
        interpreter = self._read()
        interpreter.allocate_tensors()
        interpreter.set_tensor(self._input["index"], numbers)
        interpreter.invoke()
        tensors = {each["index"]: each for each in interpreter.get_tensor_details()}
        for operation in interpreter._get_ops_details():  # noqa: SLF001 - there is no public way
            if operation["op_name"] not in _HEAVY_TFLITE:
                continue
            index = int(operation["outputs"][0])
            output, weight = tensors[index], tensors[int(operation["inputs"][1])]
            value = _real(interpreter.get_tensor(index), output)[0]
            value = value.transpose(2, 0, 1) if value.ndim == 3 else value
            scale, zero = output["quantization"]
            highest = scale * (np.iinfo(output["dtype"]).max - zero) if scale else None
            scales = len(weight["quantization_parameters"]["scales"])
            is_depthwise = operation["op_name"] == "DEPTHWISE_CONV_2D"
            name = f"{operation['op_name']} {output['name']}".strip()
            yield Layer(name, [value], highest, float(scale), scales, is_depthwise)


def _real(numbers: ndarray, details: Any) -> Float32[ndarray, "..."]:
    scale, zero = details["quantization"]
    values = numbers.astype(np.float32)
    return np.asarray((values - zero) * scale if scale else values, np.float32)


NetworkFile: TypeAlias = OnnxFile | TfliteFile
"""A file in its runtime, on one thread."""
