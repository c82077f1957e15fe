"""Fits the embedded latency models: `NAS_DATA=... python -m benchmarks.fitting.nas_bench_201.latency`.

Reads `nb201_latency_ms.csv`, writes `nas/spaces/nas_bench_201/regression.safetensors` and its card,
`nas/spaces/nas_bench_201/regression.md`. The same table gives the same weights up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from benchmarks.fitting.models import fitted_models, save_models
from edgenas_core.command.exit_status import one_line_errors
from latency.devices.registry import TimedDevice, registered
from latency.models.regression import MODELS, EmbeddedModel
from nas.spaces.nas_bench_201 import plugin
from nas.spaces.nas_bench_201.plugin import SPACE

WEIGHTS = Path(plugin.__file__).with_name(MODELS)
CARD = WEIGHTS.with_suffix(".md")

_ABOUT = """\
# Embedded latency models

`latency=regression` predicts the latency of a NAS-Bench-201 cell in milliseconds. Nothing here is a measurement.

One linear regression per device, on the features of `nas/spaces/nas_bench_201/features.py`, never below the fastest measured
cell. Written by `python -m benchmarks.fitting.nas_bench_201.latency` from public tables, of which no row is stored here.

Quality is five-fold cross-validated; no two folds share a function. Another runtime, clock, input size or batch is another
device. `regression.safetensors` records the same figures.

Answers of searches that are said to be within T with a probability (of their own margin, a lower bound from other boards: `python
-m benchmarks.confident_answers --reliability`), and how many are:

| said, at least | .26 | .45 | .46 | .57 | .84 | .91 | .95 |
|---|---|---|---|---|---|---|---|
| truly within T | .67 | .76 | .82 | .89 | .96 | .96 | .99 |

device | R2 | Spearman | within 10 % | median error
---|---|---|---|---
"""


def main() -> None:
    """Fit every registered device that the data folder holds."""
    models = [model for _, model in fitted_models(SPACE)]
    save_models(models, WEIGHTS)
    CARD.write_text(render(models), encoding="utf-8")


def render(models: Iterable[EmbeddedModel]) -> str:
    """Write the card, in Markdown: one row per model, below the source of its table."""
    devices = {device.id: device for device in registered(SPACE)}
    lines = [_ABOUT]
    for heading, group in groupby(
        models, lambda model: _heading(devices[model.device], model.saw_disconnected)
    ):
        rows = list(group)
        counts = sorted({model.measured_count for model in rows})
        cells = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
        lines.append(f"**{heading}: {cells} cells** |\n")
        lines.extend(map(_row, rows))
    return "".join(lines)


def _heading(device: TimedDevice, saw_disconnected: bool) -> str:
    """Source of a table, and what its models rest on beside it."""
    notes = [device.source]
    if device.once_per_network:
        notes.append("one cell timed per network")
    if not saw_disconnected:
        notes.append("cells without a path extrapolated")
    return "; ".join(notes)


def _row(model: EmbeddedModel) -> str:
    quality = model.quality
    return (
        f"{model.device} | {quality.r2:.4f} | {quality.spearman:.4f} "
        f"| {quality.within_10_percent:.1%} | {quality.median_error:.1%}\n"
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
