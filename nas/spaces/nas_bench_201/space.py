"""NAS-Bench-201 (Dong & Yang, ICLR 2020): 4 nodes, 6 edges, 5 operations, 15,625 cells.

An architecture is a row of 6 choice indices, one for each edge, in the order of the benchmark's
strings: `|op~0|+|op~0|op~1|+|op~0|op~1|op~2|`, where group i holds the inputs of node i + 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from random import Random

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.accuracy.base import AccuracyTable

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
"""In the benchmark's own order: the choice index is the position."""

EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""(from node, to node) of each position; node 0 is the cell's input, node 3 its output."""

TASKS = {
    task.name: task
    for task in (
        Task("cifar10", 10, 32, title="CIFAR-10"),
        Task("cifar100", 100, 32, title="CIFAR-100"),
        Task("imagenet16", 120, 16, title="ImageNet16-120"),
    )
}
"""The three data sets of the benchmark; `imagenet16` is ImageNet16-120."""

ACCURACY_TABLE = AccuracyTable(
    file="nb201_accuracy.csv",
    benchmark="NATS-Bench",
    epochs=(200, 12),
    origin=(
        "`python -m nas.data import FOLDER` makes the whole table from the official archive, "
        "`python -m nas.data fetch` downloads its test accuracies (3 MB)"
    ),
)
"""The topology space of NATS-Bench (Dong et al., TPAMI 2021), which trained these networks again."""

_NONE, _SKIP = OPERATIONS.index("none"), OPERATIONS.index("skip_connect")
_STRING = "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|"
_PATTERN = re.compile(re.escape(_STRING).replace(r"\{\}", "([a-z0-9_]+)"))


class NasBench201:
    """The architectures, and which of them are the same network."""

    num_choices: tuple[int, ...] = (len(OPERATIONS),) * len(EDGES)
    size: int = len(OPERATIONS) ** len(EDGES)

    @property
    def rows(self) -> Int64[ndarray, "15625 6"]:
        """Every architecture, in official order."""
        return _rows()

    def architectures(self, numbers: Int64[ndarray, "*n"]) -> Int64[ndarray, "*n 6"]:
        """Architecture of each number in the official archive."""
        return np.asarray(_rows()[numbers])

    def numbers(self, architectures: Int64[ndarray, "*n 6"]) -> Int64[ndarray, "*n"]:
        """Number of each architecture in the official archive.

        Raises:
          IndexError: if a choice lies outside the space.
        """
        try:
            place = np.ravel_multi_index(tuple(architectures.T), self.num_choices).T
        except ValueError as error:
            raise IndexError(f"a choice lies outside 0 to {len(OPERATIONS) - 1}") from error
        return np.asarray(_number_at_place()[place])

    def parse(self, text: str) -> Int64[ndarray, "6"]:
        """Architecture of a benchmark string.

        Raises:
          UserError: if the text is not a NAS-Bench-201 string.
        """
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise UserError(
                f"architecture {text!r} is not of the form {_STRING.format(*['op'] * len(EDGES))}"
            )
        return self.from_operations(match.groups())

    def from_operations(self, operations: Sequence[str]) -> Int64[ndarray, "6"]:
        """Architecture of six operation names, in the order of `EDGES`.

        Raises:
          UserError: if there are not six, or one is unknown.
        """
        if len(operations) != len(EDGES):
            raise UserError(f"{len(operations)} operations given, a cell has {len(EDGES)}")
        for name in operations:
            if name not in OPERATIONS:
                raise UserError(f"operation {name!r} is not one of {', '.join(OPERATIONS)}")
        return np.array([OPERATIONS.index(name) for name in operations], np.int64)

    def operations(self, architecture: Int64[ndarray, "6"]) -> tuple[str, ...]:
        """Operation name of each edge, in the order of `EDGES`."""
        return tuple(OPERATIONS[choice] for choice in architecture)

    def text(self, architecture: Int64[ndarray, "6"]) -> str:
        """The benchmark's string of an architecture."""
        return _STRING.format(*[OPERATIONS[choice] for choice in architecture])

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """String of every architecture, in official order."""
        operations = np.array(OPERATIONS)[self.rows].tolist()
        return tuple(_STRING.format(*names) for names in operations)

    def neighbours(self, architecture: Int64[ndarray, "6"]) -> Int64[ndarray, "24 6"]:
        """The architectures that differ on exactly one edge."""
        number = np.arange(len(EDGES) * len(OPERATIONS))
        edges, choices = np.divmod(number, len(OPERATIONS))
        changed = np.repeat(architecture[None], len(number), axis=0)
        changed[number, edges] = choices
        neighbours: Int64[ndarray, "24 6"] = changed[architecture[edges] != choices]
        return neighbours

    def live_edges(self, architectures: Int64[ndarray, "*n 6"]) -> Bool[ndarray, "*n 6"]:
        """True for each edge on a path from the cell's input to its output."""
        carries = architectures != _NONE
        reached = [np.ones(architectures.shape[:-1], bool)]
        for node in range(1, 4):
            into = [(e, src) for e, (src, dst) in enumerate(EDGES) if dst == node]
            reached.append(np.logical_or.reduce([carries[..., e] & reached[s] for e, s in into]))
        leads = {3: np.ones_like(reached[0])}
        for node in (2, 1, 0):
            out = [(e, dst) for e, (src, dst) in enumerate(EDGES) if src == node]
            leads[node] = np.logical_or.reduce([carries[..., e] & leads[d] for e, d in out])
        return np.stack(
            [carries[..., e] & reached[s] & leads[d] for e, (s, d) in enumerate(EDGES)], axis=-1
        )

    @property
    def network_class(self) -> Int64[ndarray, "15625"]:
        """Number of the first architecture that is the same network; 6,466 distinct values.

        Two cells are the same network if their unique strings in NATS-Bench are equal (its
        `to_unique_str(consider_zero=True)`): a skip is the identity, everything after a `none` is
        zero, and the order of a sum does not matter.
        """
        return _network_class()

    @property
    def function_class(self) -> Int64[ndarray, "15625"]:
        """Number of the first architecture that computes the same function; 4,930 distinct values.

        Coarser than `network_class`, in which x and x + 0 differ, and so do (x + y) + z and
        x + (y + z). Cross-validation holds out whole classes, so that no function is in two folds.
        """
        return _function_class()

    def canonical(self, architectures: Int64[ndarray, "*n 6"]) -> Int64[ndarray, "*n 6"]:
        """The first architecture, in official order, that is the same network."""
        first: Int64[ndarray, "*n 6"] = self.rows[self.network_class[self.numbers(architectures)]]
        return first


@cache
def _rows() -> Int64[ndarray, "15625 6"]:
    """Every architecture, in official order: a shuffle of the lexicographic order.

    The shuffle is that of AutoDL-Projects, `generate_meta_info`: `random.seed(88)`.
    """
    order = list(range(NasBench201.size))
    Random(88).shuffle(order)  # noqa: S311 - reproduces the archive's shuffle
    rows = np.stack(np.unravel_index(order, NasBench201.num_choices), axis=-1)
    return rows.astype(np.int64)


@cache
def _number_at_place() -> Int64[ndarray, "15625"]:
    """Number of each architecture, in lexicographic order."""
    places = np.ravel_multi_index(tuple(_rows().T), NasBench201.num_choices)
    return np.argsort(places)


@cache
def _network_class() -> Int64[ndarray, "15625"]:
    return _first_of_each([_unique_string(tuple(row)) for row in _rows().tolist()])


@cache
def _function_class() -> Int64[ndarray, "15625"]:
    return _first_of_each([_sum_of_terms(tuple(row)) for row in _rows().tolist()])


def _first_of_each(keys: Sequence[object]) -> Int64[ndarray, "n"]:
    first: dict[object, int] = {}
    return np.array([first.setdefault(key, i) for i, key in enumerate(keys)], np.int64)


@cache  # cells share the nodes before the last
def _unique_string(choices: tuple[int, ...]) -> str:
    """The last node that these first choices of an architecture lead to."""
    if not choices:
        return "0"
    terms = []
    for choice, source in _into_last_node(choices):
        before = _unique_string(source)
        if choice == _NONE or before == "#":
            terms.append("#")
        elif choice == _SKIP:
            terms.append(before)
        else:
            terms.append(f"({before})@{OPERATIONS[choice]}")
    return "+".join(sorted(terms))


@cache
def _sum_of_terms(choices: tuple[int, ...]) -> tuple[str, ...]:
    """Terms of the last node that these first choices of an architecture lead to."""
    if not choices:
        return ("x",)
    terms: list[str] = []
    for choice, source in _into_last_node(choices):
        before = _sum_of_terms(source)
        if choice == _NONE or not before:
            continue
        if choice == _SKIP:
            terms.extend(before)
        else:
            terms.append(f"{OPERATIONS[choice]}({'+'.join(before)})")
    return tuple(sorted(terms))


_CHOICES_BEFORE = (0, 1, 3, 6)
"""Edges that lead to a node or to one before it, by node: `EDGES` is in the order of the targets."""


def _into_last_node(choices: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Choice of each edge into the last node, and the choices that lead to its source."""
    first = _CHOICES_BEFORE[_CHOICES_BEFORE.index(len(choices)) - 1]
    for choice, (source, _) in zip(choices[first:], EDGES[first:], strict=False):
        yield choice, choices[: _CHOICES_BEFORE[source]]


NAS_BENCH_201 = NasBench201()
