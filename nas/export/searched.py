"""A network of a finished run, with its accuracy and latency there."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, final

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.units import epochs_text
from nas.fit.training.trained_folder import RECORD, Training, read_training, trained_folder
from nas.report.answer import Status
from nas.report.network import Network
from nas.report.number import Number, percent
from nas.report.run_folder import RunFolder
from nas.report.samples import read_row
from nas.report.summary import Summary
from nas.spaces.base import SearchSpace, architecture_named
from nas.spaces.registry import space_named


class Which(Enum):
    """The networks that a summary names."""

    best = "best"
    mode = "mode"
    optimum = "optimum"


@final
@dataclass(frozen=True)
class Searched:
    """Numbers of a network from the sources of the run that found it, not from this machine.

    It is part of `export.json`; kinds are names of `edgenas_core.types.kind.Kind`.
    """

    run: str
    named: str  # best, mode, optimum, or sample
    T_ms: float
    split: str
    epochs: int | None  # of a shorter training than the test's, or our own; else the source says it
    accuracy: float  # a fraction, on the split that was searched on
    accuracy_test: float | None
    accuracy_kind: str
    accuracy_source: str
    device: str
    latency_ms: float
    latency_again_ms: float | None  # of a live device, timed again at the end of the run
    latency_kind: str
    latency_source: str
    baseline: str = ""  # of own images: accuracy, latency and training
    limits_kb: dict[str, float] = field(default_factory=dict)  # of RAM and flash
    parts_kb: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of two memories

    @property
    def is_int8(self) -> bool:
        """Whether the latencies were those of int8 files."""
        return "int8" in self.device.split("/")

    @property
    def accuracy_text(self) -> str:
        """The accuracy with all that belongs to it, for readers."""
        kind = Kind[self.accuracy_kind]
        length = "" if self.epochs is None else f" after {epochs_text(self.epochs)}"
        test = self.accuracy_test
        tested = "" if test is None else f", {percent(test, kind).text} on the test split"
        searched = f"{percent(self.accuracy, kind).text} on the {self.split} split{length}"
        return f"{searched}{tested}, {kind.words}"

    @property
    def latency_text(self) -> str:
        """The latency with all that belongs to it, for readers."""
        kind = Kind[self.latency_kind]
        again = "" if self.latency_again_ms is None else " (timed again at the end of the run)"
        latency = Number(self.latency_ms, "ms", kind).text
        return f"{latency}{again} on {self.device}, {kind.words}"


@final
@dataclass(frozen=True)
class SearchedNetwork:
    """An architecture of a run, and its numbers there."""

    space: SearchSpace
    architecture: Int64[ndarray, "D"]
    dataset: str  # a task of the space, or the images that were searched on
    searched: Searched

    @property
    def arch(self) -> str:
        """The architecture as text."""
        return self.space.text(self.architecture)


def find(
    run: Path, which: Which | None, arch: str | None, limit_ms: float | None = None
) -> SearchedNetwork:
    """The network that a finished run found, or another one of its networks.

    Args:
      run: the run's folder.
      which: one that the summary names; None for the best.
      arch: instead, an architecture's text, or its number where the space has numbers.
      limit_ms: instead, another T: the most accurate network within it on the run's front.

    Raises:
      UserError: if there is no finished run, it has no such network, or its files are corrupt.
    """
    named = {
        "which": which and which.value,
        "arch": arch,
        "T": limit_ms and f"{limit_ms:g}ms",
    }
    choices = [f"{name}={value}" for name, value in named.items() if value is not None]
    if len(choices) > 1:
        raise UserError(f"{' and '.join(choices)} name two networks; leave out one")
    folder = RunFolder(run)
    summary = folder.finished_summary()
    space = space_named(summary.settings.space)
    if limit_ms is not None:
        architecture = _within(summary, limit_ms, space, folder)
        return _sample(summary, architecture, space, folder, limit_ms)
    networks = {Which.best: summary.best, Which.mode: summary.mode, Which.optimum: summary.optimum}
    if arch is not None:
        architecture = architecture_named(space, arch)
        text = space.text(architecture)
        same = (role for role, shown in networks.items() if shown and shown.arch == text)
        which = next(same, None)
        if which is None:
            return _sample(summary, architecture, space, folder, summary.T_ms)
    which = which or Which.best
    network = networks[which]
    if network is None:
        offer = [f"which={role.value}" for role, shown in networks.items() if shown is not None]
        raise UserError(
            f"run={run} (T = {summary.T_ms:g} ms): {_WHY_NONE[which]}; export another network with "
            f"{', '.join([*offer, 'arch=<one of its samples>'])}"
        )
    return _find_reported(summary, network, space, run, which.value)


_WHY_NONE = {
    Which.best: Status.none.value,
    Which.mode: "its controller has no policy, or no source knows the mode",
    Which.optimum: Status.unranked.value,
}


def _within(
    summary: Summary, limit_ms: float, space: SearchSpace, folder: RunFolder
) -> Int64[ndarray, "D"]:
    """The most accurate trial within another T, by the confidence of the run.

    Where all were timed under load, it is the most accurate one that the run trained.
    """
    run = folder.path
    within = [arch for least_ms, arch in summary.answers if least_ms <= limit_ms]
    if not within:
        trainings = [read_training(record.parent) for record in run.glob(f"trained/*/{RECORD}")]
        for training in sorted(trainings, key=_valid_accuracy, reverse=True):
            row = read_row(folder.samples, training.arch)
            if row is not None and float(row["latency_ms"]) <= limit_ms:
                return space.parse(training.arch)
        fastest = (
            f"; its fastest takes {summary.front[0].latency_ms:.3f} ms" if summary.front else ""
        )
        raise UserError(f"T={limit_ms:g}ms: run={run} has no network within it{fastest}")
    trained = [
        each for each in within if (trained_folder(run, each.arch) / RECORD).is_file()
    ]  # which a fit hands over
    return space.parse((trained or within)[-1].arch)


def _valid_accuracy(training: Training) -> float:
    """Accuracy on validation images; 0 of a network that has none."""
    return 0.0 if training.valid is None else training.valid.fraction


def _sample(
    summary: Summary,
    architecture: Int64[ndarray, "D"],
    space: SearchSpace,
    folder: RunFolder,
    limit_ms: float,
) -> SearchedNetwork:
    """A trial of the run, by its row in the record."""
    text = space.text(architecture)
    row = read_row(folder.samples, text)
    if row is None:
        raise UserError(
            f"arch={text} was not sampled in run={folder.path}, which knows nothing of it; its "
            f"samples are in {folder.samples}; leave out run= to export it all the same"
        )
    device = summary.device
    if summary.latency_source == "mapped":  # only the scaled time of a sample is kept
        device = f"the best of {device}, as milliseconds of the first"
    try:
        numbers = {
            "accuracy": float(row["accuracy"]),
            "accuracy_kind": row["accuracy_kind"],
            "accuracy_test": next((o.accuracy_test for o in summary.front if o.arch == text), None),
            "latency_ms": float(row["latency_ms"]),
            "latency_kind": row["latency_kind"],
            "latency_again_ms": row.get("latency_again_ms"),
        }
        searched = _make_searched(summary, folder.path, "sample", device, limit_ms, numbers)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder.samples} is not the record of a search: {error}") from error
    return SearchedNetwork(space, architecture, plain(summary.settings.dataset), searched)


def _find_reported(
    summary: Summary, network: Network, space: SearchSpace, run: Path, named: str
) -> SearchedNetwork:
    """A network of the summary; of several devices, on the one with most room."""
    place = network.on[0] if network.on else None
    numbers = {
        "accuracy": network.accuracy_searched,
        "accuracy_kind": network.accuracy_kind,
        "accuracy_test": network.accuracy_test,
        "latency_ms": place.latency_ms if place else network.latency_ms,
        "latency_kind": place.latency_kind if place else network.latency_kind,
        "latency_again_ms": network.latency_again_ms,
    }
    device = place.device if place else summary.device
    limit_ms = place.T_ms if place else summary.T_ms
    try:
        searched = _make_searched(summary, run, named, device, limit_ms, numbers)
        architecture = space.parse(network.arch)
    except (KeyError, ValueError) as error:
        raise UserError(f"run={run}: its summary is corrupt: {error}") from error
    return SearchedNetwork(space, architecture, plain(summary.settings.dataset), searched)


def _make_searched(  # noqa: PLR0917 - one call for each of the two kinds of networks
    summary: Summary,
    run: Path,
    named: str,
    device: str,
    limit_ms: float,
    numbers: dict[str, Any],
) -> Searched:
    is_trained = numbers["accuracy_kind"] == Kind.trained.name
    least = -math.inf if is_trained else 0  # the R2 of a regression may be negative
    if not (least <= numbers["accuracy"] <= 1 and 0 < numbers["latency_ms"] < math.inf):
        raise ValueError("an accuracy is within 0 and 1, a latency is positive")
    kind, _ = Kind[numbers["accuracy_kind"]], Kind[numbers["latency_kind"]]  # or it is corrupt
    settings, rule = summary.settings, summary.baseline
    is_said = settings.epochs != settings.test_epochs or kind is Kind.trained
    return Searched(
        run=plain(str(run)),
        named=named,
        T_ms=limit_ms,
        split=plain(summary.split),
        epochs=settings.epochs if is_said else None,
        accuracy_source=plain(summary.accuracy_description),
        device=plain(device),
        latency_source=plain(summary.latency_description),
        baseline="" if rule is None else plain(f"{rule.line}, {rule.fidelity}: {rule.arch}"),
        limits_kb={s: each.limit for s, each in summary.limits.items() if each.unit == "kB"},
        parts_kb={s: each.parts for s, each in summary.limits.items() if each.parts},
        **numbers,
    )


def docstring(paragraphs: Sequence[str]) -> str:
    """The paragraphs as a module's docstring."""
    text = "\n\n".join(textwrap.fill(plain(paragraph), 99) for paragraph in paragraphs)
    return f'"""{text}\n"""\n'


def plain(text: str) -> str:
    """Text of others that can end no docstring, and begin no line or escape of its own."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable.replace("\\", "/").replace('"', "'")
