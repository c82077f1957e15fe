"""Claim: RAM= and flash= are those of the int8 .tflite file: RAM within 2 % of TFLite Micro's, never below; flash 1 %.

    $ pip install -e '.[tflite,networks]' tflite-micro
    $ python -m benchmarks.microcontroller files [first]
    $ python -m benchmarks.microcontroller trained networks.pt JPEGS.parquet pretrainedResnet_quant.tflite [images]

Converts 46 untrained networks into the folder `files` (up to a minute each; those that are there are kept),
asks the interpreter for its arena, and compares. Recorded in benchmarks/results/microcontroller.md.

`trained` converts the networks that `benchmarks.int8_losses` trained, and says RAM, flash and accuracy on the test images
of each file (LiteRT), beside MLPerf Tiny's own ResNet-8.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

import nas.config.build  # noqa: F401 - registers spaces
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.inference.formats.tflite_export import (
    tflite_bytes,
    tflite_quantised,
    without_names,
)
from nas.export.accuracy import classes_of, prepare
from nas.export.int8 import Int8Source
from nas.export.latency import tflite_session
from nas.fit.data.open import open_images
from nas.fit.starts.pretrained.libraries import timm
from nas.fit.training.network import renew_statistics
from nas.spaces.registry import space_named
from nas.spaces.residual import _Block
from nas.spaces.traced_operations import operations_of

ARENA = 1 << 26
RESNET8 = (16, 32, 64), (1, 1, 1)
"""Widths and blocks of MLPerf Tiny's ResNet-8, which takes 55,984 bytes of RAM and 98,496 of flash."""

NARROW = (
    ((14, 32, 32), (1, 2, 2)), ((12, 32, 40), (1, 3, 1)), ((15, 32, 52), (1, 2, 1)), ((14, 32, 32), (1, 1, 3)),
    ((14, 30, 28), (1, 3, 2)), ((13, 30, 28), (1, 4, 1)), ((15, 30, 44), (1, 1, 2)),
)  # fmt: skip
"""Widths and depths of three stages: those of the most multiply-accumulates within that memory, by depths."""

SPACES = {"residual": 13, "nas_bench_201": 12, "mobilenet_v3_w1.0": 6}
TIMM = {
    "efficientnet_lite0": 96, "fbnetc_100": 96, "lcnet_050": 96, "mnasnet_small": 96, "mobilenet_edgetpu_v2_xs": 96,
    "mobilenetv1_100": 96, "mobilenetv2_035": 128, "mobilenetv2_050": 96, "mobilenetv2_075": 96,
    "mobilenetv3_large_075": 96, "mobilenetv3_small_050": 96, "mobilenetv4_conv_small_050": 96, "semnasnet_075": 96,
    "tf_mobilenetv3_large_minimal_100": 96, "tinynet_e": 106,
}  # fmt: skip


def narrow(task, widths, depths):
    """ResNet-8 of MLPerf Tiny with other widths and numbers of blocks; (16, 32, 64), (1, 1, 1) is its own."""
    layers = [nn.Conv2d(task.channels, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]  # fmt: skip
    inputs = widths[0]
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        for block in range(depth):
            layers.append(_Block(inputs, width, 3, 1 + (stage > 0 and block == 0)))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, task.num_classes))  # fmt: skip


def networks():
    """Name, builder, example image, and what is claimed of RAM and flash."""
    for name, side in TIMM.items():
        build, image = (
            partial(timm().create_model, name, num_classes=10),
            torch.randn(1, 3, side, side),
        )
        yield f"timm@{name}@{side}", build, image, operations_of(build, image).converted().memory()
    for name, count in SPACES.items():
        space = space_named(name)
        task = space.tasks[space.default_task]
        for row in space.sample(np.random.default_rng(1), count):
            build, image = partial(space.network, row, task), space.example_input(row, task, 1)
            key = f"{name}@{space.text(row).replace('/', '%').replace('|', '!')}"
            yield key, build, image, space.memory(row, task)


def converted(build, image):
    network = build()
    renew_statistics(network, [torch.randn(8, *image.shape[1:])])
    fp32 = tflite_bytes(network.eval(), image)
    return without_names(tflite_quantised(fp32, [image.numpy()]))


def arena(path):
    """Bytes that the interpreter reports; it prints them on standard error."""
    from tflite_micro.python.tflite_micro import runtime  # noqa: PLC0415 - for this claim alone

    with tempfile.TemporaryFile() as printed:
        before = os.dup(2)
        os.dup2(printed.fileno(), 2)
        try:
            runtime.Interpreter.from_file(str(path), arena_size=ARENA).print_allocations()
        finally:
            os.dup2(before, 2)
            os.close(before)
        printed.seek(0)
        return int(re.search(r"allocation total (\d+) bytes", printed.read().decode())[1])


def compared(folder, most):
    folder.mkdir(exist_ok=True)
    rows = []
    print(f"{'network':48} {'RAM':>9} {'arena':>9} {'%':>7} {'flash':>9} {'file':>9} {'%':>7}")
    for key, build, image, (ram, flash) in networks():
        if len(rows) >= most:
            break
        path = folder / f"{key}.tflite"
        if not path.is_file():
            path.write_bytes(converted(build, image))
        reported, size = arena(path), path.stat().st_size
        rows.append((100 * (ram / reported - 1), 100 * (flash / size - 1)))
        more = (f"{rows[-1][0]:7.3f}", f"{flash:9}", f"{size:9}", f"{rows[-1][1]:7.3f}")
        print(f"{key[:48]:48} {ram:9} {reported:9}", *more, flush=True)
    low, high = np.min(rows, 0), np.max(rows, 0)
    print(
        f"{len(rows)} networks: RAM {low[0]:+.3f} to {high[0]:+.3f} %, flash {low[1]:+.3f} to {high[1]:+.3f} %"
    )
    assert low[0] >= 0 and high[0] <= 2 and np.abs((low[1], high[1])).max() <= 1  # noqa: PT018


def trained(networks, data, published, count):
    """A line for each file: RAM and flash, as computed and in truth, and accuracy, of fp32 by ONNX Runtime; then differences."""
    timm()  # before a pickle imports it
    images = open_images(data, side=32)
    images = replace(images, test=images.test.first(count))
    labels = np.asarray(images.test.labels)
    right = {published.name: published_answers(published, images.test.pixels) == labels}
    print(f"{published.name}: RAM {arena(published)}, flash {published.stat().st_size}, {right[published.name].mean():.2%}")  # fmt: skip
    for name, kept in torch.load(networks, weights_only=False).items():
        (side, middle), network = kept["job"], kept["network"].float().eval()
        seen = images if middle is None else replace(images, mean=(middle,) * 3, sd=(middle,) * 3)
        example = torch.from_numpy(prepare(seen.train, seen, side, slice(1)))
        path = networks.parent / f"{name}.tflite"
        if not path.is_file():
            source = Int8Source(network, seen, side)
            fp32 = tflite_bytes(source.corrected, example)
            path.write_bytes(without_names(tflite_quantised(fp32, source.calibration(1))))
        ram, flash = operations_of(partial(deepcopy, network), example).converted().memory()
        session = OnnxSession(onnx_bytes(network, [example])), tflite_session(path.read_bytes())
        exact, right[name] = (classes_of(each, seen.test, seen, side, 1) == labels for each in session)  # fmt: skip
        print(
            f"{name}: RAM {arena(path)} ({ram} computed), flash {path.stat().st_size} ({flash}), int8 "
            f"{right[name].mean():.2%}, fp32 {exact.mean():.2%}, valid {kept['valid']:.2%}",
            flush=True,
        )
    again = np.mean([each for name, each in right.items() if re.fullmatch(r"resnet8_\d", name)], 0)
    bases = {published.name: right[published.name], "ResNet-8 retrained": again}
    bases |= {name: each for name, each in right.items() if name.endswith("_st")}
    for name, each in right.items():
        for base, other in bases.items():
            difference = 100 * (each - other.astype(float))
            half = 1.96 * difference.std(ddof=1) / len(labels) ** 0.5
            print(
                f"{name} less {base}: {difference.mean():+.2f} +- {half:.2f} points, n = {len(labels)} images"
            )


def published_answers(path, pixels):
    """Classes by MLPerf Tiny's own file, which takes pixels less 128."""
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - an extra

    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    (put,), (got,) = interpreter.get_input_details(), interpreter.get_output_details()
    answers = []
    for image in pixels:
        interpreter.set_tensor(put["index"], (image.astype(np.int16) - 128).astype(np.int8)[None])
        interpreter.invoke()
        answers.append(interpreter.get_tensor(got["index"]).argmax())
    return np.array(answers)


def main():
    """Compare untrained networks, or judge trained ones."""
    torch.set_num_threads(1)
    first, *others = sys.argv[1:]
    if first == "trained":
        networks, data, published = map(Path, others[:3])
        trained(networks, str(data), published, int([*others, "10000"][3]))
    else:
        compared(Path(first), int([*others, "1000"][0]))


if __name__ == "__main__":
    main()
