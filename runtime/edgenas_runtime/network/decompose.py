"""Decompose a module into the segments of a program.

Fine segments give a scheduling policy more freedom; coarse ones cost fewer jobs. Fusing small layers
with their convolution is the layer-wise decomposer of Lim & Kim (IEIE 58(10), 2021). Under every rule,
operations run in the module's order.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import redirect_stderr
from enum import Enum
from threading import Lock, get_ident
from typing import Any, NoReturn, final

import torch
from jaxtyping import Float
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode

from edgenas_runtime.network.program import NETWORK_INPUT, Program, Segment
from edgenas_runtime.network.segment_kind import SegmentKind, kind_of
from edgenas_runtime.network.subgraph import extract

_SMALL = {SegmentKind.NORM, SegmentKind.ACT, SegmentKind.IDENTITY}
_LARGE = {SegmentKind.CONV, SegmentKind.LINEAR}

_TRACING = Lock()
"""Tracing patches `nn.Module.__call__` process-wide; two concurrent traces would not restore it."""


class Rule(Enum):
    """Rule by which a module is cut into segments."""

    LAYER = "layer"
    """Every layer and every operation is a segment."""
    FUSED = "fused"
    """Like LAYER, but normalisations and activations belong to the convolution or linear layer before
    them, else to the one after them; a batch normalisation right after a convolution is folded into
    its weights."""
    UNFOLDED = "unfolded"
    """Like FUSED, but without folding batch normalisations."""
    CELL = "cell"
    """Like LAYER, but a module of one of the classes `cells` is one segment."""
    WHOLE = "whole"
    """The module is one segment."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"rule={value!r} must be one of {', '.join(rule.value for rule in cls)}")


def decompose(
    module: nn.Module,
    example: Float[Tensor, "n ..."],
    rule: Rule | str = Rule.LAYER,
    *,
    cells: Sequence[type[nn.Module]] = (),
) -> Program:
    """Trace a module and return it as a program; the example is run once, for shapes and FLOPs.

    On the meta device nothing is computed. The program shares the module's weights, except folded
    ones, which are copies.

    Args:
      module: a module in evaluation mode, with one input tensor and one output tensor.
      example: an input of the shape that the program will run with.
      rule: a Rule or its name.
      cells: module classes for Rule.CELL; of nested cells the outermost is the segment.

    Raises:
      ValueError: if the rule is unknown; if the module is in training mode, has several inputs or
        outputs, or contains none of the cells; if cells are given with another rule, or none with
        Rule.CELL.
      torch.fx.proxy.TraceError: if the module's control flow depends on values; use Rule.WHOLE, or
        make the submodule concerned a cell. One that depends on shapes is followed for the example's.
    """
    rule = Rule(rule)
    if any(part.training for part in module.modules()):
        raise ValueError("the module is in training mode; call .eval() first")
    if (rule is Rule.CELL) != bool(cells):
        raise ValueError(
            f"rule={rule.value!r} with {len(cells)} classes in cells; rule='cell' needs cells=, and only it"
        )
    if rule is Rule.WHOLE:
        return _whole(module, example)

    network, found = _network_of(module, example, tuple(cells))
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
                kind=SegmentKind.CELL if is_layer and main.target in found else facts.kinds[main],
                body=body,
                inputs=tuple(owners.get(node, NETWORK_INPUT) for node in read),
                output_shape=tuple(facts.values[group[-1]].shape),
                output_bytes=facts.values[group[-1]].nbytes,
                weight_bytes=_weight_bytes(body),
                flops=sum(facts.flops[node] for node in group),
            )
        )
    return Program(tuple(segments), owners[_output(network, owners)])


def _network_of(
    module: nn.Module, example: Float[Tensor, "n ..."], cells: tuple[type[nn.Module], ...]
) -> tuple[fx.GraphModule, Collection[str]]:
    """The module as a graph, traced or else exported, and the names of its cells.

    Raises:
      ValueError: if it contains none of the cells.
      torch.fx.proxy.TraceError: as `decompose`.
    """
    tracer = _Tracer(cells)
    try:
        try:
            network = _traced(module, tracer)
        except TypeError:
            # perhaps mask[:length]: only traced buffers accept a traced index
            tracer = _Tracer(cells)
            tracer.proxy_buffer_attributes = True
            network = _traced(module, tracer)
    except (fx.proxy.TraceError, RuntimeError, TypeError) as error:
        if cells:  # which torch.export does not keep
            raise
        network = _exported(module, example, error)
    if cells and not tracer.found:
        names = " or ".join(cell.__name__ for cell in cells)
        raise ValueError(f"{type(module).__name__} contains no {names}")
    return network, tracer.found


def _traced(module: nn.Module, tracer: fx.Tracer) -> fx.GraphModule:
    """Trace the module; constants that tracing adds to the module are moved to the graph."""
    attributes = {id(part): {*vars(part)} for part in module.modules()}
    try:
        with _TRACING:
            graph = tracer.trace(module)
        return fx.GraphModule(module, graph)
    finally:
        for part in module.modules():
            for name in vars(part).keys() - attributes[id(part)]:
                delattr(part, name)


def _exported(module: nn.Module, example: Tensor, error: Exception) -> fx.GraphModule:
    """The module's operations by torch.export, whose control flow may depend on shapes.

    Raises:
      Exception: `error`, if torch.export cannot follow it either.
    """
    before = logging.root.manager.disable
    try:
        with _TRACING, torch.no_grad(), redirect_stderr(io.StringIO()):
            logging.disable()  # it logs and prints what it cannot follow, whole graphs long
            network = torch.export.export(module, (example,)).module()
    except Exception:  # noqa: BLE001 - its errors are of many classes, and say less than the first
        raise error from None
    finally:
        logging.disable(before)
    graph = network.graph
    graph.set_codegen(fx.graph.CodeGen())  # inputs and outputs as they are, not as a tree
    for node in graph.find_nodes(op="call_module"):
        graph.erase_node(node)  # a check of the input's shape
    (output,) = graph.find_nodes(op="output")
    if isinstance(output.args[0], tuple) and len(output.args[0]) == 1:
        output.args = output.args[0]
    return fx.GraphModule(network, graph)


def _whole(module: nn.Module, example: Tensor) -> Program:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        output = module(example)
    if not isinstance(output, Tensor):
        raise ValueError(f"the module returns {type(output).__name__}, not one tensor")  # noqa: TRY004 - the module is wrong, not an argument's type
    segment = Segment(
        name=type(module).__name__,
        kind=SegmentKind.NETWORK,
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
    """Traces into all modules except torch's own layers and cells.

    Modules that other threads call during the trace also arrive here and are executed untraced.
    """

    def __init__(self, cells: tuple[type[nn.Module], ...]) -> None:
        super().__init__()
        self._cells = cells
        self._thread = get_ident()
        self.found: set[str] = set()
        """Names of the cells found."""

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
    """Values, FLOPs and kinds of all nodes, from one run on the example."""

    def __init__(self, network: fx.GraphModule, example: Tensor) -> None:
        super().__init__(network)
        self.values: dict[fx.Node, Tensor] = {}
        """Outputs of the nodes that return a tensor, on the meta device."""
        self.flops: dict[fx.Node, int] = {}
        self.kinds: dict[fx.Node, SegmentKind] = {}
        inputs = network.graph.find_nodes(op="placeholder")
        if len(inputs) != 1:
            raise ValueError(f"the module has {len(inputs)} inputs; a program has one")
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
            raise ValueError(f"layer {n.target} returns {type(value).__name__}, not one tensor")
        return value


def _groups(facts: _Facts, *, fused: bool) -> Iterator[list[fx.Node]]:
    """Yield the nodes of each segment, in graph order.

    Nodes that return no tensor (sizes, tuples of views) are in no group: each reader computes them.
    """
    group: list[fx.Node] = []
    for node in facts.values:
        if not node.op.startswith("call_"):
            continue
        if group and not (fused and _fuses_with(node, group, facts.kinds)):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _fuses_with(node: fx.Node, group: list[fx.Node], kind_of: dict[fx.Node, SegmentKind]) -> bool:
    """Return whether the node joins the group: neighbours only, so that the order is kept."""
    if node.all_input_nodes != [group[-1]] or list(group[-1].users) != [node]:
        return False
    kinds = {kind_of[member] for member in group}
    if kind_of[node] in _LARGE:
        return kinds <= _SMALL
    return kind_of[node] in _SMALL and kinds <= _SMALL | _LARGE


def _output(network: fx.GraphModule, owners: dict[fx.Node, int]) -> fx.Node:
    (node,) = network.graph.find_nodes(op="output")
    returned = node.args[0]
    if not isinstance(returned, fx.Node) or returned not in owners:
        raise ValueError(f"the module returns {returned!r}, not one computed tensor")
    return returned
