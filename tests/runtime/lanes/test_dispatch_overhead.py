"""The cost of dispatching a job, measured on real lanes."""

from benchmarks.papers.simulator.makespan_error import measured_overhead
from runtime.lanes.cpu import CpuLane


def test_every_lane_has_a_positive_time_to_put_a_job():
    with CpuLane(name="gpu", asynchronous=True) as gpu, CpuLane(name="cpu") as cpu:
        overhead = measured_overhead([gpu, cpu])

    assert len(overhead.put_ms) == len(overhead.wake_ms) == 2
    assert all(0 < put_ms < 100 for put_ms in overhead.put_ms)
    assert all(wake_ms >= 0 for wake_ms in overhead.wake_ms)
