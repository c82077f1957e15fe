"""Hogs and isolation."""

import math
import os
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

from edgenas_core.contention.contention import Contention, RunningHogs
from edgenas_core.contention.hogs import process_hogs
from edgenas_core.contention.hogs.control_page import ControlPage
from edgenas_core.contention.hogs.gpu_hogs import GpuMemoryHog, PcieHog, _HogThread
from edgenas_core.contention.hogs.hog import HogContext
from edgenas_core.contention.hogs.process_hogs import MemoryHog, Spinner, last_level_bytes
from edgenas_core.contention.isolation import Isolation

if not hasattr(os, "memfd_create"):
    pytest.skip("hogs need Linux", allow_module_level=True)

SMALL = 2**20
LIMITED = partial(Contention, [], isolation=Isolation.budget)
MIB_PER_GB = 1e9 / 2**20


@pytest.fixture(scope="module")
def hogs():
    with RunningHogs([MemoryHog(bytes=SMALL)]) as running:
        yield running


def achieved_mb_per_s(contention, seconds=0.15):
    contention.gb_per_s()
    time.sleep(seconds)
    return sum(contention.gb_per_s()) * MIB_PER_GB


def state(process):
    return psutil.Process(process).status()


def is_alive(process):
    """A zombie is not alive: it only waits for its parent to read its status."""
    try:
        return state(process) != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def eventually(true, seconds=60.0):
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        if true():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("hog", "limit", "most"),
    [
        (MemoryHog(bytes=SMALL), 10.0, 11.0),
        (MemoryHog(bytes=SMALL), 512.0, 563.0),
        (Spinner(), 50.0, 65.0),
    ],
)
def test_a_hog_keeps_its_budget_of_lines_a_period(hog, limit, most):
    with Contention([hog], limit_mb_per_s=limit, isolation=Isolation.budget) as beside:
        assert eventually(lambda: sum(beside.gb_per_s()) > 0)
        mb_per_s = achieved_mb_per_s(beside, 0.3)

    # a busy machine may give a hog less than it may use, never more
    assert mb_per_s < most


def test_the_fine_lock_holds_a_hog_back_only_while_the_network_runs(hogs):
    rates = []
    with Contention(hogs, limit_mb_per_s=20, isolation=Isolation.fine_lock) as beside:
        # a busy machine gives a hog less than it may use, but not for ever
        assert eventually(lambda: achieved_mb_per_s(beside) > 44)
        beside.during(lambda: rates.append(achieved_mb_per_s(beside)))()
        with pytest.raises(ZeroDivisionError), beside.lock():
            1 / 0  # noqa: B018 - the lock is given back all the same
        assert eventually(lambda: achieved_mb_per_s(beside) > 44)

    assert rates[0] < 22


def test_parked_hogs_move_nothing_and_some_of_many_may_take_part():
    with RunningHogs([MemoryHog(bytes=SMALL), Spinner()]) as both:
        with Contention(both, count=1) as beside:
            assert eventually(lambda: beside.gb_per_s()[0] > 0)
            assert beside.gb_per_s()[1] == 0
        # what a busy machine held up at the end is counted late
        assert eventually(lambda: achieved_mb_per_s(both, 0.1) == 0)


def test_a_hogs_own_demand_holds_without_any_isolation():
    with Contention([MemoryHog(bytes=SMALL, gb_per_s=0.1)]) as beside:
        assert achieved_mb_per_s(beside) < 1.1 * 0.1 * MIB_PER_GB


def test_a_missing_compiler_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(process_hogs.shutil, "which", lambda _: None)

    with pytest.raises(ValueError, match="cc, gcc, clang"):
        process_hogs.compiled_hog()


def test_stopped_hogs_stand_still_while_the_network_runs(hogs):
    (process,) = hogs.process_ids
    with Contention(hogs, isolation=Isolation.stop) as beside:
        with beside.lock():
            assert eventually(lambda: state(process) == psutil.STATUS_STOPPED)
        assert eventually(lambda: state(process) != psutil.STATUS_STOPPED)
    assert eventually(lambda: achieved_mb_per_s(hogs) == 0)


CRASH = """
import time
from edgenas_core.contention.contention import Contention
from edgenas_core.contention.hogs.process_hogs import MemoryHog
from edgenas_core.contention.contention import RunningHogs
from edgenas_core.contention.isolation import Isolation

hogs = RunningHogs([MemoryHog(bytes=2**20), MemoryHog(bytes=2**22)])
with Contention(hogs, isolation=Isolation.stop) as beside, beside.lock():
    print(*hogs.process_ids, flush=True)
    time.sleep(60)
"""


def test_after_kill_9_no_hog_is_left_not_even_a_stopped_one():
    command = [sys.executable, "-c", CRASH]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as measuring:
        processes = [int(word) for word in measuring.stdout.readline().split()]
        assert len(processes) == 2
        measuring.kill()

    assert eventually(lambda: not any(map(is_alive, processes)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="it can start here")
def test_a_gpu_hog_that_cannot_start_fails_at_once():
    page = ControlPage()
    with pytest.raises(ValueError, match="did not start"):
        _HogThread(HogContext(page), 0, None, lambda _: (lambda: None, 1))
    page.close()


def test_a_hog_that_dies_during_a_measurement_is_reported():
    with RunningHogs([MemoryHog(bytes=SMALL)]) as running:
        psutil.Process(running.process_ids[0]).kill()
        assert eventually(lambda: running._running[0].fault is not None)
        with pytest.raises(RuntimeError, match=r"memory hog .* status -9"):
            running.gb_per_s()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (partial(Contention, [], isolation=Isolation.fine_lock), "limit_mb_per_s"),
        (partial(Contention, [], limit_mb_per_s=5.0), "limit_mb_per_s=5"),
        (partial(LIMITED, limit_mb_per_s=0.0), "limit_mb_per_s=0"),
        (partial(LIMITED, limit_mb_per_s=math.nan), "limit_mb_per_s=nan"),
        (partial(Contention, [], isolation=Isolation.partition), "victim_sms"),
        (partial(RunningHogs, [Spinner()] * 32), "32 hogs .*31"),
        (partial(MemoryHog, core=4096), "core=4096"),
        (partial(MemoryHog, core=-1), "core=-1"),
        (partial(MemoryHog, gb_per_s=-1.0), "gb_per_s=-1"),
        (partial(MemoryHog, gb_per_s=math.nan), "gb_per_s=nan"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_that_names_the_setting(call, named):
    with pytest.raises(ValueError, match=named) as error:
        call()

    assert "\n" not in str(error.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_its_hogs_are_refused_with_the_way_out():
    for hog in (GpuMemoryHog(), PcieHog()):
        with pytest.raises(ValueError, match="CUDA"):
            RunningHogs([hog])
    with pytest.raises(ValueError, match="CUDA"):
        RunningHogs([], victim_sms=32)


def test_the_last_level_cache_is_the_largest_reported(tmp_path):
    for index, size in enumerate(("32K", "1024K", "32768K")):
        folder = tmp_path / "cpu0" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")

    assert last_level_bytes(0, tmp_path) == 32 * 2**20
    assert last_level_bytes(1, tmp_path) == 32 * 2**20  # not reported


def test_the_program_is_compiled_once():
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler")
    first = process_hogs.compiled_hog()
    made = first.stat().st_mtime_ns

    assert process_hogs.compiled_hog() == first
    assert first.stat().st_mtime_ns == made


def test_the_program_of_the_documentation_runs(capsys):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("its hog wants a second core")
    page = Path(__file__).parents[3] / "docs" / "reference" / "contention.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)

    exec(compile(program, str(page), "exec"), {"infer": lambda: time.sleep(0.3)})  # noqa: S102 - a page of our own

    assert float(capsys.readouterr().out.strip("[]\n")) > 0
