"""Answers of the sources about many architectures, as arrays: of a whole space, or of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float64, Int8, Shaped
from numpy import ndarray

from edgenas_core.files.atomic_file import replacing
from edgenas_core.files.safe_file import load_arrays
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from latency.base import EnumerableSpace, LatencyOracle, every_architecture
from nas.accuracy.base import Accuracy, HasAccuracyTable
from nas.accuracy.table import training_seconds


@final
@dataclass(frozen=True)
class Answers:
    """Columns of answers about n architectures; NaN where there is none."""

    accuracy: Float64[ndarray, "n"]  # on the split that is searched on, a fraction
    accuracy_kind: Int8[ndarray, "n"]  # values of `edgenas_core.types.kind.Kind`
    accuracy_test: Float64[ndarray, "n"]
    train_s: Float64[ndarray, "n"]  # duration of one training
    latency_ms: Float64[ndarray, "n"]
    latency_kind: Int8[ndarray, "n"]

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """Answers one after another."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS))


COLUMNS = tuple(field.name for field in fields(Answers))


def answers_about_all(
    space: EnumerableSpace,
    task: Task,
    epochs: int,
    accuracy: Accuracy,
    oracles: Mapping[str, LatencyOracle],
) -> dict[str, Answers]:
    """Answers about every architecture of a space, in the order of its numbers, by device."""
    rows = every_architecture(space)
    top1, test = accuracy.answer(rows), accuracy.test(rows)
    train_s = None
    if accuracy.source == "table" and isinstance(space, HasAccuracyTable):
        train_s = training_seconds(space, task, epochs)
    if train_s is None:
        train_s = np.full(space.size, np.nan)
    by_device = {}
    for device, oracle in oracles.items():
        latency = oracle.answer(rows)
        by_device[device] = Answers(
            top1.fraction, top1.kind, test, train_s, latency.ms, latency.kind
        )
    return by_device


def save_answers(path: Path, by_device: Mapping[str, Answers]) -> None:
    """Write the answers about a whole space; the file is whole or absent."""
    columns: dict[str, Any] = {
        name: np.stack([getattr(answers, name) for answers in by_device.values()])
        for name in COLUMNS
    }
    with replacing(path) as file:
        np.savez_compressed(file, devices=np.array([*by_device]), **columns)


def load_answers(path: Path) -> dict[str, Answers]:
    """Read the answers about a whole space by device, executing nothing.

    Raises:
      OSError, ValueError, KeyError: if the file is missing, or none of answers.
    """
    stored = load_arrays(path)
    shape = stored["accuracy"].shape
    if len(shape) != 2 or any(stored[name].shape != shape for name in COLUMNS):
        raise ValueError(f"{path} holds columns of different lengths")
    rows = zip(*(stored[name] for name in COLUMNS), strict=True)
    return {str(name): Answers(*row) for name, row in zip(stored["devices"], rows, strict=True)}


def fingerprints(answers: Answers) -> dict[str, str]:
    """Digests of the accuracies and of the latencies, equal for equal answers."""
    return {
        "accuracy": _digest(answers.accuracy, answers.accuracy_kind, answers.accuracy_test),
        "latency": _digest(answers.latency_ms, answers.latency_kind),
    }


def predicted_shares(kinds: Int8[ndarray, "n"]) -> str:
    """Shares that a model gave, as `, 12.0% predicted by regression`; empty if there are none."""
    shares = {Kind(kind): float((kinds == kind).mean()) for kind in np.unique(kinds)}
    return "".join(
        f", {share:.1%} {kind.words}" for kind, share in shares.items() if kind.is_predicted
    )


def _digest(*arrays: Shaped[ndarray, "n"]) -> str:
    return sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:16]
