"""Hogs and isolation on a GPU. The tests need torch, and for the partition cuda-bindings:

python -m pytest tests/edgenas_core/contention/test_gpu_hogs.py --noconftest -c /dev/null -v -rA
"""

import time

import pytest
import torch

from edgenas_core.contention.contention import Contention, RunningHogs
from edgenas_core.contention.hogs.gpu_hogs import GpuMemoryHog, PcieHog
from edgenas_core.contention.isolation import Isolation
from edgenas_core.contention.networks import on_gpu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]
MB_PER_GB = 1e9 / 2**20


def achieved(beside, seconds=0.3):
    beside.gb_per_s()
    time.sleep(seconds)
    return sum(beside.gb_per_s())


@pytest.mark.parametrize(("hog", "limit"), [(GpuMemoryHog(), 300.0), (PcieHog(), 5.0)])
def test_a_token_bucket_holds_a_hog_to_its_rate(hog, limit):
    with RunningHogs([hog]) as hogs:
        with Contention(hogs) as beside:
            assert achieved(beside) > 2 * limit
        limited = {"limit_mb_per_s": limit * MB_PER_GB, "isolation": Isolation.budget}
        with Contention(hogs, **limited) as beside:
            assert achieved(beside) == pytest.approx(limit, rel=0.05)
        assert achieved(hogs) == 0


@pytest.mark.parametrize("way", [Isolation.priority, Isolation.partition])
def test_a_network_gives_the_same_beside_a_hog_as_alone(way):
    pytest.importorskip("cuda.bindings")
    sms = 32 if way is Isolation.partition else None
    with (
        RunningHogs([GpuMemoryHog()], victim_sms=sms) as hogs,
        Contention(hogs, isolation=way, count=0) as alone,
    ):
        infer = on_gpu("nb201", alone.stream)
        expected = infer().cpu()
        outputs = []
        with Contention(hogs, isolation=way) as beside:
            inference = beside.during(lambda: outputs.append(infer().cpu()))
            for _ in range(5):
                inference()
            assert achieved(beside) > 100
        assert len(outputs) == 5
        assert all(torch.equal(output, expected) for output in outputs)


def test_the_fine_lock_holds_a_hog_back_while_it_is_held():
    limited = {"limit_mb_per_s": 50 * MB_PER_GB, "isolation": Isolation.fine_lock}
    with Contention([GpuMemoryHog()], **limited) as beside:
        with beside.lock():
            time.sleep(0.05)
            held = achieved(beside)
        free = achieved(beside)

    assert held < 60
    assert free > 300
