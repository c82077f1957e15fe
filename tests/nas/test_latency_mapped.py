"""A network that may run on one device or on another, each with time left of its own."""

import json
import subprocess
import sys

import numpy as np
import pytest

from nas.accuracy.base import Dataset
from nas.errors import UserError
from nas.latency_mapped import MappedLatencyConfig
from nas.search_space import NAS_BENCH_201

GPU, CPU = "h200/torch-graph/fp32/b1", "xeon-emerald-rapids/onnxruntime/fp32/b1"


def test_a_network_is_within_the_limit_if_one_device_has_room_for_it():
    oracle = MappedLatencyConfig([f"{CPU} 2ms"], limit="0.8ms").build(GPU, Dataset.cifar10)

    every = NAS_BENCH_201.architectures
    gpu_ms, cpu_ms = (one.latency.latency_ms(every) for one in oracle.devices)
    fits = (gpu_ms <= 0.8) | (cpu_ms <= 2)
    assert 0 < (gpu_ms <= 0.8).sum() < fits.sum() < len(fits)
    np.testing.assert_array_equal(oracle.latency_ms(every) <= 0.8, fits)
    assert oracle.device == f"{GPU} or {CPU}"
    assert f"{CPU} leaves 2 ms" in oracle.description


@pytest.mark.parametrize("left", [[], [f"{GPU} 2ms"], [f"{CPU} 2ms", f"{CPU} 3ms"]])
def test_other_devices_must_be_named_once(left):
    with pytest.raises(UserError, match=r"latency\.left=.* must name devices beside device="):
        MappedLatencyConfig(left, limit="1ms").build(GPU, Dataset.cifar10)


def test_a_time_that_is_left_has_a_unit():
    with pytest.raises(UserError, match="T=2 has no unit"):
        MappedLatencyConfig([f"{CPU} 2"], limit="1ms").build(GPU, Dataset.cifar10)
    with pytest.raises(UserError, match="is not a device and a time; write"):
        MappedLatencyConfig([CPU], limit="1ms").build(GPU, Dataset.cifar10)


@pytest.mark.slow
def test_a_search_says_on_which_device_the_network_fits(tmp_path):
    words = f"reward=constrained T=0.8ms latency=mapped device={GPU} budget=300".split()

    told = subprocess.run(
        [sys.executable, "-m", "nas.search", *words, f"latency.left=[{CPU} 2ms]"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout

    (path,) = tmp_path.glob("runs/*/*/summary.json")
    best = json.loads(path.read_text())["best"]
    assert {one["device"]: one["T_ms"] for one in best["on"]} == {GPU: 0.8, CPU: 2}
    assert best["on"][0]["fits"]
    assert best["latency_ms"] == pytest.approx(
        min(one["latency_ms"] / one["T_ms"] for one in best["on"]) * 0.8
    )
    for one in best["on"]:
        fits = "fits" if one["fits"] else "does not fit"
        assert f"it {fits} on {one['device']}: {one['latency_ms']:.3f} ms of T = " in told
