"""A board behind a real sshd on loopback, with keys of its own."""

import os
import shutil
import socket
import sys

import pytest

from latency.probe.address import Connect
from latency.probe.board import Patience
from latency.probe.connection import LostConnectionError, agent_source

pytestmark = pytest.mark.skipif(
    shutil.which("ssh") is None, reason="needs ssh: apt-get install openssh-client"
)


@pytest.fixture
def over_ssh(sshd, connect, monkeypatch):
    """Connect to the server as a board is connected to."""
    port, client = sshd
    monkeypatch.setenv("PATH", f"{client}:{os.environ['PATH']}")

    def make(user="", python=sys.executable, **options):
        reach = Connect(python=python, timeout_s=120.0)
        return connect(f"ssh://{user}127.0.0.1:{port}", reach=reach, **options)

    return make


def test_a_network_is_timed_over_ssh_behind_a_login_banner(over_ssh, small):
    assert (over_ssh().measure(small).ms > 0).all()


def test_a_connection_that_is_cut_is_made_again(over_ssh, small, faulty, lines):
    before = "        loaded = self._load(network)\n"
    cut = faulty(before, "        os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)\n")
    patience = Patience(silence_s=120.0, tries=2, backoff_s=0.01)

    board = over_ssh(sources=(cut, agent_source()), patience=patience)

    assert (board.measure(small).ms > 0).all()
    assert "trying again" in lines[0]


@pytest.mark.parametrize(
    ("user", "python", "says"),
    [
        ("nobody-at-all@", sys.executable, "Permission denied"),
        ("", "/no/such/python", "not found"),
    ],
)
def test_what_ssh_complains_of_is_the_line_for_the_user(over_ssh, user, python, says):
    with pytest.raises(LostConnectionError, match=f"^ssh://.*{says}"):
        over_ssh(user, python)


def test_a_host_where_nothing_listens_is_told_at_once(connect):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(LostConnectionError, match="Connection refused"):
        connect(f"ssh://127.0.0.1:{port}")
