"""A network of a finished run, with the accuracy and latency that the run has of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, final

from jaxtyping import Int64
from numpy import ndarray

from common.types.errors import UserError
from common.types.kind import Kind
from nas.export.docstring import plain
from nas.report.summary import Network, Summary, read_summary
from nas.search.folder import RunFolder
from nas.search.record import read_row
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

    It is part of `export.json`; kinds are names of `common.types.kind.Kind`.
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

    @property
    def accuracy_text(self) -> str:
        """The accuracy with all that belongs to it, for readers."""
        length = "" if self.epochs is None else f" after {self.epochs} epochs"
        searched = f"{self.accuracy:.2%} on the {self.split} split{length}"
        test = "" if self.accuracy_test is None else f", {self.accuracy_test:.2%} on the test split"
        return f"{searched}{test}, {_words(self.accuracy_kind)}"

    @property
    def latency_text(self) -> str:
        """The latency with all that belongs to it, for readers."""
        again = self.latency_again_ms
        timed_again = "" if again is None else " (timed again at the end of the run)"
        return (
            f"{self.latency_ms:.3f} ms{timed_again} on {self.device}, {_words(self.latency_kind)}"
        )


def _words(kind: str) -> str:
    if Kind[kind] is Kind.disturbed:
        return "measured while DISTURBED, so not confirmed"
    return Kind[kind].words.replace("predicted", "PREDICTED")


@final
@dataclass(frozen=True)
class Found:
    """An architecture of a run, and what the run knows of it."""

    space: SearchSpace
    architecture: Int64[ndarray, "D"]
    dataset: str  # a task of the space, or the images that were searched on
    searched: Searched

    @property
    def arch(self) -> str:
        """The architecture as text."""
        return self.space.text(self.architecture)


def find(run: Path, which: Which | None, arch: str | None, limit_ms: float | None = None) -> Found:
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
    given = [f"{name}={value}" for name, value in named.items() if value is not None]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} name two networks; leave out one")
    folder = RunFolder(run)
    _require_search(folder)
    if not folder.summary.is_file():
        raise UserError(
            f"run={run} has not finished; go on with python -m nas.search resume={run}, then export"
        )
    summary = read_summary(folder.summary)
    space = space_named(summary.settings.space)
    if limit_ms is not None:
        return _of_sample(
            summary, _on_front(summary, limit_ms, space, run), space, folder, limit_ms
        )
    if arch is None:
        which = which or Which.best
        return _of_network(summary, _named(summary, which, run), space, run, which.value)
    architecture = architecture_named(space, arch)
    text = space.text(architecture)
    for one in Which:
        network = _reported(summary, one)
        if network is not None and network.arch == text:
            return _of_network(summary, network, space, run, one.value)
    return _of_sample(summary, architecture, space, folder, summary.T_ms)


def _on_front(
    summary: Summary, limit_ms: float, space: SearchSpace, run: Path
) -> Int64[ndarray, "D"]:
    """The most accurate trial within another T, by the confidence of the run."""
    within = [one for least_ms, one in summary.answers if least_ms <= limit_ms]
    if not within:
        fastest = (
            f"; its fastest takes {summary.front[0].latency_ms:.3f} ms" if summary.front else ""
        )
        raise UserError(f"T={limit_ms:g}ms: run={run} has no network within it{fastest}")
    return space.parse(within[-1].arch)


def _require_search(folder: RunFolder) -> None:
    """Refuse folders of other commands by their name."""
    run = folder.path
    if (run / "study.json").is_file():
        raise UserError(
            f"run={run} is a study, which compares searches and names no network; export a run of "
            f"nas.search, or name an architecture with arch= and leave out run="
        )
    if not folder.config.is_file():
        inside = sorted(path.parent for path in run.glob("*/summary.json"))
        offer = f"; it holds {len(inside)} runs, such as run={inside[-1]}" if inside else ""
        raise UserError(
            f"run={run} is not the folder of a run: it has no {folder.config.name}{offer}"
        )


def _reported(summary: Summary, which: Which) -> Network | None:
    return {
        Which.best: summary.best,
        Which.mode: summary.mode,
        Which.optimum: summary.optimum,
    }[which]


def _named(summary: Summary, which: Which, run: Path) -> Network:
    network = _reported(summary, which)
    if network is not None:
        return network
    others = [f"which={one.value}" for one in Which if _reported(summary, one) is not None]
    offer = ", ".join([*others, "arch=<one of its samples>"])
    why = {
        Which.best: f"found no network within T = {summary.T_ms:g} ms",
        Which.mode: "knows no mode: its controller has no policy, or no source knows it",
        Which.optimum: "knows no exact optimum: nothing is within T, or asking for all is not free",
    }[which]
    raise UserError(f"run={run} {why}; export another network with {offer}")


def _of_sample(
    summary: Summary,
    architecture: Int64[ndarray, "D"],
    space: SearchSpace,
    folder: RunFolder,
    limit_ms: float,
) -> Found:
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
        return _found(
            summary,
            space,
            folder.path,
            "sample",
            architecture,
            row,
            test=next((one.accuracy_test for one in summary.front if one.arch == text), None),
            device=device,
            limit_ms=limit_ms,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder.samples} is not the record of a search: {error}") from error


def _of_network(
    summary: Summary, network: Network, space: SearchSpace, run: Path, named: str
) -> Found:
    device, limit_ms = summary.device, summary.T_ms
    latency_ms, latency_kind = network.latency_ms, network.latency_kind
    for on in network.on[:1]:  # the device with most room for the network
        device, limit_ms = on.device, on.T_ms
        latency_ms, latency_kind = on.latency_ms, on.latency_kind
    row = {
        "accuracy": network.accuracy_searched,
        "accuracy_kind": network.accuracy_kind,
        "latency_ms": latency_ms,
        "latency_kind": latency_kind,
        "latency_again_ms": network.latency_again_ms,
    }
    try:
        return _found(
            summary,
            space,
            run,
            named,
            space.parse(network.arch),
            row,
            test=network.accuracy_test,
            device=device,
            limit_ms=limit_ms,
        )
    except (KeyError, ValueError) as error:
        raise UserError(f"run={run}: its summary is corrupt: {error}") from error


def _found(  # noqa: PLR0917 - one call for each of the two kinds of networks
    summary: Summary,
    space: SearchSpace,
    run: Path,
    named: str,
    architecture: Int64[ndarray, "D"],
    row: dict[str, Any],
    *,
    test: float | None,
    device: str,
    limit_ms: float,
) -> Found:
    accuracy, latency_ms = float(row["accuracy"]), float(row["latency_ms"])
    again_ms = row.get("latency_again_ms")
    if not (0 <= accuracy <= 1 and 0 < latency_ms < math.inf):
        raise ValueError("an accuracy is within 0 and 1, a latency is positive")
    kind, _ = Kind[row["accuracy_kind"]], Kind[row["latency_kind"]]  # or it is corrupt
    settings = summary.settings
    is_said = settings.epochs != settings.test_epochs or kind is Kind.trained
    return Found(
        space,
        architecture,
        plain(summary.settings.dataset),
        Searched(
            run=plain(str(run)),
            named=named,
            T_ms=limit_ms,
            split=plain(summary.split),
            epochs=settings.epochs if is_said else None,
            accuracy=accuracy,
            accuracy_test=test,
            accuracy_kind=row["accuracy_kind"],
            accuracy_source=plain(summary.accuracy_description),
            device=plain(device),
            latency_ms=latency_ms,
            latency_again_ms=None if again_ms is None else float(again_ms),
            latency_kind=row["latency_kind"],
            latency_source=plain(summary.latency_description),
        ),
    )
