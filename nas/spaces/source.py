"""Python source of a network that needs torch alone: from its class, or from a trace of its `forward`."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pprint import pformat

from torch import fx, nn

from edgenas_core.types.errors import UserError

_FILE = '''\
import torch
from torch import nn


class Network(nn.{base}):
    """The network of one architecture: its layers, and a trace of its forward."""

    def __init__(self):
        super().__init__()
{layers}

{forward}
'''

_NUMBERED = re.compile(r'getattr\(([^()"]+), "(\d+)"\)')
_LISTS = (nn.Sequential, nn.ModuleList)


def class_source(kind: type[nn.Module], **arguments: object) -> str:
    """Source of the file of a class, followed by a class `Network` that passes these arguments to it.

    The file may import torch and the standard library.
    """
    lines = "\n".join(f"{name}={pformat(value, width=80)}," for name, value in arguments.items())
    return (
        f"{inspect.getsource(sys.modules[kind.__module__])}\n\nclass Network({kind.__name__}):\n"
        '    """The network of one architecture."""\n\n    def __init__(self) -> None:\n'
        f"        super().__init__(\n{textwrap.indent(lines, ' ' * 12)}\n        )\n"
    )


def traced_source(network: nn.Module, space: str) -> str:
    """Source of a module that defines `Network()`, whose weights have the names of this network's.

    Raises:
      UserError: if the network cannot be traced, or has a layer that `torch.nn` has not.
    """
    try:
        graph = fx.Tracer().trace(network.eval())
        for node in graph.nodes:
            node.type = None
        forward = _plain(graph.python_code("self").src.strip())
        leaves = {str(node.target) for node in graph.nodes if node.op == "call_module"}
        layers = "\n".join(_layers(network, leaves))
    except Exception as error:  # a trace runs the author's code
        reason = (str(error) or repr(error)).splitlines()[0]
        raise UserError(
            f"space={space} needs a method source(architecture, task): its network cannot be written as "
            f"Python from a trace: {reason}"
        ) from error
    return _FILE.format(
        base=_container(network),
        layers=textwrap.indent(layers, " " * 8),
        forward=textwrap.indent(forward, " " * 4),
    )


def _layers(network: nn.Module, leaves: set[str]) -> Iterator[str]:
    """A line for each module and each weight outside a leaf, in the order of the network's own."""
    for path, module in network.named_modules():
        above, _, name = path.rpartition(".")
        if any(path.startswith(f"{leaf}.") for leaf in leaves):
            raise ValueError(f"{path} is inside a layer of torch.nn")
        listed = isinstance(network.get_submodule(above), _LISTS)
        if listed and name.isdigit():
            yield f"{_access(above)}.append({_construction(path, module, leaves)})"
        elif path:
            yield f"{_access(path)} = {_construction(path, module, leaves)}"
        if path in leaves:
            continue
        for key, parameter in module.named_parameters(recurse=False):
            yield f"{_access(path)}.{key} = nn.Parameter(torch.empty({tuple(parameter.shape)}))"
        for key, buffer in module.named_buffers(recurse=False):
            shape, kind = tuple(buffer.shape), buffer.dtype
            yield f"{_access(path)}.register_buffer({key!r}, torch.empty({shape}, dtype={kind}))"


def _construction(path: str, module: nn.Module, leaves: set[str]) -> str:
    """Expression that builds a module without its children and with the settings that it has."""
    if path not in leaves:
        return f"nn.{_container(module)}()"
    settings = []
    for name, parameter in inspect.signature(type(module)).parameters.items():
        value = getattr(module, name, parameter.default)
        if isinstance(parameter.default, bool) and not isinstance(value, bool):
            value = value is not None  # a layer's `bias` is its weights
        if name not in {"device", "dtype"} and value != parameter.default:
            settings.append(f"{name}={value!r}")
    return f"nn.{type(module).__name__}({', '.join(settings)})"


def _plain(forward: str) -> str:
    """The code of a trace with `self[0]` for `getattr(self, "0")`, and without its deletions."""
    forward = re.sub(r";  \w+ = None", "", forward)
    while (shorter := _NUMBERED.sub(r"\1[\2]", forward)) != forward:
        forward = shorter
    return forward


def _container(module: nn.Module) -> str:
    return next((kind.__name__ for kind in _LISTS if isinstance(module, kind)), "Module")


def _access(path: str) -> str:
    """Expression of a module, from the network's own `self`."""
    parts = path.split(".") if path else []
    return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)
