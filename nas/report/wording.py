"""Names of the numbers on a page: units, splits, and what is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from common.types.kind import Kind
from nas.report.summary import Network, Summary, predicted_shares
from nas.trials.limits import cost_text

_SPLITS = {"valid": "validation", "test": "test"}
NO_BREAK = "\u00a0"


@final
@dataclass(frozen=True)
class Wording:
    """The names of the numbers of one run, by its summary."""

    summary: Summary

    @property
    def dataset(self) -> str:
        """Name of the data set as papers write it."""
        return self.summary.settings.dataset_title

    @property
    def split(self) -> str:
        """The split that was searched on."""
        return _SPLITS[self.summary.split]

    @property
    def searched(self) -> str:
        """The accuracy that was searched on, as in "validation accuracy"."""
        return f"{self.split} accuracy"

    @property
    def is_short(self) -> bool:
        """Whether the searched accuracies are of a shorter training than the test accuracies."""
        settings = self.summary.settings
        return settings.epochs != settings.test_epochs

    @property
    def accuracy_axis(self) -> str:
        """Title of an axis of the accuracy that was searched on."""
        length = f" after {self.summary.settings.epochs} epochs" if self.is_short else ""
        predicted = ", predicted" if self.summary.accuracy_is_predicted else ""
        return f"{self.searched}{length} (%){predicted}"

    @property
    def latency_axis(self) -> str:
        """Title of an axis of latencies."""
        shares = predicted_shares(self.summary.latency_kinds)
        words = [kind.words for kind, share in shares.items() if share == 1]
        return f"latency (ms){''.join(f', {one}' for one in words)}"

    @property
    def limit(self) -> str:
        """The latency's limit with its name."""
        return f"T = {self.summary.T_ms:g}{NO_BREAK}ms"

    @property
    def limits(self) -> str:
        """All limits with their names."""
        further = self.summary.limits.items()
        return ", ".join(
            [
                self.limit,
                *(f"{name} = {cost_text(one.limit, one.unit, 6)}" for name, one in further),
            ]
        )

    @property
    def label(self) -> str:
        """The names of the limits: T, or T, E and P."""
        return self.summary.label

    def missed(self, latency_ms: float) -> str:
        """Name the limits that a trial exceeds."""
        return "beyond T" if latency_ms > self.summary.T_ms else f"not within {self.label}"

    def costs(self, costs: Mapping[str, float]) -> list[str]:
        """Costs of an architecture beside its latency, one text for each further limit."""
        found = []
        for symbol, one in self.summary.limits.items():
            cost = costs[one.cost]
            beyond = f", beyond {symbol}" if cost > one.limit else ""
            found.append(cost_text(cost, one.unit).replace(" ", NO_BREAK) + beyond)
        return found

    @property
    def cost_columns(self) -> list[str]:
        """Headers of the further costs."""
        return [one.cost.removesuffix("_mj") for one in self.summary.limits.values()]

    @property
    def optimum(self) -> str:
        """Name of the best architecture of the whole space within all limits."""
        return self.summary.optimum_name

    @property
    def front(self) -> str:
        """Name of the front of the whole space."""
        share = self.summary.space_latency_predicted
        if self.summary.accuracy_is_predicted or share == 1:
            return "predicted front"
        return "partly predicted front" if share else "true front"

    def accuracy(self, fraction: float | None) -> str:
        """An accuracy for a table or a sentence."""
        return "-" if fraction is None else percent(fraction, 2)

    def latency(self, latency_ms: float, kind: Kind) -> str:
        """A latency for a sentence, with its kind where it was not measured."""
        return f"{milliseconds(latency_ms)}{kind_note(kind)}"

    def latency_of(self, network: Network) -> str:
        """The latency of a reported network, with its kind."""
        return self.latency(network.latency_ms, Kind[network.latency_kind])


def kind_note(kind: Kind) -> str:
    """A kind in brackets: nothing for a measurement."""
    return "" if kind in {Kind.measured, Kind.trained} else f" ({kind.words})"


def percent(fraction: float, decimals: int) -> str:
    """A share with its sign."""
    return f"{fraction * 100:.{decimals}f}{NO_BREAK}%"


def milliseconds(latency_ms: float) -> str:
    """Two decimals, or three digits where that would say less."""
    number = f"{latency_ms:.2f}" if latency_ms >= 1 else f"{latency_ms:.3g}"
    return f"{number}{NO_BREAK}ms"


def lines_of(text: str, width: int = 40) -> str:
    """An architecture's text in lines, for the label of a chart's point."""
    parts = text.replace("+", "+ ").split(" ")
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part if part.endswith("+") or not lines[-1] else f" {part}"
    return "<br>".join(lines)
