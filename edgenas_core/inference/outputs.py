"""Outputs of a network, whatever their form, and the first line of what a network raises."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor


def tensors_of(output: Any) -> list[Tensor]:
    """All tensors of a network's output, in their order: of tuples, mappings and dataclasses alike."""
    if isinstance(output, Tensor):
        return [output]
    if dataclasses.is_dataclass(output):
        parts: Iterable[Any] = [getattr(output, each.name) for each in dataclasses.fields(output)]
    elif isinstance(output, Mapping):
        parts = output.values()
    elif isinstance(output, Iterable) and not isinstance(output, str):
        parts = output
    else:
        return []  # None, a number, a name
    return [tensor for part in parts for tensor in tensors_of(part)]


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its class where it has none."""
    return (str(error) or repr(error)).splitlines()[0]
