"""Packs the weights of a model that need not be in memory, from a plain safetensors file."""

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
from runtime.weight_streaming.files.weight_file import WeightFileError
from runtime.weight_streaming.files.weight_file import pack as write_packed
from runtime.weight_streaming.streamable import cut, home_of, require_streamable


def pack(model: nn.Module, example: Tensor, *, source: str | Path, into: str | Path) -> Path:
    """Writes a plain safetensors file's weights into one that `stream` takes as `weights=`.

    Never more than a weight is in memory. What the file has and the model has not is left out.

    Args:
      model: as of `stream`; on the meta device, so that it takes no memory, or anywhere.
      example: an input of the shape and type to come, on any device; its values do not count.
      source: a safetensors file with the names of the model's state_dict, as
        `safetensors.torch.save_file` and `save_model` write it.
      into: the packed file; one that is there is replaced when the new one is whole.

    Returns:
      `into`.

    Raises:
      OSError: if a file cannot be read or written; WeightFileError if the source is damaged, or has
        not what the model needs.
      ValueError: if the model cannot be cut, or has values that no file can hold.
    """
    require_streamable(model, example)
    if example is None:
        raise TypeError("the example must be one tensor: shapes are those of a run")
    source, into = Path(source), Path(into)
    if not into.parent.is_dir():
        raise FileNotFoundError(f"into={into}: there is no folder {into.parent}")
    with PlainFile(source) as file:
        if into.exists() and into.samefile(source):
            raise ValueError(f"into={into} is the source; name another file")
        home = home_of(model)
        layers, own = cut(model, example.to(home, copy=True), MERGED_BYTES)
        write_packed(layers, _Values(file, str(source), model, layers, own), into)
    return into


@final
class _Values(Mapping[str, Tensor]):
    """By the names of the layers, each read when it is asked for."""

    def __init__(
        self,
        file: PlainFile,
        source: str,
        model: nn.Module,
        layers: LayeredNetwork,
        own: Mapping[str, Tensor],
    ) -> None:
        """Finds and checks all of them.

        Args:
          file: which has them.
          source: what errors call it.
          model: whose names the file has.
          layers: cut from the model.
          own: the model's tensors by the names of the layers.
        """
        self._file = file
        self._own = own
        names: dict[int, list[str]] = {}  # of one that is shared, the file has any or all
        for name, tensor in named_weights(model):
            names.setdefault(id(tensor), []).append(name)
        kept = model.state_dict(keep_vars=True).keys()
        self._places: dict[str, tuple[str, Weight] | None] = {}
        for layer in layers.layers:
            for weight in layer.weights:
                known = names.get(id(own[weight.name]), [])
                # of several the last, as load_state_dict leaves it
                there = next((name for name in reversed(known) if name in file), None)
                if there is not None:
                    file.check(there, weight)
                    self._places[weight.name] = there, weight
                    continue
                self._places[weight.name] = None
                if any(name in kept for name in known):
                    raise WeightFileError(f"{source} has no {known[-1]!r}, which the model has")
                if own[weight.name].is_meta:
                    raise ValueError(
                        f"{weight.name} is not in the model's state_dict (a buffer with "
                        "persistent=False, or no buffer at all), so no file has it, and it has no "
                        "value on the meta device: make it a persistent buffer and save the model "
                        "once more"
                    )

    def __getitem__(self, name: str) -> Tensor:
        place = self._places[name]
        return self._own[name] if place is None else self._file.read(*place)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
