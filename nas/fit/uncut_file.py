"""A file that cannot be cut still gets what needs no cutting: time on the device, RAM, flash, and an int8 file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
import onnx
import torch
from jaxtyping import Float32
from numpy import ndarray

from edgenas_core.files.atomic_file import replacing
from edgenas_core.files.safe_file import read_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from edgenas_core.inference.formats.tflite_export import quiet, tflite_quantised
from edgenas_core.types.errors import UserError
from latency.models.microcontrollers import is_chip
from latency.probe.address import addresses, spoken
from latency.probe.board import BoardError, LiveBoard, UnrunnableError
from latency.probe.connection import LostConnectionError
from latency.probe.settings import BoardPrecision, ProbeSettings, Runtime
from latency.sources.probe import ProbeLatencyConfig
from nas.config.run_config import with_live_latency
from nas.export.notes import INT8_TFLITE, graph_of_file, predicted_notes
from nas.fit.config import FitConfig
from nas.fit.data.groups import DataOptions, Scaling
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.agreement import METRICS, Frames, agreement_of, metric_for
from nas.fit.learners.data import LearnerData, TrainingData
from nas.fit.learners.opened import SCENES, is_task, is_without_labels, open_data
from nas.fit.starts.onnx_file.bounded import UnrunnableGraphError, answers
from nas.fit.starts.onnx_file.graph import MOST_BYTES, require_small_tensors
from nas.spaces.microcontroller import IMAGE, MicroGraph

Outputs = list[Float32[ndarray, "..."]]

_CALIBRATED_ON, _JUDGED_ON = 128, 128
"""Training inputs that the scales of int8 are taken from, and validation inputs that both files answer."""


def facts_of(
    path: Path, config: FitConfig, scaling: Callable[[int], Scaling | None]
) -> Iterator[str]:
    """Lines on a file as it is, each as soon as it is known.

    Args:
      path: an ONNX or TFLite file.
      config: the settings: device, data, side or input.
      scaling: mean and standard deviation of images of so many channels; None if nothing says them.
    """
    try:
        file = _opened(path, config)
    except (UserError, UnrunnableGraphError, ValueError, RuntimeError, ImportError) as error:
        yield f"{path.name} does not run here: {_first_line(error)}"
        return
    yield (
        f"{path.name}: RAM {file.ram / 1e3:,.0f} kB ({file.about_ram}, computed), flash "
        f"{len(file.content) / 1e3:,.0f} kB (the file)"
    )
    timer = _Timer(file, config)
    yield timer.sentence
    try:
        yield from _int8_facts(file, timer, config, scaling)
    finally:
        timer.close()


def _int8_facts(
    file: WholeFile, timer: _Timer, config: FitConfig, scaling: Callable[[int], Scaling | None]
) -> Iterator[str]:
    """Lines on the int8 file, which is written into `out=`."""
    path = file.path
    if file.is_quantised:
        yield f"{path.name} is int8 already"
        return
    try:
        calibration, judged, labels = _inputs(file, config, scaling)
        int8 = replace(file, content=file.in_int8(calibration), is_quantised=True)
    except (UserError, ValueError) as error:
        yield f"no int8 file: {_first_line(error)}"
        return
    target = Path(config.out) / f"{path.stem}-int8{path.suffix}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as written:
        written.write(int8.content)
    yield f"int8: {target}, {len(int8.content) / 1e3:,.0f} kB, calibrated on {len(calibration)} inputs"
    yield f"int8: {_compared(file, int8, judged, labels)}"
    yield from (f"int8: {line}" for line in timer.of_int8(int8))


@final
@dataclass(frozen=True)
class WholeFile:
    """A network file of one input, for one item at a time."""

    path: Path
    content: bytes  # with a batch of 1
    shape: tuple[int, ...]  # of one input, channels first, with the batch
    is_channels_last: bool
    is_quantised: bool
    ram: int  # bytes
    about_ram: str

    @property
    def runtime(self) -> Runtime:
        """What runs it on a board."""
        return Runtime.litert if self.path.suffix == ".tflite" else Runtime.onnxruntime

    @cached_property
    def _run(self) -> Callable[[ndarray], Outputs]:
        run = _tflite_run if self.runtime is Runtime.litert else _onnx_run
        return run(self.content)

    def __call__(self, inputs: Sequence[Float32[ndarray, "1 ..."]]) -> Iterator[Outputs]:
        """Outputs for each input, which are channels first."""
        for each in inputs:
            yield self._run(np.moveaxis(each, 1, -1) if self.is_channels_last else each)

    def in_int8(self, calibration: Sequence[Float32[ndarray, "1 ..."]]) -> bytes:
        """The int8 file.

        Raises:
          ValueError: if the quantiser cannot make one.
        """
        if self.runtime is Runtime.onnxruntime:
            return quantised(self.content, iter(calibration))
        return tflite_quantised(self.content, calibration)


def _opened(path: Path, config: FitConfig) -> WholeFile:
    """A file whose one inference was tried within a limit of memory."""
    content = read_bytes(path.expanduser(), MOST_BYTES)
    size = tuple(map(int, config.input.split("x"))) if config.input else config.side
    return (_tflite if path.suffix == ".tflite" else _onnx)(path, content, size)


def _onnx(path: Path, content: bytes, size: int | tuple[int, ...] | None) -> WholeFile:
    model = onnx.load_from_string(content)
    graph = model.graph
    constants = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(each.name for each in inputs)
        raise UserError(f"it has {len(inputs)} inputs, {names}; files of one are timed")
    dims = inputs[0].type.tensor_type.shape.dim
    given = size if isinstance(size, tuple) else (3, size or 0, size or 0)
    for at, dim in enumerate(dims):
        free = 1 if at == 0 else dict(enumerate(given, 1)).get(at, 0)
        dim.dim_value = dim.dim_value if dim.dim_value > 0 else free
    shape = tuple(int(dim.dim_value) for dim in dims)
    if not all(shape):
        raise UserError("it leaves the size of its images free; set side=")
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    require_small_tensors(model, UserError)
    fixed = model.SerializeToString()
    kinds = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.FLOAT16: np.float16}
    kind = kinds.get(inputs[0].type.tensor_type.elem_type)
    if kind is not None:
        answers(fixed, np.zeros(shape, kind))
    is_quantised = any("Quant" in node.op_type or "Integer" in node.op_type for node in graph.node)
    return WholeFile(
        path,
        fixed,
        shape,
        is_channels_last=False,
        is_quantised=is_quantised,
        ram=_activations(model) + len(content),
        about_ram="weights, and activations placed one over another",
    )


def _activations(model: onnx.ModelProto) -> int:
    """Bytes that the activations of a graph take at once, each from its operation to the last that reads it."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    sizes = {
        each.name: 4 * int(np.prod([dim.dim_value or 1 for dim in each.type.tensor_type.shape.dim]))
        for each in (*inferred.input, *inferred.value_info, *inferred.output)
    }
    constants = {each.name for each in inferred.initializer}
    (image,) = (each.name for each in inferred.input if each.name not in constants)
    graph, place = MicroGraph(sizes[image]), {image: IMAGE}
    for node in inferred.node:
        reads = [place[name] for name in node.input if name in place]
        if reads:  # else it computes a constant
            size = sum(sizes.get(name, 0) for name in node.output)
            place |= dict.fromkeys(node.output, graph.add(node.op_type, *reads, elements=size))
    return graph.activations()


def _tflite(path: Path, content: bytes, _size: object) -> WholeFile:
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - an extra

    graph = graph_of_file(content)
    if max([graph.image, *(each.elements for each in graph.operations)]) > MOST_BYTES:
        raise UserError(f"it asks for a tensor of more than {MOST_BYTES:,} bytes")
    with quiet():
        interpreter = Interpreter(model_content=content, num_threads=1)
        interpreter.allocate_tensors()
    inputs, tensors = interpreter.get_input_details(), interpreter.get_tensor_details()
    if len(inputs) != 1:
        raise UserError(f"it has {len(inputs)} inputs; files of one are timed")
    sizes = [int(each) for each in inputs[0]["shape"]]
    is_last = len(sizes) > 2
    shape = (sizes[0], sizes[-1], *sizes[1:-1]) if is_last else tuple(sizes)
    return WholeFile(
        path,
        content,
        shape,
        is_channels_last=is_last,
        is_quantised=any(each["dtype"] in {np.int8, np.uint8} for each in tensors),
        ram=graph.memory()[0],
        about_ram="TFLite Micro's arena",
    )


def _onnx_run(content: bytes) -> Callable[[ndarray], Outputs]:
    import onnxruntime  # noqa: PLC0415 - slow to import

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (name,) = (each.name for each in session.get_inputs())
    return lambda image: [np.asarray(each, np.float32) for each in session.run(None, {name: image})]


def _tflite_run(content: bytes) -> Callable[[ndarray], Outputs]:
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - an extra

    with quiet():
        interpreter = Interpreter(model_content=content, num_threads=1)
        interpreter.allocate_tensors()
    (taken,), given = interpreter.get_input_details(), interpreter.get_output_details()

    def run(image: ndarray) -> Outputs:
        scale, zero = taken["quantization"]
        if scale:
            limits = np.iinfo(taken["dtype"])
            image = np.clip(np.rint(image / scale + zero), limits.min, limits.max)
        interpreter.set_tensor(taken["index"], np.ascontiguousarray(image, taken["dtype"]))
        interpreter.invoke()
        outputs = []
        for each in given:
            values = np.asarray(interpreter.get_tensor(each["index"]), np.float32)
            scale, zero = each["quantization"]
            outputs.append((values - zero) * np.float32(scale) if scale else values)
        return outputs

    return run


@final
class _Timer:
    """Time of a file and of its int8 file on the device, in turns."""

    def __init__(self, file: WholeFile, config: FitConfig) -> None:
        self._file, self._config, self._board = file, config, None
        self._device = addresses(config.device)
        live = with_live_latency(config, takes_addresses=True)
        if is_chip(self._device):
            self.sentence = next(
                _predicted(file, self._device),
                f"time on {self._device} is predicted for the int8 .tflite file",
            )
            return
        if not isinstance(live.latency, ProbeLatencyConfig):
            self.sentence = (
                f"no time: {self._device} is known by the times of other networks; device=here or ssh://<host> "
                f"times this one"
            )
            return
        latency = live.latency
        settings = ProbeSettings(
            file.runtime,
            BoardPrecision.fp32,
            file.shape,
            latency.threads,
            latency.core,
            latency.timing.config(),
        )
        try:
            (board, *_) = latency.boards(
                addresses(live.device), settings, lambda _: file.content, lambda _: None
            )
        except (BoardError, LostConnectionError) as error:
            self.sentence = f"no time: {error}"
            return
        self._board = board
        self.sentence = (
            f"{file.path.name} takes {board.control_ms:.3g} ms on {spoken(board.address)}, {board.identity}, "
            f"measured (median of {settings.timing.samples})"
        )

    def close(self) -> None:
        """Leave the board."""
        if self._board is not None:
            self._board.close()

    def of_int8(self, int8: WholeFile) -> Iterator[str]:
        """Lines on the time of the int8 file."""
        if is_chip(self._device):
            yield from _predicted(int8, self._device)
        board: LiveBoard | None = self._board
        if board is None:
            return
        try:
            timed = board.measure(int8.content)
        except (BoardError, LostConnectionError, UnrunnableError) as error:
            yield f"not timed: {error}"
            return
        ms, whole_ms = float(np.median(timed.ms)), timed.control_median_ms
        yield f"{ms:.3g} ms beside {whole_ms:.3g} ms, in turns"


def _predicted(file: WholeFile, device: str) -> Iterator[str]:
    """Lines on the time of a file on a modelled microcontroller; none of another file than int8 TFLite."""
    if file.is_quantised and file.runtime is Runtime.litert:
        for line in predicted_notes(file.content, device):
            yield line.replace(INT8_TFLITE.file, file.path.name)


def _inputs(
    file: WholeFile, config: FitConfig, scaling: Callable[[int], Scaling | None]
) -> tuple[list[ndarray], list[ndarray], ndarray | None]:
    """Training inputs, validation inputs, and their classes where the data have some.

    Raises:
      UserError: if nothing says how images are scaled, or the data do not fit the file.
    """
    data, side = str(config.data), file.shape[-1]
    task, _, path = data.partition(":") if is_task(data) else ("", "", data)
    if task == "learner":
        return _learner_inputs(file, open_data(data))
    scaled = scaling(file.shape[1])
    if scaled is None:
        raise UserError("set mean= and std=, by which the file takes the values of pixels")
    if file.shape[2:] != (side, side):
        raise UserError("its images are not square; give its inputs by learner=")
    if is_without_labels(data):
        frames = Frames(path, side, *scaled)
        train, valid = (
            torch.cat([images for images, _ in frames.batches(split)])[:_CALIBRATED_ON].numpy()
            for split in ("train", "valid")
        )
        return _fitting(file, train), _fitting(file, valid), None
    if task in SCENES:
        options = DataOptions.joined(path, None, None, None, scaled, mirrors=True)
        return _learner_inputs(file, open_data(f"{task}:{options}", side=side))
    images = open_data(data, side=side)
    if not isinstance(images, ImageSet):
        return _learner_inputs(file, images)
    from nas.export.accuracy import prepare  # noqa: PLC0415 - imports the export

    images = replace(images, mean=scaled[0], sd=scaled[1])
    train = prepare(images.train, images, side, slice(_CALIBRATED_ON))
    valid = prepare(images.valid, images, side, slice(_JUDGED_ON))
    labels = np.asarray(images.valid.labels[:_JUDGED_ON])
    return _fitting(file, train), _fitting(file, valid), labels


def _learner_inputs(
    file: WholeFile, data: TrainingData
) -> tuple[list[ndarray], list[ndarray], None]:
    """Training and validation inputs of a learner.

    Raises:
      UserError: if they do not fit the file.
    """
    assert isinstance(data, LearnerData)
    taken = data.inputs(_CALIBRATED_ON), data.inputs(_JUDGED_ON, data.valid)
    calibration, judged = (_fitting(file, each.numpy()) for each in taken)
    return calibration, judged, None


def _fitting(file: WholeFile, inputs: ndarray) -> list[ndarray]:
    """Inputs one by one.

    Raises:
      UserError: if they are of another shape than the file takes.
    """
    if inputs.shape[1:] != file.shape[1:] or file.shape[0] != 1:
        raise UserError(f"inputs have shape {inputs.shape[1:]}, and the file takes {file.shape}")
    return [np.ascontiguousarray(each[None], np.float32) for each in inputs]


def _compared(
    file: WholeFile, int8: WholeFile, inputs: list[ndarray], labels: ndarray | None
) -> str:
    """What the int8 file answers beside the file, in words."""
    exact, rounded = (
        [[torch.from_numpy(each) for each in outputs] for outputs in one(inputs)]
        for one in (file, int8)
    )
    kind = metric_for(exact[0], None)
    agreement = agreement_of(kind, zip(rounded, exact, strict=True))
    words = f"{METRICS[kind]} with the file {float(agreement.mean()):.2%} on {len(inputs)} validation inputs"
    classes = exact[0][0].shape[-1] if kind == "classes" else 0
    if labels is None or classes <= int(labels.max()):
        return words
    right = [
        np.mean([int(one[0].argmax()) == label for one, label in zip(each, labels, strict=True)])
        for each in (exact, rounded)
    ]
    return f"{words}; accuracy {right[1]:.2%} beside {right[0]:.2%}"


def _first_line(error: BaseException) -> str:
    return next(iter((str(error) or repr(error)).splitlines()))[:200]
