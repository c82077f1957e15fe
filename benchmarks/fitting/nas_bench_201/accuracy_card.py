"""Model card of the surrogate, made from the metadata of the fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nas.spaces.nas_bench_201.surrogate import TARGETS

_CARD = """\
# The embedded accuracy surrogate

`accuracy=surrogate` predicts the top-1 accuracy of every NAS-Bench-201 cell without benchmark data: on validation and test images
after 200 epochs, and on validation images after 12. **No number of it is a measurement.**

| target | tau | MAE | top half: tau | MAE | by network: tau | MAE |
|---|---|---|---|---|---|---|
{agreement}

Held out, over all 15,625 cells: Kendall tau, MAE in percentage points; top half by measured accuracy.
`surrogate.safetensors` also records Spearman, RMSE and R2.

**Source.** NATS-Bench (Dong et al., TPAMI 2021); `cifar10_valid` is trained on half of the training set. No row of the table is
stored here. Written by `python -m benchmarks.fitting.nas_bench_201.accuracy` with the weights; do not edit.

**Model.** {members} small networks, averaged; {parameters:,} parameters in 16 bits. Each mirrors the cell: an operation is a learned
map of a node's state, a node the sum of what enters it, and a perceptron reads the last node and the counts of operation sequences
on the paths. Cells of one function get one prediction. The 341 cells without a path from input to output get chance accuracy, by rule.

**Fit.** {epochs} epochs of AdamW on the mean accuracy of each of the 4,930 functions, Huber loss, fixed seeds. Shipped weights:
fitted on all cells.

**Protocol.** {folds}-fold cross-validation; no two folds share a *function* (`function_class`). The two last columns split by
*network* (`network_class`, 6,466 of them), which is less strict. Sizes and rates were chosen on other random folds of the same table,
so the figures are slightly optimistic.

## What noise allows

| target | resampled: tau | MAE | top half: tau | twins: MAE |
|---|---|---|---|---|
| cifar10_valid | 0.963 | 0.15 | 0.904 | 0.20 |
| cifar10_test | - | - | - | 0.17 |
| cifar100_valid | 0.961 | 0.21 | 0.898 | 0.33 |
| cifar100_test | 0.961 | 0.20 | 0.897 | 0.32 |
| imagenet16_valid | 0.969 | 0.22 | 0.923 | 0.38 |
| imagenet16_test | 0.971 | 0.22 | 0.925 | 0.39 |
| cifar10_epoch12_valid | - | - | - | 0.45 |
| cifar100_epoch12_valid | - | - | - | 0.65 |
| imagenet16_epoch12_valid | - | - | - | 0.47 |

"Resampled" compares the table with a copy drawn anew with the standard error of its about 2.5 trainings per cell: the best
that a predictor can reach. Columns without a spread have none. "Twins" predicts a cell by the mean of the other cells of its function.

## Limits

- The best predicted cell need not be the best one.
- Cells of one function are not always one network, and differ measurably; they get one prediction.
"""


def render(metadata: Mapping[str, Any]) -> str:
    """Write the card, in Markdown."""
    return _CARD.format(
        **metadata["budget"],
        parameters=metadata["parameters"],
        agreement="\n".join(_agreement_rows(metadata["held_out"])),
    )


def _agreement_rows(held_out: Mapping[str, Any]) -> Iterator[str]:
    for target in TARGETS:
        parts = held_out["function_class"][target]
        every, top = parts["all"], parts["top half"]
        by_network = held_out["network_class"][target]["all"]
        yield (
            f"| {target} | {every['tau']:.3f} | {every['mae']:.2f} "
            f"| {top['tau']:.3f} | {top['mae']:.2f} "
            f"| {by_network['tau']:.3f} | {by_network['mae']:.2f} |"
        )
