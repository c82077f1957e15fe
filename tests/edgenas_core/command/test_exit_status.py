"""A command ends with one line and a status, never with a traceback."""

import errno
import os
import subprocess
import sys

import pytest

from edgenas_core.command.exit_status import one_line_errors
from edgenas_core.types.errors import UserError


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UserError("T=0 is\nnot positive"), 2, "edgenas: T=0 is not positive\n"),
        (
            OSError(errno.ENOSPC, "No space left", "/a/b"),
            2,
            "edgenas: /a/b: No space left: the disk is full\n",
        ),
        (OSError(errno.ENOSPC, "No space left"), 2, "edgenas: No space left: the disk is full\n"),
        (UserError("no \x1b]0;title\x07"), 2, "edgenas: no ?]0;title?\n"),
        (OSError("odd"), 2, "edgenas: odd\n"),
        (OSError(), 2, "edgenas: OSError\n"),
        (KeyboardInterrupt(), 130, "edgenas: interrupted\n"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_a_status(capsys, error, status, line):
    with pytest.raises(SystemExit) as ended, one_line_errors():
        raise error

    assert ended.value.code == status
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [("nas.data list", ""), ("nas.data list", "1"), ("nas.search --help", "")],
)
def test_a_command_whose_output_nobody_reads_ends_quietly(command, unbuffered):
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", *command.split()]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}

    ended = subprocess.run(
        words, stdout=write, stderr=subprocess.PIPE, env=environment, check=False
    )

    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_command_names_further_errors_of_the_user(capsys):
    with pytest.raises(SystemExit) as ended, one_line_errors(ValueError):
        raise ValueError("repeats=0 must be at least 1")

    assert ended.value.code == 2
    assert capsys.readouterr().err == "edgenas: repeats=0 must be at least 1\n"
    with pytest.raises(ValueError, match="a bug"), one_line_errors():
        raise ValueError("a bug")


def test_an_import_that_ctrl_c_ended_is_an_interruption_not_a_bug(capsys):
    with pytest.raises(SystemExit) as ended, one_line_errors():
        raise ImportError("initialization failed") from KeyboardInterrupt()

    assert ended.value.code == 130
    assert capsys.readouterr().err == "edgenas: interrupted\n"


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError), one_line_errors():
        raise ZeroDivisionError


def test_it_decorates_a_command():
    @one_line_errors()
    def command(fail):
        if fail:
            raise UserError("no")
        return 7

    assert command(fail=False) == 7
    for _ in range(2):
        with pytest.raises(SystemExit):
            command(fail=True)
