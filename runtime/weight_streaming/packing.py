"""Pack a plain safetensors file for a model that need not be in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from common.types.closeable import Closeable
from runtime.weight_streaming.files.layers import (
    MERGED_BYTES,
    LayeredNetwork,
    Weight,
    named_weights,
)
from runtime.weight_streaming.files.readers import open_for_reading
from runtime.weight_streaming.files.weight_file import (
    SHORT_REPR,
    Identity,
    WeightFileError,
    dtype_name,
    format_entry,
    read_header,
    write_packed,
)
from runtime.weight_streaming.streamable import cut, device_of, require_streamable


def pack(model: nn.Module, example: Tensor, *, source: str | Path, into: str | Path) -> Path:
    """Convert a plain safetensors file to a weight file for `runtime.stream(weights=...)`.

        with torch.device("meta"):
            large = Model().eval()
        runtime.stream.pack(large, x, source="model.safetensors", into="packed.safetensors")
        with runtime.stream(large, x, budget="64MB", weights="packed.safetensors") as small:
            y = small(x)

    At most one weight is in memory at a time. Extra tensors of the source are left out.

    Args:
      model: a model as in `runtime.stream`, on any device; on the meta device it takes no memory.
      example: an input of the shape and type to come, on any device; its values are not used.
      source: a safetensors file with the names of the model's state_dict, as written by
        `safetensors.torch.save_file` and `save_model`.
      into: the weight file, which is returned; an existing one is replaced atomically.

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


@final
class PlainFile(Closeable):
    """A safetensors file, open for reading; it must not change while it is open."""

    def __init__(self, path: Path) -> None:
        """Open the file and read its header.

        Raises:
          OSError: if it cannot be opened; WeightFileError if it is not a safetensors file.
        """
        self._name = str(path)
        self._file = open_for_reading(path)
        try:
            self._identity = Identity.of(self._file)
            self._entries, self._begin = read_header(self._file, self._name, self._identity.size)
            self._entries.pop("__metadata__", None)
        except BaseException:
            self.close()
            raise

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def check(self, name: str, weight: Weight) -> None:
        """Compare a header entry with the weight that is to be read.

        Raises:
          WeightFileError: if type or shape differ, or the offsets are invalid.
        """
        entry = self._entries[name]
        expected = {"dtype": dtype_name(weight), "shape": [*weight.shape]}
        if not isinstance(entry, dict) or any(entry.get(key) != expected[key] for key in expected):
            raise WeightFileError(
                f"{self._name} belongs to another model: its {SHORT_REPR.repr(name)} is "
                f"{format_entry(entry)}, the module's {expected['dtype']} of {expected['shape']}"
            )
        place: Any = entry.get("data_offsets")
        if not _are_offsets(place, weight.nbytes):
            raise WeightFileError(
                f"{self._name} is damaged: {SHORT_REPR.repr(name)} of {weight.nbytes:,} bytes has the "
                f"offsets {SHORT_REPR.repr(place)}"
            )
        if self._begin + place[1] > self._identity.size:
            raise WeightFileError(
                f"{self._name} is truncated: it has {self._identity.size:,} bytes, "
                f"but {SHORT_REPR.repr(name)} ends at {self._begin + place[1]:,}"
            )

    def read(self, name: str, weight: Weight) -> Tensor:
        """Read a tensor that was checked.

        Raises:
          WeightFileError: if it cannot be read, or the file has changed.
        """
        content = torch.empty(weight.nbytes, dtype=torch.uint8)
        left = content.numpy().data
        at = self._begin + self._entries[name]["data_offsets"][0]
        while left:
            try:
                got = os.preadv(self._file, [left], at)
            except OSError as error:
                raise WeightFileError(
                    f"{SHORT_REPR.repr(name)} cannot be read from {self._name}: "
                    f"{error.strerror or error}"
                ) from error
            if not got:
                break
            left, at = left[got:], at + got
        if left or Identity.of(self._file) != self._identity:
            raise WeightFileError(f"{self._name} changed while it was read; pack it again")
        return content.view(weight.dtype).reshape(weight.shape)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _are_offsets(place: Any, nbytes: int) -> bool:
    return (
        isinstance(place, list)
        and len(place) == 2
        and all(type(one) is int for one in place)
        and 0 <= place[0] == place[1] - nbytes
    )
