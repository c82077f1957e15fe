"""A compiled network computes what the module does, whichever lane runs which segment."""

import gc
import math
import weakref

import pytest
import torch
from torch import nn

from benchmarks.networks.densenet import DenseLayer
from edgenas_core.inference.models.nas_bench_201 import Cell, ResidualBlock
from edgenas_core.inference.models.resnet import ResNetBlock
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.executor import measured_chain
from edgenas_runtime.network.compiled import Compiled
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.network.engine import EagerEngine, OnnxEngine

pytestmark = pytest.mark.usefixtures("one_thread")

CELLS = {
    "nas_bench_201": (Cell, ResidualBlock),
    "resnet18": (ResNetBlock,),
    "resnet50": (ResNetBlock,),
    "densenet121": (DenseLayer,),
    "vgg16": (nn.Sequential,),
    "alexnet": (nn.Sequential,),
}
LARGE = {"densenet121", "resnet50"}
GRID = [
    pytest.param(name, rule, marks=[pytest.mark.slow] if name in LARGE else [])
    for name in CELLS
    for rule in Rule
]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
"""Tolerance between torch and ONNX Runtime in single precision."""


def cut(networks, name, rule):
    module, x = networks[name]
    if name in {"alexnet", "vgg16"}:  # ONNX has no adaptive pool but to a divisor of the size
        x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    cells = CELLS[name] if rule is Rule.CELL else ()
    with torch.inference_mode():
        return decompose(module, x, rule, cells=cells), x, module(x)


def infer(compiled, x, lanes):
    running = compiled.start(x)
    for i in range(len(compiled)):
        running.job(i, lanes[i % len(lanes)])()
    return running.output


@pytest.mark.parametrize(("name", "rule"), GRID)
def test_eager_jobs_equal_the_program_bit_for_bit(networks, name, rule):
    program, x, _ = cut(networks, name, rule)
    compiled = Compiled(program, torch.zeros_like(x), [EagerEngine()])
    with torch.inference_mode():
        expected = program.run(x)

    outputs = [infer(compiled, x, [0]) for _ in range(2)]

    assert all(torch.equal(output, expected) for output in outputs)


@pytest.mark.parametrize(("name", "rule"), GRID)
def test_onnx_sessions_equal_the_module_up_to_rounding(networks, name, rule):
    program, x, plain = cut(networks, name, rule)
    engine = OnnxEngine()
    compiled = Compiled(program, torch.zeros_like(x), [engine, EagerEngine()])

    torch.testing.assert_close(infer(compiled, x, [0]), plain, **TOLERANCE)
    torch.testing.assert_close(infer(compiled, x, [0, 1]), plain, **TOLERANCE)
    torch.testing.assert_close(
        infer(compiled, -x, [1, 1, 0]), infer(compiled, -x, [1]), **TOLERANCE
    )


def test_views_compile_to_jobs_that_do_nothing():
    program = decompose(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval(), torch.ones(1, 2, 2))
    compiled = Compiled(program, torch.ones(1, 2, 2), [OnnxEngine(), EagerEngine()])

    place = compiled.value(0, torch.device("cpu")).data_ptr()

    assert place == compiled.value(-1, torch.device("cpu")).data_ptr()
    assert infer(compiled, torch.ones(1, 2, 2), [0]).shape == (1, 2)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.layer(x)
        z = self.relu(y)
        return z + y  # y was changed under its reader's hands


def test_in_place_layers_equal_the_module_where_supported():
    module, x = InPlace().eval(), torch.randn(2, 3)
    program = decompose(module, x)

    compiled = Compiled(program, x, [EagerEngine()])

    assert torch.equal(infer(compiled, x, [0]), module(x))
    with pytest.raises(ValueError, match=r"\brelu\b.*ONNX"):
        Compiled(program, x, [OnnxEngine()])


def test_onnx_sessions_accept_non_contiguous_tensors():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 5)

        def forward(self, x):
            return self.layer(x.permute(0, 2, 1)).relu()

    module, x = Turned().eval(), torch.randn(2, 5, 3)

    compiled = Compiled(decompose(module, x), x, [OnnxEngine(), EagerEngine()])

    torch.testing.assert_close(infer(compiled, x, [0]), module(x))
    torch.testing.assert_close(infer(compiled, x, [1, 0]), module(x))


def test_the_output_is_a_copy():
    module = nn.Linear(2, 2).eval()
    compiled = Compiled(decompose(module, torch.ones(1, 2)), torch.ones(1, 2), [EagerEngine()])

    first = infer(compiled, torch.ones(1, 2), [0])
    infer(compiled, torch.zeros(1, 2), [0])

    assert torch.equal(first, module(torch.ones(1, 2)))


def test_the_output_raises_until_all_segments_have_run():
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    x = torch.ones(1, 2)
    running = Compiled(decompose(module, x), x, [EagerEngine()]).start(x)
    running.job(0, 0)()

    with pytest.raises(RuntimeError, match=r"1 of 2 segments"):
        _ = running.output


@pytest.mark.parametrize("x", [torch.ones(2, 2), torch.ones(1, 2, dtype=torch.float64)])
def test_an_input_of_another_shape_or_type_is_refused(x):
    example = torch.ones(1, 2)
    compiled = Compiled(decompose(nn.ReLU().eval(), example), example, [EagerEngine()])

    with pytest.raises(ValueError, match=r"\(1, 2\) of torch.float32"):
        compiled.start(x)


def test_a_lane_without_an_engine_is_refused():
    example = torch.ones(1, 2)
    program = decompose(nn.ReLU().eval(), example)

    with pytest.raises(ValueError, match="GPU"):
        Compiled(program, example, [None])
    with pytest.raises(ValueError, match=r"lane 1\b.*engine"):
        Compiled(program, example, [EagerEngine(), None]).start(example).job(0, 1)


def test_sessions_live_as_long_as_their_network():
    engine = OnnxEngine()
    example = torch.ones(1, 2)
    program = decompose(nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval(), example)
    compiled = Compiled(program, example, [engine])
    kept = [weakref.ref(session) for session in engine._sessions.values()]

    del compiled, program
    gc.collect()

    assert [one() for one in kept] == [None, None]
    assert len(engine._sessions) == 0


def test_measured_times_are_infinite_on_a_lane_without_an_engine():
    x = torch.ones(1, 2)
    program = decompose(nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval(), x)
    with CpuLane(name="left") as left, CpuLane(name="right") as right:
        compiled = Compiled(program, x, [None, right.engine])

        chain = measured_chain("net", compiled, x, (left, right), repeats=2)

    assert chain.kinds == program.kinds
    assert all(math.isinf(left_ms) and right_ms > 0 for left_ms, right_ms in chain.predicted_ms)
