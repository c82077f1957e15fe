"""Fits the embedded latency models: `NAS_DATA=... python -m benchmarks.fitting.nas_bench_201.latency`.

Reads `nb201_latency_ms.csv`, writes `nas/spaces/nas_bench_201/regression.safetensors` and its card,
`nas/spaces/nas_bench_201/regression.md`. The same table gives the same weights up to rounding.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common.command.exit_status import one_line_errors
from latency.models.regression import MODELS, EmbeddedModel, fitted_models, save_models
from nas.spaces.nas_bench_201 import plugin
from nas.spaces.nas_bench_201.plugin import SPACE

WEIGHTS = Path(plugin.__file__).with_name(MODELS)
CARD = WEIGHTS.with_suffix(".md")

_ABOUT = """\
# Embedded latency models

One linear regression a device: milliseconds = weights x features + intercept. Features
(`nas/spaces/nas_bench_201/features.py`): each edge's operation as written, as far as the output needs its result, and as
far as it is live; whether there is a path at all; the longest path counted in five ways; products
of the live counts of two operations. On the devices marked * one cell of each network was timed and
its time copied, so the features are those of the first cell that is the same network.

Written by `python -m benchmarks.fitting.nas_bench_201.latency` from the public tables; no row of them is stored. The
weights are fitted on all measured cells. The quality is five-fold cross-validated: each cell is
predicted by a fit that saw no cell that computes the same function. Predictions are never below the
fastest measured cell of the device. Where no cell without a path from input to output was measured,
those are extrapolated.

**Not for** absolute promises: another runtime, clock, input size or batch is another device.

The same numbers are in the metadata of `regression.safetensors`, which is what a run prints.

| device | source | cells | R2 | Spearman | within 10 % | median error | cells without a path |
|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Fit every registered device that the data folder holds."""
    models, rows = [], []
    for device, model in fitted_models(SPACE):
        models.append(model)
        mark = " *" if device.once_per_network else ""
        rows.append(_row(model, mark, device.source))
        sys.stdout.write(rows[-1])
    save_models(models, WEIGHTS)
    CARD.write_text(_ABOUT + "".join(rows), encoding="utf-8")


def _row(model: EmbeddedModel, mark: str, source: str) -> str:
    quality = model.quality
    disconnected = "measured" if model.saw_disconnected else "extrapolated"
    return (
        f"| {model.device}{mark} | {source} | {model.measured_count:,} | {quality.r2:.4f} "
        f"| {quality.spearman:.4f} | {quality.within_10_percent:.1%} "
        f"| {quality.median_error:.1%} | {disconnected} |\n"
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
