"""Fit the embedded accuracy surrogate, cross-validate it, and write its weights and card.

    $ NAS_DATA=<folder of nb201_accuracy.csv> python -m benchmarks.fitting.nas_bench_201.accuracy

All seeds are fixed and everything runs on one thread, so the same table gives the same files. No row
of the table is stored, only weights and summary figures.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64
from numpy import ndarray
from safetensors.torch import save
from scipy import stats
from torch import Generator, Tensor, nn
from torch.nn.functional import huber_loss, silu

from benchmarks.fitting.nas_bench_201.accuracy_card import render
from edgenas_core.command.exit_status import one_line_errors
from edgenas_core.files.keyed_table import CsvTable, data_folder, read_csv_table
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE, NAS_BENCH_201
from nas.spaces.nas_bench_201.surrogate import (
    METADATA_KEY,
    TARGETS,
    WEIGHTS,
    chance,
    functions,
    output,
    predict,
    shapes,
)

log = logging.getLogger(__name__)

CARD = WEIGHTS.with_suffix(".md")

_FOLD_SEED, _WEIGHT_SEED = 20260, 1


@final
@dataclass(frozen=True)
class Budget:
    """Size and length of the fit; the bundled model was fitted with the defaults."""

    members: int = 6
    folds: int = 5
    epochs: int = 300
    batch_size: int = 512
    learning_rate: float = 0.01
    weight_decay: float = 1e-4
    huber_delta: float = 0.1  # standard deviations


@final
class CellEnsemble(nn.Module):
    """Members with weights of their own, stacked along the leading axis of every parameter."""

    def __init__(self, members: int, targets: int) -> None:
        super().__init__()
        for name, shape in shapes(targets).items():
            self.register_parameter(name, nn.Parameter(torch.zeros(members, *shape)))
        self.centre: Tensor
        self.scale: Tensor
        self.register_buffer("centre", torch.zeros(members, 1, targets))
        self.register_buffer("scale", torch.ones(members, 1, targets))

    def initialise(self, generator: Generator) -> None:
        """Draw the weights: variance 1 / fan-in, biases zero."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if not name.endswith("bias"):
                    parameter.normal_(0, 1 / math.sqrt(parameter.shape[-2]), generator=generator)

    def forward(
        self,
        architectures: Int64[Tensor, "functions 6"],
        paths: Float[Tensor, "functions 80"],
    ) -> Float[Tensor, "members functions targets"]:
        """Accuracy in standard units: subtract `centre`, divide by `scale`."""
        predicted: Tensor = output(dict(self.named_parameters()), architectures, paths, torch, silu)
        return predicted

    def arrays(self) -> dict[str, Float32[ndarray, "..."]]:
        """Weights, centre and scale, as `predict` takes them."""
        return {name: tensor.numpy() for name, tensor in self.state_dict().items()}


def main() -> None:
    """Read `NAS_DATA`, fit, and overwrite the embedded model and its card.

    Raises:
      UserError: if the folder has no whole accuracy table.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    fit_and_write(
        read_csv_table(data_folder() / ACCURACY_TABLE.file, SPACE), Budget(), WEIGHTS, CARD
    )


def fit_and_write(table: CsvTable, budget: Budget, weights: Path, card: Path) -> None:
    """Cross-validate, fit on everything, and write both files."""
    measured = np.stack([table.column(target) for target in TARGETS], axis=-1) / 100
    held_out = {}
    for name, classes in (
        ("function_class", NAS_BENCH_201.function_class),
        ("network_class", NAS_BENCH_201.network_class),
    ):
        predicted = cross_validate(measured, classes, budget)
        held_out[name] = {
            target: agreement_by_part(100 * predicted[:, t], 100 * measured[:, t])
            for t, target in enumerate(TARGETS)
        }
        log.info("%s folds, CIFAR-100: %s", name, held_out[name]["cifar100_valid"]["all"])

    nothing_held_out = np.zeros((1, NAS_BENCH_201.size), bool)
    ensemble = fit(measured, nothing_held_out, budget)
    metadata = {
        "budget": asdict(budget),
        "held_out": held_out,
        "parameters": sum(parameter.numel() for parameter in ensemble.parameters()),
    }
    tensors = {name: parameter.half() for name, parameter in ensemble.named_parameters()}
    tensors |= dict(ensemble.named_buffers())
    # One key: several would be written in random order.
    weights.write_bytes(save(tensors, {METADATA_KEY: json.dumps(metadata)}))
    card.write_text(render(metadata), encoding="utf-8")


def agreement(
    predicted: Float64[ndarray, "n"], measured: Float64[ndarray, "n"]
) -> dict[str, float]:
    """Kendall's tau-b, Spearman's rho, and MAE, RMSE (in the unit given) and R2."""
    error = predicted - measured
    return {
        "tau": float(stats.kendalltau(predicted, measured).statistic),
        "spearman": float(stats.spearmanr(predicted, measured).statistic),
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "r2": float(1 - (error**2).mean() / measured.var()),
    }


def agreement_by_part(
    predicted: Float64[ndarray, "15625"], measured: Float64[ndarray, "15625"]
) -> dict[str, dict[str, float]]:
    """`agreement` on all cells, on those with a path from input to output, and on the better half.

    Cells without a path are at chance and easy to predict, so they raise R2 and tau.
    """
    distinct = functions()
    parts = {
        "all": np.ones(len(measured), bool),
        "connected": distinct.connected[distinct.of_cell],
        "top half": measured >= np.median(measured),
    }
    return {name: agreement(predicted[part], measured[part]) for name, part in parts.items()}


def cross_validate(
    measured: Float64[ndarray, "15625 targets"],
    classes: Int64[ndarray, "15625"],
    budget: Budget,
) -> Float64[ndarray, "15625 targets"]:
    """Predict each cell by members that were not fitted on any cell of its class."""
    _, class_of_cell = np.unique(classes, return_inverse=True)
    generator = np.random.default_rng(_FOLD_SEED)
    fold_of_class = generator.permutation(class_of_cell.max() + 1) % budget.folds
    fold_of_cell = fold_of_class[class_of_cell]
    held_out = fold_of_cell == np.arange(budget.folds)[:, None]

    ensemble = fit(measured, held_out, budget)

    of_member = predict(ensemble.arrays(), chance(TARGETS))
    of_fold = of_member.reshape(budget.folds, budget.members, *measured.shape).mean(axis=1)
    predicted: Float64[ndarray, "15625 targets"] = of_fold[
        fold_of_cell, np.arange(len(fold_of_cell))
    ]
    return predicted.clip(0, 1)


def fit(
    measured: Float64[ndarray, "15625 targets"],
    held_out: Bool[ndarray, "folds 15625"],
    budget: Budget,
) -> CellEnsemble:
    """Train `budget.members` members for each fold, all of them at once.

    The loss is Huber's, on the mean accuracy of a function's cells in standard units. A mean of n
    cells has the variance noise / n in addition to the model's own, so its weight is n / (n + 1).
    The trained weights are rounded to the 16 bits that the file stores.
    """
    distinct = functions()
    target, weight = _targets_of_functions(measured, held_out)
    centre, scale = _centre_and_scale(target, weight)
    standard = torch.from_numpy(np.repeat((target - centre) / scale, budget.members, axis=0))
    weights = torch.from_numpy(np.repeat(weight, budget.members, axis=0))
    architectures, paths = (
        torch.from_numpy(distinct.architectures),
        torch.from_numpy(distinct.paths),
    )

    generator = torch.Generator().manual_seed(_WEIGHT_SEED)
    ensemble = CellEnsemble(len(standard), measured.shape[-1])
    ensemble.initialise(generator)
    ensemble.centre.copy_(torch.from_numpy(np.repeat(centre, budget.members, axis=0)))
    ensemble.scale.copy_(torch.from_numpy(np.repeat(scale, budget.members, axis=0)))
    optimizer, schedule = _optimizer(ensemble, budget)
    for _ in range(budget.epochs):
        order = torch.randperm(len(architectures), generator=generator)
        for batch in torch.split(order, budget.batch_size):
            predicted = ensemble(architectures[batch], paths[batch])
            loss = huber_loss(
                predicted, standard[:, batch], reduction="none", delta=budget.huber_delta
            )
            share = weights[:, batch] / weights[:, batch].sum(dim=-1, keepdim=True)
            optimizer.zero_grad()
            torch.autograd.backward((loss.mean(dim=-1) * share).sum())
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        for parameter in ensemble.parameters():
            parameter.copy_(parameter.half())
    return ensemble


def _targets_of_functions(
    measured: Float64[ndarray, "15625 targets"], held_out: Bool[ndarray, "folds 15625"]
) -> tuple[Float32[ndarray, "folds functions targets"], Float32[ndarray, "folds functions"]]:
    """Mean accuracy of each function's cells, and its weight; 0 where it is held out."""
    distinct = functions()
    mean = np.zeros((len(held_out), len(distinct.architectures), measured.shape[-1]), np.float32)
    weight = np.zeros(mean.shape[:2], np.float32)
    for fold, hidden in enumerate(held_out):
        rows = distinct.of_cell[~hidden]
        count = np.bincount(rows, minlength=mean.shape[1])
        for t, column in enumerate(measured[~hidden].T):
            mean[fold, :, t] = np.bincount(rows, column, mean.shape[1]) / np.maximum(count, 1)
        weight[fold] = distinct.connected * count / (count + 1)
    return mean, weight


def _centre_and_scale(
    target: Float32[ndarray, "folds functions targets"],
    weight: Float32[ndarray, "folds functions"],
) -> tuple[Float32[ndarray, "folds 1 targets"], Float32[ndarray, "folds 1 targets"]]:
    """Median and robust standard deviation of the targets of each fold that are not held out.

    The 10th and the 90th percentile of a Gaussian are 2.56 standard deviations apart; cells near
    chance would bias the usual estimate.
    """
    low, centre, high = np.stack(
        [
            np.percentile(seen[visible > 0], [10, 50, 90], axis=0)
            for seen, visible in zip(target, weight, strict=True)
        ],
        axis=1,
    ).astype(np.float32)[:, :, None]
    return centre, (high - low) / np.float32(2.56)


def _optimizer(
    ensemble: CellEnsemble, budget: Budget
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """AdamW with a one-cycle schedule; no weight decay of biases."""
    named = dict(ensemble.named_parameters())
    biases = [name for name in named if name.endswith("bias")]
    groups: list[dict[str, Any]] = [
        {"params": [named[name] for name in named if name not in biases]},
        {"params": [named[name] for name in biases], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=budget.learning_rate, weight_decay=budget.weight_decay)
    batches = -(-len(functions().architectures) // budget.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        budget.learning_rate,
        total_steps=budget.epochs * batches,
        pct_start=0.1,
        cycle_momentum=False,
    )
    return optimizer, schedule


if __name__ == "__main__":
    with one_line_errors():
        main()
