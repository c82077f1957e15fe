"""Hogs, what holds them back, and what is left of them."""

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

from runtime.contention.hogs import compiled_hog as compiler
from runtime.contention.hogs.control_page import ControlPage
from runtime.contention.hogs.gpu_hogs import _HogThread
from runtime.contention.hogs.hog import Place
from runtime.contention.hogs.process_hogs import DiskHog, MemoryHog, Spinner
from runtime.contention.hogs.running_hogs import RunningHogs
from runtime.contention.isolation.caches import last_level_bytes
from runtime.contention.isolation.cgroups import Hierarchy, hierarchy
from runtime.contention.isolation.guarded import Guardian
from runtime.contention.isolation.holding import Freeze, Quota, Stop
from runtime.contention.isolation.isolation import Isolation
from runtime.contention.situation import Situation

if not hasattr(os, "memfd_create"):
    pytest.skip("hogs need Linux", allow_module_level=True)

SMALL = 2**20
MIB_PER_GB = 1e9 / 2**20


@pytest.fixture(scope="module")
def hogs():
    with RunningHogs([MemoryHog(bytes=SMALL)]) as running:
        yield running


def achieved_mb_per_s(situation, seconds=0.15):
    situation.gb_per_s()
    time.sleep(seconds)
    return sum(situation.gb_per_s()) * MIB_PER_GB


def state(process):
    return psutil.Process(process).status()


def is_alive(process):
    """A zombie is not: who should ask for its status is gone."""
    try:
        return state(process) != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def eventually(true, seconds=5.0):
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        if true():
            return True
        time.sleep(0.01)
    return False


@contextmanager
def stranger():
    """A process that is none of ours."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("limit", [10.0, 512.0])
def test_a_hog_keeps_its_budget_of_lines_a_period(hogs, limit):
    with Situation(hogs, limit_mb_per_s=limit, isolation=Isolation.budget) as beside:
        mb_per_s = achieved_mb_per_s(beside)

    # a busy machine may give a hog less than it may use, never more
    assert 0.2 * limit < mb_per_s < 1.1 * limit


def test_the_fine_lock_holds_a_hog_back_only_while_the_network_runs(hogs):
    rates = []
    with Situation(hogs, limit_mb_per_s=20, isolation=Isolation.fine_lock) as beside:
        free = achieved_mb_per_s(beside)
        beside.during(lambda: rates.append(achieved_mb_per_s(beside)))()
        with pytest.raises(ZeroDivisionError), beside.lock():
            1 / 0  # noqa: B018 - the lock is given back all the same
        again = achieved_mb_per_s(beside)

    assert rates[0] < 22
    assert min(free, again) > 200


def test_the_coarse_lock_starves_the_networks_own_cpu_part_and_the_fine_one_does_not(hogs):
    def seconds(isolation):
        with Situation(hogs, limit_mb_per_s=10, isolation=isolation) as beside:
            begin_s = time.perf_counter()
            for _ in range(4):
                beside.charge(2**19)
            return time.perf_counter() - begin_s

    assert seconds(Isolation.coarse_lock) > 0.14  # 1.5 MB at 10 MB/s, and the last on credit
    assert seconds(Isolation.fine_lock) < 0.05


def test_parked_hogs_move_nothing_and_some_of_many_may_take_part():
    with RunningHogs([MemoryHog(bytes=SMALL), Spinner()]) as both:
        with Situation(both, count=1) as beside:
            time.sleep(0.1)
            first, second = beside.gb_per_s()
        assert first > 0
        assert second == 0
        both.gb_per_s()
        time.sleep(0.05)
        assert both.gb_per_s() == [0, 0]


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
    with running, Situation(running, limit_mb_per_s=50, isolation=Isolation.budget) as beside:
        mb_per_s = achieved_mb_per_s(beside, 0.3)
    assert 5 < mb_per_s < 65
    assert list(tmp_path.iterdir()) == []


def test_a_hogs_own_demand_holds_without_any_isolation():
    with Situation([MemoryHog(bytes=SMALL, gb_per_s=0.1)]) as beside:
        assert achieved_mb_per_s(beside) < 1.1 * 0.1 * MIB_PER_GB


def test_without_a_compiler_numpy_hogs(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiler.shutil, "which", lambda _: None)

    assert compiler.compiled_hog() is None
    with RunningHogs([MemoryHog(bytes=2**22)]) as running:
        (process,) = running.process_ids
        assert "runtime.contention.hogs.python_hog" in psutil.Process(process).cmdline()


def test_a_strangers_process_stands_still_with_the_hogs(hogs):
    with (
        stranger() as process,
        Situation(hogs, isolation=Isolation.stop, processes=[process]) as beside,
    ):
        with beside.lock():
            assert eventually(lambda: state(process) == psutil.STATUS_STOPPED)
        assert eventually(lambda: state(process) == psutil.STATUS_SLEEPING)


def test_stopped_hogs_stand_still_while_the_network_runs(hogs):
    (process,) = hogs.process_ids
    with Situation(hogs, isolation=Isolation.stop) as beside:
        with beside.lock():
            assert eventually(lambda: state(process) == psutil.STATUS_STOPPED)
        assert eventually(lambda: state(process) != psutil.STATUS_STOPPED)
    assert achieved_mb_per_s(hogs) == 0


@pytest.mark.parametrize("hold", [Stop, Freeze])
@pytest.mark.parametrize("process", [os.getpid(), 0, -1], ids=["itself", "its group", "all"])
def test_nobody_holds_itself_back_nor_all_processes(process, hold):
    with Guardian() as guardian, pytest.raises(ValueError, match=f"process {process} cannot be"):
        hold([process], guardian)


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
    """Where another program was put by whoever started it."""
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
    with stranger() as process, Guardian() as guardian, a_group_of_its_own(process):
        before = Path(f"/proc/{process}/cgroup").read_text()
        freeze = Freeze([process], guardian)
        folder = freeze._group.folder
        freeze.hold()
        told = "freezer.state" if freeze._group.where.version == 1 else "cgroup.events"
        assert eventually(
            lambda: (
                "FROZEN" in (folder / told).read_text() or "frozen 1" in (folder / told).read_text()
            )
        )
        freeze.let_go()
        freeze.close()

        assert not folder.exists()
        assert Path(f"/proc/{process}/cgroup").read_text() == before


def test_a_quota_leaves_a_hog_a_share_of_a_core(hogs):
    group_or_skip("cpu")
    hog = psutil.Process(hogs.process_ids[0])
    with Situation(hogs, limit_mb_per_s=1, isolation=Isolation.quota):  # as little as there is
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
    with stranger() as process, Guardian() as guardian:
        (root / str(process)).mkdir()
        (root / str(process) / "cgroup").write_text("0::/elsewhere\n")
        (root / "elsewhere").mkdir()
        quota = Quota([process], 0.25, guardian, where)
        folder = quota._group.folder
        assert (folder / "cpu.max").read_text() == "5000 20000"
        assert (folder / "cgroup.procs").read_text() == str(process)
        freeze = Freeze([process], guardian, where)
        freeze.hold()
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


def test_a_machine_without_control_groups_is_told_what_is_possible(made_up):
    root = made_up("proc /proc proc rw 0 0\n", "0::/\n")

    with pytest.raises(ValueError, match=r"no cpu among .* isolation=stop needs none"):
        hierarchy("cpu", proc=root)
    with (
        stranger() as process,
        Guardian() as guardian,
        pytest.raises(ValueError, match=r"no control group can be made .* isolation=stop"),
    ):
        Freeze([process], guardian, Hierarchy(1, root, root / "none", "freezer"))


CRASH = """
import sys, time
from runtime.contention.isolation.holding import Freeze, Stop
from runtime.contention.isolation.isolation import Isolation
from runtime.contention.hogs.process_hogs import DiskHog, MemoryHog
from runtime.contention.hogs.running_hogs import RunningHogs
from runtime.contention.situation import Situation

hogs = RunningHogs([MemoryHog(bytes=2**20), MemoryHog(bytes=2**22, numpy=True)])
strangers = Stop([int(sys.argv[1])], hogs.guardian)
frozen, folder = None, "-"
if sys.argv[2] == "freezer":
    frozen = Freeze([int(sys.argv[3])], hogs.guardian)
    folder = frozen._group.folder
with Situation(hogs, isolation=Isolation.stop) as beside, beside.lock():
    strangers.hold()
    if frozen:
        frozen.hold()
    print(*hogs.process_ids, hogs.guardian.process_id, folder, flush=True)
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


def test_a_guardian_keeps_nothing_of_what_it_may_forget():
    with stranger() as process, Guardian() as guardian:
        for _ in range(50):
            guardian.forget(guardian.continue_later(process))
        guardian.continue_later(process)

        files = Path(f"/proc/{guardian.process_id}/fd")
        # its three streams, and the process that it still knows
        assert eventually(lambda: len([*files.iterdir()]) == 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="it can start here")
def test_a_gpus_hog_that_cannot_start_says_so_at_once():
    with Guardian() as guardian:
        page = ControlPage()
        with pytest.raises(ValueError, match="a GPU's hog did not start: "):
            _HogThread(Place(page, guardian), 0, None, lambda _: (lambda: None, 1))
        page.close()


def test_a_hog_that_dies_while_it_is_needed_is_told():
    with RunningHogs([MemoryHog(bytes=SMALL)]) as running:
        psutil.Process(running.process_ids[0]).kill()
        assert eventually(lambda: running._running[0].fault is not None)
        with pytest.raises(RuntimeError, match=r"memory hog ended .* status -9"):
            running.gb_per_s()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"isolation": Isolation.fine_lock}, "isolation=fine_lock needs limit_mb_per_s"),
        ({"limit_mb_per_s": 5.0}, "isolation=none has no use for limit_mb_per_s=5; budget"),
        (
            {"isolation": Isolation.budget, "limit_mb_per_s": 0.0},
            "limit_mb_per_s=0 must be above 0; to leave the hogs nothing .* take isolation=stop",
        ),
        (
            {"isolation": Isolation.budget, "limit_mb_per_s": math.nan},
            "limit_mb_per_s=nan must be above 0",
        ),
        (
            {"isolation": Isolation.budget, "limit_mb_per_s": 1.0, "processes": [1]},
            "isolation=budget cannot hold back processes of other programs; stop and freezer can",
        ),
        ({"isolation": Isolation.partition}, "isolation=partition goes with victim_sms"),
    ],
)
def test_what_means_nothing_is_refused_in_one_line(arguments, told):
    with pytest.raises(ValueError, match=told) as error:
        Situation([], **arguments)

    assert "\n" not in str(error.value)


def test_hogs_that_cannot_run_here_say_why(tmp_path):
    with pytest.raises(ValueError, match="needs a folder to write to"):
        RunningHogs([DiskHog(where=tmp_path / "none")])
    with pytest.raises(ValueError, match="32 hogs are too many; 31 at most"):
        RunningHogs([Spinner()] * 32)
    with Guardian() as guardian, pytest.raises(ValueError, match="cannot be held back: No such"):
        Stop([2**22 - 1], guardian)


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (
            {"core": 4096},
            r"core=4096 of a memory hog must be from 0 to \d+, the cores of this machine",
        ),
        ({"core": -1}, r"core=-1 of a memory hog must be from 0"),
        ({"gb_per_s": -1.0}, r"gb_per_s=-1 of a memory hog must be above 0; leave it out"),
        ({"gb_per_s": float("nan")}, r"gb_per_s=nan of a memory hog must be above 0"),
    ],
)
def test_a_hog_that_cannot_be_is_refused_in_one_line(told, complaint):
    with pytest.raises(ValueError, match=complaint) as error:
        MemoryHog(**told)

    assert "\n" not in str(error.value)


def test_without_a_gpu_its_hogs_say_so():
    import torch  # noqa: PLC0415 - the other tests need none

    from runtime.contention.hogs.gpu_hogs import GpuMemoryHog, PcieHog  # noqa: PLC0415

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for hog in (GpuMemoryHog(), PcieHog()):
        with pytest.raises(ValueError, match="torch finds none here; hogs of the CPU's memory"):
            RunningHogs([hog])
    with pytest.raises(ValueError, match="torch finds none here"):
        RunningHogs([], victim_sms=32)


def test_the_last_cache_is_the_largest_that_is_told(tmp_path):
    for index, size in enumerate(("32K", "1024K", "32768K")):
        folder = tmp_path / "cpu0" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")

    assert last_level_bytes(0, tmp_path) == 32 * 2**20
    assert last_level_bytes(1, tmp_path) == 32 * 2**20  # told nowhere


def test_the_program_is_compiled_once():
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler")
    first = compiler.compiled_hog()
    made = first.stat().st_mtime_ns

    assert compiler.compiled_hog() == first
    assert first.stat().st_mtime_ns == made


def test_the_program_of_the_documentation_runs(capsys):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("its hog wants a second core")
    page = Path(__file__).parents[3] / "docs" / "how-to" / "measure-contention.md"
    program = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[0]

    exec(compile(program, str(page), "exec"), {"infer": lambda: time.sleep(0.01)})  # noqa: S102 - a page of our own

    assert float(capsys.readouterr().out.strip("[]\n")) > 0
