"""A network that may run on one device or on another, each with time left of its own."""

import json
import subprocess
import sys

import numpy as np
import pytest

from nas.accuracy.base import Dataset
from nas.errors import UserError
from nas.latency_mapped import MappedLatencyConfig
from nas.latency_sources import AutoLatencyConfig
from nas.search_space import NAS_BENCH_201

GPU, CPU = "h200/torch-graph/fp32/b1", "xeon-emerald-rapids/onnxruntime/fp32/b1"
ARCHITECTURES = NAS_BENCH_201.architectures


def test_a_network_is_within_the_limit_if_one_device_has_room_for_it():
    gpu_ms, cpu_ms = (
        AutoLatencyConfig().build(name, Dataset.cifar10).latency_ms(ARCHITECTURES)
        for name in (GPU, CPU)
    )

    oracle = MappedLatencyConfig([f"{CPU} 2ms"], limit="0.8ms").build(GPU, Dataset.cifar10)

    found_ms = oracle.latency_ms(ARCHITECTURES)
    fits = (gpu_ms <= 0.8) | (cpu_ms <= 2)
    assert 0 < fits.sum() < len(fits)
    np.testing.assert_array_equal(found_ms <= 0.8 * (1 + 1e-12), fits)
    assert (found_ms <= gpu_ms * (1 + 1e-12)).all()
    assert oracle.device == f"{GPU} or {CPU}"
    assert f"{CPU} leaves 2 ms" in oracle.description


@pytest.mark.parametrize("left", [[], [f"{GPU} 2ms"]])
def test_other_devices_must_be_named(left):
    with pytest.raises(UserError, match=r"latency\.left=.* must name devices beside device="):
        MappedLatencyConfig(left, limit="1ms").build(GPU, Dataset.cifar10)


def test_a_time_that_is_left_has_a_unit():
    with pytest.raises(UserError, match="T=2 has no unit"):
        MappedLatencyConfig([f"{CPU} 2"], limit="1ms").build(GPU, Dataset.cifar10)
    with pytest.raises(UserError, match="is not a device and a time; write"):
        MappedLatencyConfig([CPU], limit="1ms").build(GPU, Dataset.cifar10)


def test_a_search_takes_what_several_devices_leave(tmp_path):
    words = f"reward=constrained T=0.8ms latency=mapped device={GPU} budget=30".split()

    subprocess.run(
        [sys.executable, "-m", "nas.search", *words, f"latency.left=[{CPU} 2ms]"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=300,
    )

    (summary,) = tmp_path.glob("runs/*/*/summary.json")
    assert f"{GPU} or {CPU}" in json.dumps(json.loads(summary.read_text()))
