"""Cautions about exported files, one line each, and the memory of a .tflite file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from latency.models.microcontrollers import chip_named, is_chip
from latency.sources.published import cautions
from nas.export.accuracy import FileAccuracy
from nas.export.config import ExportForm, ExportFormat, ExportPrecision
from nas.export.int8 import MOST_LOST, Int8Source
from nas.export.latency import Latency
from nas.export.searched import Searched
from nas.export.subject import ExportSubject
from nas.spaces.microcontroller import IMAGE, PRODUCTS, SHARING, MicroGraph, split_ram, work_of

INT8_TFLITE = ExportForm(ExportPrecision.int8, ExportFormat.tflite)

_LAYERS = 3
"""Layers that are named where int8 loses accuracy."""

_OF_TRAINING = 0.005
"""Difference from the accuracy that the training reported from which on it is printed."""

_MEMORY = 1.02
"""Factor by which a file may exceed what was computed before it was written."""


def lost_accuracy(
    accuracies: Mapping[ExportForm, FileAccuracy],
    subject: ExportSubject,
    source: Int8Source | None,
) -> Iterator[str]:
    """Files that lose accuracy against fp32, with the layers that int8 changes most; another accuracy than the training's."""
    if not accuracies:
        return
    fp32 = next(iter(accuracies.values())).fraction
    loses_in_int8 = False
    for form, accuracy in accuracies.items():
        if fp32 - accuracy.fraction > MOST_LOST:
            loses_in_int8 |= form.precision is ExportPrecision.int8
            yield (
                f"{form.file} loses {100 * (fp32 - accuracy.fraction):.2f} points of {subject.metric} "
                f"against fp32, more than {100 * MOST_LOST:g}"
            )
    if loses_in_int8 and source is not None:
        layers = source.least_exact[:_LAYERS]
        named = ", ".join(f"{name} ({decibels:.0f} dB)" for name, decibels in layers)
        yield f"signal to noise in int8 is lowest for {named}"
    training = subject.training
    if training is not None and training.test is not None:
        of_training = training.test.fraction
        if abs(fp32 - of_training) > _OF_TRAINING:
            yield (
                f"the fp32 file has {fp32:.2%} on the test split, and the training reported "
                f"{of_training:.2%}"
            )


def not_faster_in_int8(latencies: Mapping[ExportForm, Latency]) -> Iterator[str]:
    """A line for each int8 file that is not faster than the fp32 file of its format."""
    for form, latency in latencies.items():
        if form.precision is not ExportPrecision.int8:
            continue
        fp32 = latencies[replace(form, precision=ExportPrecision.fp32)]
        low, high = latency.median_interval_ms
        fp32_low, fp32_high = fp32.median_interval_ms
        times = f"{latency.median_ms:.3f} ms against {fp32.median_ms:.3f} ms"
        if latency.doubts or fp32.doubts:
            yield (
                f"whether {form.file} is faster than fp32 on {latency.board} is not known: {times}, but these times are marked unreliable"
            )
        elif low > fp32_high:
            yield f"{form.file} is slower than fp32 on {latency.board}: {times}; use the fp32 file there"
        elif high >= fp32_low:
            yield f"{form.file} and fp32 take equally long on {latency.board}: {times}"


def beyond_limit(
    latencies: Mapping[ExportForm, Latency], searched: Searched | None
) -> Iterator[str]:
    """A line for each file that takes longer than T on the device of the search."""
    for form, latency in latencies.items():
        least_ms = latency.median_interval_ms[0]
        if searched and latency.device == searched.device and least_ms > searched.T_ms:
            yield f"{form.file} takes {latency.median_ms:.3f} ms, beyond T = {searched.T_ms:g} ms"


def memory_notes(
    memory: tuple[float, ...] | None,
    computed: tuple[float, ...] | None,
    limits_kb: Mapping[str, float],
) -> Iterator[str]:
    """Lines on RAM or flash of the int8 .tflite file beyond the run's limits or the computed size, in bytes."""
    for number, (symbol, size) in enumerate(zip(("RAM", "flash"), memory or (), strict=False)):
        taken = size / 1e3
        file = f"{INT8_TFLITE.file} takes {taken:,.1f} kB of {symbol}"
        if taken > limits_kb.get(symbol, math.inf):
            yield f"{file}, beyond {symbol} = {limits_kb[symbol]:g} kB"
        if computed is not None and taken > _MEMORY * computed[number] / 1e3:
            yield (
                f"{file}, more than the {computed[number] / 1e3:,.1f} kB that its layers take: the converter "
                f"wrote other operations"
            )


def spill_notes(tflite: bytes | None, parts_kb: Mapping[str, tuple[float, ...]]) -> Iterator[str]:
    """For each memory that has a slower one beside it: whether the file fits alone, and what lies in the other."""
    if tflite is None:
        return
    graph = graph_of_file(tflite)
    for symbol, (fast_kb, slow_kb) in parts_kb.items():
        here, away = len(tflite) / 1e3, max(0.0, len(tflite) / 1e3 - fast_kb)
        which = "the end of the file"
        if symbol == "RAM":
            here, away = graph.memory()[0] / 1e3, split_ram([graph], 1e3 * fast_kb)[1] / 1e3
            held_kb = split_ram([graph], 0.0)[0] / 1e3
            numbers = graph.spilled(max(0.0, 1e3 * (fast_kb - held_kb)))
            which = "the output of " + ", ".join(
                "the input" if at == IMAGE else f"operation {at} ({graph.operations[at].kind})"
                for at in numbers
            )
        alone = f"{symbol}: {INT8_TFLITE.file} fits alone in {fast_kb:,g} kB: {'yes' if here <= fast_kb else 'no'}"
        if here <= fast_kb:
            yield alone
        else:
            fits = "yes" if away <= slow_kb else "no"
            yield f"{alone}; with {slow_kb:,g} kB beside: {fits}, {away:,.1f} kB spilled: {which}"


def predicted_notes(tflite: bytes | None, device: str) -> Iterator[str]:
    """Predicted time of the int8 .tflite file on a modelled microcontroller, with its interval and cautions."""
    if tflite is None or not is_chip(device):
        return
    chip, graph = chip_named(device), graph_of_file(tflite)
    work = work_of([graph], chip.fast_bytes) | {"side": (graph.image / 3) ** 0.5}
    lacking = chip.lacking(work)
    if lacking:
        yield f"{INT8_TFLITE.file} has {', '.join(lacking)}, which {device} does not run in int8"
        return
    ms = chip.predict_ms(work)
    low, high = (each * ms for each in chip.interval)
    yield (
        f"{INT8_TFLITE.file} takes {ms:.3g} ms on {device} ({low:.3g} to {high:.3g} ms for 90 %), predicted from published "
        f"rows of other networks, not measured"
    )
    if "cubeai" in device:
        yield (
            f"{INT8_TFLITE.file} takes about {graph.activations_in_cube_ai() / 1e3:,.0f} kB for activations in {chip.tool}, "
            f"predicted by a rule that 11 of 12 published MobileNets follow within 15 %"
        )
    yield from (f"{INT8_TFLITE.file}: {line}" for line in cautions(chip, work).values())


def memory_of_file(tflite: bytes | None) -> tuple[float, ...] | None:
    """RAM (TFLite Micro's arena) and flash of a file, bytes; None without one."""
    if tflite is None:
        return None
    return float(graph_of_file(tflite).memory()[0]), float(len(tflite))


def graph_of_file(tflite: bytes) -> MicroGraph:
    """Operations of a .tflite file."""
    from ai_edge_litert import schema_py_generated as schema  # noqa: PLC0415 - an extra
    from ai_edge_litert.tools import flatbuffer_utils  # noqa: PLC0415 - loaded when needed

    model = flatbuffer_utils.read_model_from_bytearray(bytearray(tflite))
    names = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    wide = {schema.TensorType.FLOAT32, schema.TensorType.INT32}
    (graph,) = model.subgraphs

    def size(number: int) -> int:
        tensor: Any = graph.tensors[number]
        return prod(map(int, tensor.shape)) * (4 if tensor.type in wide else 1)

    place = {int(graph.inputs[0]): IMAGE}
    operations = MicroGraph(size(graph.inputs[0]))
    for operator in graph.operators:
        kind = names[model.operatorCodes[operator.opcodeIndex].builtinCode]
        inputs = [int(number) for number in operator.inputs if number >= 0]
        constants = [number for number in inputs if number not in place]
        is_product = kind in PRODUCTS and bool(constants)
        # of a product without its bias, so that its multiply-accumulates follow
        counted = constants[:1] if is_product else constants
        window = graph.tensors[constants[0]].shape[1:3] if is_product else ()
        made = operations.add(
            kind,
            *(place[number] for number in inputs if number in place),
            elements=sum(map(size, operator.outputs)),
            weights=0 if kind in SHARING else sum(map(size, counted)),
            channels=int(graph.tensors[operator.outputs[0]].shape[-1]) if is_product else 0,
            kernel=prod(map(int, window)) if kind != "FULLY_CONNECTED" else 1,
        )
        place |= dict.fromkeys(map(int, operator.outputs), made)
    return operations
