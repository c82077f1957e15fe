"""Everything that the searches of one cell sampled: small enough to keep, enough to judge them by.

Accuracy and latency are functions of the architecture, so its number is all that is kept of a
sample.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64, Int64, UInt16
from numpy import ndarray

from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.study.plan import Job
from nas.trials.loop import search
from runtime.shell.atomic_file import replacing
from runtime.shell.errors import UserError


@final
@dataclass(frozen=True)
class Trace:
    """R searches side by side, one a seed."""

    seeds: Int64[ndarray, "R"]
    index: UInt16[ndarray, "R n"]  # official number of each sample's architecture
    elapsed_s: Float64[ndarray, "steps"]  # since the start, for all R searches together

    @property
    def seconds(self) -> float:
        """Time that all searches took together."""
        return float(self.elapsed_s[-1])


def trace(job: Job, seeds: Sequence[int], budget: int) -> Trace:
    """Search one cell with every seed."""
    controller = job.controller.build(SPACE, seeds)
    index, elapsed_s = [], []
    started_s = time.perf_counter()
    for step in search(
        controller,
        job.accuracy,
        job.oracle,
        job.reward,
        budget=budget,
        batch_size=job.controller.batch_size,
    ):
        index.append(NAS_BENCH_201.numbers(step.architectures).astype(np.uint16))
        elapsed_s.append(time.perf_counter() - started_s)
    return Trace(np.array(seeds, np.int64), np.concatenate(index, axis=1), np.array(elapsed_s))


def save_trace(path: Path, traced: Trace) -> None:
    """Write a trace; the file is whole or absent."""
    with replacing(path) as file:
        np.savez_compressed(
            file, seeds=traced.seeds, index=traced.index, elapsed_s=traced.elapsed_s
        )


def load_trace(path: Path) -> Trace:
    """Read a trace, executing nothing.

    Raises:
      UserError: if the file is no trace.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            found = Trace(*(stored[name] for name in ("seeds", "index", "elapsed_s")))
            whole = found.index.ndim == 2 and len(found.index) == len(found.seeds)
    except (OSError, ValueError, KeyError, EOFError, IndexError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is not a cell of a study ({error}); remove it, and its cell is searched again"
        ) from error
    if not whole or found.index.max() >= NAS_BENCH_201.size:
        raise UserError(f"{path} is damaged; remove it, and its cell is searched again")
    return found
