"""A file that cannot be cut still has a time and a size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from edgenas_core.files.safe_file import read_bytes
from edgenas_core.machine.timing import Statistic, Stopwatch, TimingConfig, time_interleaved
from edgenas_core.types.errors import UserError
from nas.fit.starts.onnx_file.graph import MOST_BYTES, require_small_tensors


def as_it_is(path: Path, size: int | tuple[int, ...] | None) -> str:
    """Time on this machine and size of a file, in words; why it has no time where it does not run here.

    Args:
      path: an ONNX or TFLite file.
      size: height and width of its images, or shape of one input, where the file leaves them free.
    """
    content = read_bytes(path, MOST_BYTES)
    flash = f"{len(content) / 1e6:.3g} MB of flash"
    try:
        call, runtime = (_tflite if path.suffix == ".tflite" else _onnx)(content, size)
        config = TimingConfig(settle_s=0.5)
        (samples,) = time_interleaved([call], config, np.random.default_rng(0), Stopwatch())
    except Exception as error:  # noqa: BLE001 - a runtime raises anything
        reason = (str(error) or repr(error)).splitlines()[0]
        return f"as it is, it needs {flash}, and does not run here: {reason[:200]}"
    ms = float(Statistic.median.of(samples.ms))
    return (
        f"as it is, one inference takes {ms:.3g} ms on this machine ({runtime}, one thread, median of "
        f"{len(samples.ms)}, measured), and it needs {flash}"
    )


def _onnx(content: bytes, size: int | tuple[int, ...] | None) -> tuple[Callable[[], object], str]:
    import onnxruntime  # noqa: PLC0415 - slow to import

    require_small_tensors(onnx.load_from_string(content), UserError)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    inputs = {each.name: _zeros(each.shape, each.type, size) for each in session.get_inputs()}
    return lambda: session.run(None, inputs), f"onnxruntime {onnxruntime.__version__}"


def _zeros(sizes: list[Any], kind: str, size: int | tuple[int, ...] | None) -> np.ndarray:
    """An input of zeros; a free size is 1, or what `size` says."""
    shape = [each if isinstance(each, int) and each > 0 else 0 for each in sizes]
    given = size if isinstance(size, tuple) else (0, size or 0, size or 0)
    if len(shape) == len(given) + 1:
        shape[1:] = [old or new for old, new in zip(shape[1:], given, strict=True)]
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(uint8)": np.uint8}
    return np.zeros([each or 1 for each in shape], types.get(kind, np.float32))


def _tflite(content: bytes, _size: object) -> tuple[Callable[[], object], str]:
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - an extra

    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    for each in interpreter.get_input_details():
        interpreter.set_tensor(each["index"], np.zeros(each["shape"], each["dtype"]))
    return interpreter.invoke, "LiteRT"
