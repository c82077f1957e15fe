"""Many networks on the cores of a CPU, whichever way their jobs are issued."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from itertools import pairwise

import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from benchmarks.dispatch.modes import DispatchMode, InProcess, open_executor
from benchmarks.dispatch.prepared import DispatchedNetwork, Setup
from benchmarks.dispatch.processes import MultiContext, ProcessDiedError, Processes
from benchmarks.schedule_metrics import finish_spread_ms
from edgenas_core.inference.backend import Device
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.decompose import Rule
from edgenas_runtime.network.segment_kind import SegmentKind

THREADED = [way for way in DispatchMode if way is not DispatchMode.MULTI_CONTEXT]


def source(seed, layers=3):
    torch.manual_seed(seed)
    parts = [part for _ in range(layers) for part in (nn.Linear(4, 4), nn.Tanh())]
    return DispatchedNetwork(
        f"net{seed}", nn.Sequential(*parts).eval(), torch.randn(1, 4), Rule.LAYER
    )


def assert_computed(outcome, sources, captured):
    for source, found in zip(sources, outcome.outputs, strict=True):
        with torch.inference_mode():
            expected = source.module(source.x)
        if captured:
            torch.testing.assert_close(found, expected)
        else:
            assert torch.equal(found, expected)


def assert_lawful(schedule, jobs):
    """Every job once, in its network's order, one at a time on a stream."""
    wanted = {
        (i, j) for i, request in enumerate(schedule.requests) for j in range(jobs(request.network))
    }
    assert Counter(
        (execution.job.request, execution.job.index) for execution in schedule.executed
    ) == Counter(wanted)
    for network in range(len(schedule.chains)):
        own = [execution for execution in schedule.executed if execution.job.network == network]
        own.sort(key=lambda one: (one.job.request, one.job.index))
        for before, after in pairwise(own):
            assert before.end_ms <= after.start_ms
    for lane in range(len(schedule.lanes)):
        own = sorted(schedule.of_lane(lane), key=lambda one: (one.start_ms, one.end_ms))
        for before, after in pairwise(own):
            assert before.end_ms <= after.start_ms


@pytest.fixture(scope="module", params=[True, False], ids=["captured", "eager"])
def prepared(request):
    """By way: an executor and its sources."""
    sources = [source(0), source(1, layers=5)]
    opened = {way: InProcess(way, sources, Setup(captured=request.param)) for way in THREADED}
    yield request.param, opened, sources
    for executor in opened.values():
        executor.close()


@given(st.sampled_from(THREADED), st.integers(0, 3), st.booleans())
@settings(max_examples=20)
def test_every_way_runs_every_job_once_and_in_order(prepared, way, inferences, each_job):
    captured, executors, sources = prepared
    executor = executors[way]

    outcome = executor.run(inferences, each_job=each_job)

    chains = outcome.schedule.chains
    assert_computed(outcome, sources, captured)
    assert_lawful(outcome.schedule, lambda network: len(chains[network]))
    assert [chain.name for chain in chains] == ["net0", "net1"]
    if not each_job:
        assert [chain.kinds for chain in chains] == [(SegmentKind.NETWORK,)] * 2
    assert len(outcome.schedule.lanes) == (1 if way is DispatchMode.SERIAL else 2)
    assert makespan_ms(outcome.schedule) >= finish_spread_ms(outcome.schedule) >= 0


@pytest.fixture(scope="module")
def processes():
    sources = [source(0), source(1, layers=5)]
    with open_executor(DispatchMode.MULTI_CONTEXT, sources, Setup(captured=False)) as executor:
        yield executor, sources


@pytest.mark.slow
def test_processes_run_every_job_once_and_in_order_too(processes):
    executor, sources = processes
    for inferences, each_job in ((2, True), (3, False)):
        outcome = executor.run(inferences, each_job=each_job)

        assert_computed(outcome, sources, captured=False)
        assert_lawful(outcome.schedule, lambda n, found=outcome: len(found.schedule.chains[n]))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing is killed here like that")
def test_a_process_killed_ends_its_network_and_no_other(processes):
    executor, _ = processes
    ids = executor.process_ids
    os.kill(ids[1], signal.SIGKILL)

    outcome = executor.run(2)

    assert isinstance(outcome.outputs[0], torch.Tensor)
    assert isinstance(outcome.outputs[1], ProcessDiedError)
    assert "net1" in str(outcome.outputs[1])
    assert {execution.job.network for execution in outcome.schedule.executed} == {0}
    executor.close()
    assert not any(map(psutil.pid_exists, ids))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing is killed here like that")
def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent("""
        import time
        from torch import nn, ones
        from benchmarks.dispatch.prepared import DispatchedNetwork, Setup
        from benchmarks.dispatch.processes import MultiContext
        if __name__ == "__main__":
            source = DispatchedNetwork("net", nn.ReLU().eval(), ones(1))
            executor = MultiContext([source], Setup(captured=False))
            print(*executor.process_ids, flush=True)
            time.sleep(600)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, env=environment
    ) as parent:
        (child,) = map(int, parent.stdout.readline().split())
        family = [psutil.Process(child), *psutil.Process(parent.pid).children(recursive=True)]
        parent.kill()

    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing is killed here like that")
def test_processes_serve_one_set_of_networks_after_another():
    setup = Setup(captured=False)
    kept = Processes()
    with MultiContext([source(0), source(1)], setup, kept) as first:
        ids = first.process_ids
        first.run(1)
    with pytest.raises(ValueError, match="training mode"):
        MultiContext([DispatchedNetwork("net", nn.ReLU(), torch.ones(1))], setup, kept)
    with MultiContext([source(2), source(3)], setup, kept) as second:
        assert sorted(second.process_ids) == sorted(ids)
        assert_computed(second.run(2), [source(2), source(3)], captured=False)
        os.kill(second.process_ids[0], signal.SIGKILL)
    with MultiContext([source(4), source(5)], setup, kept) as third:
        assert len({*third.process_ids} - {*ids}) == 1
        assert_computed(third.run(1), [source(4), source(5)], captured=False)
        ids = third.process_ids
    kept.close()
    assert not any(map(psutil.pid_exists, ids))


def test_a_network_that_cannot_be_made_ready_raises_here():
    training = DispatchedNetwork("net", nn.ReLU(), torch.ones(1))

    with pytest.raises(ValueError, match="training mode"):
        MultiContext([training], Setup(captured=False))
    for way in THREADED:
        with pytest.raises(ValueError, match="training mode"):
            open_executor(way, [training], Setup())


class Breaks(nn.Module):
    broken = False

    def forward(self, x):
        if self.broken:
            raise ValueError("broken")
        return 2 * x


@pytest.mark.parametrize("way", THREADED)
def test_a_network_that_raises_ends_and_the_others_go_on(way, monkeypatch):
    sound = DispatchedNetwork(
        "sound", nn.Sequential(nn.ReLU(), nn.Linear(2, 2)).eval(), torch.ones(1, 2), Rule.LAYER
    )
    broken = DispatchedNetwork("broken", Breaks().eval(), torch.ones(1, 2), Rule.WHOLE)
    before = threads()
    with open_executor(way, [broken, sound, sound], Setup(captured=False)) as executor:
        monkeypatch.setattr(Breaks, "broken", True)

        outcome = executor.run(3)

        assert str(outcome.outputs[0]) == "broken"
        assert all(isinstance(output, torch.Tensor) for output in outcome.outputs[1:])
        ran = Counter(execution.job.network for execution in outcome.schedule.executed)
        assert ran == {1: 6, 2: 6}
        monkeypatch.setattr(Breaks, "broken", False)
        assert torch.equal(executor.run(1).outputs[0], 2 * torch.ones(1, 2))
    assert_ends(lambda: threads() <= before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a signal at a time")
@pytest.mark.parametrize("way", THREADED)
def test_ctrl_c_ends_a_run_and_its_threads(way):
    sources = [source(i) for i in range(2)]
    before = threads()

    def interrupt(*_):
        raise KeyboardInterrupt

    replaced = signal.signal(signal.SIGALRM, interrupt)
    try:
        with open_executor(way, sources, Setup(captured=False)) as executor:
            executor.run(1)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            begin_s = time.perf_counter()
            with pytest.raises(KeyboardInterrupt):
                executor.run(1_000_000)
            assert time.perf_counter() - begin_s < 30
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, replaced)
    assert_ends(lambda: threads() <= before)


def threads():
    """All but the one that tqdm keeps once somebody, torch for one, has used it."""
    return {one for one in threading.enumerate() if type(one).__module__ != "tqdm._monitor"}


def assert_ends(is_over):
    """One that was being started at the interrupt ends by itself, but is not waited for."""
    until_s = time.perf_counter() + 60
    while not is_over():
        assert time.perf_counter() < until_s
        time.sleep(0.01)


def test_a_gpu_that_is_not_there_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises((RuntimeError, AssertionError), match=r"CUDA|cuda|NVIDIA"):
        open_executor(DispatchMode.SERIAL, [source(0)], Setup(Device.cuda))
