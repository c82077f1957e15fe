"""Writing the open CSV layout of `runtime.shell.keyed_table`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from math import isnan
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.shell.atomic_file import replacing
from runtime.shell.keyed_table import WHOLE_SPACE_PREFIX


def write_csv_table(path: Path, columns: Mapping[str, Float64[ndarray, "15625"]]) -> None:
    """Write columns in official order, replacing the file at once; NaN becomes an empty field.

    Every number reads back exactly. A file not named `nb201_*` holds only the rows of which
    anything was measured.

    Raises:
      OSError: if it cannot be written.
    """
    values = np.stack(list(columns.values()))
    wanted = np.ones(NAS_BENCH_201.size, bool)
    if not path.name.startswith(WHOLE_SPACE_PREFIX):
        wanted = ~np.isnan(values).all(axis=0)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["index", "arch", *columns])
    indices = np.flatnonzero(wanted)
    for index, numbers in zip(indices.tolist(), values.T[indices].tolist(), strict=True):
        fields = ["" if isnan(number) else number for number in numbers]
        writer.writerow([index, NAS_BENCH_201.strings[index], *fields])  # floats by their repr
    with replacing(path) as file:
        file.write(text.getvalue().encode())
