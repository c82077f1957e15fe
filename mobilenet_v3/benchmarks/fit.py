"""Fits the embedded latency models: `NAS_DATA=... python -m mobilenet_v3.benchmarks.fit`.

Reads the latency tables and the block look-ups of the registered devices (our own tables are
`mobilenet_v3/benchmarks/results/*_ms.csv`: copy them into the folder of the others), writes
`edgenas_mobilenet_v3/regression.safetensors` and its card, `regression.md`. The same data gives the same
weights up to rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.fitting.models import fitted_models, save_models
from edgenas_core.command.exit_status import one_line_errors
from edgenas_mobilenet_v3 import plugin
from edgenas_mobilenet_v3.blocks import BlocksLatencyConfig, look_ups
from edgenas_mobilenet_v3.plugin import SPACE
from latency.base import any_choices
from latency.devices.measured import MeasuredLatency
from latency.devices.registry import TimedDevice, registered
from latency.models.regression import (
    MODELS,
    EmbeddedModel,
    fitted_model,
)
from nas.spaces.base import task_named

WEIGHTS = Path(plugin.__file__).with_name(MODELS)
CARD = WEIGHTS.with_suffix(".md")
_LEAST_MS = 0.001

_ABOUT = """\
# Embedded latency models

One linear regression a device: milliseconds = weights x features + intercept. Features
(`features.py`): how often each setting of kernel and expansion is the first block of each
stage and how often another, as it is and times the pixels that the stage computes; the pixels of the stem; a step for
each side. A side that no network of the fit has is not predicted.

Written by `python -m mobilenet_v3.benchmarks.fit` from the tables below; no row of the public ones is stored. The
weights are fitted on all networks. The quality is five-fold cross-validated: each network is predicted by a fit that
did not see it. Predictions are never below the fastest network of the fit. Devices marked * were fitted on sums of
measured blocks, and the quality says how well these sums are predicted, not networks.

**Not for** absolute promises: another runtime, clock or batch is another device, and so is another width. HELP does not
record the width of its networks.

The same numbers are in the metadata of `regression.safetensors`, which is what a run prints.

Answers of searches that are said to be within T with a probability (of their own margin, a lower bound from other boards: `python
-m benchmarks.confident_answers --reliability`), and how many are:

| said, at least | .26 | .45 | .46 | .57 | .84 | .91 | .95 |
|---|---|---|---|---|---|---|---|
| truly within T | .52 | .76 | .79 | .83 | .94 | .98 | .99 |

| device | source | networks | R2 | Spearman | within 10 % | median error |
|---|---|---|---|---|---|---|
"""


@one_line_errors()
def main() -> None:
    """Fit every registered device whose table or look-up the data folder holds."""
    models, rows = [], []
    for mark, (device, model) in [
        *(("", model) for model in fitted_models(SPACE)),
        *((" *", model) for model in _fitted_on_blocks()),
    ]:
        models.append(model)
        quality = model.quality
        rows.append(
            f"| {model.device}{mark} | {device.source} | {model.measured_count:,} | {quality.r2:.4f} "
            f"| {quality.spearman:.4f} | {quality.within_10_percent:.1%} "
            f"| {quality.median_error:.1%} |\n"
        )
        sys.stdout.write(rows[-1])
    save_models(models, WEIGHTS)
    CARD.write_text(_ABOUT + "".join(rows), encoding="utf-8")


def _fitted_on_blocks() -> Iterator[tuple[TimedDevice, EmbeddedModel]]:
    """A model for each registered device with look-ups, fitted on sums of measured blocks."""
    task = task_named(SPACE, "auto")
    for device in registered(SPACE):
        if not look_ups(SPACE, device.column):
            continue
        oracle = BlocksLatencyConfig().build(device.column, SPACE, task)
        rows = any_choices(SPACE, 10_000)
        rows = rows[oracle.known(rows)]
        sums = MeasuredLatency(Path(device.column), rows, oracle.answer(rows).ms)
        of_sums = fitted_model(SPACE, device, sums)
        # the fastest network is far from random ones; how far networks are from sums is unknown
        model = replace(of_sums.model, fastest_ms=_LEAST_MS)
        yield device, replace(of_sums, model=model, uncertainty=None, saw_disconnected=True)


if __name__ == "__main__":
    main()
