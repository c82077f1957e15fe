import shlex
import subprocess
import sys

import pytest

from edgenas_core.types.errors import UserError
from latency.probe.address import INTERPRETER, Connect, command_of, is_experimental, split_addresses

START = list(INTERPRETER)


def test_an_ssh_address_becomes_a_command_that_asks_nothing():
    words = command_of("ssh://me@jetson:2222", Connect(timeout_s=7.0))

    assert words[0] == "ssh"
    assert "BatchMode=yes" in words
    assert "ConnectTimeout=7" in words
    assert words[words.index("-p") + 1] == "2222"
    assert words[words.index("-l") + 1] == "me"
    assert words[words.index("--") :] == ["--", "jetson", "python3", *START]


def test_a_command_is_split_as_a_shell_would_and_python_comes_after_it():
    assert command_of("cmd://docker exec -i 'my board'", Connect()) == [
        "docker",
        "exec",
        "-i",
        "my board",
        "python3",
        *START,
    ]


def test_the_bare_command_is_this_python():
    assert command_of("cmd://", Connect()) == [sys.executable, *START]


def test_no_shell_between_changes_what_is_sent():
    printed = subprocess.run(
        ["sh", "-c", "printf '%s\\n' " + " ".join(INTERPRETER)], capture_output=True, check=True
    )

    assert printed.stdout.decode().split("\n")[:-1] == START
    assert shlex.join(INTERPRETER) == " ".join(INTERPRETER)


def test_a_python_with_a_space_is_quoted_for_the_shell_of_the_board_and_for_no_other():
    connect = Connect(python="/opt/my python/bin/python3")

    assert command_of("ssh://jetson", connect)[-5] == "'/opt/my python/bin/python3'"
    assert command_of("cmd://env", connect)[-5] == "/opt/my python/bin/python3"


@pytest.mark.parametrize(
    "address",
    [
        "ssh://-oProxyCommand=touch owned",
        "ssh://-x@host",
        "ssh://",
        "ssh://host;reboot",
        "ssh://host:port",
        "ssh://host/path",
        "ssh://$(reboot)",
    ],
)
def test_a_host_that_could_be_an_option_or_a_command_is_refused(address):
    with pytest.raises(UserError, match=r"device=ssh://"):
        command_of(address, Connect())


@pytest.mark.parametrize("python", ["-c", "", " "])
def test_a_python_that_could_be_an_option_is_refused(python):
    with pytest.raises(UserError, match=r"python="):
        command_of("ssh://host", Connect(python=python))


@pytest.mark.parametrize("address", ["ssh://jetson", "cmd://docker exec -i board", "cmd://"])
def test_the_environment_is_set_before_the_python_starts(address):
    words = command_of(address, Connect(python="py", env=("OPENBLAS_CORETYPE=ARMV8",)))

    assert words[-len(START) - 3 :] == ["env", "OPENBLAS_CORETYPE=ARMV8", "py", *START]


@pytest.mark.parametrize("word", ["A", "1=2", "A=$(reboot)", "A=b c", "A=b;c"])
def test_an_environment_that_a_shell_would_change_is_refused(word):
    with pytest.raises(UserError, match="env"):
        command_of("ssh://jetson", Connect(env=(word,)))


def test_a_python_at_home_is_found_by_the_shell_of_the_board_and_here_by_us(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")

    assert (
        command_of("ssh://jetson", Connect(python="~/venv/bin/python"))[-5] == "~/venv/bin/python"
    )
    assert (
        command_of("cmd://", Connect(python="~/venv/bin/python"))[0] == "/home/me/venv/bin/python"
    )


def test_a_quote_that_is_not_closed_is_named():
    with pytest.raises(UserError, match="No closing quotation"):
        command_of("cmd://docker 'exec", Connect())


def test_several_addresses_stand_in_one_text():
    assert split_addresses(" ssh://a  cmd://docker exec -i b ssh://me@c:22 ") == [
        "ssh://a",
        "cmd://docker exec -i b",
        "ssh://me@c:22",
    ]


@pytest.mark.parametrize("text", ["", "jetson-nano/fp32/b1", "http://jetson"])
def test_what_is_no_address_is_named_with_the_way_out(text):
    with pytest.raises(UserError, match=r"device=ssh://<host>, .*cmd://"):
        split_addresses(text)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("cmd://adb shell -T", True),
        ("cmd://docker exec -i board", True),
        ("cmd://", False),
        ("cmd://taskset 2", False),
        ("ssh://adb", False),
    ],
)
def test_what_has_run_with_a_stand_in_only_is_experimental(address, expected):
    assert is_experimental(address) is expected
