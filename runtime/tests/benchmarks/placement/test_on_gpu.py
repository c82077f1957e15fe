"""What only a GPU can show of memory policies. It needs torch and cuda-bindings:

python -m pytest tests/benchmarks/placement/test_on_gpu.py --noconftest -c /dev/null -v -rA
"""

import pytest
import torch

from benchmarks.placement.buffers.gpu import GpuBuffer
from benchmarks.placement.buffers.managed import MOST_BYTES
from benchmarks.placement.model.policy import MemoryPolicy
from benchmarks.placement.model.workload import Passes, Use

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


@pytest.fixture
def stream():
    return torch.cuda.Stream()


@pytest.mark.parametrize("policy", MemoryPolicy)
def test_the_host_sees_what_the_device_did_and_the_device_what_the_host_wrote(policy, stream):
    buffer = GpuBuffer(policy, 5000, stream)
    update = buffer.job(Passes(Use.UPDATE, 3).compute(torch.zeros((), device="cuda")), returns=True)
    data = torch.arange(5000.0)
    buffer.host.copy_(data)

    assert update() > 0
    assert update() > 0

    assert torch.equal(buffer.host, data + 6)
    buffer.close()


@pytest.mark.parametrize("policy", MemoryPolicy)
def test_a_read_sees_what_the_host_wrote_last(policy, stream):
    buffer = GpuBuffer(policy, 1 << 20, stream)
    result = torch.zeros((), device="cuda")
    read = buffer.job(Passes(Use.READ, 2).compute(result), returns=False)
    for value in (3.0, 7.0, 5.0):
        buffer.host[12345] = value
        read()
        assert float(result) == value
    buffer.close()


def test_a_job_writes_to_nobody_elses_memory(stream):
    buffer = GpuBuffer(MemoryPolicy.DEVICE, 1024, stream)
    largest = Passes(Use.READ, 1).compute(torch.zeros((), device="cuda"))
    jobs = [buffer.job(largest, returns=False), buffer.resident(largest)]
    del largest
    others = [torch.zeros((), device="cuda") for _ in range(64)]
    buffer.host.fill_(7.0)
    for job in jobs:
        job()

    assert not any(float(other) for other in others)
    buffer.close()


def test_managed_memory_is_given_back_and_never_more_than_the_limit(stream):
    half = MOST_BYTES // 8  # elements of four bytes
    for _ in range(3):
        one = GpuBuffer(MemoryPolicy.MANAGED, half, stream)
        other = GpuBuffer(MemoryPolicy.MANAGED, half, stream)
        with pytest.raises(ValueError, match="use another policy"):
            GpuBuffer(MemoryPolicy.MANAGED, 1, stream)
        one.close()
        other.close()
