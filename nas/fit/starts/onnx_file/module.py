"""A graph of ONNX becomes a module of torch's own layers and functions, whose answers are the file's."""

from __future__ import annotations

import math
import operator
import types
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import numpy as np
import onnx
import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.types.errors import UserError
from nas.fit.starts.onnx_file.bounded import UnrunnableGraphError, answers
from nas.fit.starts.onnx_file.graph import OnnxGraph, first_words, noise, read_graph
from nas.fit.starts.pretrained.libraries import library

_LARGEST_DIFFERENCE = 1e-4
"""Largest difference from ONNX Runtime's answers, as a share of the largest answer."""

_LEAST_SCALE = 0.01
"""Answers below are compared as if they were as large: those of a sigmoid may all be near 0."""

_BATCHES = (3, 5, 7, 11, 13, 17, 19, 23, 29)
"""Images that a graph is recorded with: the first number that is no other size in it, to know the batch by."""

_RESHAPES = {"reshape", "view", "flatten", "squeeze", "unsqueeze"}


def network_of_file(
    path: Path, size: int | tuple[int, ...] | None
) -> tuple[nn.Module, tuple[int, ...], tuple[str, ...]]:
    """The network of an ONNX file; nothing of the file is run as code.

    Returns:
      The module, the shape of one of its inputs, and sentences for the user.

    Raises:
      UserError: if it cannot be read, has operators without a counterpart in torch, or answers differently.
    """
    graph = read_graph(path.expanduser(), size)
    images = noise((2, *graph.shape))
    try:  # first, as its memory is bounded there
        theirs = answers(graph.model.SerializeToString(), images)
    except UnrunnableGraphError as error:
        raise UserError(f"network={path} does not run in ONNX Runtime: {error}") from error
    network = _converted(graph, path)
    with torch.no_grad():
        ours = _outputs(network(torch.from_numpy(images)))
    difference = max(map(_difference, ours, theirs))
    if len(ours) != len(theirs) or not difference <= _LARGEST_DIFFERENCE:
        raise UserError(
            f"network={path}: its answers by torch differ from ONNX Runtime's by {difference:.2g} of the largest, "
            f"more than {_LARGEST_DIFFERENCE:g}; give it as network=FILE.py:FUNCTION with weights="
        )
    told = f"answers of {path.name} by torch and by ONNX Runtime differ by {difference:.1g} of the largest"
    return network, graph.shape, (told, *graph.notes)


def _outputs(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def _difference(one: Tensor, two: Any) -> float:
    two = np.asarray(two)
    if tuple(one.shape) != two.shape:
        return float("inf")
    scale = max(float(np.abs(two).max(initial=0)), _LEAST_SCALE)
    return float(np.abs(one.numpy() - two).max(initial=0)) / scale


def _converted(graph: OnnxGraph, path: Path) -> nn.Module:
    """The module of a graph, by onnx2torch, with torch's functions in place of its wrappers.

    Raises:
      UserError: if onnx2torch is not installed, or lacks an operator.
    """
    library("torchvision")  # which onnx2torch imports
    try:
        import onnx2torch  # noqa: PLC0415 - an extra
        from onnx2torch.node_converters import get_converter  # noqa: PLC0415 - loaded when needed
    except ImportError as error:
        raise UserError(
            f"network={path} needs onnx2torch ({error}): {how_to_install('networks')}"
        ) from error
    versions = {each.domain: each.version for each in graph.model.opset_import}
    missing = []
    for kind, domain in {(node.op_type, node.domain) for node in graph.model.graph.node}:
        with suppress(NotImplementedError):
            get_converter(kind, versions[domain], domain)
            continue
        missing.append(kind)
    if missing:
        names = ", ".join(sorted(missing))
        raise UserError(
            f"network={path} has operators that onnx2torch does not convert: {names}; give it as "
            f"network=FILE.py:FUNCTION with weights="
        )
    try:
        wrapped = onnx2torch.convert(graph.model).eval()
        batch = _batch_of(graph)
        recorder = _Recorder(wrapped, batch)
        recorder.run(torch.from_numpy(noise((batch, *graph.shape))))
        return recorder.network()
    except Exception as error:  # onnx2torch's, by the file's content
        raise UserError(
            f"network={path} cannot be converted to torch: {first_words(error)}"
        ) from error


def _batch_of(graph: OnnxGraph) -> int:
    inferred = onnx.shape_inference.infer_shapes(graph.model).graph
    values = [*inferred.value_info, *inferred.output]
    sizes = {dim.dim_value for each in values for dim in each.type.tensor_type.shape.dim}
    return next(number for number in _BATCHES if number not in sizes | set(graph.shape))


@final
class _Recorder(fx.Interpreter):
    """Runs a converted graph once, and records torch's layers and functions in a graph without wrappers."""

    def __init__(self, wrapped: fx.GraphModule, batch: int) -> None:
        super().__init__(wrapped)
        self._batch = batch
        self._recorded, self._root = fx.Graph(), nn.Module()
        self._nodes: dict[
            int, fx.Node
        ] = {}  # of what depends on the images, by the id of the tensor
        self._constants: dict[int, fx.Node] = {}
        self._alive: list[Any] = []  # lest another tensor gets its id

    def network(self) -> nn.Module:
        """The recorded network."""
        traced = fx.GraphModule(self._root, self._recorded, "Network")
        traced.graph.eliminate_dead_code()
        traced.graph.lint()
        traced.recompile()
        # a class of its own: fx's prints a traceback where a trial cut does not fit
        network: nn.Module = type("Network", (nn.Module,), {"forward": type(traced).forward})()
        for name, layer in traced.named_children():
            network.add_module(name, layer)
        for name, parameter in traced.named_parameters(recurse=False):
            network.register_parameter(name, parameter)
        for name, buffer in traced.named_buffers(recurse=False):
            network.register_buffer(name, buffer)
        return network.eval()

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The images."""
        value = super().placeholder(target, args, kwargs)
        self._keep(value, self._recorded.placeholder("images"))
        return value

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A layer of torch as it is, or the functions that a wrapper calls."""
        wrapper = self.fetch_attr(target)
        if not any(map(self.depends, args)):
            return wrapper(*args, **kwargs)
        module = _layer(wrapper, args)
        if not type(module).__module__.startswith("torch.nn."):
            args = [tuple(each) if isinstance(each, list) else each for each in args]
            with _Recording(self), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # onnx2torch indexes by lists
                return module(*args, **kwargs)
        inputs = args if module is wrapper else args[:1]  # a layer holds the constants
        name = f"layer_{len(self._alive)}"
        self._root.add_module(name, module)
        result = module(*inputs, **kwargs)
        self._keep(result, self._recorded.call_module(name, tuple(map(self.argument, inputs))))
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """One of several results."""
        with _Recording(self):
            return target(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The outputs."""
        outputs = args[0] if isinstance(args[0], list | tuple) else [args[0]]
        nodes = tuple(map(self.argument, outputs))
        self._recorded.output(nodes if len(nodes) > 1 else nodes[0])
        return super().output(target, args, kwargs)

    def depends(self, value: Any) -> bool:
        """Whether a value was computed from the images."""
        return id(value) in self._nodes

    def record(self, function: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Add a call of a function of torch, or of a tensor's method, with its result."""
        name = function.__name__
        if name == "__getitem__":
            at = args[1] if isinstance(args[1], tuple | list) else (args[1],)
            at = tuple(map(_plain, at))
            node = self._recorded.call_function(operator.getitem, (self.argument(args[0]), at))
        elif name in _RESHAPES:
            node = self._reshaped(args[0], result)
        elif isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
            node = self._recorded.call_method(name, *self._arguments(args, kwargs))
        else:
            node = self._recorded.call_function(function, *self._arguments(args, kwargs))
        self._keep(result, node)

    def argument(self, value: Any) -> Any:
        """A node for what was computed from the images, a number for one number, else a parameter."""
        if not isinstance(value, Tensor):
            return value
        if self.depends(value):
            return self._nodes[id(value)]
        if value.numel() == 1:
            return value.item()
        if id(value) not in self._constants:
            name = f"constant_{len(self._alive)}"
            if value.is_floating_point():
                self._root.register_parameter(name, nn.Parameter(value.detach().clone()))
            else:
                self._root.register_buffer(name, value.clone())
            self._constants[id(value)] = self._recorded.get_attr(name)
            self._alive.append(value)
        return self._constants[id(value)]

    def _arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        args, kwargs = tree_map(self.argument, (tuple(args), dict(kwargs or {})))
        return args, kwargs

    def _keep(self, value: Any, node: fx.Node) -> None:
        """Remember which node computes a value."""
        self._alive.append(value)
        if isinstance(value, Tensor):
            self._nodes[id(value)] = node
        elif isinstance(value, tuple | list):
            for at, part in enumerate(value):
                self._keep(part, self._recorded.call_function(operator.getitem, (node, at)))

    def _reshaped(self, before: Tensor, after: Tensor) -> fx.Node:
        """A reshape that names no size of the batch, nor of channels where they are flattened."""
        node, old, new = self._nodes[id(before)], tuple(before.shape), tuple(after.shape)
        rest = len(new) - 1
        if new[:rest] == old[:rest] and math.prod(old[rest:]) == new[-1]:
            return self._recorded.call_function(torch.flatten, (node, rest))
        if new[: len(old)] == old and set(new[len(old) :]) <= {1}:
            for at in range(len(old), len(new)):
                node = self._recorded.call_function(torch.unsqueeze, (node, at))
            return node
        sizes: list[Any] = list(new)
        if self._batch in new and self._batch in old:
            size = self._recorded.call_method("size", (node, old.index(self._batch)))
            sizes[new.index(self._batch)] = size
        if len(new) == 5 and len(old) == 4 and new[1] * new[2] == old[1]:
            sizes[2] = -1  # channels of a group, which are shuffled
        elif len(new) == 4 and len(old) == 5 and new[1] == old[1] * old[2]:
            sizes[1] = -1
        return self._recorded.call_function(torch.reshape, (node, tuple(sizes)))


@final
class _Recording(TorchFunctionMode):
    """Records calls of functions on what depends on the images."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call a function, and record it unless it asks for sizes alone."""
        result = function(*args, **(kwargs or {}))
        tensors = [each for each in tree_leaves((args, kwargs)) if self._recorder.depends(each)]
        is_result = isinstance(result, Tensor) or (
            isinstance(result, tuple | list) and not isinstance(result, torch.Size)
        )
        if tensors and is_result and function.__name__ != "__get__":
            self._recorder.record(function, args, kwargs, result)
        return result


def _plain(part: Any) -> Any:
    """A part of an index with Python's integers."""
    if isinstance(part, slice):
        ends = part.start, part.stop, part.step
        return slice(*(None if end is None else int(end) for end in ends))
    return int(part) if isinstance(part, Tensor) and part.ndim == 0 else part


def _layer(wrapper: Any, args: Sequence[Any]) -> nn.Module:
    """The layer of torch that a wrapper with its constants is, else the wrapper."""
    constants = [each for each in args[1:] if isinstance(each, Tensor)]
    kind = type(wrapper).__name__
    if kind == "OnnxMatMul" and constants and constants[0].ndim == 2:
        inputs, outputs = constants[0].shape
        layer = nn.Linear(inputs, outputs, bias=False)
        layer.weight.data = constants[0].T.contiguous()
        return layer
    if kind == "OnnxPReLU" and constants:
        prelu = nn.PReLU(constants[0].numel())
        prelu.weight.data = constants[0].reshape(-1).clone()
        return prelu
    if kind == "OnnxHardSigmoid" and math.isclose(wrapper.alpha, 1 / 6, rel_tol=1e-4):
        return nn.Hardsigmoid()
    if kind.startswith("OnnxGlobalAveragePool") and args[0].ndim == 4:
        return nn.AdaptiveAvgPool2d(1)
    module: nn.Module = wrapper
    return module
