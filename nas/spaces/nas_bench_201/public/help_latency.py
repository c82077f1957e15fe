"""HELP's latency lists (Lee et al., NeurIPS 2021): one `.pt` file a device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from common.types.errors import UserError
from nas.spaces.nas_bench_201.space import NAS_BENCH_201

_MOST_BYTES = 16 * 2**20  # limit on one file; the largest that HELP published is 1.5 MB


def read_help_files(paths: Sequence[Path]) -> dict[str, Float64[ndarray, "15625"]]:
    """Milliseconds of each device, by column name.

    A file may also be HELP's `str_arch2idx.pt`, the row of each architecture; it makes no column,
    but must agree with the official order.

    Raises:
      UserError: if a file cannot be read safely, or holds no latency of all 15,625 cells.
    """
    columns = {}
    for path in paths:
        content = _load(path)
        if isinstance(content, dict):
            _check_index(path, content)
        else:
            columns[f"help-{path.stem.replace('_', '-')}"] = _milliseconds(path, content)
    return columns


def _load(path: Path) -> object:
    import torch  # noqa: PLC0415 - takes seconds, needed by `import` alone

    if path.stat().st_size > _MOST_BYTES:
        raise UserError(f"{path} is larger than {_MOST_BYTES:,} bytes, so it is not a file of HELP")
    try:
        content: object = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise UserError(
            f"{path} is corrupt, or a pickle of more than plain numbers (none of its code was run); "
            f"`python -m nas.data fetch` downloads HELP's own files"
        ) from error
    return content


def _check_index(path: Path, row_of: dict[object, object]) -> None:
    if row_of != {text: row for row, text in enumerate(NAS_BENCH_201.strings)}:
        raise UserError(f"{path} is not an index of the 15,625 architectures in official order")


def _milliseconds(path: Path, content: object) -> Float64[ndarray, "15625"]:
    size = NAS_BENCH_201.size
    if not isinstance(content, list) or len(content) != size:
        found = f"{type(content).__name__} of {len(content) if hasattr(content, '__len__') else 1}"
        raise UserError(f"{path} holds a {found}, HELP's files hold a list of {size:,} latencies")
    for row, number in enumerate(content):
        if type(number) not in {int, float} or not 0 < number < float("inf"):
            raise UserError(f"{path}: latency of cell {row} is {number!r}, not a positive number")
    return np.array(content, np.float64)
