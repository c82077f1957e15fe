"""What tests of the probe are given: tiny networks, and real agents in processes of this machine."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from edgenas_core.machine.timing import TimingConfig
from latency.probe.address import Connect, command_of
from latency.probe.board import LiveBoard, Patience
from latency.probe.connection import Connection, agent_source
from latency.probe.settings import BoardPrecision, ProbeSettings, Runtime

QUICK = TimingConfig(samples=3, warm_up_window=1, warm_up_most=2)
SHAPE = (1, 3, 8, 8)


def onnx_network(*nodes):
    """A network of these nodes, from `images` to `output`, as a file for old readers too."""
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [None] * 4)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def pythons():
    """One interpreter of each minor version that is on this machine, the oldest first."""
    root = Path(os.environ.get("PYENV_ROOT", Path("~/.pyenv").expanduser()))
    python_of = {
        int(re.match(r"3\.(\d+)", path.parts[-3])[1]): str(path)
        for path in root.glob("versions/3.[0-9]*/bin/python3")
    }
    python_of.setdefault(sys.version_info.minor, sys.executable)
    for minor in {*range(6, 20)} - {*python_of}:
        path = shutil.which(f"python3.{minor}")
        # a shim of pyenv may stand for no interpreter
        if path and not subprocess.run([path, "-V"], capture_output=True, check=False).returncode:
            python_of[minor] = path
    return {f"3.{minor}": python_of[minor] for minor in sorted(python_of) if minor >= 6}


PYTHONS = pythons()


@pytest.fixture(params=PYTHONS.values(), ids=PYTHONS)
def any_python(request):
    return request.param


@pytest.fixture
def oldest_python():
    return next(iter(PYTHONS.values()))


@pytest.fixture(scope="session")
def small():
    """One operation: a network that is timed in no time."""
    return onnx_network(helper.make_node("Relu", ["images"], ["output"]))


@pytest.fixture(scope="session")
def huge():
    """A small file whose one tensor needs 3 GB."""
    repeats = helper.make_tensor("repeats", TensorProto.INT64, [4], [1, 1, 2000, 2000])
    return onnx_network(
        helper.make_node("Constant", [], ["repeats"], value=repeats),
        helper.make_node("Tile", ["images", "repeats"], ["output"]),
    )


@pytest.fixture
def settings():
    return ProbeSettings(Runtime.onnxruntime, BoardPrecision.fp32, SHAPE, 1, None, QUICK)


@pytest.fixture
def lines():
    """The lines that the user would see."""
    return []


@pytest.fixture
def connect(settings, small, lines):
    """Connect to a board; `sources` are the agents of its first and later connections.

    Without an address it is a process of this machine.
    """
    boards = []

    def make(
        address="cmd://",
        *,
        sources=None,
        patience=Patience(silence_s=120.0, tries=3, backoff_s=0.01),  # noqa: B008 - it is frozen
        reach=Connect(python=sys.executable, timeout_s=120.0),  # noqa: B008 - it is frozen
        settings=settings,
    ):
        left = list(sources or (agent_source(),))

        def open_connection():
            source = left.pop(0) if len(left) > 1 else left[0]
            return Connection(address, command_of(address, reach), reach.timeout_s, lambda: source)

        board = LiveBoard(
            address,
            open_connection,
            settings=settings,
            control=lambda takes: small if takes == "onnx" else b"",
            patience=patience,
            tell=lines.append,
        )
        boards.append(board)
        return board

    yield make
    for board in boards:
        board.close()


@pytest.fixture
def faulty():
    """The agent's text with one passage replaced, which must be there."""

    def replaced(before, after, times=1):
        text = agent_source().decode()
        assert text.count(before) == times
        return text.replace(before, after).encode()

    return replaced
