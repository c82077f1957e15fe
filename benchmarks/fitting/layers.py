"""Measures layers inside whole networks of timm, torchvision and the spaces, and judges the model of them.

    $ python -m benchmarks.fitting.layers measure OUT.jsonl fp32,int8 CORE MINUTES [K/N]   # again: it goes on
    $ python -m benchmarks.fitting.layers measure OUT.jsonl graph CORE MINUTES [K/N]   # operations of torch on a GPU
    $ python -m benchmarks.fitting.layers judge BOARD OUT.jsonl[.gz] ...     # held out; BOARD=- writes nothing
    $ python -m benchmarks.fitting.layers choice fp32 SPLITS OUT.jsonl[.gz] ...     # adaptive against random

K/N measures every N-th network from the K-th on, for several cores at once; each a file of its own. On a GPU
they build networks at once and time them in turns.

`judge` writes the tables that come with the package, `latency/models/layer_tables/BOARD-<runtime>-<precision>-b1_layers.csv.gz`.
Each network is built in two sessions, with and without ONNX Runtime's profile in turns. Its time is the lowest fifth of
the thread's processor times, a layer's the mean of the shortest 60 %, the lesser of the two sessions, so that a host
that is shared can be measured. Random networks fill in shapes between those of the libraries. 40 networks, FINAL, are
in no fit, at no side: the table that comes with the package is judged on them. The published model beside it is a non-negative linear regression for each kind of layer (CPU-GPU
co-scheduling, eq. 6).
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import nn

from edgenas_core.inference.backend import Backend, Device
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from edgenas_core.inference.inference import prepare
from edgenas_core.inference.operations import operation_times
from edgenas_core.machine.timing import Stopwatch
from latency.devices.registry import slug_of
from latency.models.layer_table import (
    EMBEDDED,
    ProfiledNetwork,
    held_out_us,
    layer_table,
    without_profiling,
    write_layer_table,
)
from latency.models.layers import TREES, choose_doubtful, fit_layers, regression_inputs
from latency.models.regression import judge
from latency.probe.agent import OnnxRuntime
from latency.probe.layer_times import layer_times
from nas.fit.starts.pretrained.libraries import timm
from nas.spaces.base import task_named
from nas.spaces.registry import space_named

DEVICES = {
    "fp32": "onnxruntime/fp32/b1",
    "int8": "onnxruntime/int8/b1",
    "graph": "torch-graph/fp32/b1",
}
BOARDS = {
    "epyc-vm": {
        "cpu": "AMD EPYC (Zen 5), virtual, shared with other work: processor time, of the quietest runs",
        "versions": {"onnxruntime": "1.32.0"},
        "date": "2026-11-23",
    },
    "xeon-vm": {
        "cpu": "Intel Xeon, virtual, model not told: eight pinned cores at once, beside other work",
        "versions": {"onnxruntime": "1.30.0"},
        "date": "2026-11-25",
    },
    "h200": {
        "gpu": "NVIDIA H200, graphs of one inference; beside another H200's work",
        "versions": {"torch": "2.11.0"},
        "caches": "as warm as the inference before has left them",
        "date": "2026-11-26",
        "missed": "missed: layers held out by network have R2 .86 (.9 asked; in the 40 networks .96); wide 5x5 and 7x7 convolutions err most",
    },
}
"""Facts of the tables that come with the package."""
FACTS = {
    "measured": "by python -m benchmarks.fitting.layers, inside networks of timm, torchvision and the spaces; one thread",
}
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
FURTHER = (
    "mobilenetv1_125 mobilenetv2_110d mobilenetv2_120d mobilenetv3_small_075 mobilenetv3_rw mobilenetv3_large_075 "
    "efficientnet_b1 efficientnet_es efficientnet_lite1 efficientnet_lite2 tf_efficientnetv2_b1 mnasnet_075 mnasnet_140 "
    "mnasnet_small semnasnet_050 semnasnet_140 hardcorenas_c hardcorenas_f lcnet_075 lcnet_150 tinynet_b tinynet_d "
    "ghostnet_130 rexnet_130 resnet18d resnet34d resnetblur18 regnetx_006 regnetx_016 regnety_006 regnety_016 "
    "regnetz_005 hgnetv2_b1 hgnetv2_b2 dla60x_c dla46x_c convnextv2_atto convnext_pico mobileone_s1 levit_192 "
    "selecsls60 seresnet18 seresnet34 seresnext26d_32x4d edgenext_x_small mixnet_m repghostnet_080 mobilevit_xs "
    "mobilevitv2_050 efficientvit_b0 repvit_m0_9 ghostnetv2_100 starnet_s1 starnet_s2 vovnet39a ese_vovnet39b gernet_s "
    "skresnet34 resnext26ts resnet33ts cs3darknet_focus_s cs3darknet_m legacy_seresnet18 repvgg_a1 poolformer_s12"
)
"""Of timm, in fits alone."""
IN_SPACES = {"nas_bench_201": 60, "mobilenet_v3": 60, "residual": 40}
RANDOM = "random"
RANDOM_NETWORKS = 80
FINAL = {"timm": 20, "torchvision": 8, "nas_bench_201": 6, "mobilenet_v3": 6}
"""How many networks of each source no fit sees."""
TWINS = {
    "timm/efficientnet_b0",
    "timm/regnety_004",
    "timm/mobilenetv3_small_100",
    "timm/mnasnet_050",
}
"""The same as torchvision's of these, which no fit sees either."""


def networks() -> Iterator[tuple[str, Callable[[], nn.Module]]]:
    """Name with the side of the images, and the function that builds it."""
    library = timm()
    for source, names in (("timm", TIMM), ("torchvision", VISION), ("timm", FURTHER)):
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
    for seed in range(RANDOM_NETWORKS):
        yield f"{RANDOM}/{seed}/{SIDES[seed % 5]}", partial(random_network, seed)


def _of_torchvision(name: str) -> nn.Module:
    import torchvision  # type: ignore[import-untyped] # noqa: PLC0415 - not everywhere

    return torchvision.models.get_model(name, weights=None)  # type: ignore[no-any-return]


def random_network(seed: int) -> nn.Module:
    """A chain of blocks of random kernels, widths, groups and activations, some of them residual."""
    generator = np.random.default_rng([32, seed])
    layers: list[nn.Module] = []
    width = 3
    for depth in range(int(generator.integers(5, 12))):
        out = 8 * round(2 ** generator.uniform(0, 6))
        stride = int(generator.choice([1, 2], p=[0.6, 0.4])) if depth else 2
        if generator.random() < 0.5 and width > 3:  # an inverted residual block
            inner = int(width * generator.choice([1, 2, 3, 4, 6]))
            kernel = int(generator.choice([3, 5, 7]))
            layers += [
                *_convolution(generator, width, inner, 1),
                *_convolution(generator, inner, inner, kernel, stride, groups=inner),
                *_convolution(generator, inner, out, 1),
            ]
        else:
            kernel = int(generator.choice([1, 3, 5, 7], p=[0.3, 0.5, 0.12, 0.08]))
            layers += _convolution(generator, width, out, kernel, stride)
        if generator.random() < 0.3:
            layers.append(_Residual(nn.Sequential(*_convolution(generator, out, out, 3))))
        width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))


def _convolution(  # noqa: PLR0917 - as nn.Conv2d
    generator: np.random.Generator,
    channels: int,
    out: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
) -> list[nn.Module]:
    activations = (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU, nn.Identity)
    activation = activations[generator.choice(5, p=[0.4, 0.2, 0.15, 0.1, 0.15])]
    convolution = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(out), activation()]


class _Residual(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)  # type: ignore[no-any-return]


def final_networks() -> set[str]:
    """Sources and networks that no fit sees, without their sides; the same in every call."""
    chosen: set[str] = set()
    for source, count in FINAL.items():
        names = sorted({_network(name) for name in _names() if name.startswith(f"{source}/")})
        chosen |= {*random.Random(11).sample(names, count)}  # noqa: S311 - a choice
    return chosen


def _names() -> list[str]:
    further = {f"timm/{name}" for name in FURTHER.split()}
    return [name for name, _ in networks() if _network(name) not in further]


def _network(name: str) -> str:
    return name.rpartition("/")[0]


def measure(
    path: Path, precisions: str, core: int, minutes: float, part: tuple[int, int] = (1, 1)
) -> None:
    """Profile networks that the file does not have yet, those that no fit sees first."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    done = {row["name"] for row in read_rows([path])} if path.exists() else set()
    every = sorted(dict(networks()).items())
    random.Random(4).shuffle(every)  # noqa: S311 - an order
    final = final_networks()
    every.sort(key=lambda pair: _network(pair[0]) not in final)
    until_s = time.monotonic() + 60 * minutes
    for name, build in every[part[0] - 1 :: part[1]]:
        if name in done or time.monotonic() > until_s:
            continue
        try:
            rows = [*_profiled(name, build, precisions.split(","))]
        except Exception as error:  # noqa: BLE001 - a network that a library cannot build or export
            print(name, type(error).__name__, str(error)[:100], flush=True)
            continue
        with path.open("a") as file:
            for row in rows:
                file.write(json.dumps({"name": name, "core": core, **row}) + "\n")


def _profiled(
    name: str, build: Callable[[], nn.Module], precisions: list[str]
) -> Iterator[dict[str, Any]]:
    side = int(name.rpartition("/")[2])
    torch.manual_seed(0)
    images, network = torch.randn(1, 3, side, side), build().eval()
    if sum(each.numel() for each in network.parameters()) > LARGEST:
        raise ValueError("too large")
    if precisions == ["graph"]:
        with Path("/tmp/edgenas-gpu.lock").open("w") as lock:  # noqa: S108 - of this benchmark's processes
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield {"precision": "graph", **_timed_in_graph(network.cuda(), images.cuda())}
        return
    onnx = onnx_bytes(network, [images])
    for precision in precisions:
        content = quantised(onnx, [images.numpy()]) if precision == "int8" else onnx
        yield {"precision": precision, **timed(content)}


def _timed_in_graph(network: nn.Module, images: torch.Tensor, runs: int = 20) -> dict[str, Any]:
    torch.cuda.set_sync_debug_mode(
        "error"
    )  # what waits cannot be captured, and breaks later captures
    try:
        with torch.inference_mode():
            network(images)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    inference = prepare(network, images, Device.cuda, Backend.graph)
    stopwatch, ms, layers = Stopwatch(torch.cuda.synchronize), [], []
    for _ in range(2):
        taken = [stopwatch.ms(inference) for _ in range(3 + runs)]
        ms.append(float(np.quantile(taken[3:], 0.2)))
        layers.append(operation_times(network, images, runs))
    return _row(ms, layers)


def _row(ms: list[float], layers: Sequence[Sequence[tuple[str, float]]]) -> dict[str, Any]:
    us = np.min([[us for _, us in each] for each in layers], axis=0)
    words = [words for words, _ in layers[0]]
    sums = [sum(us for _, us in each) / 1e3 for each in layers]
    return {"ms": ms, "sums": sums, "layers": list(zip(words, us.round(2).tolist(), strict=True))}


def timed(onnx: bytes) -> dict[str, Any]:
    """Milliseconds in two sessions, the sums of their layers, and each layer with its microseconds."""
    runtime, ms, layers = OnnxRuntime("CPUExecutionProvider", 1), [], []
    for _ in range(2):
        session, inputs = runtime._session(onnx)  # noqa: SLF001 - to be timed by the processor's clock
        taken: list[float] = []
        while len(taken) < 60 and (len(taken) < 10 or sum(taken) < 250):
            began_s = time.thread_time()
            session.run(None, inputs)
            taken.append(1e3 * (time.thread_time() - began_s))
        ms.append(float(np.quantile(taken[3:], 0.2)))
        del session
        layers.append(layer_times(runtime.layers(onnx, len(taken)), onnx))
    return _row(ms, layers)


def read_rows(paths: list[Path]) -> list[dict[str, Any]]:
    """Rows of files of JSON lines, some of them packed."""
    texts = [
        (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        for path in paths
    ]
    return [json.loads(line) for text in texts for line in text.decode().splitlines()]


def _family(name: str) -> str:
    """What is held out together: a family of a library, or a whole space."""
    source, network, *_ = name.split("/")
    if source in {*IN_SPACES, RANDOM}:
        return source
    return re.split(r"[\d_]", network.removeprefix("tf_"))[0]


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


def _predicted_us(
    seen: list[ProfiledNetwork], unseen: list[ProfiledNetwork], *, trees: int
) -> list[Float64[ndarray, "_"]]:
    """Microseconds of the layers of each unseen network."""
    times: dict[str, list[float]] = {}
    for network in seen:
        for (layer, _), us in zip(network.layers, without_profiling(network), strict=True):
            times.setdefault(layer, []).append(us)
    model = fit_layers([*times], np.array([np.median(us) for us in times.values()]), trees=trees)
    predicted = model.predict_us([layer for each in unseen for layer, _ in each.layers])
    return np.split(predicted, np.cumsum([len(each.layers) for each in unseen])[:-1])


def _print(
    of: str,
    networks: list[ProfiledNetwork],
    us: list[Float64[ndarray, "_"]],
) -> None:
    """Print how well networks and layers are predicted."""
    predicted_us = np.concatenate(us)
    taken_us = np.concatenate([without_profiling(each) for each in networks])
    ms = np.array([each.sum() for each in us]) / 1e3
    inside = np.abs(predicted_us / taken_us - 1) <= 0.1
    print(
        f"  {of:34} {len(networks):3}",
        judge(ms, np.array([each.ms for each in networks])),
        f"| layers R2 {judge(predicted_us, taken_us).r2:.3f}, within 10 %: "
        f"{np.average(inside, weights=taken_us):.1%} of the time, {inside[taken_us > 20].mean():.1%} above 20 us",
        flush=True,
    )


def main(board: str, paths: list[Path]) -> None:
    """Print held-out figures of each precision, and write the tables."""
    final = final_networks()
    for precision, device in DEVICES.items():
        rows = [row for row in read_rows(paths) if row["precision"] == precision]
        if not rows:
            continue
        every = [
            ProfiledNetwork(row["name"], min(row["ms"]), list(map(tuple, row["layers"])))
            for row in rows
        ]
        unseen = [
            *{_network(each.name): each for each in every if _network(each.name) in final}.values()
        ]
        seen = [each for each in every if _network(each.name) not in final | TWINS]
        print(f"{precision}, {len(every)} networks, {len(unseen)} of them in no fit")
        print("  repeated", judge(*np.array([row["ms"] for row in rows]).T))
        for groups, by in (
            ([_network(each.name) for each in seen], "networks"),
            ([_family(each.name) for each in seen], "families and spaces"),
        ):
            us = held_out_us(seen, groups)
            _print(f"by {by}", seen, us)
        _print_by_source(seen, us)
        card = "held out by families and spaces"
        if unseen:
            plain = [each for each in seen if not each.name.startswith(RANDOM)]
            for of, fit, trees in (
                ("published, linear", seen, 0),
                ("trees, no random networks", plain, TREES),
                ("trees, as the table", seen, TREES),
            ):
                unseen_us = _predicted_us(fit, unseen, trees=trees)
                _print(f"in no fit: {of}", unseen, unseen_us)
            _print_by_source(unseen, unseen_us)
            ms = np.array([each.sum() for each in unseen_us]) / 1e3
            for each, predicted_ms in zip(unseen, ms.tolist(), strict=True):
                print(f"      {each.ms:9.3f} ms {predicted_ms / each.ms - 1:+7.1%} {each.name}")
            quality = judge(ms, np.array([each.ms for each in unseen]))
            card += f"; of {len(unseen)} networks in no fit: {quality}"
        if board != "-":
            table = layer_table(f"{board}/{device}", seen, us)
            path = EMBEDDED / f"{slug_of(table.device)}_layers.csv.gz"
            missed = BOARDS[board].get("missed")
            card += f"{f'; {missed}' if missed else ''}; by source: benchmarks/results/layers.md"
            write_layer_table(path, table, {**FACTS, **BOARDS[board], "card": card})


def choice(
    precision: str, splits: int, paths: list[Path], first: int = 1000, timings: int = 3500
) -> None:
    """Print what networks chosen by `choose_doubtful` gain over random ones at as many timed layers.

    A quarter of the networks is held out; both begin with the same random ones, and choose again when these have doubled.
    """
    every = [
        ProfiledNetwork(row["name"], min(row["ms"]), list(map(tuple, row["layers"])))
        for row in read_rows(paths)
        if row["precision"] == precision
    ]
    names = sorted({_network(each.name) for each in every})
    gains: list[Float64[ndarray, "_"]] = []
    for split in range(splits):
        generator = random.Random(split)  # noqa: S311 - an order
        held_out = {*generator.sample(names, len(names) // 4)}
        unseen = [each for each in every if _network(each.name) in held_out]
        pool = [each for each in every if _network(each.name) not in held_out]
        generator.shuffle(pool)
        figures = [
            _figures(_selected(pool, first, timings, is_adaptive=is_adaptive), unseen)
            for is_adaptive in (False, True)
        ]
        gains.append(np.array(figures[1]) - np.array(figures[0]))
        print(split, *np.round(figures, 3).tolist(), flush=True)
    mean, error = np.mean(gains, axis=0), np.std(gains, axis=0, ddof=1) / len(gains) ** 0.5
    for of, gain, half in zip(
        ("networks within 10 %", "time of layers within 10 %", "mean error"),
        mean,
        1.96 * error,
        strict=True,
    ):
        print(f"adaptive less random, {of}: {gain:+.1%} +- {half:.1%}, {splits} splits")


def _selected(
    pool: list[ProfiledNetwork], first: int, timings: int, *, is_adaptive: bool
) -> list[ProfiledNetwork]:
    left, timed = [*pool], 0
    chosen: list[ProfiledNetwork] = []
    while timed < timings and left:
        numbers = [0]
        if is_adaptive and timed >= first:
            candidates = left[: 3 * len(chosen)]
            words = [[layer for layer, _ in each.layers] for each in candidates]
            profiled = [each.layers for each in chosen]
            numbers = choose_doubtful(profiled, words, min(timed, timings - timed))
        chosen += [left[number] for number in numbers]
        left = [each for number, each in enumerate(left) if number not in numbers]
        timed = sum(len(each.layers) for each in chosen)
    return chosen


def _figures(seen: list[ProfiledNetwork], unseen: list[ProfiledNetwork]) -> list[float]:
    """Networks within 10 %, share of the time in layers within 10 %, mean error of the networks."""
    us = _predicted_us(seen, unseen, trees=TREES // 2)
    taken_us = np.concatenate([without_profiling(each) for each in unseen])
    ms = np.array([each.sum() for each in us]) / 1e3
    errors = np.abs(ms / [each.ms for each in unseen] - 1)
    inside = np.abs(np.concatenate(us) / taken_us - 1) <= 0.1
    return [(errors <= 0.1).mean(), np.average(inside, weights=taken_us), errors.mean()]


def _print_by_source(networks: list[ProfiledNetwork], us: list[Float64[ndarray, "_"]]) -> None:
    ms = np.array([each.sum() for each in us]) / 1e3
    taken_ms = np.array([each.ms for each in networks])
    flops = np.array(
        [regression_inputs([word for word, _ in each.layers])[:, -1].sum() for each in networks]
    )
    for source in ("timm", "torchvision", *IN_SPACES, RANDOM):
        of = np.array([each.name.startswith(f"{source}/") for each in networks])
        if of.sum() > 3:
            errors = [_corrected_error(prior[of], taken_ms[of]) for prior in (ms, flops)]
            print(
                f"    {source:14} {of.sum():4}",
                judge(ms[of], taken_ms[of]),
                "| after three timings the median error is {:.1%}, by multiply-accumulates {:.1%}".format(
                    *errors
                ),
            )


if __name__ == "__main__":
    command, first, *others = sys.argv[1:]
    if command == "measure":
        number, _, parts = others[3].partition("/") if others[3:] else ("1", "/", "1")
        measure(Path(first), others[0], int(others[1]), float(others[2]), (int(number), int(parts)))
    elif command == "choice":
        choice(first, int(others[0]), [*map(Path, others[1:])])
    else:
        main(first, [*map(Path, others)])
