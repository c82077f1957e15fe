"""How numbers are called on a page, in one place: units, splits, and what is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from nas.report.summary import optimum_name
from nas.spaces.nas_bench_201.training_length import FULL_EPOCHS
from nas.trials.limits import cost_text, label_of

_DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet16": "ImageNet16-120"}
_SPLITS = {"valid": "validation", "test": "test"}
NO_BREAK = "\u00a0"
OPERATION_NAMES = ("none", "skip", "conv 1x1", "conv 3x3", "avg pool 3x3")
"""Short names of `nas.spaces.nas_bench_201.space.OPERATIONS`, in its order."""


@final
@dataclass(frozen=True)
class Wording:
    """The names of the numbers of one run, by its summary."""

    summary: Mapping[str, Any]
    predicted_share: float  # of the sampled latencies

    @property
    def dataset(self) -> str:
        """As papers write it."""
        return _DATASETS[self.summary["dataset"]]

    @property
    def accuracy_is_predicted(self) -> bool:
        """Whether a model answered instead of a training."""
        return bool(self.summary["accuracy_source"] == "surrogate")

    @property
    def split(self) -> str:
        """The split that was searched on."""
        return _SPLITS[self.summary["split"]]

    @property
    def searched(self) -> str:
        """The accuracy that was searched on, as in "validation accuracy"."""
        return f"{self.split} accuracy"

    @property
    def accuracy_axis(self) -> str:
        """Title of an axis of the accuracy that was searched on."""
        epochs = self.summary["epochs"]
        length = "" if epochs == FULL_EPOCHS else f" after {epochs} epochs"
        predicted = ", predicted" if self.accuracy_is_predicted else ""
        return f"{self.searched}{length} (%){predicted}"

    @property
    def latency_axis(self) -> str:
        """Title of an axis of latencies."""
        return f"latency (ms){', predicted' if self.predicted_share == 1 else ''}"

    @property
    def limit(self) -> str:
        """The latency's limit with its name."""
        return f"T = {self.summary['T_ms']:g}{NO_BREAK}ms"

    @property
    def limits(self) -> str:
        """All limits with their names."""
        further = self.summary.get("limits", {}).items()
        return ", ".join(
            [
                self.limit,
                *(f"{name} = {cost_text(one['limit'], one['unit'], 6)}" for name, one in further),
            ]
        )

    @property
    def label(self) -> str:
        """The names of the limits: T, or T, E and P."""
        return label_of(self.summary.get("limits", {}))

    def missed(self, latency_ms: float) -> str:
        """What is said of a sample that is not within all limits."""
        beyond = latency_ms > float(self.summary["T_ms"])
        return "beyond T" if beyond else f"not within {self.label}"

    def costs(self, row: Mapping[str, Any]) -> list[str]:
        """What an architecture costs beside its latency, one for each further limit."""
        return [
            self.cost(symbol, row[one["cost"]])
            for symbol, one in self.summary.get("limits", {}).items()
        ]

    def cost(self, symbol: str, cost: float) -> str:
        """A cost for a table, marked where it breaks its limit."""
        one = self.summary["limits"][symbol]
        beyond = f", beyond {symbol}" if cost > one["limit"] else ""
        return cost_text(cost, one["unit"]).replace(" ", NO_BREAK) + beyond

    @property
    def cost_columns(self) -> list[str]:
        """Headers of the further costs."""
        return [one["cost"].removesuffix("_mj") for one in self.summary.get("limits", {}).values()]

    @property
    def optimum(self) -> str:
        """What the best cell of the whole space within all limits is called."""
        return optimum_name(self.summary)

    def accuracy(self, fraction: float | None) -> str:
        """An accuracy for a table or a sentence."""
        return "-" if fraction is None else percent(fraction, 2)

    def latency(self, latency_ms: float, *, predicted: bool) -> str:
        """A latency for a table or a sentence, with its mark."""
        return f"{milliseconds(latency_ms)}{' (predicted)' if predicted else ''}"


def percent(fraction: float, decimals: int) -> str:
    """A share with its sign."""
    return f"{fraction * 100:.{decimals}f}{NO_BREAK}%"


def milliseconds(latency_ms: float) -> str:
    """Two decimals, or three digits where that would say less."""
    number = f"{latency_ms:.2f}" if latency_ms >= 1 else f"{latency_ms:.3g}"
    return f"{number}{NO_BREAK}ms"


def lines_of(cell: str) -> str:
    """A cell's string with its nodes in lines of their own, for the label of a chart's point."""
    return cell.replace("+", "+<br>")
