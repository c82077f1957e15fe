"""Pack a plain safetensors file for a model that need not be in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

from torch import Tensor, nn

from runtime.weight_streaming.files.layers import (
    MERGED_BYTES,
    LayeredNetwork,
    Weight,
    named_weights,
)
from runtime.weight_streaming.files.plain_file import PlainFile
from runtime.weight_streaming.files.weight_file import WeightFileError, write_packed
from runtime.weight_streaming.streamable import cut, device_of, require_streamable


def pack(model: nn.Module, example: Tensor, *, source: str | Path, into: str | Path) -> Path:
    """Convert a plain safetensors file to a packed one; see `runtime.stream.pack`.

    Extra tensors of the source are left out.

    Raises:
      OSError: if a file cannot be read or written; WeightFileError if the source is damaged or lacks a
        weight of the model.
      TypeError: if there is no example.
      ValueError: if the model cannot be decomposed, or has values that a file cannot store.
    """
    require_streamable(model, example)
    if example is None:
        raise TypeError("the example must be one tensor, which determines the shapes")
    source, into = Path(source), Path(into)
    if not into.parent.is_dir():
        raise FileNotFoundError(f"into={into}: the folder {into.parent} does not exist")
    with PlainFile(source) as file:
        if into.exists() and into.samefile(source):
            raise ValueError(f"into={into} is the source file; name another file")
        model_device = device_of(model)
        layers, own = cut(model, example.to(model_device, copy=True), MERGED_BYTES)
        write_packed(layers, _Values(file, str(source), model, layers, own), into)
    return into


@final
class _Values(Mapping[str, Tensor]):
    """Weights by name, each read from the source when it is accessed."""

    def __init__(
        self,
        file: PlainFile,
        source: str,
        model: nn.Module,
        layers: LayeredNetwork,
        own: Mapping[str, Tensor],
    ) -> None:
        """Find and validate all weights."""
        self._file = file
        self._own = own
        names: dict[
            int, list[str]
        ] = {}  # a shared tensor may have any or all of its names in the file
        for name, tensor in named_weights(model):
            names.setdefault(id(tensor), []).append(name)
        kept = model.state_dict(keep_vars=True).keys()
        self._places: dict[str, tuple[str, Weight] | None] = {}
        for layer in layers.layers:
            for weight in layer.weights:
                known = names.get(id(own[weight.name]), [])
                # the last name, as in load_state_dict
                there = next((name for name in reversed(known) if name in file), None)
                if there is not None:
                    file.check(there, weight)
                    self._places[weight.name] = there, weight
                    continue
                self._places[weight.name] = None
                if any(name in kept for name in known):
                    raise WeightFileError(f"{source} has no {known[-1]!r}, which the model needs")
                if own[weight.name].is_meta:
                    raise ValueError(
                        f"{weight.name} is not in the model's state_dict (a buffer with "
                        "persistent=False, or no buffer), so a file cannot contain it, and on the "
                        "meta device it has no value: make it a persistent buffer and save the model "
                        "again"
                    )

    def __getitem__(self, name: str) -> Tensor:
        place = self._places[name]
        return self._own[name] if place is None else self._file.read(*place)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
