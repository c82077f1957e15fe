"""The toy space: conditional choices, too many rows to be listed, no table."""

from dataclasses import dataclass

import numpy as np

from edgenas import Accuracies, ChoiceSpace, Kind, Split, Task

OPTIONS = {"k": (1, 3, 5), "w": (2, 3, 4, 5, 6, 8, 10, 12), "e": (1, 2, 3, 4)}
OPTIONS["a"] = ("relu", "silu", "none")
BLOCKS = range(1, 9)


class ToySpace(ChoiceSpace):
    """Up to eight blocks; the choices of later blocks are switched off."""

    name = "toy_space"
    tasks = {"shapes": Task("shapes", 4, 8), "blobs": Task("blobs", 2, 8)}
    choices = {"blocks": BLOCKS} | {
        f"{name}{block}": options for block in BLOCKS for name, options in OPTIONS.items()
    }

    @property
    def default_network(self):
        return self.parse("blocks=1 k1=3 w1=12 e1=4 a1=relu")

    def switched_on(self, architectures):
        block = np.repeat([0, *BLOCKS], [1, *[len(OPTIONS)] * len(BLOCKS)])
        return block <= architectures[..., :1] + 1

    def valid(self, architectures):
        """The last block may not be of kernel 1 and without activation: it would be linear."""
        kernel = 1 + len(OPTIONS) * np.clip(architectures[..., :1], 0, len(BLOCKS) - 1)
        last = np.take_along_axis(architectures, kernel + np.array([0, 3]), -1)
        return super().valid(architectures) & ~(last == [0, 2]).all(-1)

    def blocks(self, architecture):
        """(kernel, width, expansion, activation) of each block."""
        chosen = self.chosen(architecture)
        blocks = BLOCKS[: chosen["blocks"]]
        return [tuple(chosen[f"{name}{block}"] for name in OPTIONS) for block in blocks]

    def network(self, architecture, task):
        from toy_space.network import toy_network

        return toy_network(self.blocks(architecture), task.num_classes)

    def count(self, architecture, task):
        inputs, weights, biases = 4, 3 * 4 * 9, 4
        for kernel, width, expansion, _ in self.blocks(architecture):
            hidden = inputs * expansion
            weights += inputs * hidden + hidden * kernel**2 + hidden * width
            inputs, biases = width, biases + 2 * hidden + width
        classifier = inputs * task.num_classes
        parameters = weights + biases + classifier + task.num_classes
        return parameters, weights * task.image_side**2 + classifier

    def surrogate(self, task, split, epochs):
        return Formula(self, task, Split.valid if split is Split.auto else split)


@dataclass(frozen=True)
class Formula:
    """Larger is more accurate, with diminishing returns."""

    space: ToySpace
    task: Task
    split: Split
    source = "surrogate"
    description = "surrogate: a synthetic formula for tests"
    instant = True

    def answer(self, architectures):
        size = np.log(self.space.costs(architectures, self.task)["flops"])
        return Accuracies(np.tanh(size / 20), np.full(size.shape, Kind.surrogate, np.int8))

    def known(self, architectures):
        return np.ones(np.shape(architectures)[:-1], bool)

    def test(self, architectures):
        return self.answer(architectures).fraction - 0.01


SPACE = ToySpace()
