"""A number as a report shows it: with its unit, its kind and its spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from edgenas_core.types.kind import Kind
from nas.trials.limits import cost_text

PREDICTED = "~"
"""Mark of a number that a model gave, wherever it is shown."""

FLAGS = {
    Kind.disturbed: "under load",
    Kind.implausible: "implausible",
    Kind.penalty: "penalty",
}
"""Words behind a time that is not to be relied on."""


@final
@dataclass(frozen=True)
class Number:
    """A number as it is reported."""

    value: float  # accuracies in percent, counts as they are, all else in `unit`
    unit: str  # "%", "ms", "mJ", or empty for a count
    kind: Kind
    sd: float | None = None  # standard deviation of a prediction: points, or in `unit`

    @property
    def mark(self) -> str:
        """`~` for a prediction, else empty."""
        return PREDICTED if self.kind.is_predicted else ""

    @property
    def text(self) -> str:
        """The number with its mark and unit, and the kind of a time that is not to be relied on."""
        flag = f", {FLAGS[self.kind]}" if self.kind in FLAGS else ""
        return f"{self.mark}{amount(self.value, self.unit)}{flag}"

    @property
    def text_with_sd(self) -> str:
        """Text with the standard deviation, if it is known."""
        if self.sd is None or not self.kind.is_predicted:
            return self.text
        unit = "points" if self.unit == "%" else self.unit
        return f"{self.text} \u00b1 {self.sd:.2g} {unit}"


def amount(value: float, unit: str) -> str:
    """A value with its unit: 69.76%, 13.34 ms, 0.123 ms, 4.2 mJ, 0.86 M."""
    if unit == "%":
        return f"{value:.2f}%"
    if unit == "ms":
        return f"{value:.2f} ms" if value >= 1 else f"{value:.3g} ms"
    return cost_text(value, unit)


def percent(fraction: float, kind: Kind, sd: float | None = None) -> Number:
    """An accuracy, given as fractions."""
    return Number(100 * fraction, "%", kind, None if sd is None else 100 * sd)
