"""What the whole space is like: the answers that the study's searches were given, kept with it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from numpy import ndarray

from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.nas_bench_201.training_length import FULL_EPOCHS
from nas.study.plan import Plan
from runtime.network.task import Task
from runtime.shell.atomic_file import replacing
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import ACCURACY_FILE, data_folder, read_csv_table


@final
@dataclass(frozen=True)
class Tables:
    """Of every architecture, in official order."""

    accuracy: Float64[ndarray, "15625"]  # on the split that is searched on, a fraction
    accuracy_test: Float64[ndarray, "15625"]
    train_s: Float64[ndarray, "15625"]  # of one training; NaN where the source does not say
    latency_ms: Mapping[str, Float64[ndarray, "15625"]]  # by device
    predicted: Mapping[str, Bool[ndarray, "15625"]]  # which latencies are predictions


def tables_of(plan: Plan) -> Tables:
    """Ask the study's sources for everything."""
    everything = NAS_BENCH_201.rows
    return Tables(
        plan.accuracy(everything),
        plan.accuracy.test(everything),
        _train_s(plan.accuracy.source, plan.config.task, plan.config.epochs),
        {name: oracle.latency_ms(everything) for name, oracle in plan.oracles.items()},
        {name: oracle.predicted(everything) for name, oracle in plan.oracles.items()},
    )


def sources_of(plan: Plan, tables: Tables) -> dict[str, Any]:
    """Where the numbers come from, and fingerprints of them: whether two studies had the same."""
    accuracy = {
        "source": plan.accuracy.source,
        "split": plan.accuracy.split.value,
        "description": plan.accuracy.description,
        "sha256": _digest(tables.accuracy, tables.accuracy_test),
    }
    latency = {
        name: {
            "source": oracle.source,
            "description": oracle.description,
            "sha256": _digest(tables.latency_ms[name], tables.predicted[name]),
        }
        for name, oracle in plan.oracles.items()
    }
    return {"accuracy": accuracy, "latency": latency}


def save_tables(path: Path, tables: Tables) -> None:
    """Write the tables; the file is whole or absent."""
    devices = list(tables.latency_ms)
    with replacing(path) as file:
        np.savez_compressed(
            file,
            accuracy=tables.accuracy,
            accuracy_test=tables.accuracy_test,
            train_s=tables.train_s,
            devices=np.array(devices),
            latency_ms=np.stack([tables.latency_ms[name] for name in devices]),
            predicted=np.stack([tables.predicted[name] for name in devices]),
        )


def load_tables(path: Path) -> Tables:
    """Read the tables, executing nothing.

    Raises:
      UserError: if the file cannot be read.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            devices = [str(name) for name in stored["devices"]]
            return Tables(
                stored["accuracy"],
                stored["accuracy_test"],
                stored["train_s"],
                dict(zip(devices, stored["latency_ms"], strict=True)),
                dict(zip(devices, stored["predicted"], strict=True)),
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} are not the tables of a study: {error}") from error


def _train_s(source: str, task: Task, epochs: int) -> Float64[ndarray, "15625"]:
    """Seconds of one full training, which the accuracy table may hold beside its percents.

    Of a shorter one they are unknown.
    """
    unknown = np.full(NAS_BENCH_201.size, np.nan)
    if source != "table" or epochs != FULL_EPOCHS:
        return unknown
    table = read_csv_table(data_folder() / ACCURACY_FILE, SPACE)
    column = f"{task.name}_train_s"
    return table.column(column) if column in table.columns else unknown


def _digest(*arrays: Shaped[ndarray, "15625"]) -> str:
    return sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:16]
