"""What placing a job costs, measured on real lanes."""

from runtime.lanes.cpu import CpuLane
from runtime.lanes.issuer_profile import measured_issuer


def test_the_issuing_thread_is_busy_with_every_job_of_every_lane():
    with CpuLane(name="gpu", asynchronous=True) as gpu, CpuLane(name="cpu") as cpu:
        issuer = measured_issuer([gpu, cpu])

    assert len(issuer.put_ms) == len(issuer.wake_ms) == 2
    assert all(0 < put_ms < 100 for put_ms in issuer.put_ms)
    assert all(wake_ms >= 0 for wake_ms in issuer.wake_ms)
