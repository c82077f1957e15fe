"""Modules of several inputs or outputs as modules of one tensor, which lanes run.

Inputs and outputs are laid end to end in one flat tensor. Where they are of several types, that is of
double precision, which holds all of them exactly but integers beyond 2**53.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.utils import _pytree as pytree  # torch has no other for dicts, tuples and their like

ModelInput: TypeAlias = Tensor | tuple[Any, ...] | dict[str, Any]
"""Input of a model: a tensor, its positional arguments, or its keyword arguments."""


@final
@dataclass(frozen=True)
class PackedLayout:
    """Places of tensors in a flat tensor, and the structure that they are leaves of."""

    structure: Any
    shapes: tuple[torch.Size, ...]
    types: tuple[torch.dtype, ...]

    @classmethod
    def of(cls, value: Any, what: str) -> PackedLayout:
        """The layout of a tensor, or of tuples and dicts of tensors.

        Raises:
          ValueError: if a leaf is no tensor, or there is none.
        """
        leaves, structure = pytree.tree_flatten(value)
        for leaf in leaves:
            if not isinstance(leaf, Tensor) or leaf.is_complex():
                kind = "complex" if isinstance(leaf, Tensor) else type(leaf).__name__
                raise ValueError(
                    f"{what} holds {kind}, not real tensors in tuples, lists or dicts; wrap the module in one "
                    f"whose forward takes and returns those"
                )
        if not leaves:
            raise ValueError(f"{what} holds no tensor")
        shapes = tuple(leaf.shape for leaf in leaves)
        return cls(structure, shapes, tuple(leaf.dtype for leaf in leaves))

    def __deepcopy__(self, _memo: object) -> PackedLayout:
        return self  # it never changes

    @property
    def packed_type(self) -> torch.dtype:
        """Type of the flat tensor."""
        return self.types[0] if len(set(self.types)) == 1 else torch.float64

    def pack(self, value: Any) -> Shaped[Tensor, " n"]:
        """Lay the tensors of a value end to end."""
        leaves = pytree.tree_leaves(value)
        return torch.cat([leaf.reshape(-1).to(self.packed_type) for leaf in leaves])

    def unpack(self, flat: Shaped[Tensor, " n"]) -> Any:
        """Rebuild the value."""
        leaves, start = [], 0
        for shape, kind in zip(self.shapes, self.types, strict=True):
            leaves.append(flat[start : start + shape.numel()].reshape(shape).to(kind))
            start += shape.numel()
        return pytree.tree_unflatten(leaves, self.structure)


@final
class Packed(nn.Module):
    """A module of any inputs and outputs, as one from a flat tensor to a flat tensor."""

    def __init__(self, module: nn.Module, example: ModelInput) -> None:
        """Run the module once on its input, whose layout and output's it keeps.

        Raises:
          ValueError: if an input or output holds anything but tensors.
          BaseException: whatever the module raises.
        """
        super().__init__()
        self.module = module
        self._takes = PackedLayout.of(example, "its input")
        with torch.no_grad():
            self._returns = PackedLayout.of(_called(module, example), "its output")
        self.eval()

    def forward(self, flat: Shaped[Tensor, " n"]) -> Shaped[Tensor, " m"]:
        """Rebuild the inputs, call the module, and lay its outputs end to end."""
        return self._returns.pack(_called(self.module, self._takes.unpack(flat)))

    def pack(self, example: ModelInput) -> Tensor:
        """The input as one tensor."""
        return self._takes.pack(example)

    def unpack(self, output: Tensor) -> Any:
        """The output as the module returns it."""
        return self._returns.unpack(output)


def tensors_of(example: ModelInput) -> list[Tensor]:
    """The tensors of an input, in order."""
    return [leaf for leaf in pytree.tree_leaves(example) if isinstance(leaf, Tensor)]


def is_plain(module: nn.Module, example: Tensor) -> bool:
    """Whether a module maps this tensor to one tensor, so that it need not be packed.

    One with a default that is true or false is not: the ONNX exporter gives it as a tensor.
    """
    parameters = inspect.signature(module.forward).parameters.values()
    if any(isinstance(parameter.default, bool) for parameter in parameters):
        return False
    with torch.no_grad():
        return isinstance(module(example.clone()), Tensor)


def _called(module: nn.Module, example: ModelInput) -> Any:
    if isinstance(example, dict):
        return module(**example)
    return module(*example) if isinstance(example, Sequence) else module(example)
