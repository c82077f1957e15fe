"""Cuts a module into the segments of a program, by a rule.

The finer the segments, the freer a policy; the coarser, the fewer jobs pass through the queues.
Bundling small layers with their convolution is the layer-wise decomposer of Lim & Kim (IEIE 58(10),
2021). Whatever the rule, operations run in the order in which the module ran them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from threading import Lock, get_ident
from typing import Any, NoReturn, final

import torch
from jaxtyping import Float
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode

from runtime.network.program import NETWORK_INPUT, Program, Segment
from runtime.network.segment_kind import Kind, kind_of
from runtime.network.subgraph import extract

_SMALL = {Kind.NORM, Kind.ACT, Kind.IDENTITY}
_LARGE = {Kind.CONV, Kind.LINEAR}

_TRACING = Lock()
"""Tracing replaces `nn.Module.__call__` for the whole process; two at once never put it back."""


class Rule(Enum):
    """Where to cut."""

    LAYER = "layer"
    """Around every layer and every operation."""
    FUSED = "fused"
    """As LAYER, but normalisations and activations stay with the convolution or linear layer that
    they follow, else with the one that follows them; a batch normalisation right behind a
    convolution is folded into its weights."""
    UNFOLDED = "unfolded"
    """As FUSED, but batch normalisations stay operations of their own."""
    CELL = "cell"
    """As LAYER, but a module of one of the classes given is one segment."""
    WHOLE = "whole"
    """Nowhere."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"rule={value!r} must be one of {', '.join(one.value for one in cls)}")


def decompose(
    module: nn.Module,
    example: Float[Tensor, "n ..."],
    rule: Rule | str = Rule.LAYER,
    *,
    cells: Sequence[type[nn.Module]] = (),
) -> Program:
    """The module as a program; the example is run once, for shapes and operations.

    A module and an example on the meta device give everything but results, for nothing. The program
    shares the module's weights, except folded ones, which are copies.

    Args:
      module: in evaluation mode, of one tensor, giving one tensor.
      example: an input of the shape that the program will be run with.
      rule: where to cut; its name will do.
      cells: the classes of Rule.CELL; of nested ones the outermost stays whole.

    Raises:
      ValueError: if there is no such rule; if the module is in training mode, takes or gives anything but one tensor, or has
        none of the cells; if cells are given to another rule, or none to Rule.CELL.
      torch.fx.proxy.TraceError: if the control flow of the module depends on values; Rule.WHOLE
        never asks, and the submodule at fault may become a cell.
    """
    rule = Rule(rule)
    if any(part.training for part in module.modules()):
        raise ValueError("the module is in training mode; call .eval() first")
    if (rule is Rule.CELL) != bool(cells):
        raise ValueError(f"rule {rule.value!r} was given {len(cells)} classes of cells")
    if rule is Rule.WHOLE:
        return _whole(module, example)

    tracer = _Tracer(tuple(cells))
    try:
        network = _traced(module, tracer)
    except TypeError:
        # perhaps of mask[:length]: only a buffer that is traced takes an index that is
        tracer = _Tracer(tuple(cells))
        tracer.proxy_buffer_attributes = True
        network = _traced(module, tracer)
    if cells and not tracer.found:
        names = " or ".join(cell.__name__ for cell in cells)
        raise ValueError(f"{type(module).__name__} contains no {names}")
    facts = _Facts(network, example)
    groups = list(_groups(facts, fused=rule in {Rule.FUSED, Rule.UNFOLDED}))
    owners = {node: i for i, group in enumerate(groups) for node in group}
    segments = []
    for group in groups:
        body, read = extract(network, group, owners.keys(), fold=rule is Rule.FUSED)
        main = next((node for node in group if facts.kinds[node] in _LARGE), group[0])
        is_layer = main.op == "call_module"
        segments.append(
            Segment(
                name=str(main.target) if is_layer else main.name,
                kind=Kind.CELL if is_layer and main.target in tracer.found else facts.kinds[main],
                body=body,
                inputs=tuple(owners.get(node, NETWORK_INPUT) for node in read),
                output_shape=tuple(facts.values[group[-1]].shape),
                output_bytes=facts.values[group[-1]].nbytes,
                weight_bytes=_weight_bytes(body),
                flops=sum(facts.flops[node] for node in group),
            )
        )
    return Program(tuple(segments), owners[_output(network, owners)])


def _traced(module: nn.Module, tracer: fx.Tracer) -> fx.GraphModule:
    """The module as a graph; the constants that tracing leaves in the module go to the graph alone."""
    own = {id(part): {*vars(part)} for part in module.modules()}
    try:
        with _TRACING:
            graph = tracer.trace(module)
        return fx.GraphModule(module, graph)
    finally:
        for part in module.modules():
            for name in vars(part).keys() - own[id(part)]:
                delattr(part, name)


def _whole(module: nn.Module, example: Tensor) -> Program:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        output = module(example)
    if not isinstance(output, Tensor):
        raise ValueError(f"the module gives {type(output).__name__}, not one tensor")  # noqa: TRY004 - it is the module that is not of the kind asked for
    segment = Segment(
        name=type(module).__name__,
        kind=Kind.NETWORK,
        body=module,
        inputs=(NETWORK_INPUT,),
        output_shape=tuple(output.shape),
        output_bytes=output.nbytes,
        weight_bytes=_weight_bytes(module),
        flops=counter.get_total_flops(),
    )
    return Program((segment,), 0)


def _weight_bytes(body: nn.Module) -> int:
    return sum(weight.nbytes for weight in [*body.parameters(), *body.buffers()])


@final
class _Tracer(fx.Tracer):
    """Traces into everything but torch's own layers and cells.

    Modules that other threads call meanwhile come here, too, and are let through.
    """

    def __init__(self, cells: tuple[type[nn.Module], ...]) -> None:
        super().__init__()
        self._cells = cells
        self._thread = get_ident()
        self.found: set[str] = set()
        """Names of the cells met."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, self._cells):
            self.found.add(module_qualified_name)
            return True
        return super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)


@final
class _Facts(fx.Interpreter):
    """What one run tells of every node."""

    def __init__(self, network: fx.GraphModule, example: Tensor) -> None:
        super().__init__(network)
        self.values: dict[fx.Node, Tensor] = {}
        """On the meta device, of the nodes that give a tensor."""
        self.flops: dict[fx.Node, int] = {}
        self.kinds: dict[fx.Node, Kind] = {}
        inputs = network.graph.find_nodes(op="placeholder")
        if len(inputs) != 1:
            raise ValueError(f"the module takes {len(inputs)} inputs, a program takes one")
        with torch.no_grad():
            self.run(example)

    def run_node(self, n: fx.Node) -> Any:
        with FlopCounterMode(display=False) as counter:
            value = super().run_node(n)
        self.flops[n] = counter.get_total_flops()
        if isinstance(value, Tensor):
            self.values[n] = torch.empty_like(value, device="meta")
            self.kinds[n] = kind_of(n, self.module)
        elif n.op == "call_module":
            raise ValueError(f"layer {n.target} gives {type(value).__name__}, not one tensor")
        return value


def _groups(facts: _Facts, *, fused: bool) -> Iterator[list[fx.Node]]:
    """The nodes of each segment, in the order of the graph.

    What gives no tensor (sizes, tuples of views) is in no group: whoever reads it computes it.
    """
    group: list[fx.Node] = []
    for node in facts.values:
        if not node.op.startswith("call_"):
            continue
        if group and not (fused and _stays_with(node, group, facts.kinds)):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _stays_with(node: fx.Node, group: list[fx.Node], kind_of: dict[fx.Node, Kind]) -> bool:
    """Neighbours only, so that no operation changes its turn."""
    if node.all_input_nodes != [group[-1]] or list(group[-1].users) != [node]:
        return False
    kinds = {kind_of[member] for member in group}
    if kind_of[node] in _LARGE:
        return kinds <= _SMALL
    return kind_of[node] in _SMALL and kinds <= _SMALL | _LARGE


def _output(network: fx.GraphModule, owners: dict[fx.Node, int]) -> fx.Node:
    (node,) = network.graph.find_nodes(op="output")
    given = node.args[0]
    if not isinstance(given, fx.Node) or given not in owners:
        raise ValueError(f"the module gives {given!r}, not one computed tensor")
    return given
