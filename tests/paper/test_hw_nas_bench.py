"""Latencies printed in README and example.ipynb of HW-NAS-Bench v1.0 (Li et al., ICLR 2021).

CIFAR-10, cells by their official number; the CSV rounds to five digits after the point.
"""

import pytest

from latency.sources.table import Implausible, TableLatencyConfig
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

PUBLISHED_MS = [
    (0, "raspberry-pi-4/b1", 10.481976820010459),
    (0, "pixel-3/b1", 3.6058499999999998),
    (0, "eyeriss/b1", 3.645620000000001),
    (0, "fpga/b1", 2.57296),
    (1, "jetson-tx2/tensorrt/fp32/b1", 6.547689437866211),
    (1, "edge-tpu/int8/b1@hw-nas-bench", 1.4389883610001561),
    (1, "raspberry-pi-4/b1", 54.77739761998237),
    (1, "pixel-3/b1", 17.2381),
    (1, "eyeriss/b1", 7.577780000000003),
    (1, "fpga/b1", 5.31536),
    (2, "raspberry-pi-4/b1", 50.40940375998616),
    (2, "pixel-3/b1", 15.723),
    (2, "eyeriss/b1", 10.526900000000001),
    (2, "fpga/b1", 5.28656),
]


@pytest.fixture
def published(nas_data, monkeypatch, tmp_path_factory):
    """Builds the oracle of a device from the real table, parsed once a session; faults included."""
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("NAS_DATA", str(nas_data))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _name: str(cache))
    config = TableLatencyConfig(implausible=Implausible.keep)
    return lambda device: config.build(device, SPACE, TASKS["cifar10"])


@pytest.mark.data
@pytest.mark.parametrize(("number", "device", "published_ms"), PUBLISHED_MS)
def test_a_cell_takes_what_was_printed(published, number, device, published_ms):
    latency_ms = published(device).answer(NAS_BENCH_201.rows[number]).ms

    assert latency_ms == pytest.approx(published_ms, abs=5e-6)


@pytest.mark.data
def test_cell_0_has_an_edge_gpu_time_in_print_but_not_in_the_table(published):
    with pytest.raises(LookupError, match="not measured"):
        published("hwnas-edgegpu-tx2").answer(NAS_BENCH_201.rows[0])
