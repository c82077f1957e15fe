"""Hogs, isolation and the cleanup after a crash."""

import math
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import torch

from runtime.contention.contention import Contention
from runtime.contention.hogs import process_hogs
from runtime.contention.hogs.control_page import ControlPage
from runtime.contention.hogs.gpu_hogs import GpuMemoryHog, PcieHog, _HogThread
from runtime.contention.hogs.hog import HogContext
from runtime.contention.hogs.process_hogs import DiskHog, MemoryHog, Spinner, last_level_bytes
from runtime.contention.hogs.running_hogs import RunningHogs
from runtime.contention.isolation.cgroups import Hierarchy, hierarchy
from runtime.contention.isolation.crash_cleanup import CrashCleanup
from runtime.contention.isolation.isolation import Isolation
from runtime.contention.isolation.limits import Freeze, Quota, Stop

if not hasattr(os, "memfd_create"):
    pytest.skip("hogs need Linux", allow_module_level=True)

SMALL = 2**20
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


@contextmanager
def stranger():
    """A process that is not a hog."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("limit", [10.0, 512.0])
def test_a_hog_keeps_its_budget_of_lines_a_period(hogs, limit):
    with Contention(hogs, limit_mb_per_s=limit, isolation=Isolation.budget) as beside:
        assert eventually(lambda: sum(beside.gb_per_s()) > 0)
        mb_per_s = achieved_mb_per_s(beside)

    # a busy machine may give a hog less than it may use, never more
    assert mb_per_s < 1.1 * limit


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


def test_the_coarse_lock_starves_the_networks_own_cpu_part_and_the_fine_one_does_not(hogs):
    def seconds(isolation):
        with Contention(hogs, limit_mb_per_s=10, isolation=isolation) as beside:
            begin_s = time.perf_counter()
            for _ in range(4):
                beside.charge(2**19)
            return time.perf_counter() - begin_s

    assert seconds(Isolation.coarse_lock) > 0.14  # 1.5 MB at 10 MB/s, and the last on credit
    # on a busy machine some of them wait for a processor
    assert eventually(lambda: seconds(Isolation.fine_lock) < 0.05)


def test_parked_hogs_move_nothing_and_some_of_many_may_take_part():
    with RunningHogs([MemoryHog(bytes=SMALL), Spinner()]) as both:
        with Contention(both, count=1) as beside:
            assert eventually(lambda: beside.gb_per_s()[0] > 0)
            assert beside.gb_per_s()[1] == 0
        # what a busy machine held up at the end is counted late
        assert eventually(lambda: achieved_mb_per_s(both, 0.1) == 0)


@pytest.mark.parametrize(
    "hog",
    [MemoryHog(bytes=2**22, numpy=True), DiskHog(bytes=2**22), Spinner()],
    ids=["numpy", "disk", "spin"],
)
def test_every_hog_of_a_process_obeys_a_limit(hog, tmp_path):
    if isinstance(hog, DiskHog):
        hog = DiskHog(where=tmp_path, bytes=2**22)
    try:
        running = RunningHogs([hog])
    except ValueError as error:  # tmp_path may lie in memory
        pytest.skip(str(error))
    with running, Contention(running, limit_mb_per_s=50, isolation=Isolation.budget) as beside:
        assert eventually(lambda: sum(beside.gb_per_s()) > 0)
        assert achieved_mb_per_s(beside, 0.3) < 65
    assert list(tmp_path.iterdir()) == []


def test_a_hogs_own_demand_holds_without_any_isolation():
    with Contention([MemoryHog(bytes=SMALL, gb_per_s=0.1)]) as beside:
        assert achieved_mb_per_s(beside) < 1.1 * 0.1 * MIB_PER_GB


def test_without_a_compiler_numpy_hogs(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(process_hogs.shutil, "which", lambda _: None)

    assert process_hogs.compiled_hog() is None
    with RunningHogs([MemoryHog(bytes=2**22)]) as running:
        (process,) = running.process_ids
        assert "runtime.contention.hogs.python_hog" in psutil.Process(process).cmdline()


def test_a_strangers_process_stands_still_with_the_hogs(hogs):
    with (
        stranger() as process,
        Contention(hogs, isolation=Isolation.stop, processes=[process]) as beside,
    ):
        with beside.lock():
            assert eventually(lambda: state(process) == psutil.STATUS_STOPPED)
        assert eventually(lambda: state(process) == psutil.STATUS_SLEEPING)


def test_stopped_hogs_stand_still_while_the_network_runs(hogs):
    (process,) = hogs.process_ids
    with Contention(hogs, isolation=Isolation.stop) as beside:
        with beside.lock():
            assert eventually(lambda: state(process) == psutil.STATUS_STOPPED)
        assert eventually(lambda: state(process) != psutil.STATUS_STOPPED)
    assert eventually(lambda: achieved_mb_per_s(hogs) == 0)


@pytest.mark.parametrize("limit", [Stop, Freeze])
@pytest.mark.parametrize("process", [os.getpid(), 0, -1], ids=["itself", "its group", "all"])
def test_neither_this_process_nor_all_processes_can_be_limited(process, limit):
    with CrashCleanup() as cleanup, pytest.raises(ValueError, match=f"process {process} cannot be"):
        limit([process], cleanup)


def group_or_skip(controller):
    try:
        where = hierarchy(controller)
        folder = where.base / f"edgenas-test-{os.getpid()}"
        folder.mkdir()
        folder.rmdir()
    except (ValueError, OSError) as error:
        pytest.skip(f"no control groups: {error}")


@contextmanager
def a_group_of_its_own(process):
    """A control group that already holds a process of another program."""
    where = hierarchy("freezer")
    folder = where.base / f"edgenas-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "cgroup.procs").write_text(str(process))
        yield
    finally:
        (where.base / "cgroup.procs").write_text(str(process))
        folder.rmdir()


def test_the_freezer_stops_a_strangers_process_and_lets_it_go_home():
    group_or_skip("freezer")
    with stranger() as process, CrashCleanup() as cleanup, a_group_of_its_own(process):
        before = Path(f"/proc/{process}/cgroup").read_text()
        freeze = Freeze([process], cleanup)
        folder = freeze._group.folder
        freeze.apply()
        name, frozen = (
            ("freezer.state", "FROZEN")
            if freeze._group.where.version == 1
            else ("cgroup.events", "frozen 1")
        )
        assert eventually(lambda: frozen in (folder / name).read_text())
        freeze.release()
        freeze.close()

        assert not folder.exists()
        assert Path(f"/proc/{process}/cgroup").read_text() == before


def test_a_quota_leaves_a_hog_a_share_of_a_core(hogs):
    group_or_skip("cpu")
    hog = psutil.Process(hogs.process_ids[0])
    with Contention(hogs, limit_mb_per_s=1, isolation=Isolation.quota):  # as little as there is
        before = sum(hog.cpu_times()[:2])
        time.sleep(0.3)
        busy_s = sum(hog.cpu_times()[:2]) - before

    assert busy_s < 0.1


@pytest.fixture
def made_up(tmp_path):
    """A folder that looks like a machine's control groups, for either version."""

    def make(mounts, groups):
        (tmp_path / "self").mkdir()
        (tmp_path / "mounts").write_text(mounts.format(root=tmp_path))
        (tmp_path / "self" / "cgroup").write_text(groups)
        return tmp_path

    return make


def test_version_2_is_found_and_written_as_its_manual_says(made_up):
    root = made_up("cgroup2 {root} cgroup2 rw 0 0\n", "0::/user/session\n")
    home = root / "user" / "session"
    home.mkdir(parents=True)
    for name in ("cgroup.controllers", "user/session/cgroup.controllers"):
        (root / name).write_text("cpu memory\n")

    where = hierarchy("cpu", proc=root)

    assert where == Hierarchy(2, root, root / "user", "cpu", root)
    assert hierarchy("freezer", proc=root).version == 2
    with stranger() as process, CrashCleanup() as cleanup:
        (root / str(process)).mkdir()
        (root / str(process) / "cgroup").write_text("0::/elsewhere\n")
        (root / "elsewhere").mkdir()
        quota = Quota([process], 0.25, cleanup, where)
        folder = quota._group.folder
        assert (folder / "cpu.max").read_text() == "5000 20000"
        assert (folder / "cgroup.procs").read_text() == str(process)
        freeze = Freeze([process], cleanup, where)
        freeze.apply()
        assert (freeze._group.folder / "cgroup.freeze").read_text() == "1"
        freeze.close()
        quota.close()
        assert (root / "elsewhere" / "cgroup.procs").read_text() == str(process)
        assert not (home / "cgroup.procs").exists()


def test_version_1_goes_before_a_version_2_that_lacks_the_controller(made_up):
    mounts = "a {root}/v2 cgroup2 rw 0 0\nb {root}/v1 cgroup rw,cpu,cpuacct 0 0\n"
    root = made_up(mounts, "2:cpu,cpuacct:/here\n0::/\n")

    found = hierarchy("cpu", proc=root)
    assert (found.version, found.base) == (1, root / "v1" / "here")
    assert found.home("self") == found.base


def test_without_control_groups_the_error_names_an_alternative(made_up):
    root = made_up("proc /proc proc rw 0 0\n", "0::/\n")

    with pytest.raises(ValueError, match=r"cpu.*isolation=stop"):
        hierarchy("cpu", proc=root)
    with (
        stranger() as process,
        CrashCleanup() as cleanup,
        pytest.raises(ValueError, match=r"isolation=stop"),
    ):
        Freeze([process], cleanup, Hierarchy(1, root, root / "none", "freezer"))


CRASH = """
import sys, time
from runtime.contention.isolation.limits import Freeze, Stop
from runtime.contention.isolation.isolation import Isolation
from runtime.contention.hogs.process_hogs import DiskHog, MemoryHog
from runtime.contention.hogs.running_hogs import RunningHogs
from runtime.contention.contention import Contention

hogs = RunningHogs([MemoryHog(bytes=2**20), MemoryHog(bytes=2**22, numpy=True)])
strangers = Stop([int(sys.argv[1])], hogs.cleanup)
frozen, folder = None, "-"
if sys.argv[2] == "freezer":
    frozen = Freeze([int(sys.argv[3])], hogs.cleanup)
    folder = frozen._group.folder
with Contention(hogs, isolation=Isolation.stop) as beside, beside.lock():
    strangers.apply()
    if frozen:
        frozen.apply()
    print(*hogs.process_ids, hogs.cleanup.process_id, folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("how", ["stop", "freezer"])
def test_after_kill_9_no_hog_is_left_and_no_process_stands_still(how):
    if how == "freezer":
        group_or_skip("freezer")
    with stranger() as first, stranger() as second:
        command = [sys.executable, "-c", CRASH, str(first), how, str(second)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as measuring:
            *ours, folder = measuring.stdout.readline().split()
            assert eventually(lambda: state(first) == psutil.STATUS_STOPPED)
            measuring.kill()

        assert eventually(lambda: not any(is_alive(int(one)) for one in ours))
        assert state(first) == psutil.STATUS_SLEEPING
        assert not Path(folder).exists() or how == "stop"
        psutil.Process(second).terminate()  # which a frozen process would not notice
        assert eventually(lambda: state(second) == psutil.STATUS_ZOMBIE)


def test_a_cleanup_keeps_nothing_of_unregistered_actions():
    with stranger() as process, CrashCleanup() as cleanup:
        for _ in range(50):
            cleanup.unregister(cleanup.register_continue(process))
        cleanup.register_continue(process)

        files = Path(f"/proc/{cleanup.process_id}/fd")
        # its three streams, and the process that it still knows
        assert eventually(lambda: len([*files.iterdir()]) == 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="it can start here")
def test_a_gpu_hog_that_cannot_start_fails_at_once():
    with CrashCleanup() as cleanup:
        page = ControlPage()
        with pytest.raises(ValueError, match="did not start"):
            _HogThread(HogContext(page, cleanup), 0, None, lambda _: (lambda: None, 1))
        page.close()


def test_a_hog_that_dies_during_a_measurement_is_reported():
    with RunningHogs([MemoryHog(bytes=SMALL)]) as running:
        psutil.Process(running.process_ids[0]).kill()
        assert eventually(lambda: running._running[0].fault is not None)
        with pytest.raises(RuntimeError, match=r"memory hog .* status -9"):
            running.gb_per_s()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"isolation": Isolation.fine_lock}, "isolation=fine_lock .*limit_mb_per_s"),
        ({"limit_mb_per_s": 5.0}, "isolation=none .*limit_mb_per_s=5.*budget"),
        (
            {"isolation": Isolation.budget, "limit_mb_per_s": 0.0},
            "limit_mb_per_s=0 .*isolation=stop",
        ),
        (
            {"isolation": Isolation.budget, "limit_mb_per_s": math.nan},
            "limit_mb_per_s=nan",
        ),
        (
            {"isolation": Isolation.budget, "limit_mb_per_s": 1.0, "processes": [1]},
            "isolation=budget .*stop or freezer",
        ),
        ({"isolation": Isolation.partition}, "isolation=partition .*victim_sms"),
    ],
)
def test_invalid_combinations_are_refused_in_one_line(arguments, named):
    with pytest.raises(ValueError, match=named) as error:
        Contention([], **arguments)

    assert "\n" not in str(error.value)


def test_hogs_that_cannot_run_here_are_refused_with_the_reason(tmp_path):
    with pytest.raises(ValueError, match=f"folder .*{re.escape(str(tmp_path))}"):
        RunningHogs([DiskHog(where=tmp_path / "none")])
    with pytest.raises(ValueError, match=r"32 hogs .*31"):
        RunningHogs([Spinner()] * 32)
    with CrashCleanup() as cleanup, pytest.raises(ValueError, match=r"process 4194303 .*No such"):
        Stop([2**22 - 1], cleanup)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"core": 4096}, r"core=4096 of a memory hog .*0 to \d+"),
        ({"core": -1}, r"core=-1 of a memory hog"),
        ({"gb_per_s": -1.0}, r"gb_per_s=-1 of a memory hog"),
        ({"gb_per_s": float("nan")}, r"gb_per_s=nan of a memory hog"),
    ],
)
def test_an_invalid_hog_is_refused_in_one_line(arguments, named):
    with pytest.raises(ValueError, match=named) as error:
        MemoryHog(**arguments)

    assert "\n" not in str(error.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_its_hogs_are_refused_with_the_way_out():
    for hog in (GpuMemoryHog(), PcieHog()):
        with pytest.raises(ValueError, match=r"CUDA.*memory, spin, disk"):
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
    page = Path(__file__).parents[3] / "docs" / "how-to" / "run-many-networks.md"
    _, program = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)

    exec(compile(program, str(page), "exec"), {"infer": lambda: time.sleep(0.01)})  # noqa: S102 - a page of our own

    assert float(capsys.readouterr().out.strip("[]\n")) > 0
