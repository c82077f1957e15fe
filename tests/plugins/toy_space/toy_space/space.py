"""The toy space as a plug-in: conditional choices, too many rows to be listed, no table."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from common.page.parts import Drawing
from common.types.errors import UserError
from common.types.kind import Kind
from common.types.task import Task
from nas.accuracy.base import Accuracies, Split
from nas.spaces.base import ChoiceSpace

MOST_BLOCKS = 8
KERNELS, WIDTHS, EXPANSIONS = (1, 3, 5), (2, 3, 4, 5, 6, 8, 10, 12), (1, 2, 3, 4)
ACTIVATIONS = ("relu", "silu", "none")
_OPTIONS = (KERNELS, WIDTHS, EXPANSIONS, ACTIVATIONS)
_NAMES = ("kernel", "width", "expansion", "activation")
_BLOCK = re.compile(r"k(\d+)w(\d+)e(\d+)(\w+)")


class ToySpace(ChoiceSpace):
    """Position 0 is the number of blocks less one; the choices of later blocks are switched off."""

    name = "toy_space"
    num_choices = (MOST_BLOCKS, *[len(options) for options in _OPTIONS] * MOST_BLOCKS)
    tasks = {"shapes": Task("shapes", 4, 8), "blobs": Task("blobs", 2, 8)}
    default_task = "shapes"
    feature_names = ("blocks", "mflops", "mflops of depthwise", "width")
    resources = None
    positions = (
        "blocks",
        *[f"{name} {block}" for block in range(1, MOST_BLOCKS + 1) for name in _NAMES],
    )

    def normal(self, architectures):
        rows = np.array(architectures, np.int64)
        block = np.repeat(np.arange(MOST_BLOCKS), len(_OPTIONS))
        rows[..., 1:][block > rows[..., :1]] = 0
        return rows

    def valid(self, architectures):
        """The last block may not be without activation and of kernel 1: it would be linear."""
        rows = np.asarray(architectures)
        inside = super().valid(rows)
        blocks = rows[..., 1:].reshape(*rows.shape[:-1], MOST_BLOCKS, len(_OPTIONS))
        depth = np.clip(rows[..., 0], 0, MOST_BLOCKS - 1)
        last = np.take_along_axis(blocks, depth[..., None, None], -2)[..., 0, :]
        linear = (last[..., 0] == 0) & (last[..., 3] == ACTIVATIONS.index("none"))
        return inside & ~linear

    def options(self, position):
        if position == 0:
            return tuple(str(count + 1) for count in range(MOST_BLOCKS))
        return tuple(map(str, _OPTIONS[(position - 1) % len(_OPTIONS)]))

    def describe(self, architecture):
        texts = [str(int(architecture[0]) + 1)]
        for block in range(MOST_BLOCKS):
            chosen = architecture[1 + block * len(_OPTIONS) :][: len(_OPTIONS)]
            off = block > architecture[0]
            texts += [
                "-" if off else str(options[choice])
                for options, choice in zip(_OPTIONS, chosen, strict=True)
            ]
        return tuple(texts)

    def blocks(self, architecture):
        rows = np.reshape(architecture[1:], (MOST_BLOCKS, len(_OPTIONS)))
        return [
            tuple(options[choice] for options, choice in zip(_OPTIONS, row, strict=True))
            for row in rows[: int(architecture[0]) + 1]
        ]

    def text(self, architecture):
        return "-".join(f"k{k}w{w}e{e}{a}" for k, w, e, a in self.blocks(architecture))

    def parse(self, text):
        row = np.zeros(len(self.num_choices), np.int64)
        parts = text.strip().split("-", MOST_BLOCKS)
        try:
            row[0] = len(parts) - 1
            for number, part in enumerate(parts):
                k, w, e, a = _BLOCK.fullmatch(part).groups()
                chosen = (
                    KERNELS.index(int(k)),
                    WIDTHS.index(int(w)),
                    EXPANSIONS.index(int(e)),
                    ACTIVATIONS.index(a),
                )
                row[1 + number * len(_OPTIONS) :][: len(_OPTIONS)] = chosen
        except (ValueError, AttributeError) as error:
            raise UserError(f"{text!r} is not of the form k3w8e2relu-k5w4e1silu-...") from error
        if not self.valid(row):
            raise UserError(f"{text!r} ends in a block that is linear")
        return row

    def _macs(self, architecture, side):
        width, depthwise, other, weights = 4, 0.0, 3 * 4 * 9 * side**2, 3 * 4 * 9 + 4
        for kernel, outputs, expansion, _ in self.blocks(architecture):
            hidden = width * expansion
            depthwise += hidden * kernel**2 * side**2
            other += (width * hidden + hidden * outputs) * side**2
            weights += width * hidden + hidden + hidden * kernel**2 + hidden
            weights += hidden * outputs + outputs
            width = outputs
        return depthwise, other, weights, width

    def _each(self, architectures, of):
        rows = np.asarray(architectures)
        found = np.array([of(row) for row in rows.reshape(-1, rows.shape[-1])], float)
        return found.reshape(*rows.shape[:-1], *found.shape[1:])

    def features(self, architectures):
        def one(row):
            depthwise, other, _, width = self._macs(row, 8)
            return [row[0] + 1, (depthwise + other) / 1e6, depthwise / 1e6, width]

        return self._each(architectures, one).reshape(*np.shape(architectures)[:-1], 4)

    def groups(self, architectures):
        _, group = np.unique(self.canonical(architectures), axis=0, return_inverse=True)
        return group.reshape(-1).astype(np.int64)

    def costs(self, architectures, task):
        def one(row):
            depthwise, other, weights, width = self._macs(row, task.image_side)
            classifier = width * task.num_classes
            parameters = weights + classifier + task.num_classes
            return [parameters, depthwise + other + classifier, 4 * parameters]

        found = self._each(architectures, one).reshape(*np.shape(architectures)[:-1], 3)
        names = ("parameters", "flops", "weight_bytes")
        return dict(zip(names, np.moveaxis(found, -1, 0), strict=True))

    def network(self, architecture, task):
        from toy_space.network import ToyNetwork

        return ToyNetwork(self.blocks(architecture), task.num_classes)

    def example_input(self, architecture, task, batch_size):
        import torch

        return torch.randn(batch_size, task.channels, task.image_side, task.image_side)

    def control(self):
        widest = [len(options) - 1 for options in (KERNELS, WIDTHS, EXPANSIONS)]
        return np.array([MOST_BLOCKS - 1, *[*widest, 0] * MOST_BLOCKS], np.int64)

    def source(self, architecture, task):
        from toy_space import network

        text = inspect.getsource(network).partition('"""\n\n')[2]
        blocks = self.blocks(architecture)
        return (
            f"{text}\n\nclass Network(ToyNetwork):\n    def __init__(self):\n"
            f"        super().__init__({blocks!r}, {task.num_classes})\n"
        )

    def drawing(self, architecture, title):
        svg = Element("svg", {"viewBox": "0 0 320 290", "width": "320", "height": "290"})
        for number, block in enumerate(self.blocks(architecture)):
            text = SubElement(svg, "text", {"x": "10", "y": str(30 + 32 * number)})
            text.text = "kernel {}, width {}, expansion {}, {}".format(*block)
        return Drawing(title, svg, self.text(architecture))

    def surrogate(self, task, split, epochs):
        return SyntheticAccuracy(self, task, Split.valid if split is Split.auto else split)


@dataclass(frozen=True)
class SyntheticAccuracy:
    """Larger is better, with diminishing returns: a formula, and no training."""

    space: ToySpace
    task: Task
    split: Split
    source: str = "surrogate"
    description: str = "surrogate: a synthetic formula for tests"
    instant: bool = True

    def answer(self, architectures):
        flops = self.space.costs(architectures, self.task)["flops"]
        wide = self.space.features(architectures)[..., 3] / max(WIDTHS)
        fraction = 0.5 + 0.35 * (1 - np.exp(-flops / 2e5)) + 0.1 * wide
        return Accuracies(fraction, np.full(fraction.shape, Kind.surrogate, np.int8))

    def known(self, architectures):
        return np.ones(np.shape(architectures)[:-1], bool)

    def test(self, architectures):
        return self.answer(architectures).fraction - 0.01


SPACE = ToySpace()
