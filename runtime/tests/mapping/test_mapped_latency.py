"""One network on several devices, each with time left of its own."""

import json
import sys

import commands
import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given
from hypothesis import strategies as st
from small_space import SmallSpace

from edgenas_core.command.conf_folder import CONF
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_runtime.mapping.latency import DeviceSlack, MappedLatencyConfig, best_of
from latency.base import LatencyOracle, UnmeasuredError
from latency.sources.lookup import TableLatency
from nas.config.build import build, register
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

nan = float("nan")
GPU, CPU = "h200/torch-graph/fp32/b1", "xeon-emerald-rapids/onnxruntime/fp32/b1"


def device(name, *ms, predicted=False):
    kind = np.where(np.isnan(ms), Kind.missing, Kind.regression if predicted else Kind.measured)
    return TableLatency(
        space=SmallSpace((len(ms),)),
        device=name,
        source="table",
        description="made up",
        ms=np.array(ms, float),
        kind=kind.astype(np.int8),
    )


def rows(*indices):
    return np.array(indices, np.int64)[:, None]


some_ms = st.floats(0.01, 100)


@given(some_ms, some_ms, some_ms, some_ms)
def test_it_is_within_t_if_and_only_if_a_device_has_room(one_ms, other_ms, left_one, left_other):
    oracle = best_of(
        [
            DeviceSlack(device("gpu", one_ms), left_one),
            DeviceSlack(device("cpu", other_ms), left_other),
        ]
    )

    (latency_ms,) = oracle.answer(rows(0)).ms

    margin = min(abs(one_ms / left_one - 1), abs(other_ms / left_other - 1))
    if margin > 1e-12 or (one_ms, other_ms) == (left_one, left_other):
        assert (latency_ms <= left_one) == (one_ms <= left_one or other_ms <= left_other)


def test_a_device_that_did_not_measure_a_network_leaves_it_to_the_others():
    gpu, cpu = device("gpu", 1, nan, nan), device("cpu", 9, 9, nan, predicted=True)
    oracle = best_of([DeviceSlack(gpu, 2.0), DeviceSlack(cpu, 6.0)])

    assert isinstance(oracle, LatencyOracle)
    assert (oracle.source, oracle.instant) == ("mapped", True)
    assert oracle.answer(rows(0, 1)).ms.tolist() == [1, 3]
    with pytest.raises(IndexError):
        oracle.answer(rows(3))
    assert oracle.answer(rows(0, 1)).is_predicted.tolist() == [False, True]
    assert oracle.known(rows(0, 1, 2)).tolist() == [True, True, False]
    with pytest.raises(UnmeasuredError, match=r"gpu \(2 ms\) or cpu \(6 ms\)"):
        oracle.answer(rows(2))


def test_a_board_that_leaves_another_time_is_another_device():
    gpu, cpu = device("gpu", 1.0), device("cpu", 9.0)

    device_6, device_7 = (
        best_of([DeviceSlack(gpu, 2.0), DeviceSlack(cpu, ms)]).device for ms in (6.0, 6.0001)
    )

    assert (device_6, device_7) == (
        "gpu (2 ms) or cpu (6 ms)",
        "gpu (2 ms) or cpu (6.0001 ms)",
    )


def test_a_network_is_within_the_limit_if_one_device_has_room_for_it():
    oracle = MappedLatencyConfig([f"{CPU} 2ms"], limit="0.8ms").build(GPU, SPACE, TASKS["cifar10"])

    every = NAS_BENCH_201.rows
    gpu_ms, cpu_ms = (left.latency.answer(every).ms for left in oracle.devices)
    fits = (gpu_ms <= 0.8) | (cpu_ms <= 2)
    assert 0 < (gpu_ms <= 0.8).sum() < fits.sum() < len(fits)
    np.testing.assert_array_equal(oracle.answer(every).ms <= 0.8, fits)
    assert oracle.device == f"{GPU} (0.8 ms) or {CPU} (2 ms)"
    assert f"{CPU} leaves 2 ms" in oracle.description


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ([], r"latency\.left=\[\] .*device="),
        ([f"{GPU} 2ms"], "latency.left=.*device="),
        (["edgenas-h200-torch-graph-fp32-b1 2ms"], "latency.left=.*device="),
        ([f"{CPU} 2ms", f"{CPU} 3ms"], "each once"),
        ([CPU], "latency.left=xeon"),
        (["2ms"], "latency.left=2ms"),
        *(
            ([f"{CPU} {time}"], f": {time} is not a positive time")
            for time in ("2", "0ms", "-1ms", "nan", "1e999ms", "2mJ")
        ),
        (["elsewhere 2ms"], "'elsewhere'"),
    ],
)
def test_other_devices_are_named_once_each_with_a_time(left, expected):
    with pytest.raises(UserError, match=expected) as refused:
        MappedLatencyConfig(left, limit="1ms").build(GPU, SPACE, TASKS["cifar10"])

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("latency.limit=5ms", r"latency\.limit=5ms .*T=5ms"),
        ("E=5mJ", r"E=5mJ .*device=h200"),
        ("scenario=hog", "scenario=hog .*latency=auto"),
        ("device=ssh://board", "add latency=probe"),
    ],
)
def test_a_search_for_several_devices_has_one_t_and_no_limit_of_one_of_them(override, expected):
    left = f"latency.left=[{CPU} 2ms]"
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose(
            "search",
            [*f"device={GPU} reward=constrained T=0.8ms latency=mapped".split(), left, override],
        )

    with pytest.raises(UserError, match=expected):
        build(composed)


@pytest.mark.slow
def test_a_search_says_on_which_device_the_network_fits(tmp_path):
    words = f"reward=constrained T=0.8ms latency=mapped device={GPU} budget=300".split()

    command = [sys.executable, "-m", "nas.search", *words, f"latency.left=[{CPU} 2ms]"]
    commands.run(command, cwd=tmp_path, check=True)

    (path,) = tmp_path.glob("runs/*/*/summary.json")
    best = json.loads(path.read_text())["best"]
    assert {place["device"]: place["T_ms"] for place in best["on"]} == {GPU: 0.8, CPU: 2}
    assert best["on"][0]["fits"]
    assert best["latency_ms"] == pytest.approx(
        min(place["latency_ms"] / place["T_ms"] for place in best["on"]) * 0.8
    )
