"""Tables and drawings of the architectures that matter."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.page.parts import Columns, PagePart, Table
from nas.report.answer import Answer, network_columns
from nas.report.network import Network, networks_of
from nas.spaces.base import Layered, SearchSpace
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials

LISTED = 10
_FEW_POSITIONS = 16


def reported_networks(answer: Answer) -> Table:
    """The best sample, the optimum and what the policy prefers."""
    caption = f"The rank is that among the architectures within {answer.label}."
    return _table(answer, answer.networks, caption if answer.summary.optimum is not None else "")


def best_networks(
    done: Trials, feasible: Bool[ndarray, "n"], problem: SearchProblem, answer: Answer
) -> Table | None:
    """The most accurate distinct networks within all limits; None if none was."""
    space = problem.space
    within = np.flatnonzero(feasible)
    order = within[np.lexsort((within, -done.accuracy[within]))]
    # equal networks may have been trained each on its own: of a network's, the most accurate
    _, first = np.unique(space.groups(done.architectures[order]), return_index=True)
    at = order[np.sort(first)][:LISTED]
    networks = {
        str(place): network
        for place, network in enumerate(networks_of(done.rows(at), problem), start=1)
    }
    caption = (
        f"The {LISTED} most accurate distinct networks sampled within {answer.label}: of those that "
        f"compute the same, the best. Test accuracy is looked up for the reported networks only."
    )
    return _table(answer, networks, caption, with_sample=True) if networks else None


def _table(
    answer: Answer,
    networks: Mapping[str, Network],
    caption: str,
    *,
    with_sample: bool = False,
) -> Table:
    """Table with one row per network: its name, its numbers, its architecture."""
    header, rows = network_columns(answer, [*networks.values()], with_sample=with_sample)
    cells = [
        [name, *row, f"`{network.arch}`"]
        for (name, network), row in zip(networks.items(), rows, strict=True)
    ]
    return Table(["", *header, "architecture"], cells, caption)


def drawings(
    architectures: Mapping[str, Int64[ndarray, "D"]], best: Network | None, problem: SearchProblem
) -> list[PagePart | str]:
    """Drawings of some architectures, their options, and the layers of the best network."""
    space = problem.space
    parts: list[PagePart | str] = [
        space.drawing(row, role[0].upper() + role[1:]) for role, row in architectures.items()
    ]
    layers = None if best is None else _layer_by_layer(best, problem)
    are_tables = all(isinstance(part, Table) for part in parts)
    is_shorter = layers is None or len(space.positions) <= _FEW_POSITIONS  # than the layers
    if is_shorter and not are_tables:
        parts.append(_choice_by_choice(architectures, space))
    columns = Columns(parts, least_width=300)
    return [columns] if layers is None else [columns, layers]


def _choice_by_choice(
    architectures: Mapping[str, Int64[ndarray, "D"]], space: SearchSpace
) -> Table:
    """The options that some architectures take, as text."""
    columns = [space.describe(row) for row in architectures.values()]
    rows = [
        [f"`{position}`", *(f"`{text}`" for text in texts)]
        for position, *texts in zip(space.positions, *columns, strict=True)
    ]
    is_off = any("-" in texts for texts in columns)
    caption = "`-`: switched off by another choice." if is_off else ""
    return Table(["position", *architectures], rows, caption)


def _layer_by_layer(network: Network, problem: SearchProblem) -> Table | None:
    """Shapes and costs of the layers of a network; None where the space does not list them."""
    space, oracle = problem.space, problem.oracle
    if not isinstance(space, Layered):
        return None
    layers = space.layer_list(space.parse(network.arch), problem.task)
    total = sum(layer.multiply_accumulates for layer in layers)
    layer_ms = getattr(oracle, "layer_ms", None)  # of an oracle that sums layers
    header = ["layer", "output", "parameters", "million multiply-accumulates", "share of them"]
    rows = [
        [
            layer.name,
            f"{layer.channels} x {layer.side} x {layer.side}",
            f"{layer.parameters:,}",
            f"{layer.multiply_accumulates / 1e6:.2f}",
            f"{layer.multiply_accumulates / total:.0%}",
        ]
        for layer in layers
    ]
    caption = "Times of single layers are not known here."
    if layer_ms is not None:
        header.append("ms")
        caption = "Times are those of the measured layers that the latency is the sum of."
        for row, ms in zip(rows, layer_ms(space.parse(network.arch)), strict=True):
            row.append("-" if math.isnan(ms) else f"{ms:.3f}")
    return Table(header, rows, f"The best network layer by layer, for one image. {caption}")
