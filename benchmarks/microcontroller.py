"""Claim: RAM= and flash= are those of the int8 .tflite file: both within 2 %, never below.

    $ pip install -e '.[tflite,networks]' tflite-micro
    $ python -m benchmarks.microcontroller files [first] [seed]

Converts 46 untrained networks, random ones of three spaces first, into the folder `files` (up to a minute each; those
that are there are kept), asks the interpreter for its arena, and compares. Recorded in benchmarks/results/microcontroller.md.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch

import nas.config.build  # noqa: F401 - registers spaces
from edgenas_core.inference.formats.tflite_export import (
    tflite_bytes,
    tflite_quantised,
    without_names,
)
from nas.fit.starts.pretrained.libraries import timm
from nas.fit.training.network import renew_statistics
from nas.spaces.registry import space_named
from nas.spaces.traced_operations import operations_of

ARENA = 1 << 26
SPACES = {"residual": 13, "nas_bench_201": 12, "mobilenet_v3_w1.0": 6}
TIMM = {
    "efficientnet_lite0": 96, "fbnetc_100": 96, "lcnet_050": 96, "mnasnet_small": 96, "mobilenet_edgetpu_v2_xs": 96,
    "mobilenetv1_100": 96, "mobilenetv2_035": 128, "mobilenetv2_050": 96, "mobilenetv2_075": 96,
    "mobilenetv3_large_075": 96, "mobilenetv3_small_050": 96, "mobilenetv4_conv_small_050": 96, "semnasnet_075": 96,
    "tf_mobilenetv3_large_minimal_100": 96, "tinynet_e": 106,
}  # fmt: skip


def networks(seed):
    """Name, builder, example image, and what is claimed of RAM and flash."""
    for name, count in SPACES.items():
        space = space_named(name)
        task = space.tasks[space.default_task]
        for row in space.sample(np.random.default_rng(seed), count):
            build, image = partial(space.network, row, task), space.example_input(row, task, 1)
            key = f"{name}@{space.text(row).replace('/', '%').replace('|', '!')}"
            yield key, build, image, space.memory(row, task)
    for name, side in TIMM.items():
        build, image = (
            partial(timm().create_model, name, num_classes=10),
            torch.randn(1, 3, side, side),
        )
        yield f"timm@{name}@{side}", build, image, operations_of(build, image).converted().memory()


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


def compared(folder, most, seed):
    folder.mkdir(exist_ok=True)
    rows = []
    print(f"{'network':48} {'RAM':>9} {'arena':>9} {'%':>7} {'flash':>9} {'file':>9} {'%':>7}")
    for key, build, image, (ram, flash) in networks(seed):
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
    assert low.min() >= 0
    assert high.max() <= 2


def main():
    """Compare the files of untrained networks with what was computed."""
    torch.set_num_threads(1)
    folder, *numbers = sys.argv[1:]
    first, seed = (int(number) for number in (*numbers, *(1000, 1)[len(numbers) :]))
    compared(Path(folder), first, seed)


if __name__ == "__main__":
    main()
