"""RAM and flash that an int8 .tflite file takes on a microcontroller, from its own operations."""

from __future__ import annotations

from math import prod
from typing import Any

from nas.spaces.microcontroller import IMAGE, PRODUCTS, SHARING, MicroGraph


def memory_of_file(tflite: bytes | None) -> tuple[float, ...] | None:
    """RAM (TFLite Micro's arena) and flash of a file, bytes; None without one."""
    if tflite is None:
        return None
    from ai_edge_litert import schema_py_generated as schema  # noqa: PLC0415 - an extra
    from ai_edge_litert.tools import flatbuffer_utils  # noqa: PLC0415 - as above

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
        made = operations.add(
            kind,
            *(place[number] for number in inputs if number in place),
            elements=sum(map(size, operator.outputs)),
            weights=0 if kind in SHARING else sum(map(size, constants)),
            channels=int(graph.tensors[operator.outputs[0]].shape[-1]) if is_product else 0,
        )
        place |= dict.fromkeys(map(int, operator.outputs), made)
    return float(operations.memory()[0]), float(len(tflite))
