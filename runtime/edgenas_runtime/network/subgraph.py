"""Extract some nodes of a traced network as a module."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def extract(
    network: fx.GraphModule, group: Sequence[fx.Node], computed: Collection[fx.Node], *, fold: bool
) -> tuple[nn.Module, tuple[fx.Node, ...]]:
    """Return a module that computes the last node of the group, and the nodes that are its inputs.

    Args:
      network: the traced network.
      group: nodes in execution order.
      computed: nodes that other modules compute. A node outside `computed` and `group` that is not
        the network's input is computed inside.
      fold: whether a batch normalisation right after a convolution is folded into a copy of the
        convolution's weights.
    """
    inside, read = _closure(group, computed)
    if len(group) == 1 and _is_plain_layer_call(group[0], read):
        return network.get_submodule(str(group[0].target)), read

    graph = fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in read}
    parts: dict[str, object] = {}
    previous: fx.Node | None = None
    for node in inside:
        folded = _folded(network, previous, node) if fold else None
        if folded is not None and previous is not None:
            parts[str(previous.target)] = folded
            copies[node] = copies[previous]
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.op == "call_module":
                parts[str(node.target)] = network.get_submodule(str(node.target))
            elif node.op == "get_attr":
                parts[str(node.target)] = _attribute(network, str(node.target))
        previous = node
    graph.output(copies[group[-1]])
    return fx.GraphModule(parts, graph), read


def _closure(
    group: Sequence[fx.Node], computed: Collection[fx.Node]
) -> tuple[list[fx.Node], tuple[fx.Node, ...]]:
    """Return the nodes to compute inside, in order, and the nodes to read."""
    inside = set(group)
    read: dict[fx.Node, None] = {}
    pending = list(reversed(group))
    while pending:
        for node in pending.pop().all_input_nodes:
            if node in inside:
                continue
            if node in computed or node.op == "placeholder":
                read[node] = None
            else:
                inside.add(node)
                pending.append(node)
    return sorted(inside), tuple(read)


def _is_plain_layer_call(node: fx.Node, read: tuple[fx.Node, ...]) -> bool:
    return node.op == "call_module" and node.args == read and not node.kwargs


def _folded(network: fx.GraphModule, before: fx.Node | None, node: fx.Node) -> nn.Module | None:
    """Return the convolution `before` with the batch normalisation `node` folded into it, or None."""
    if before is None or before.op != "call_module" or node.op != "call_module":
        return None
    convolution = network.get_submodule(str(before.target))
    norm = network.get_submodule(str(node.target))
    if (
        not isinstance(convolution, _CONVOLUTIONS)
        or not isinstance(norm, _BATCH_NORMS)
        or norm.running_mean is None
    ):
        return None
    return fuse_conv_bn_eval(convolution, norm)


def _attribute(network: fx.GraphModule, path: str) -> object:
    owner, _, name = path.rpartition(".")
    return getattr(network.get_submodule(owner), name)
