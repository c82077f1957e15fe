"""`board/` of an export: an int8 .tflite file as C++ that times itself on a microcontroller by tflite-micro."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int8
from numpy import ndarray

from nas.export.folder import BOARD
from nas.export.notes import graph_of_file
from nas.spaces.microcontroller import MicroGraph

_IRREGULAR = {"PADV2": "PadV2", "BATCH_MATMUL": "BatchMatMul", "L2_POOL_2D": "L2Pool2D"}

_KERNELS = {
    *[
        "ABS",
        "ADD",
        "ARG_MAX",
        "ARG_MIN",
        "AVERAGE_POOL_2D",
        "BATCH_MATMUL",
        "BATCH_TO_SPACE_ND",
        "CONCATENATION",
        "CONV_2D",
    ],
    *[
        "DEPTH_TO_SPACE",
        "DEPTHWISE_CONV_2D",
        "DEQUANTIZE",
        "DIV",
        "ELU",
        "EXP",
        "EXPAND_DIMS",
        "FULLY_CONNECTED",
        "GATHER",
    ],
    *[
        "HARD_SWISH",
        "L2_NORMALIZATION",
        "L2_POOL_2D",
        "LEAKY_RELU",
        "LOG_SOFTMAX",
        "LOGISTIC",
        "MAXIMUM",
        "MAX_POOL_2D",
    ],
    *[
        "MEAN",
        "MINIMUM",
        "MIRROR_PAD",
        "MUL",
        "NEG",
        "PACK",
        "PAD",
        "PADV2",
        "PRELU",
        "QUANTIZE",
        "REDUCE_MAX",
        "RELU",
        "RELU6",
        "RESHAPE",
    ],
    *[
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
        "ROUND",
        "RSQRT",
        "SLICE",
        "SOFTMAX",
        "SPACE_TO_BATCH_ND",
    ],
    *[
        "SPACE_TO_DEPTH",
        "SPLIT",
        "SPLIT_V",
        "SQRT",
        "SQUARE",
        "SQUEEZE",
        "STRIDED_SLICE",
        "SUB",
        "SUM",
        "SVDF",
        "TANH",
    ],
    *["TRANSPOSE", "TRANSPOSE_CONV", "UNPACK"],
}
"""Operators of .tflite files that tflite-micro has kernels for."""

_SPARE = 1024
"""Bytes of the arena beyond what is computed."""

_ABOUT = """# {name}

`board.ino` times the network of `network.h` by [tflite-micro](https://github.com/tensorflow/tflite-micro) and prints one line:

    edgenas us=94312 arena=241234 runs=21 largest_difference=0 network={name}

`us` is the median of 21 inferences, `arena` the RAM that the interpreter took, `largest_difference` how far its int8 outputs are from
LiteRT's for the input in `network.h`.

Arduino: copy this folder into the sketchbook, install a library of tflite-micro for your board (`Arduino_TensorFlowLite`,
`Chirale_TensorFlowLite`, of ESP32 `esp-tflite-micro`), upload, open the serial monitor at 115200 baud.

Plain C++: build tflite-micro for your core, then

    arm-none-eabi-g++ -std=c++17 -O2 -x c++ board.ino -x none libtensorflow-microlite.a -DEDGENAS_MHZ=400 ...

with your board's start-up code and a `puts` that reaches the serial port. Cores without a cycle counter (Cortex-M0) print us=0, which is refused.

Then, with the board at a port or its output in a file:

    python -m nas.measure {space} serial=/dev/ttyACM0 out=measured
"""


def write_sketch(
    folder: Path, tflite: bytes, space: str, name: str, image: Float32[ndarray, "1 c h w"]
) -> list[str]:
    """Write `board/` with the network, an image and what LiteRT answers to it; returns notes for the card.

    Nothing is written where tflite-micro lacks an operator, which the note names.
    """
    graph = graph_of_file(tflite)
    kinds = dict.fromkeys(operation.kind for operation in graph.operations)
    lacking = [kind for kind in kinds if kind not in _KERNELS]
    if lacking:
        return [f"no {BOARD}/: tflite-micro has no kernel for {', '.join(lacking)}"]
    board = folder / BOARD
    board.mkdir()
    shutil.copyfile(Path(__file__).parent / "on_board" / "board.ino", board / "board.ino")
    header = _header(tflite, name, graph, kinds, *answered(tflite, image))
    (board / "network.h").write_text(header, encoding="utf-8")
    about = _ABOUT.format(name=name, space=shlex.quote(f"space={space}"))
    (board / "README.md").write_text(about, encoding="utf-8")
    return []


def _header(  # noqa: PLR0917 - called above alone
    tflite: bytes,
    name: str,
    graph: MicroGraph,
    kinds: Iterable[str],
    sample: Int8[ndarray, "1 h w c"],
    expected: Int8[ndarray, "1 n"],
) -> str:
    arena = -(-(graph.memory()[0] + _SPARE) // _SPARE) * _SPARE
    calls = [f"  resolver.Add{_method(kind)}();" for kind in kinds]
    return "\n".join(
        [
            "// Written by nas.export.",
            "#pragma once",
            "#include <stddef.h>",
            "#include <stdint.h>",
            f"constexpr char kName[] = {json.dumps(name)};",
            f"constexpr int kOperators = {len(calls)};",
            f"constexpr size_t kArenaBytes = {arena};",
            "template <typename Resolver> void add_operators(Resolver& resolver) {",
            *calls,
            "}",
            _array("unsigned char", "kNetwork", tflite),
            _array("int8_t", "kInput", sample.ravel().tolist()),
            _array("int8_t", "kExpected", expected.ravel().tolist()),
            "",
        ]
    )


def _array(kind: str, name: str, values: Any) -> str:
    rows = [",".join(map(str, values[at : at + 32])) for at in range(0, len(values), 32)]
    return f"alignas(16) static const {kind} {name}[] = {{\n{f',{chr(10)}'.join(rows)}}};"


def _method(kind: str) -> str:
    """Name of the resolver's method for an operator: CONV_2D is Conv2D."""
    words = (word if word[0].isdigit() else word.capitalize() for word in kind.split("_"))
    return _IRREGULAR.get(kind, "".join(words))


def answered(
    tflite: bytes, image: Float32[ndarray, "1 c h w"]
) -> tuple[Int8[ndarray, "1 h w c"], Int8[ndarray, "1 n"]]:
    """The input of an int8 file for an image, and LiteRT's answer to it."""
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - an extra

    interpreter = Interpreter(model_content=tflite, num_threads=1)
    interpreter.allocate_tensors()
    (put,), (got,) = interpreter.get_input_details(), interpreter.get_output_details()
    scale, zero = put["quantization"]
    levels = np.rint(image.transpose(0, 2, 3, 1) / np.float32(scale)) + zero
    sample = np.clip(levels, -128, 127).astype(np.int8)
    interpreter.set_tensor(put["index"], sample)
    interpreter.invoke()
    return sample, interpreter.get_tensor(got["index"])
