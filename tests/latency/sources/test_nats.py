"""The archive's own latency, of the three cells that are public as single files."""

import nats_bench
import numpy as np
import pytest

from latency.sources.nats import NatsLatency
from nas.spaces.nas_bench_201.space import NAS_BENCH_201


@pytest.mark.data
def test_cell_0_on_cifar100_takes_what_the_archive_says(nas_data):
    archive = nats_bench.create(
        str(nas_data / "raw" / "nats-tss-sample"), "tss", fast_mode=True, verbose=False
    )
    oracle = NatsLatency(
        description="three cells",
        number_of=NAS_BENCH_201.numbers,
        latency_ms_of=lambda index: 1000 * archive.get_cost_info(index, "cifar100")["latency"],
        holds=lambda index: index in {0, 11, 284},
    )

    latency_ms = oracle.latency_ms(NAS_BENCH_201.rows[[0, 11, 284, 0]])

    assert latency_ms[0] == latency_ms[3] == pytest.approx(13.1829, abs=5e-5)
    assert np.all(latency_ms > 0)
