"""A search space of a few architectures, numbered in the order of their choices; no networks."""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task


@dataclass(frozen=True)
class SmallSpace:
    """Every row of choices is an architecture of its own."""

    num_choices: tuple[int, ...] = (3, 2, 4)
    name: str = "small"
    feature_names = ("sum",)
    tasks = MappingProxyType({"shapes": Task("shapes", 4, 8)})
    resources = None

    @property
    def size(self):
        return int(np.prod(self.num_choices))

    def architectures(self, numbers):
        return np.stack(np.unravel_index(numbers, self.num_choices), axis=-1).astype(np.int64)

    def numbers(self, architectures):
        try:
            raveled = np.ravel_multi_index(np.moveaxis(architectures, -1, 0), self.num_choices)
        except ValueError as error:
            raise IndexError(str(error)) from error
        return np.asarray(raveled, np.int64)

    def normal(self, architectures):
        return architectures

    def canonical(self, architectures):
        self.numbers(architectures)
        return architectures

    def sample(self, rng, n):
        return self.architectures(rng.integers(self.size, size=n))

    def text(self, architecture):
        return ".".join(map(str, architecture))

    def parse(self, text):
        try:
            row = np.array([int(word) for word in text.split(".")], np.int64)
            self.numbers(row)
        except (ValueError, IndexError) as error:
            raise UserError(f"architecture {text!r} is not like 0.1.3") from error
        return row

    def features(self, architectures):
        return architectures.sum(axis=-1, keepdims=True).astype(float)

    def groups(self, architectures):
        return self.numbers(architectures)

    def costs(self, architectures, task):  # noqa: ARG002 - the same for every task
        return {"flops": 1.0 + architectures.sum(axis=-1)}

    def control(self):
        return np.zeros(len(self.num_choices), np.int64)

    def network(self, architecture, task):
        raise NotImplementedError

    def example_input(self, architecture, task, batch_size):
        raise NotImplementedError
