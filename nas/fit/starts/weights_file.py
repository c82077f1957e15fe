"""Weights of a file, read without running what it holds, and matched with the names of a network.

A checkpoint may keep the weights inside other mappings, beside counters and optimizers, and under names with
a prefix: `module.` of DataParallel, `_orig_mod.` of torch.compile, `model.` of Lightning, copies of an average.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.errors import UserError

_MOST_DEPTH = 5
"""Mappings within mappings that are looked into."""

_MOST_INFLATED = 2
"""Largest size of a PyTorch file after unpacking, as a multiple of its own; torch writes them unpacked."""

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.int32)
"""Numbers that a network's tensors may have, besides small integers and booleans."""

_SAVE = "in Python: net = torch.load(FILE, weights_only=False); torch.save(net.state_dict(), 'weights.pth')"


@final
@dataclass(frozen=True)
class MatchedWeights:
    """Tensors of a file by the names that the network gives them."""

    tensors: Mapping[str, Tensor]
    notes: tuple[str, ...]  # one sentence for each thing that differs between file and network


def read_tensors(file: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file or a PyTorch checkpoint, by the path of names that leads to them.

    Raises:
      UserError: if it cannot be read, holds Python objects, or a tensor that is no plain one.
    """
    require_regular(file)
    try:
        if file.suffix == ".safetensors":
            content: Any = load_file(file)
        else:
            _require_unpacked(file)
            with (
                warnings.catch_warnings()
            ):  # torch warns of sparse tensors, which are refused below
                warnings.simplefilter("ignore")
                content = torch.load(file, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except pickle.UnpicklingError as error:
        raise UserError(
            f"weights={file} hold Python objects, which are not run; if you trust the file, save its "
            f"state_dict() alone, {_SAVE.replace('FILE', repr(file.name))}"
        ) from error
    except (Exception, RecursionError) as error:  # whatever a damaged file raises
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(
            f"weights={file} is damaged, or no file of safetensors or torch.save: {type(error).__name__}: {reason}"
        ) from error
    if not isinstance(content, Mapping):
        raise UserError(f"weights={file} hold a {type(content).__name__}, no names and tensors")
    tensors = dict(_leaves(content, "", 0))
    if not tensors:
        raise UserError(f"weights={file} hold no tensors")
    for name, tensor in tensors.items():
        if (
            tensor.is_nested
            or tensor.is_meta
            or tensor.is_quantized
            or tensor.layout is not torch.strided
        ):
            raise UserError(f"weights={file}: {name} is no plain tensor but {_kind(tensor)}")
    return tensors


def _kind(tensor: Tensor) -> str:
    kinds = {
        "nested": tensor.is_nested,
        "without values": tensor.is_meta,
        "quantised": tensor.is_quantized,
    }
    kind = next((name for name, holds in kinds.items() if holds), "sparse")
    return f"{kind} ({tensor.dtype})"


def _require_unpacked(file: Path) -> None:
    """Refuse an archive that grows when it is read; torch itself does not compress.

    Raises:
      UserError: if its records are much larger than the file.
    """
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(record.file_size for record in archive.infolist())
    if unpacked > _MOST_INFLATED * file.stat().st_size:
        raise UserError(
            f"weights={file} would unpack to {unpacked:,} bytes; save them by torch.save"
        )


def _leaves(content: Mapping[Any, Any], prefix: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    for key, value in content.items():
        if not isinstance(key, str):
            continue  # an optimizer numbers its parameters
        if isinstance(value, Tensor):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping) and depth < _MOST_DEPTH:
            yield from _leaves(value, f"{prefix}{key}.", depth + 1)


def matched(
    network: nn.Module, stored: Mapping[str, Tensor], file: Path, *, optional: tuple[str, ...] = ()
) -> MatchedWeights:
    """Match tensors of a file with those of a network, by the prefix under which most are found.

    Args:
      network: whose names and shapes count.
      stored: tensors by their names in the file.
      file: for messages.
      optional: beginnings of names that may be missing or of other shapes; these stay as they are.

    Raises:
      UserError: if a tensor is missing, of another shape, of numbers that a network has not, or not finite.
    """
    wanted = network.state_dict()
    prefix = _prefix(wanted, stored)
    named = {name: stored[prefix + name] for name in wanted if prefix + name in stored}
    tensors: dict[str, Tensor] = {}
    for name, own in wanted.items():
        tensor = named.get(name)
        fits = tensor is not None and tensor.shape == own.shape
        if name.endswith("num_batches_tracked") and not fits:
            continue  # torch before 0.4.1 did not count
        if not fits and name.startswith(optional):
            continue
        if tensor is None:
            raise _missing(name, [each for each in wanted if each not in named], stored, file)
        if not fits:
            raise UserError(
                f"weights={file}: {prefix}{name} is of shape {tuple(tensor.shape)}, and the network has "
                f"{tuple(own.shape)}"
            )
        if tensor.dtype not in _DTYPES and tensor.dtype != own.dtype:
            raise UserError(f"weights={file}: {prefix}{name} is of {tensor.dtype}; save float32")
        if not bool(tensor.isfinite().all()):
            raise UserError(f"weights={file}: {prefix}{name} holds numbers that are not finite")
        tensors[name] = tensor
    return MatchedWeights(tensors, tuple(_notes(tensors, stored, prefix, wanted)))


def _prefix(wanted: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> str:
    """What most names of the network stand behind in the file; an average's copy comes last."""
    by_last: dict[str, list[str]] = {}
    for key in stored:
        by_last.setdefault(key.rpartition(".")[2], []).append(key)
    counts: Counter[str] = Counter()
    for name, own in wanted.items():
        for key in by_last.get(name.rpartition(".")[2], ()):
            if (key == name or key.endswith(f".{name}")) and stored[key].shape == own.shape:
                counts[key[: len(key) - len(name)]] += 1
    order = sorted(counts, key=lambda each: (-counts[each], "ema" in each, len(each), each))
    return order[0] if order else ""


def _missing(name: str, every: list[str], stored: Mapping[str, Tensor], file: Path) -> UserError:
    others = f" and {len(every) - 1} others" if len(every) > 1 else ""
    held = ", ".join(list(stored)[:3])
    return UserError(
        f"weights={file} lack {name}{others} of the network; their names begin with {held}; "
        f"is it another network, or of another version?"
    )


def _notes(
    tensors: Mapping[str, Tensor],
    stored: Mapping[str, Tensor],
    prefix: str,
    wanted: Mapping[str, Tensor],
) -> Iterator[str]:
    if prefix:
        yield f"the weights are those under {prefix.rstrip('.')} in the file"
    left = [name for name in stored if name.removeprefix(prefix) not in wanted]
    if left:
        yield f"{len(left)} tensors of the file are not of the network: {', '.join(left[:3])}"
    halves = {
        tensor.dtype for name, tensor in tensors.items() if tensor.dtype != wanted[name].dtype
    }
    if halves:
        kinds = ", ".join(sorted(str(each).removeprefix("torch.") for each in halves))
        yield f"weights of {kinds} are converted"
