"""`space=elastic`: side, depth, kernels and widths of the sub-networks of a trained network."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from torch import Tensor, nn

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.accuracy.base import SharedNetwork
from nas.fit.starts.elastic.prepared import prepared_copy
from nas.fit.starts.elastic.structure import (
    FRACTIONS,
    example_inputs,
    input_channels,
    structure_of,
)
from nas.fit.starts.elastic.sub_network import Remaining, sub_network
from nas.fit.starts.pretrained.libraries import library
from nas.fit.starts.pretrained.weights import with_static_padding
from nas.spaces.base import ChoiceSpace

_KINDS = ("pointwise", "depthwise", "convolution", "linear")
MULTIPLE = 8
"""What numbers of channels are multiples of, by default."""

_JITTER = 0.15
"""Standard deviation of a group's share of its channels around that of the network."""

_TOLD = 4
"""Layers that are not pruned for which the reason is printed."""

_UNIFORM = 0.1
"""Share of the samples that scale all widths alike, the baseline."""


@final
class ElasticSpace(ChoiceSpace):
    """Sub-networks of a network that inherit its weights."""

    default_device = "here"

    def __init__(
        self,
        network: nn.Module,
        side: int,
        *,
        channels: int | None = None,
        shape: tuple[int, ...] | None = None,
        multiple: int = MULTIPLE,
        normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
        name: str = "",
    ) -> None:
        """Analyses a copy of a trained network; the network itself is not changed.

        Args:
          network: gives logits (n, classes); others can be built and exported, but not searched.
          side: of its images, pixels; of other inputs their last size.
          channels: of its images; None: as many as its first convolution reads.
          shape: of one input, channels first; None: of a square image.
          multiple: of which numbers of channels are, where some are cut.
          normalisation: mean and standard deviation of its images; None: those of the images that it is
            tuned on.
          name: of the space; by default one for networks of these shapes.

        Raises:
          UserError: if it cannot be analysed.
        """
        shape = shape or (channels or input_channels(network), side, side)
        self.channels = shape[0]
        """Channels of its inputs."""
        self.whole, self.notes = prepared_copy(network, example_inputs(shape))
        self.pretrained_normalisation = normalisation
        self.origin = f"the trained network {type(network).__name__}"
        self.multiple = multiple
        self.structure = structure = structure_of(self.whole, shape, multiple)
        shapes = repr((sorted(structure.shapes.items()), multiple)).encode()
        self.name = name or f"elastic-{sha256(shapes).hexdigest()[:8]}"
        other = () if shape[1:] == (side, side) else shape
        name = "inputs" if other else "images"
        task = Task(name, structure.classes or 1, side, shape[0], epochs=30, shape=other)
        self.tasks: Mapping[str, Task] = {task.name: task}
        stages = {f"depth {name}": range(len(each) + 1) for name, each in structure.stages.items()}
        kernels = {f"kernel {name}": sizes for name, sizes in structure.kernels.items()}
        widths = {
            f"width {group.name}": options
            for group, options in zip(structure.groups, structure.widths, strict=True)
        }
        self.choices = {"side": structure.sides, **stages, **kernels, **widths}
        self.largest: Int64[ndarray, "D"] = np.array(self.num_choices) - 1
        """The whole network at its whole side."""
        counts = (1, len(stages), len(kernels), len(widths))
        ends = zip(np.cumsum(counts).tolist(), counts, strict=True)
        self._parts = tuple(slice(end - n, end) for end, n in ends)
        self._parameters = tuple(name for name, _ in self.whole.named_parameters())
        self._weighted = tuple(f"{layer.name}.weight" for layer in structure.layers)
        self._uses = np.array([layer.uses for layer in structure.layers]).T  # by the side

    def __getstate__(self) -> dict[str, Any]:
        """The space for another process; the network's class may be of a script."""
        import cloudpickle  # noqa: PLC0415 - trainings at once only

        needs = [name for name in ("torchvision",) if name in sys.modules]
        kept = {name: value for name, value in vars(self).items() if name != "_graphs"}  # many
        return {"state": cloudpickle.dumps(kept), "needs": needs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        import cloudpickle  # noqa: PLC0415 - loaded when needed

        for name in state["needs"]:  # before the pickle imports it without what `library` does
            with suppress(UserError):  # perhaps this network is not of it
                library(name)
        vars(self).update(cloudpickle.loads(state["state"]))

    @property
    def report(self) -> tuple[str, ...]:
        """Sentences on what was changed in the network, and on what is not pruned."""
        structure = self.structure
        cut, kept = len(structure.groups), list(structure.whole.items())
        blocks = sum(map(len, structure.stages.values()))
        lines = list(self.notes)
        lines.append(
            f"{cut} of {cut + len(kept)} groups of channels can be pruned, and {blocks} blocks skipped"
        )
        if kept:
            named = "; ".join(f"{layer}: {reason}" for layer, reason in kept[:_TOLD])
            more = f"; and {len(kept) - _TOLD} others" if len(kept) > _TOLD else ""
            lines.append(f"not pruned: {named}{more}")
        return tuple(lines)

    def baselines(self) -> Int64[ndarray, "n D"]:
        """Baselines with uniform width scaling, at every side."""
        shares = np.array([*FRACTIONS, 1.0])
        rows: Int64[ndarray, "sides shares D"] = np.array(
            np.broadcast_to(
                self.largest, (len(self.structure.sides), len(shares), len(self.largest))
            )
        )
        rows[..., 0] = np.arange(len(rows))[:, None]
        rows[..., self._parts[3]] = self._nearest(
            np.repeat(shares[:, None], len(self.structure.widths), 1)
        )
        return np.asarray(np.unique(rows.reshape(-1, rows.shape[-1]), axis=0))

    def _nearest(self, shares: Float64[ndarray, "*n groups"]) -> Int64[ndarray, "*n groups"]:
        """Option of each group whose share of the channels is nearest."""
        columns = [
            np.abs(np.array(widths) / max(widths) - shares[..., [group]]).argmin(-1)
            for group, widths in enumerate(self.structure.widths)
        ]
        return np.stack(columns, -1) if columns else np.zeros(shares.shape, np.int64)

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Draw a share of all widths and one of all depths, and each part around it; a tenth of the rows has one share."""
        share, skipped = rng.uniform(0.2, 1.0, (n, 1)), rng.random((n, 1))
        u = rng.random((n, len(self.num_choices)))
        rows = (u * self.num_choices).astype(np.int64)
        _, depths, kernels, widths = self._parts
        spread = rng.normal(0, _JITTER, (n, len(self.structure.widths)))
        is_uniform = rng.random(n) < _UNIFORM
        spread[is_uniform] = 0
        rows[:, widths] = self._nearest(share + spread)
        most = self.largest[depths]
        rows[:, depths] = np.round(most * (1 - u[:, depths] * skipped))
        for part in (depths, kernels):
            rows[is_uniform, part] = self.largest[part]
        return self.normal(rows)

    def switched_on(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n D"]:
        """Return False for kernels and widths of skipped blocks alone."""
        is_on = np.ones(np.shape(architectures), bool)
        for position, (block, place) in self._inside:
            is_on[..., position] = architectures[..., block] > place
        return is_on

    @cached_property
    def _inside(self) -> list[tuple[int, tuple[int, int]]]:
        """Positions that matter for one block alone: position of its depth, and its place in the stage."""
        structure = self.structure
        blocks = {
            f"{block}.": (1 + number, place)
            for number, blocks in enumerate(structure.stages.values())
            for place, block in enumerate(blocks)
        }
        tensors = [[f"{name}.weight"] for name in structure.kernels]
        tensors += [[cut.tensor for cut in group.cuts] for group in structure.groups]
        first = self._parts[2].start
        return [
            (first + number, at)
            for number, names in enumerate(tensors)
            for block, at in blocks.items()
            if all(name.startswith(block) for name in names)
        ]

    def remaining(self, architecture: Int64[ndarray, "D"]) -> Remaining:
        """Part of the network that an architecture keeps."""
        row = self.normal(architecture)
        _, depths, kernels, widths = self._parts
        stages = zip(self.structure.stages.values(), row[depths].tolist(), strict=True)
        sizes = zip(self.structure.kernels.items(), row[kernels].tolist(), strict=True)
        options = zip(self.structure.widths, row[widths].tolist(), strict=True)
        return self.structure.remaining(
            [each[choice] for each, choice in options],
            [block for blocks, depth in stages for block in blocks[depth:]],
            {name: each[choice] for (name, each), choice in sizes if choice < len(each) - 1},
        )

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The sub-network with its part of the weights, and a new classifier where classes differ."""
        whole = self.whole if self._has_classes_of(task) else self.whole_for(task)
        small = sub_network(whole, self.remaining(architecture))
        side = self.image_side(architecture, task)
        shape = task.shape or (self.channels, side, side)
        return with_static_padding(small, side, shape)

    def _has_classes_of(self, task: Task) -> bool:
        """Whether the classifier stays as it is, where there is one."""
        return self.structure.classes in {None, task.num_classes}

    def whole_for(self, task: Task) -> nn.Module:
        """A copy of the network for the classes of a task.

        Raises:
          UserError: if its last layer cannot be replaced.
        """
        whole, classes = copy.deepcopy(self.whole), self.structure.classes
        if self._has_classes_of(task):
            return whole
        names = [name for name, layer in whole.named_modules() if isinstance(layer, nn.Linear)]
        last = whole.get_submodule(names[-1]) if names else None
        if not isinstance(last, nn.Linear) or last.out_features != classes:
            raise UserError(
                f"network={type(whole).__name__} has {classes} classes and your images "
                f"{task.num_classes}, and its last layer is no nn.Linear; give it a classifier of "
                f"{task.num_classes} classes first"
            )
        above, _, name = names[-1].rpartition(".")
        new = nn.Linear(last.in_features, task.num_classes, last.bias is not None)
        setattr(whole.get_submodule(above), name, new)
        return whole

    def original(self, task: Task) -> nn.Module | None:
        """A copy of the network; None if its classes are others."""
        return copy.deepcopy(self.whole) if self.structure.classes == task.num_classes else None

    def supernet(self, task: Task) -> SharedNetwork:
        """The whole network, whose parts are all others."""
        from nas.fit.starts.elastic.shared import SharedElastic  # noqa: PLC0415 - searches only

        side = partial(self.image_side, task=task)
        whole, is_new = self.whole_for(task), not self._has_classes_of(task)
        return SharedElastic(
            whole, self.remaining, side, self.sample, self.largest, new_classifier=is_new
        )

    def image_side(self, architecture: Int64[ndarray, "D"], task: Task) -> int:
        """Side of the images that a network takes, in proportion where a task has others."""
        sides = self.structure.sides
        return int(sides[int(architecture[0])] * task.image_side // sides[-1])

    def example_input(
        self, architecture: Int64[ndarray, "D"], task: Task, batch_size: int
    ) -> Tensor:
        """Noise in the shape of the network's images."""
        task = replace(task, image_side=self.image_side(architecture, task))
        return super().example_input(architecture, task, batch_size)

    def costs(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Mapping[str, Float64[ndarray, "*n"]]:
        """`parameters`, and `flops`: multiply-accumulates of layers with weights, for whole images."""
        rows = self.normal(np.asarray(architectures))
        area = (task.image_side / self.structure.sides[-1]) ** 2
        weights = self._sizes(rows, self._weighted)
        return {
            "parameters": np.asarray(self._sizes(rows, self._parameters).sum(-1)),
            "flops": np.asarray((weights * self._uses[rows[..., 0]]).sum(-1) * area),
        }

    def _sizes(
        self, rows: Int64[ndarray, "*n D"], names: tuple[str, ...], dim: int | None = None
    ) -> Float64[ndarray, "*n tensors"]:
        """Numbers in what is left of tensors, or along one dimension of them."""
        return np.stack([self._size(rows, name, dim) for name in names], -1)

    def _size(
        self, rows: Int64[ndarray, "*n D"], name: str, dim: int | None
    ) -> Float64[ndarray, "*n"]:
        shape = self.structure.shapes[name]
        sizes = [np.full(rows.shape[:-1], float(size)) for size in shape]
        for position, (at, gone) in self._removed.get(name, ()):
            sizes[at] -= gone[rows[..., position]]
        is_on = np.ones(rows.shape[:-1])
        for position, blocks in enumerate(self.structure.stages.values(), 1):
            for place, block in enumerate(blocks):
                if name.startswith(f"{block}."):
                    is_on = is_on * (rows[..., position] > place)
        along = sizes if dim is None else [sizes[dim]]
        return np.asarray(np.prod([is_on, *along], axis=0))

    @cached_property
    def _removed(self) -> dict[str, list[tuple[int, tuple[int, Float64[ndarray, "_"]]]]]:
        """Slices of each tensor dimension that each choice removes."""
        structure = self.structure
        removed: dict[str, list[tuple[int, tuple[int, Any]]]] = {}
        for position, (name, sizes) in enumerate(structure.kernels.items(), self._parts[2].start):
            lost = max(sizes) - np.array(sizes, np.float64)
            removed[f"{name}.weight"] = [(position, (dim, lost)) for dim in (2, 3)]
        for number, (group, widths) in enumerate(
            zip(structure.groups, structure.widths, strict=True)
        ):
            lost = group.channels - np.array(widths, np.float64)
            for cut in group.cuts:
                place = (self._parts[3].start + number, (cut.dim, lost * cut.places.shape[1]))
                removed.setdefault(cut.tensor, []).append(place)
        return removed

    def features(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
        """By kind of layer, the number run, multiply-accumulates, and results written, in millions."""
        rows = self.normal(np.asarray(architectures))
        weights, uses = self._sizes(rows, self._weighted), self._uses[rows[..., 0]]
        flops = weights * uses / 1e6
        written = self._sizes(rows, self._weighted, 0) * uses / 1e6
        kinds = np.array([layer.kind for layer in self.structure.layers])
        parts = [
            values[..., kinds == kind].sum(-1)
            for kind in _KINDS
            for values in (weights > 0, flops, written)
        ]
        quarters = np.array_split(flops, 4, axis=-1)
        return np.stack([*parts, *(quarter.sum(-1) for quarter in quarters)], -1).astype(float)

    def text(self, architecture: Int64[ndarray, "D"]) -> str:
        """Write the chosen options, grouped by kind."""
        chosen = [str(each) for each in self.chosen(architecture).values()]
        parts = zip(("side", "depth", "kernel", "width"), self._parts, strict=True)
        return " ".join(f"{name}={'-'.join(chosen[part])}" for name, part in parts if chosen[part])

    def parse(self, text: str) -> Int64[ndarray, "D"]:
        """Read what `text` wrote.

        Raises:
          UserError: if the text is no sub-network of this network.
        """
        words = [option for word in text.split() for option in word.partition("=")[2].split("-")]
        row = np.zeros(len(self.positions), np.int64)
        if len(words) == len(row):
            for position, word in enumerate(words):
                options = self.options(position)
                row[position] = options.index(word) if word in options else 0
        if self.text(row).split() != text.split():
            raise UserError(
                f"{text[:200]!r} is not an architecture of space={self.name}, such as "
                f"{self.text(self.largest)!r}"
            )
        return self.normal(row)

    def smallest(self) -> Int64[ndarray, "D"]:
        """The least of every part."""
        return np.zeros_like(self.largest)

    def control(self) -> Int64[ndarray, "D"]:
        """The whole network."""
        return self.largest
