"""The folder of an export holds all of its files, or is as it was."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from edgenas_core.types.errors import UserError
from nas.export.folder import RECORD, filling, require_place
from nas.spaces.nas_bench_201.plugin import SPACE

TASKS = SPACE.tasks
ARCH = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"


def write_export(out, arch=ARCH, space=SPACE.name):
    with filling(out) as folder:
        (folder / "network.py").write_text("x = 1\n")
        record = {"space": space, "architecture": {"arch": arch}, "dataset": "cifar10"}
        (folder / RECORD).write_text(json.dumps(record))


def test_the_files_are_there_when_the_block_has_ended_and_nothing_else(tmp_path):
    write_export(tmp_path / "a" / "export")

    assert {path.name for path in (tmp_path / "a").iterdir()} == {"export"}
    assert {path.name for path in (tmp_path / "a" / "export").iterdir()} == {"network.py", RECORD}


def test_what_a_killed_export_left_is_removed_and_temporary_files_lie_with_it(tmp_path):
    for out in (tmp_path / "new", tmp_path):
        killed = filling(out)
        folder = killed.__enter__()
        (folder / "network.py").write_text("half")
        temporary = Path(tempfile.gettempdir())
        (temporary / "x").write_text("half")
        left = {path: path.read_bytes() for path in folder.parent.rglob("*") if path.is_file()}
        with pytest.raises(UserError, match="another process"), filling(out):
            pass
        killed.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert not temporary.exists()
        for path, content in left.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

        require_place(out, ARCH, SPACE.name, TASKS["cifar10"])
        write_export(out)

        assert {path.name for path in out.iterdir() if path.is_file()} == {"network.py", RECORD}
        assert not list(tmp_path.rglob("*.tmp"))
        shutil.rmtree(tmp_path / "new", ignore_errors=True)


def test_a_socket_opens_in_the_folder_of_temporary_files(tmp_path):
    with filling(tmp_path / ("long" * 25) / "export") as folder:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(tempfile.mkdtemp() + "/listener-12345678")
        (folder / RECORD).write_text("{}")


def _write_half(folder, error):
    (folder / "network.py").write_text("half")
    raise error


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_error_leaves_everything_as_it_was(tmp_path, there, error):
    out = tmp_path / "export"
    if there:
        write_export(out)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(error), filling(out) as folder:
        _write_half(folder, error)

    assert sorted(tmp_path.rglob("*")) == before
    assert not there or (out / "network.py").read_text() == "x = 1\n"


def test_an_export_of_the_same_network_is_replaced_and_other_files_stay(tmp_path):
    write_export(tmp_path)
    (tmp_path / "network.py").write_text("old")
    (tmp_path / "network-fp16.engine").write_text("built on the board")

    require_place(tmp_path, ARCH, SPACE.name, TASKS["cifar10"])
    write_export(tmp_path)

    assert (tmp_path / "network.py").read_text() == "x = 1\n"
    assert {path.name for path in tmp_path.iterdir()} == {
        "network.py",
        "network-fp16.engine",
        RECORD,
    }


@pytest.mark.parametrize(
    ("arch", "space", "dataset"),
    [
        (ARCH.replace("none~0", "skip~0"), SPACE.name, "cifar10"),
        (ARCH, "another_space", "cifar10"),
        (ARCH, SPACE.name, "cifar100"),
    ],
)
def test_an_export_of_another_network_is_not_replaced(tmp_path, arch, space, dataset):
    write_export(tmp_path)

    with pytest.raises(UserError, match="another network") as refused:
        require_place(tmp_path, arch, space, TASKS[dataset])
    for word in (ARCH, SPACE.name, "cifar10", "out="):
        assert word in str(refused.value)


def test_a_folder_of_other_files_is_not_written_to(tmp_path):
    (tmp_path / "thesis.txt").touch()

    with pytest.raises(UserError, match=r"other files.*out="):
        require_place(tmp_path, ARCH, SPACE.name, TASKS["cifar10"])
    with pytest.raises(UserError, match="is a file"):
        require_place(tmp_path / "thesis.txt", ARCH, SPACE.name, TASKS["cifar10"])


@pytest.mark.parametrize("content", ["{", "[]", '{"architecture": 1}', "\xff", "[" * 99_999])
def test_a_record_that_is_none_is_not_replaced(tmp_path, content):
    (tmp_path / RECORD).write_bytes(content.encode("latin-1"))

    with pytest.raises(UserError, match=rf"{RECORD} is not"):
        require_place(tmp_path, ARCH, SPACE.name, TASKS["cifar10"])
