"""Kind of a segment, by the operator of its main fx node; times are predicted by kind."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from enum import Enum

import torch
from torch import fx, nn
from torch.nn import functional


class SegmentKind(Enum):
    """Operator kind of a segment's main layer."""

    CONV = "conv"
    LINEAR = "linear"
    POOL = "pool"
    NORM = "norm"
    ACT = "act"
    SOFTMAX = "softmax"
    ADD = "add"
    MUL = "mul"
    CAT = "cat"
    RESHAPE = "reshape"
    IDENTITY = "identity"
    CELL = "cell"
    NETWORK = "network"
    OTHER = "other"


_MODULES: list[tuple[tuple[type[nn.Module], ...], SegmentKind]] = [
    ((nn.modules.conv._ConvNd,), SegmentKind.CONV),  # noqa: SLF001 - the base class of all convolutions
    ((nn.Linear,), SegmentKind.LINEAR),
    (
        (
            nn.modules.pooling._AvgPoolNd,  # noqa: SLF001 - torch has no public base class
            nn.modules.pooling._MaxPoolNd,  # noqa: SLF001 - torch has no public name for it
            nn.modules.pooling._AdaptiveAvgPoolNd,  # noqa: SLF001 - torch has no public name for it
            nn.modules.pooling._AdaptiveMaxPoolNd,  # noqa: SLF001 - torch has no public name for it
        ),
        SegmentKind.POOL,
    ),
    ((nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm), SegmentKind.NORM),  # noqa: SLF001 - torch has no public name for it
    ((nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.SiLU, nn.GELU, nn.Mish), SegmentKind.ACT),
    ((nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.Hardsigmoid, nn.ELU, nn.PReLU), SegmentKind.ACT),
    ((nn.Softmax, nn.LogSoftmax), SegmentKind.SOFTMAX),
    ((nn.Flatten, nn.Unflatten), SegmentKind.RESHAPE),
    ((nn.Identity, nn.modules.dropout._DropoutNd), SegmentKind.IDENTITY),  # noqa: SLF001 - torch has no public name for it
]

_FUNCTIONS: list[tuple[SegmentKind, Sequence[Callable[..., object] | str]]] = [
    (SegmentKind.ADD, [operator.add, operator.iadd, torch.add, "add", "add_"]),
    (SegmentKind.MUL, [operator.mul, operator.imul, torch.mul, "mul", "mul_"]),
    (SegmentKind.CAT, [torch.cat, torch.concat]),
    (SegmentKind.ACT, [functional.relu, functional.leaky_relu, functional.silu, functional.gelu]),
    (SegmentKind.ACT, [torch.relu, torch.sigmoid, torch.tanh, "relu", "relu_", "sigmoid", "tanh"]),
    (
        SegmentKind.POOL,
        [functional.avg_pool2d, functional.max_pool2d, functional.adaptive_avg_pool2d],
    ),
    (SegmentKind.POOL, [torch.max_pool2d, "mean"]),
    (SegmentKind.NORM, [functional.batch_norm, functional.layer_norm, functional.group_norm]),
    (SegmentKind.CONV, [torch.conv1d, torch.conv2d, torch.conv3d]),
    (SegmentKind.LINEAR, [functional.linear, torch.matmul, operator.matmul]),
    (SegmentKind.SOFTMAX, [functional.softmax, functional.log_softmax, torch.softmax, "softmax"]),
    (SegmentKind.RESHAPE, [torch.flatten, torch.reshape, torch.permute]),
    (SegmentKind.RESHAPE, ["flatten", "view", "reshape", "permute", "contiguous"]),
    (SegmentKind.IDENTITY, [functional.dropout]),
]

_KIND_OF_FUNCTION = {function: kind for kind, functions in _FUNCTIONS for function in functions}

_KIND_OF_OPERATOR = {
    getattr(function, "__name__", function): kind for function, kind in _KIND_OF_FUNCTION.items()
}
"""By name, for the operators of torch.export."""


def kind_of(node: fx.Node, network: nn.Module) -> SegmentKind:
    """Return the kind of an fx node of `network` that calls a module, a function or a method."""
    if isinstance(node.target, torch._ops.OpOverload):  # noqa: SLF001 - torch has no public name
        name = node.target.overloadpacket.__name__
        return _KIND_OF_OPERATOR.get(name, SegmentKind.OTHER)
    if node.op != "call_module":
        return _KIND_OF_FUNCTION.get(node.target, SegmentKind.OTHER)
    module = network.get_submodule(str(node.target))
    return next((kind for types, kind in _MODULES if isinstance(module, types)), SegmentKind.OTHER)
