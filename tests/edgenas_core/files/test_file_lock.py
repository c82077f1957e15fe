"""Locks, and file systems that have none."""

import errno
import fcntl
import os

import pytest

from edgenas_core.files.file_lock import held
from edgenas_core.types.errors import UserError


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_written_without_one_and_named(
    tmp_path, monkeypatch, capsys, code
):
    def no_lock(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", no_lock)
    (tmp_path / "lock").touch()

    with held(tmp_path / "lock"):
        pass

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ")
    assert str(tmp_path) in line


def test_a_folder_that_another_holds_is_refused(tmp_path):
    (tmp_path / "lock").touch()

    with (
        held(tmp_path / "lock"),
        pytest.raises(UserError, match="another process"),
        held(tmp_path / "lock"),
    ):
        pass
