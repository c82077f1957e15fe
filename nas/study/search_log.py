"""Search logs: every sample of the searches of one setting, as it is stored.

Where the study has answers about the whole space, the number of an architecture is all that is
stored of a sample. Elsewhere the log holds each architecture that was sampled once, with its answers,
and numbers these.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float64, Int64, Integer
from numpy import ndarray

from edgenas_core.files.atomic_file import replacing
from edgenas_core.files.safe_file import load_arrays
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from nas.accuracy.other_tasks import taught
from nas.spaces.base import SearchSpace
from nas.study.answers import COLUMNS, Answers
from nas.study.plan import StudyJob
from nas.trials.loop import search
from nas.trials.problem import RewardedProblem
from nas.trials.trial import Trials


@final
@dataclass(frozen=True)
class Sampled:
    """Architectures that were sampled, each once, and their answers."""

    architectures: Int64[ndarray, "m D"]  # `normal` rows
    answers: Answers  # test accuracy of the best within T of each search only


@final
@dataclass(frozen=True)
class SearchLog:
    """Samples of R searches side by side, one for each seed."""

    seeds: Int64[ndarray, "R"]
    index: Integer[ndarray, "R n"]  # number of each sample in the space, or in `sampled`
    elapsed_s: Float64[ndarray, "steps"]  # since the start, of all R searches together
    sampled: Sampled | None = None  # None where `index` holds numbers of the space

    @property
    def seconds(self) -> float:
        """Duration of all searches together."""
        return float(self.elapsed_s[-1])


def search_setting(job: StudyJob, seeds: Sequence[int], budget: int) -> SearchLog:
    """Search one setting with every seed."""
    space, batch_size = job.problem.space, job.controller.batch_size
    choices = taught(space, job.problem.task) if job.controller.is_taught else space
    controller = job.controller.build(choices, seeds)
    steps, elapsed_s = [], []
    started_s = time.perf_counter()
    for trials in search(controller, job.problem, budget=budget, batch_size=batch_size):
        steps.append(trials)
        elapsed_s.append(time.perf_counter() - started_s)
    if job.exact and isinstance(space, Enumerable):
        numbers = [space.numbers(trials.architectures) for trials in steps]
        index = np.concatenate(numbers, axis=1).astype(np.min_scalar_type(space.size - 1))
        sampled = None
    else:
        index, sampled = _sample(job.problem, steps)
    return SearchLog(np.array(seeds, np.int64), index, np.array(elapsed_s), sampled)


def _sample(
    problem: RewardedProblem, steps: Sequence[Trials]
) -> tuple[Int64[ndarray, "R n"], Sampled]:
    """Each sampled architecture once, and the number of every sample among them."""
    rows = problem.space.normal(np.concatenate([step.architectures for step in steps], axis=1))
    unique, first, index = np.unique(
        rows.reshape(-1, rows.shape[-1]), axis=0, return_index=True, return_inverse=True
    )
    index = index.reshape(rows.shape[:2])
    accuracy, accuracy_kind, latency_ms, latency_kind = (
        np.concatenate([getattr(step, name) for step in steps], axis=1).ravel()[first]
        for name in ("accuracy", "accuracy_kind", "latency_ms", "latency_kind")
    )
    unknown = np.full(len(unique), np.nan)
    test = unknown.copy()
    feasible = (latency_ms <= problem.limit_ms) & ~np.isnan(accuracy)
    best = np.where(feasible, accuracy, -np.inf)[index].argmax(1)
    winners = np.unique(np.take_along_axis(index, best[:, None], axis=1))
    winners = winners[feasible[winners]]
    if len(winners):
        test[winners] = problem.accuracy.test(unique[winners])
    answers = Answers(accuracy, accuracy_kind, test, unknown, latency_ms, latency_kind)
    return index, Sampled(unique, answers)


def save_log(path: Path, space: SearchSpace, log: SearchLog) -> None:
    """Write a log; the file is whole or absent."""
    columns: dict[str, Any] = {"seeds": log.seeds, "index": log.index, "elapsed_s": log.elapsed_s}
    if log.sampled is not None:
        columns["architectures"] = log.sampled.architectures
        columns |= {name: getattr(log.sampled.answers, name) for name in COLUMNS}
    with replacing(path) as file:
        np.savez_compressed(file, space=np.array(space.name), **columns)


def load_log(path: Path, space: SearchSpace) -> SearchLog:
    """Read a log, executing nothing.

    Raises:
      UserError: if the file is no log of searches in this space.
    """
    again = "remove it, and its setting is searched again"
    try:
        stored = load_arrays(path)
        name = str(stored["space"])
        sampled = None
        if "architectures" in stored:
            answers = Answers(*(stored[column] for column in COLUMNS))
            sampled = Sampled(stored["architectures"], answers)
        log = SearchLog(stored["seeds"], stored["index"], stored["elapsed_s"], sampled)
        if name == space.name:
            _require_sound(log, space)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a search log of a study ({error}); {again}") from error
    if name != space.name:
        raise UserError(f"{path} is of space={name}, not of {space.name}; {again}")
    return log


def _require_sound(log: SearchLog, space: SearchSpace) -> None:
    count = getattr(space, "size", 0)
    if log.sampled is not None:
        rows, answers = log.sampled.architectures, log.sampled.answers
        count = len(rows)
        if rows.shape != (count, len(space.num_choices)) or rows.dtype.kind != "i":
            raise ValueError("its architectures are none")
        if any(getattr(answers, name).shape != (count,) for name in COLUMNS):
            raise ValueError("its columns differ in length")
        if (count and not space.valid(rows).all()) or (answers.latency_ms <= 0).any():
            raise ValueError(
                "it holds a row that is no architecture, or a time that is not positive"
            )
    if log.seeds.shape != log.index.shape[:1] or log.index.ndim != 2 or not log.index.size:
        raise ValueError("it has no samples of each seed")
    if log.index.dtype.kind not in "iu" or not 0 <= log.index.min() <= log.index.max() < count:
        raise ValueError("it holds a number of no architecture")
    if not (np.isfinite(log.elapsed_s).all() and (log.elapsed_s >= 0).all()):
        raise ValueError("it holds a time that is not a number of seconds")
