"""Measures layers inside whole networks of timm, torchvision and the spaces, and judges the model of them.

    $ python -m benchmarks.fitting.layers measure OUT.jsonl fp32 CORE MINUTES     # again: it goes on; int8 likewise
    $ python -m benchmarks.fitting.layers judge BOARD OUT.jsonl ...               # held out; BOARD=- writes nothing

`judge` writes the table that comes with the package, `latency/models/layer_tables/BOARD-onnxruntime-<precision>-b1_layers.csv.gz`.
Each network is built in two sessions, with and without ONNX Runtime's profile in turns. Its time is the lowest fifth of
the thread's processor times, a layer's the mean of the shortest 60 %, the lesser of the two sessions, so that a host
that is shared can be measured. The published model beside it is a non-negative linear regression for each kind of layer (CPU-GPU
co-scheduling, eq. 6).
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import nn

from latency.models.layer_table import (
    EMBEDDED,
    ProfiledNetwork,
    held_out_us,
    layer_table,
    without_profiling,
    write_layer_table,
)
from latency.models.layers import regression_inputs
from latency.models.regression import judge
from latency.probe.agent import OnnxRuntime
from latency.probe.layer_times import layer_times
from nas.spaces.base import task_named
from nas.spaces.pretrained.timm_library import timm
from nas.spaces.registry import space_named
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_quantisation import quantised

FACTS = {
    "measured": "by python -m benchmarks.fitting.layers, inside networks of timm, torchvision and the spaces; one thread",
    "cpu": "AMD EPYC (Zen 5), virtual, shared with other work: processor time, of the quietest runs",
    "versions": {"onnxruntime": "1.32.0"},
    "date": "2026-11-23",
    "card": "held out by families and spaces: benchmarks/results/layers.md, Inside whole networks; in int8, 18 % of "
    "NAS-Bench-201's were within 10 %, and 1 of 8 of residual",
}
"""Of the tables that come with the package."""
SIDES = (96, 128, 160, 192, 224)
FIXED = ("deit", "levit", "fastvit", "efficientformer", "mobilevit", "edgenext", "alexnet")
"""Networks that take images of 224 pixels alone."""
LARGEST = 30e6  # parameters
VISION = (
    "alexnet squeezenet1_0 squeezenet1_1 shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 "
    "mobilenet_v2 mobilenet_v3_small mobilenet_v3_large resnet18 resnet50 regnet_x_400mf regnet_y_400mf "
    "efficientnet_b0 densenet121 resnext50_32x4d"
)
TIMM = (
    "mobilenetv2_035 mobilenetv2_050 mobilenetv2_100 mobilenetv2_140 mobilenetv3_small_050 mobilenetv3_small_100 "
    "mobilenetv3_large_100 tf_mobilenetv3_large_minimal_100 mobilenetv4_conv_small mobilenetv4_conv_medium "
    "mobilenetv1_100 mobilenet_edgetpu_100 efficientnet_b0 efficientnet_lite0 tf_efficientnetv2_b0 mnasnet_050 "
    "mnasnet_100 semnasnet_075 semnasnet_100 fbnetc_100 spnasnet_100 hardcorenas_a lcnet_035 lcnet_050 lcnet_100 "
    "tinynet_a tinynet_c tinynet_e ghostnet_050 ghostnet_100 rexnet_100 resnet10t resnet14t resnet18 resnet26 "
    "resnet34 resnet50 resnet26d regnetx_002 regnetx_004 regnetx_008 regnety_002 regnety_004 regnety_008 repvgg_a0 "
    "densenet121 hgnetv2_b0 dla46_c dla34 convnext_atto convnext_femto mobileone_s0 levit_128s levit_128 cspresnet50 "
    "selecsls42b res2net50_26w_4s skresnet18 seresnet50 edgenext_xx_small fastvit_t8 deit_tiny_patch16_224 mixnet_s "
    "ese_vovnet19b_dw repghostnet_050 mobilevit_xxs"
)
IN_SPACES = {"nas_bench_201": 40, "mobilenet_v3": 40, "residual": 20}


def networks() -> Iterator[tuple[str, Callable[[], nn.Module]]]:
    """Name with the side of the images, and the function that builds it."""
    library = timm()
    for source, names in (("timm", TIMM), ("torchvision", VISION)):
        for number, name in enumerate(names.split()):
            for side in {SIDES[number % 5], SIDES[(number + 2) % 5]}:
                pixels = 224 if name.startswith(FIXED) else side
                build = library.create_model if source == "timm" else _of_torchvision
                yield f"{source}/{name}/{pixels}", partial(build, name)
    for space_name, count in IN_SPACES.items():
        space = space_named(space_name)
        task = task_named(space, space.default_task)
        for row in space.canonical(space.sample(np.random.default_rng(2), count)):
            side = space.example_input(row, task, 1).shape[-1]
            yield f"{space_name}/{space.text(row)}/{side}", partial(space.network, row, task)


def _of_torchvision(name: str) -> nn.Module:
    import torchvision  # type: ignore[import-untyped] # noqa: PLC0415 - not everywhere

    return torchvision.models.get_model(name, weights=None)  # type: ignore[no-any-return]


def measure(path: Path, precision: str, core: int, minutes: float) -> None:
    """Profile networks that the file does not have yet."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    done = {(row["name"], row["precision"]) for row in _rows([path])} if path.exists() else set()
    every = sorted(dict(networks()).items())
    random.Random(4).shuffle(every)  # noqa: S311 - an order
    until_s = time.monotonic() + 60 * minutes
    for name, build in every:
        if (name, precision) in done or time.monotonic() > until_s:
            continue
        try:
            row = _profiled(name, build, precision)
        except Exception as error:  # noqa: BLE001 - a network that a library cannot build or export
            print(name, type(error).__name__, str(error)[:100], flush=True)
            continue
        with path.open("a") as file:
            file.write(
                json.dumps({"name": name, "precision": precision, "core": core, **row}) + "\n"
            )


def _profiled(name: str, build: Callable[[], nn.Module], precision: str) -> dict[str, Any]:
    side = int(name.rpartition("/")[2])
    torch.manual_seed(0)
    images, network = torch.randn(1, 3, side, side), build()
    if sum(each.numel() for each in network.parameters()) > LARGEST:
        raise ValueError("too large")
    onnx = onnx_bytes(network, [images])
    if precision == "int8":
        onnx = quantised(onnx, [images.numpy()])
    runtime, ms, layers, repeats = OnnxRuntime("CPUExecutionProvider", 1), [], [], []
    for _ in range(2):
        session, inputs = runtime._session(onnx)  # noqa: SLF001 - to be timed by the processor's clock
        taken: list[float] = []
        while len(taken) < 30 and (len(taken) < 10 or sum(taken) < 400):
            began_s = time.thread_time()
            session.run(None, inputs)
            taken.append(1e3 * (time.thread_time() - began_s))
        runs = len(taken)
        ms.append(float(np.quantile(taken[3:], 0.2)))
        del session
        layers.append(layer_times(runtime.layers(onnx, runs), onnx))
        repeats.append(sum(us for _, us in layers[-1]) / 1e3)
    us = np.min([[us for _, us in each] for each in layers], axis=0)
    words = [words for words, _ in layers[0]]
    return {
        "ms": ms,
        "sums": repeats,
        "layers": list(zip(words, us.round(2).tolist(), strict=True)),
    }


def _rows(paths: list[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def _family(name: str) -> str:
    """What is held out together: a family of a library, or a whole space."""
    source, network, *_ = name.split("/")
    return source if source in IN_SPACES else re.split(r"[\d_]", network.removeprefix("tf_"))[0]


def _corrected_error(
    expected_ms: Float64[ndarray, " n"], ms: Float64[ndarray, " n"], timed: int = 3
) -> float:
    """Median error of what is expected times the median ratio of a few timed networks; mean over draws of those."""
    errors = []
    for seed in range(60):
        order = np.random.default_rng(seed).permutation(len(ms))
        factor = np.median((ms / expected_ms)[order[:timed]])
        errors.append(np.median(np.abs(factor * expected_ms / ms - 1)[order[timed:]]))
    return float(np.mean(errors))


def main(board: str, paths: list[Path]) -> None:
    """Print held-out figures of each precision, and write the tables."""
    for precision in ("fp32", "int8"):
        rows = [row for row in _rows(paths) if row["precision"] == precision]
        if not rows:
            continue
        networks = [
            ProfiledNetwork(row["name"], min(row["ms"]), list(map(tuple, row["layers"])))
            for row in rows
        ]
        ms, names = np.array([each.ms for each in networks]), [each.name for each in networks]
        us = np.array([us for each in networks for us in without_profiling(each)])
        flops = np.array(
            [regression_inputs([word for word, _ in each.layers])[:, -1].sum() for each in networks]
        )
        print(f"{precision}, {len(rows)} networks, {len(us)} layers")
        print(f"  {'repeated':24}", judge(*np.array([row["ms"] for row in rows]).T))
        for held_out, groups in (("network", names), ("family or space", [*map(_family, names)])):
            for model, trees in (("linear", 0), ("trees", 40)):
                each_us = held_out_us(networks, groups, trees=trees)
                predicted_ms, predicted_us = (
                    np.array([each.sum() for each in each_us]) / 1e3,
                    np.concatenate(each_us),
                )
                print(
                    f"  {held_out}, {model:8}",
                    judge(predicted_ms, ms),
                    "| layers",
                    judge(predicted_us, us),
                )
                inside = np.abs(predicted_us / us - 1) <= 0.1
                print(
                    f"    layers within 10 %: {np.average(inside, weights=us):.1%} of the time, "
                    f"{inside[us > 20].mean():.1%} of those above 20 us"
                )
            for source in ("timm", "torchvision", *IN_SPACES):
                of = np.array([name.startswith(f"{source}/") for name in names])
                if of.sum() > 3:
                    corrected = [
                        _corrected_error(prior[of], ms[of]) for prior in (predicted_ms, flops)
                    ]
                    print(
                        f"    {source:14} {of.sum():4}",
                        judge(predicted_ms[of], ms[of]),
                        "| after three timings the median error is {:.1%}, by multiply-accumulates {:.1%}".format(
                            *corrected
                        ),
                    )
        if board != "-":
            families = [*map(_family, names)]
            table = layer_table(f"{board}/onnxruntime/{precision}/b1", networks, families)
            write_layer_table(
                EMBEDDED / f"{board}-onnxruntime-{precision}-b1_layers.csv.gz", table, FACTS
            )


if __name__ == "__main__":
    command, first, *others = sys.argv[1:]
    if command == "measure":
        measure(Path(first), others[0], int(others[1]), float(others[2]))
    else:
        main(first, [*map(Path, others)])
