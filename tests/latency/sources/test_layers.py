"""`latency=layers`: any network by the sum of its layers."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.models.confidence import of_residuals
from latency.models.layer_table import LayerTable
from latency.models.regression import Quality
from latency.sources.layers import (
    LayersLatency,
    LayersLatencyConfig,
    layers_in_space,
    layers_of_live,
)
from nas.spaces.nas_bench_201.plugin import SPACE

DEVICE = "a/onnxruntime/fp32/b1"


@pytest.fixture
def lines():
    """What the user was told."""
    return []


@pytest.fixture
def oracle(lines):
    """Every layer takes 100 us, as two of the fit do."""
    layers = [f"Add float[1,{n}] float[1,{n}] > float[1,{n}]" for n in (10, 20)]
    table = LayerTable(
        DEVICE,
        layers,
        np.array([100.0, 100.0]),
        np.array([1, 1]),
        10,
        Quality(1.0, 1.0, 1.0, 0.0),
        of_residuals(np.array([-0.1, 0.1])),
    )
    return LayersLatency(SPACE, SPACE.tasks["imagenet16"], table, lines.append)


def test_a_network_of_more_layers_takes_longer_and_is_marked_as_predicted(oracle, lines):
    rows = SPACE.architectures(np.array([0, SPACE.size - 1]))

    answered = oracle.answer(np.concatenate([rows, rows])[:, None])

    assert answered.ms.shape == (4, 1)
    assert (answered.kind == Kind.layers).all()
    assert Kind.layers.is_predicted
    assert answered.ms[0] != answered.ms[1]
    assert (answered.ms[:2] == answered.ms[2:]).all()
    assert oracle.known(rows).all()
    assert oracle.uncertainty.sd > 0
    assert lines[0] == f"fitting a model to 2 layers of {DEVICE}"
    assert "Conv" in lines[1]
    assert "Add float of this size" in lines[1]  # smaller ones were measured
    assert "Add float," not in lines[1]
    assert sum("Conv.nchwc float larger" in line for line in lines) == 1


def test_a_network_of_layers_unlike_the_measured_ones_has_a_wider_interval(oracle, lines):
    row = SPACE.architectures(np.array([0]))[0]
    text = SPACE.text(row)
    layers = [f"Add float[1,{n}] float[1,{n}] > float[1,{n}]" for n in (15, 25, 900)]
    share = oracle.table.unlike(layers)["Add float of this size"]

    assert oracle.table.unlike(layers[:2]) == {}
    assert 0.3 < share < 1
    assert (
        oracle.uncertainty_of(row).sd > 3 * oracle.uncertainty.sd
    )  # of convolutions, which no one measured
    assert text in lines[-1]
    assert "its interval is wider" in lines[-1]


def test_graphs_of_a_gpu_are_predicted_by_the_operations_of_torch(oracle, lines):
    on_gpu = replace(
        oracle, table=replace(oracle.table, device="h100/torch-graph/fp32/b1"), _predicted_ms={}
    )

    assert on_gpu.answer(SPACE.architectures(np.array([0]))).ms > 0
    assert "batch_norm float32" in lines[-1]


def test_a_table_of_one_space_is_less_sure_of_another(oracle):
    other = replace(oracle, table=replace(oracle.table, space="residual"))

    assert "space=residual" in other.description
    assert other.uncertainty.sd > oracle.uncertainty.sd


def test_timed_networks_correct_the_predictions_by_their_median_ratio(oracle):
    rows = SPACE.architectures(np.array([0, 7_000, SPACE.size - 1]))
    predicted_ms = oracle.answer(rows).ms

    corrected = oracle.corrected(rows, predicted_ms * [2, 3, 4])

    assert corrected.answer(rows).ms == pytest.approx(3 * predicted_ms)
    assert "37.5%" in corrected.description  # of 3.5 for 2, 3 for 3 and 2.5 for 4
    assert corrected.uncertainty == oracle.uncertainty


@pytest.mark.parametrize(
    ("device", "has_table"),
    [("epyc-vm/onnxruntime/fp32/b1", True), (DEVICE, False), ("epyc-vm/torch/fp32/b1", False)],
)
def test_the_layers_of_a_live_board_are_those_of_its_table(device, has_table):
    names = ("source", "description", "instant", "answer", "known", "confirm_top", "remember")
    live = SimpleNamespace(**dict.fromkeys((*names, "measure_again"), print), device=device)

    model = layers_of_live(live, SPACE, SPACE.tasks["imagenet16"])

    assert (model is not None) is has_table
    assert model is None or model.device == device


@pytest.mark.parametrize("runtime", ["onnxruntime/fp32", "onnxruntime/int8", "torch-graph/fp32"])
def test_a_network_that_the_runtime_refuses_is_an_error_that_names_it(runtime):
    row = SPACE.architectures(np.array([7]))[0]
    too_small = replace(SPACE.tasks["imagenet16"], image_side=1)  # to be halved

    with pytest.raises(UserError) as refused:
        layers_in_space(f"a/{runtime}/b1", SPACE, too_small, row)

    assert SPACE.text(row) in str(refused.value)


@pytest.mark.parametrize("device", ["a", "a/torch/fp32/b1", "a/onnxruntime/fp16/b1", DEVICE])
def test_a_device_without_layers_is_refused_and_those_that_have_some_are_named(device):
    with pytest.raises(UserError, match=f"device={device} ") as refused:
        LayersLatencyConfig().build(device, SPACE, next(iter(SPACE.tasks.values())))

    (line,) = str(refused.value).splitlines()
    assert "h200/torch-graph/fp32/b1" in line
    assert "nas.measure layers=" in line
