"""Control groups of hogs, the coarse lock and the disk hog."""

import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from benchmarks.papers.contention.cgroups import Hierarchy, hierarchy
from benchmarks.papers.contention.disk_hog import DiskHog
from benchmarks.papers.contention.process_limits import Freeze, Quota, own_cpu_limit, under_quota
from runtime.contention.contention import Contention
from runtime.contention.hogs.process_hogs import MemoryHog
from runtime.contention.hogs.running_hogs import RunningHogs
from runtime.contention.isolation import Isolation


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
    with stranger() as process, a_group_of_its_own(process):
        before = Path(f"/proc/{process}/cgroup").read_text()
        freeze = Freeze([process])
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


def test_a_quota_leaves_a_hog_a_share_of_a_core():
    group_or_skip("cpu")
    with (
        RunningHogs([MemoryHog(bytes=2**20)]) as hogs,
        under_quota(hogs, 1),
    ):  # as little as there is
        hog = psutil.Process(hogs.process_ids[0])
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


def test_version_2_is_detected_and_written_as_its_manual_says(made_up):
    root = made_up("cgroup2 {root} cgroup2 rw 0 0\n", "0::/user/session\n")
    home = root / "user" / "session"
    home.mkdir(parents=True)
    for name in ("cgroup.controllers", "user/session/cgroup.controllers"):
        (root / name).write_text("cpu memory\n")

    where = hierarchy("cpu", proc=root)

    assert where == Hierarchy(2, root, root / "user", "cpu", root)
    assert hierarchy("freezer", proc=root).version == 2
    with stranger() as process:
        (root / str(process)).mkdir()
        (root / str(process) / "cgroup").write_text("0::/elsewhere\n")
        (root / "elsewhere").mkdir()
        quota = Quota([process], 0.25, where)
        folder = quota._group.folder
        assert (folder / "cpu.max").read_text() == "5000 20000"
        assert (folder / "cgroup.procs").read_text() == str(process)
        freeze = Freeze([process], where)
        freeze.apply()
        assert (freeze._group.folder / "cgroup.freeze").read_text() == "1"
        freeze.close()
        quota.close()
        assert (root / "elsewhere" / "cgroup.procs").read_text() == str(process)
        assert not (home / "cgroup.procs").exists()


def test_version_1_goes_before_a_version_2_that_lacks_the_controller(made_up):
    mounts = "a {root}/v2 cgroup2 rw 0 0\nb {root}/v1 cgroup rw,cpu,cpuacct 0 0\n"
    root = made_up(mounts, "2:cpu,cpuacct:/here\n0::/\n")

    where = hierarchy("cpu", proc=root)
    assert (where.version, where.base) == (1, root / "v1" / "here")
    assert where.home("self") == where.base


def test_without_control_groups_the_error_names_an_alternative(made_up):
    root = made_up("proc /proc proc rw 0 0\n", "0::/\n")

    with pytest.raises(ValueError, match="isolation=stop"):
        hierarchy("cpu", proc=root)
    with (
        stranger() as process,
        pytest.raises(ValueError, match="isolation=stop"),
    ):
        Freeze([process], Hierarchy(1, root, root / "none", "freezer"))


def test_the_coarse_lock_makes_the_networks_own_cpu_part_wait():
    charge = own_cpu_limit(10)
    begin_s = time.perf_counter()
    for _ in range(4):
        charge(2**19)

    assert time.perf_counter() - begin_s > 0.14  # 1.5 MB at 10 MB/s, and the last on credit


def test_a_disk_hog_obeys_a_limit_and_leaves_no_file(tmp_path):
    try:
        running = RunningHogs([DiskHog(where=tmp_path, bytes=2**22)])
    except ValueError as error:  # tmp_path may lie in memory
        pytest.skip(str(error))
    with running, Contention(running, limit_mb_per_s=50, isolation=Isolation.budget) as beside:
        assert eventually(lambda: sum(beside.gb_per_s()) > 0)
        beside.gb_per_s()
        time.sleep(0.3)
        assert sum(beside.gb_per_s()) * 1e9 / 2**20 < 65
    assert list(tmp_path.iterdir()) == []


def test_a_disk_hog_needs_a_folder(tmp_path):
    with pytest.raises(ValueError, match="none"):
        RunningHogs([DiskHog(where=tmp_path / "none")])
