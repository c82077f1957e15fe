"""The networks of a fit for several limits, each with the baseline within them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from edgenas_core.page.parts import Table
from edgenas_core.types.kind import Kind
from nas.report.number import Number
from nas.spaces.trusted_code import export_command


@final
@dataclass(frozen=True)
class HandedBaseline:
    """The baseline within the limits."""

    arch: str
    latency_ms: float
    accuracy: float | None  # on validation images, after its longest training; None: not evaluated
    fidelity: str  # length of that training


@final
@dataclass(frozen=True)
class HandedNetwork:
    """The trained network for one set of limits."""

    limits: dict[str, str]  # as they are written in settings: T, RAM, flash
    arch: str
    latency_ms: float
    latency_kind: str
    valid: float  # accuracy on the validation images
    test: float | None
    test_interval: tuple[float, float] | None  # 95 %
    epochs: int
    baseline: HandedBaseline | None

    @property
    def export_name(self) -> str:
        """Name of the folder that it is exported into, such as export-T4ms-RAM128kB."""
        texts = "".join(f"-{symbol}{text}" for symbol, text in self.limits.items())
        return "export" + re.sub(r"[^A-Za-z0-9.+-]", "", texts)

    def export_command(self, run: Path, space: str, data: str | None) -> str:
        """Command that exports it: by its T, or by its architecture where other limits differ, too."""
        named = self.limits if {*self.limits} == {"T"} else {"arch": self.arch}
        return export_command({"run": str(run), **named}, space, data)


def lines(handed: Sequence[HandedNetwork]) -> Iterator[str]:
    """A line a network, for the terminal."""
    for row in _rows(handed):
        yield "{}: {}, test {}, {}; baseline {}, {}, validation {}".format(*row)


def table_of(handed: Sequence[HandedNetwork], run: Path, space: str, data: str | None) -> Table:
    """A row a network, to choose from."""
    header = ["limits", "network", "test", "latency", "baseline", "its latency", "its validation"]
    rows = [
        [limits, f"`{arch}`", test, latency, f"`{baseline}`", *others]
        for limits, arch, test, latency, baseline, *others in _rows(handed)
    ]
    command = handed[-1].export_command(run, space, data)
    return Table(
        header,
        rows,
        f"One network for each limit, all of one fit. The last is exported by {command}",
    )


def _rows(handed: Sequence[HandedNetwork]) -> Iterator[list[str]]:
    for each in handed:
        limits = ", ".join(f"{symbol} = {text}" for symbol, text in each.limits.items())
        test = "-" if each.test is None else f"{each.test:.1%}"
        if each.test_interval is not None:
            test += " ({:.0%} to {:.0%})".format(*each.test_interval)
        latency = Number(each.latency_ms, "ms", Kind[each.latency_kind]).text
        baseline = ["none", "-", "-"]
        if (other := each.baseline) is not None:
            score = "not evaluated" if other.accuracy is None else f"{other.accuracy:.1%}"
            score += f", {other.fidelity}" if other.fidelity else ""
            baseline = [other.arch, f"{other.latency_ms:.3g} ms", score]
        yield [limits, each.arch, test, latency, *baseline]
