"""ONNX Runtime in a process of its own with bounded memory and time: a file of a few bytes may ask for gigabytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy import ndarray

_MEMORY = 3 * 2**30
"""Bytes that the process may take besides those of the graph."""

_COPIES = 5
"""Copies of a graph that are in memory while it is optimised."""

_LONGEST_S = 300

_OF_MEMORY = ("allocate memory", "bad_alloc", "bad allocation", "MemoryError")

_RUN = "from nas.fit.starts.onnx_file.bounded import serve; serve()"


class UnrunnableGraphError(Exception):
    """ONNX Runtime cannot load or run a graph within the limits; the message is one line."""


def optimised(graph: bytes) -> bytes:
    """The graph with constants folded, and additions, products and normalisations merged into convolutions.

    ONNX Runtime's basic optimisations leave operators of ONNX alone.

    Raises:
      UnrunnableGraphError: if it cannot be loaded within the limits.
    """
    with tempfile.TemporaryDirectory() as folder:
        _run("optimise", graph, Path(folder))
        return (Path(folder) / "optimised.onnx").read_bytes()


def answers(graph: bytes, *inputs: ndarray) -> list[ndarray]:
    """Outputs of a graph, without optimisations.

    Raises:
      UnrunnableGraphError: if it cannot be run within the limits.
    """
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "inputs.npz", *inputs)
        _run("answer", graph, Path(folder))
        with np.load(Path(folder) / "outputs.npz") as outputs:
            return [outputs[name] for name in outputs.files]


def _run(what: str, graph: bytes, folder: Path) -> None:
    """Do a step in another process; what it reads and writes are files of a folder."""
    (folder / "graph.onnx").write_bytes(graph)
    limit = _MEMORY + _COPIES * len(graph)
    try:
        done = subprocess.run(  # noqa: S603 - this very Python
            [sys.executable, "-c", _RUN, what, str(folder), str(limit)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnrunnableGraphError(f"it takes more than {_LONGEST_S} s") from error
    if done.returncode:
        raise UnrunnableGraphError(_reason(done.stderr, limit))


def _reason(printed: str, limit: int) -> str:
    """Why the process ended, by the last line that it printed; one that was killed prints none."""
    last = next(reversed(printed.strip().splitlines()), "")
    if not last or any(words in printed for words in _OF_MEMORY):
        return f"it asks for more than {limit / 2**30:.1f} GB of memory"
    return re.sub(r"^[\w.]+: (\[[^]]*\] : \d+ : )?", "", last)[:200]


def serve() -> None:
    """Do one step, with the memory limited where the system can do that."""
    what, folder, limit = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    with suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - of Unix

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import onnxruntime  # noqa: PLC0415 - within the limit

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    level = "ORT_ENABLE_BASIC" if what == "optimise" else "ORT_DISABLE_ALL"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    if what == "optimise":
        options.optimized_model_filepath = str(folder / "optimised.onnx")
    session = onnxruntime.InferenceSession(
        (folder / "graph.onnx").read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    if what == "answer":
        with np.load(folder / "inputs.npz") as inputs:
            values = [inputs[name] for name in inputs.files]
        names = [each.name for each in session.get_inputs()]
        outputs = session.run(None, dict(zip(names, values, strict=True)))
        np.savez(folder / "outputs.npz", *outputs)
