"""Model card of the surrogate, made from the metadata of the fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nas.spaces.nas_bench_201.surrogate import TARGETS

_CARD = """\
# The embedded accuracy surrogate

Written by `python -m benchmarks.fitting.nas_bench_201.accuracy` together with the weights; do not edit.

**What it is.** `accuracy=surrogate` predicts the top-1 accuracy of every NAS-Bench-201 cell, for
a machine that has no benchmark data. It is a predictor: **no number of it is a measurement**.

**What it predicts.** Validation and test accuracy after 200 epochs and validation accuracy after
12 epochs, on CIFAR-10, CIFAR-100 and ImageNet16-120 (NATS-Bench, Dong et al., TPAMI 2021;
`cifar10_valid` is trained on half of the training set).

**The model.** {members} small networks, averaged; {parameters:,} parameters, stored in 16 bits.
Each mirrors the cell: an operation is a learned map of a node's state, a skip the identity, `none`
zero, a node the sum of what enters it. The last node's state and the counts of operation sequences
on the cell's paths are read out by a perceptron. Cells of one function get one prediction. A cell
with no path from input to output is given chance accuracy, by rule.

**The fit.** {epochs} epochs of AdamW on the mean accuracy of each of the 4,930 functions, Huber loss
in robust standard units; all seeds fixed, one thread.

**The protocol.** {folds}-fold cross-validation over *functions*
(`NAS_BENCH_201.function_class`): no function is in two folds. This is coarser than the benchmark's
6,466 isomorphism classes (`network_class`), hence stricter: x + (y + z) and (x + y) + z never face
each other across a fold. Every figure is over all 15,625 cells, each predicted by members that saw
no cell of its class. The shipped weights are one more fit, on everything. The few sizes and rates
were chosen by hand on other random folds of the same table, so the figures are slightly optimistic.

## Held out, folds over the 4,930 functions

MAE and RMSE are percentage points. `connected` leaves out the 341 cells that are given chance by rule;
the top half is the half of all cells with the best measured accuracy.

{function_class}

## Held out, folds over the 6,466 isomorphism classes

{network_class}

## What noise allows

A table value is a mean over seeds (about {seeds:.1f} on average: the values' grid shows one for few
cells, two or three for the others), so even the true mean accuracy would not reproduce it.
"Resampled" is the table against a copy whose values are drawn anew with the standard error
std / sqrt(seeds): the tau and MAE of a perfect predictor. The spread on CIFAR-100 and ImageNet16-120
is that of the two splits together, so one split's own noise is somewhat larger, and a cell with one
seed shows none. CIFAR-10's test split and the 12-epoch columns have no spread in the table.

"Twins" predicts a cell by the mean of the *other* cells that compute the same function: an estimate,
from other trainings, of what a function-based predictor can reach. It includes a limit of this
model: cells of one function are not always one network. Two branches may share one convolution in
one cell and own one each in another, which is measurably better, and both get one prediction.

{noise}

## Limits

- It knows NAS-Bench-201's cells and training recipe, nothing else.
- The best predicted cell need not be the best cell: compare tau in the top half with tau overall.
- The lower half is predicted less closely than the upper one: compare their MAE.
"""


def render(metadata: Mapping[str, Any]) -> str:
    """Write the card, in Markdown."""
    held_out, noise = metadata["held_out"], metadata["noise"]
    return _CARD.format(
        **metadata["budget"],
        parameters=metadata["parameters"],
        function_class="\n".join(_agreement_rows(held_out["function_class"])),
        network_class="\n".join(_agreement_rows(held_out["network_class"])),
        seeds=noise["cifar100_valid"]["seeds"],
        noise="\n".join(_noise_rows(noise)),
    )


def _agreement_rows(held_out: Mapping[str, Any]) -> Iterator[str]:
    yield "| target | cells | Kendall tau | Spearman | MAE | RMSE | R2 |"
    yield "|---|---|---|---|---|---|---|"
    for target in TARGETS:
        for part, of in held_out[target].items():
            yield (
                f"| {target} | {part} | {of['tau']:.3f} | {of['spearman']:.3f} "
                f"| {of['mae']:.2f} | {of['rmse']:.2f} | {of['r2']:.3f} |"
            )


def _noise_rows(noise: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "| target | resampled tau | resampled MAE | top half: resampled tau | resampled MAE "
        "| twins MAE |"
    )
    yield "|---|---|---|---|---|---|"
    for target in TARGETS:
        of = noise[target]
        resampled = [
            f"{of[part][figure]:{places}}" if part in of else "-"
            for part in ("all", "top half")
            for figure, places in (("tau", ".3f"), ("mae", ".2f"))
        ]
        yield f"| {target} | {' | '.join(resampled)} | {of['twin_mae']:.2f} |"
