"""Claim: a table of layers predicts parts of a network, of `space=elastic`, before any of them is timed.

    $ python -m benchmarks.fitting.elastic_layers measure OUT.jsonl CORE MINUTES [K/N]   # again: it goes on
    $ python -m benchmarks.fitting.elastic_layers judge DEVICE OUT.jsonl[.gz] ...

ResNet-56 at 32 pixels, MobileNetV2 and MobileNetV4 small at 96, random weights. Of each 80 random parts are timed
in two sessions of ONNX Runtime on one core, by the thread's processor time; a time is the lesser of the lowest fifths.
`judge` holds out 20 of those whose two sessions agree within 5 %, 60 times at random, and gives the others to the
search's own regression on costs: some as timed, 30 by their layers. It prints the median error and the share within 10 %.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from torch import nn

from benchmarks.fitting.layers import read_rows, timed
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.models.layer_table import open_layer_table
from latency.models.regression import fit
from nas.fit.ranking.candidates import (
    BY_LAYERS,
    CORRECTING_WEIGHT,
    log_features,
)
from nas.fit.starts.elastic.space import ElasticSpace
from nas.fit.starts.pretrained.libraries import timm
from nas.spaces.residual import residual

PARTS, HELD_OUT, SPLITS = 80, 20, 60
TIMED = (0, 1, 3, 5, 10, 20, 40)
FEWEST_BY_COSTS = 3
MOST_UNEQUAL = 0.05


def networks() -> Mapping[str, tuple[Callable[[], nn.Module], int]]:
    """How each network is built, and the side of its images, pixels."""
    task = Task("images", 10, 32, 3, epochs=1)
    mobile = {
        name: partial(timm().create_model, name)
        for name in ("mobilenetv2_100", "mobilenetv4_conv_small")
    }
    return {
        "resnet56": (
            partial(residual, task, stride=1, kernel=3, width=16, growth=2.0, blocks=27),
            32,
        ),
        **{name: (partial(build, num_classes=10), 96) for name, build in mobile.items()},
    }


def space_of(name: str) -> ElasticSpace:
    """The parts of a network."""
    build, side = networks()[name]
    torch.manual_seed(0)
    return ElasticSpace(build(), side)


def measure(path: Path, core: int, minutes: float, part: tuple[int, int] = (1, 1)) -> None:
    """Time parts that the file does not have yet, the networks in turns."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    done = {(row["network"], row["part"]) for row in read_rows([path])} if path.exists() else set()
    spaces = {name: space_of(name) for name in networks()}
    drawn = {name: space.sample(np.random.default_rng(1), PARTS) for name, space in spaces.items()}
    until_s = time.monotonic() + 60 * minutes
    for number in range(part[0] - 1, PARTS, part[1]):
        for name, space in spaces.items():
            text = space.text(drawn[name][number])
            if (name, text) in done or time.monotonic() > until_s:
                continue
            row = {"network": name, "part": text, **_timed(space, drawn[name][number])}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def _timed(space: ElasticSpace, row: Int64[ndarray, "D"]) -> dict[str, Any]:
    task, began_s = space.tasks["images"], time.thread_time()
    onnx = onnx_bytes(space.network(row, task).eval(), [space.example_input(row, task, 1)])
    return {"export_s": round(time.thread_time() - began_s, 3), **timed(onnx)}


def judge(device: str, paths: list[Path]) -> None:
    """Print errors on held-out parts after some timings, with and without the prior by layers."""
    table, rows = open_layer_table(device), read_rows(paths)
    for name in networks():
        every = [row for row in rows if row["network"] == name]
        quiet = [row for row in every if abs(np.log(np.divide(*row["ms"]))) < MOST_UNEQUAL]
        space, ms = space_of(name), np.array([min(row["ms"]) for row in quiet])
        try:
            architectures = np.array([space.parse(row["part"]) for row in quiet])
        except UserError as error:
            print(f"{name}: skipped, as its rows are of another space: {error}")
            continue
        by_layers_ms = np.array(
            [table.predict_ms([layer for layer, _ in row["layers"]]) for row in quiet]
        )
        features = log_features(space, space.tasks["images"], architectures)
        ratio = np.log(ms / by_layers_ms)
        print(
            f"{name}: {len(quiet)} of {len(every)} parts, {ms.min():.2f} to {ms.max():.2f} ms; an export takes "
            f"{np.median([row['export_s'] for row in quiet]):.1f} s; by layers x {np.exp(np.median(ratio)):.2f}, "
            f"then a spread of {ratio.std():.1%}"
        )
        for count in TIMED:
            errors = [
                _errors(features, ms, by_layers_ms, count, np.random.default_rng(seed))
                for seed in range(SPLITS)
            ]
            print(f"  {count:2} timed:", *map(_in_words, zip(*errors, strict=True)), sep="  ")


def _errors(
    features: Float64[ndarray, "n F"],
    ms: Float64[ndarray, "n"],
    by_layers_ms: Float64[ndarray, "n"],
    timed: int,
    generator: np.random.Generator,
) -> list[Float64[ndarray, "held_out"]]:
    """Errors of held-out parts by costs alone, by costs with the prior, and by an export and its layers each."""
    order = generator.permutation(len(ms))
    held_out, pool = order[:HELD_OUT], order[HELD_OUT:]
    seen, logs, expected = pool[:timed], np.log(ms), np.log(by_layers_ms)
    costs = np.full(HELD_OUT, np.nan)
    if timed >= FEWEST_BY_COSTS:  # a search takes twice as many
        costs = fit(features[seen], logs[seen]).predict_ms(features[held_out])
    prior = fit(features[pool[-BY_LAYERS:]], expected[pool[-BY_LAYERS:]]).predict_ms(features)
    corrected, each = prior[held_out], expected[held_out]
    if timed:
        weighed, beyond = CORRECTING_WEIGHT * features, logs - prior
        corrected = corrected + fit(weighed[seen], beyond[seen]).predict_ms(weighed[held_out])
        each = each + np.median((logs - expected)[seen])
    return [np.abs(np.expm1(log_ms - logs[held_out])) for log_ms in (costs, corrected, each)]


def _in_words(errors: Sequence[Float64[ndarray, "held_out"]]) -> str:
    every = np.array(errors)
    return f"{np.median(every, -1).mean():5.1%} {(every <= 0.1).mean():4.0%}"


if __name__ == "__main__":
    command, first, *others = sys.argv[1:]
    if command == "measure":
        number, _, parts = others[2].partition("/") if others[2:] else ("1", "/", "1")
        measure(Path(first), int(others[0]), float(others[1]), (int(number), int(parts)))
    else:
        judge(first, [*map(Path, others)])
