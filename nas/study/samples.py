"""Every sample of a finished study as a table, read from the search logs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.spaces.base import SearchSpace
from nas.spaces.registry import space_named
from nas.study.answers import Answers, load_answers
from nas.study.folder import StudyFolder
from nas.study.plan import Setting
from nas.study.search_log import load_log

if TYPE_CHECKING:
    import pyarrow as pa


def read_samples(folder: StudyFolder, settings: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A row for each sample, by setting and seed in the order of the samples.

    All answers are those that the study was made with, whatever tables are here now.

    Args:
      folder: of the study.
      settings: as in its `results.json`.

    Raises:
      UserError: if a file is missing or damaged, or the space is not known here.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and not always needed

    space = space_named(str(folder.stored()["values"]["space"]))
    answers = cache(partial(_answers_of, folder))
    try:
        parts = [_samples(folder, space, answers, values) for values in settings]
        return pa.concat_tables(parts).unify_dictionaries()
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{folder.path} holds no samples of a study: {error}") from error


def _answers_of(folder: StudyFolder) -> dict[str, Answers]:
    """The stored answers about the whole space, by device."""
    if not folder.answers.is_file():
        raise ValueError(
            f"an earlier version kept no answers in it; `python -m nas.study resume={folder.path}` with the tables "
            f"that it was made with stores them"
        )
    return load_answers(folder.answers)


def _samples(
    folder: StudyFolder,
    space: SearchSpace,
    answers_of_all: Callable[[], Mapping[str, Answers]],
    values: Mapping[str, Any],
) -> pa.Table:
    """The samples of one setting."""
    import pyarrow as pa  # noqa: PLC0415 - loaded when needed

    fields = {field.name: values[field.name] for field in dataclasses.fields(Setting)}
    setting = Setting(**{**fields, "overrides": tuple(values["overrides"])})
    log = load_log(folder.file(setting), space)
    numbers, which = np.unique(log.index, return_inverse=True)
    which = which.ravel().astype(np.int32)
    if log.sampled is not None:
        rows, answers = log.sampled.architectures[numbers], log.sampled.answers
    elif isinstance(space, Enumerable):
        rows, answers = space.architectures(numbers), answers_of_all()[setting.device]
    seeds, samples = log.index.shape

    def same(text: str) -> pa.Array:
        return pa.DictionaryArray.from_arrays(np.zeros(len(which), np.int32), [text])

    def kinds(column: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(column[numbers][which], [kind.name for kind in Kind])

    return pa.table(
        {
            "reward": same(setting.reward),
            "controller": same(setting.controller),
            "device": same(setting.device),
            "T_ms": np.full(len(which), setting.limit_ms),
            "overrides": same(" ".join(setting.overrides)),
            "seed": np.repeat(log.seeds, samples),
            "sample": np.tile(np.arange(samples), seeds),
            "arch": pa.DictionaryArray.from_arrays(which, [space.text(row) for row in rows]),
            "accuracy": answers.accuracy[numbers][which],
            "accuracy_kind": kinds(answers.accuracy_kind),
            "latency_ms": answers.latency_ms[numbers][which],
            "latency_kind": kinds(answers.latency_kind),
        }
    )
