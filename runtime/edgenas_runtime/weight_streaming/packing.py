"""Pack a plain safetensors file for a model that need not be in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

from torch import Tensor, nn

from edgenas_runtime.weight_streaming.files.layers import (
    LayeredNetwork,
    Weight,
    named_weights,
)
from edgenas_runtime.weight_streaming.files.weight_file import (
    SHORT_REPR,
    WeightFileError,
    dtype_name,
    opened_safetensors,
    write_packed,
)
from edgenas_runtime.weight_streaming.streamable import cut, device_of, require_streamable


def pack(model: nn.Module, example: Tensor, *, source: str | Path, into: str | Path) -> Path:
    """Convert a plain safetensors file to a weight file for `edgenas_runtime.stream(weights=...)`.

        with torch.device("meta"):
            large = Model().eval()
        edgenas_runtime.stream.pack(large, x, source="model.safetensors", into="packed.safetensors")
        with edgenas_runtime.stream(large, x, budget="64MB", weights="packed.safetensors") as small:
            y = small(x)

    At most one weight is in memory at a time. Extra tensors of the source are left out.

    Args:
      model: a model as in `edgenas_runtime.stream`, on any device; on the meta device it takes no memory.
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
    with opened_safetensors(source) as file:
        if into.exists() and into.samefile(source):
            raise ValueError(f"into={into} is the source file; name another file")
        model_device = device_of(model)
        layers, values = cut(model, example.to(model_device, copy=True))
        write_packed(layers, _Values(file, str(source), model, layers, values), into)
    return into


@final
class _Values(Mapping[str, Tensor]):
    """Weights by name, each read from the source when it is accessed."""

    def __init__(
        self,
        file: Any,
        source: str,
        model: nn.Module,
        layers: LayeredNetwork,
        values: Mapping[str, Tensor],
    ) -> None:
        self._file = file
        self._values = values
        names: dict[
            int, list[str]
        ] = {}  # a shared tensor may have any or all of its names in the file
        for name, tensor in named_weights(model):
            names.setdefault(id(tensor), []).append(name)
        kept = model.state_dict(keep_vars=True).keys()
        stored = set(file.keys())
        self._places: dict[str, str | None] = {}
        for layer in layers.layers:
            for weight in layer.weights:
                aliases = names.get(id(values[weight.name]), [])
                # the last name, as in load_state_dict
                there = next((name for name in reversed(aliases) if name in stored), None)
                if there is not None:
                    _require_same(file, source, there, weight)
                    self._places[weight.name] = there
                    continue
                self._places[weight.name] = None
                if any(name in kept for name in aliases):
                    raise WeightFileError(f"{source} has no {aliases[-1]!r}, which the model needs")
                if values[weight.name].is_meta:
                    raise ValueError(
                        f"{weight.name} is not in the model's state_dict (a buffer with "
                        "persistent=False, or no buffer), so a file cannot contain it, and on the "
                        "meta device it has no value: make it a persistent buffer and save the model "
                        "again"
                    )

    def __getitem__(self, name: str) -> Tensor:
        place = self._places[name]
        value: Tensor = self._values[name] if place is None else self._file.get_tensor(place)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _require_same(file: Any, source: str, name: str, weight: Weight) -> None:
    """Compare type and shape of a tensor with the weight that is to be read."""
    tensor = file.get_slice(name)
    stored = tensor.get_dtype(), [*tensor.get_shape()]
    expected = dtype_name(weight), [*weight.shape]
    if stored != expected:
        raise WeightFileError(
            f"{source} belongs to another model: its {SHORT_REPR.repr(name)} is {stored[0]} of "
            f"{SHORT_REPR.repr(stored[1])}, the module's {expected[0]} of {expected[1]}"
        )
