"""A board behind a real sshd on loopback, with keys of its own."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from latency.probe.address import Connect
from latency.probe.board import Patience
from latency.probe.link import LinkError, agent_source

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None,
    reason="needs sshd and ssh: apt-get install openssh-server openssh-client",
)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    """(port, client configuration, folder) of a server that lets this user in, after a banner."""
    folder = tmp_path_factory.mktemp("sshd")
    folder.chmod(0o700)
    for name in ("host_key", "user_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}")
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    (folder / "login").write_text(
        'echo "Welcome to the board \u00f5"; eval "$SSH_ORIGINAL_COMMAND"\n'
    )
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host_key\nPidFile {folder}/pid\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
        f"PasswordAuthentication no\nForceCommand sh {folder}/login\n"
    )
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder}/user_key\nIdentitiesOnly yes\n"
        f"UserKnownHostsFile {folder}/known_hosts\nStrictHostKeyChecking yes\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd locks itself in
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    for _ in range(100):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                break
        if server.poll() is not None:
            pytest.skip(f"sshd does not start here: {(folder / 'log').read_text()[-300:]}")
        time.sleep(0.05)
    yield port, folder / "ssh_config"
    server.terminate()
    server.wait()


@pytest.fixture
def over_ssh(sshd, connect):
    """Connect to the server as a board is connected to."""
    port, ssh_config = sshd

    def make(user="", python=sys.executable, **options):
        reach = Connect(python=python, ssh_config=ssh_config, timeout_s=20.0)
        return connect(f"ssh://{user}127.0.0.1:{port}", reach=reach, **options)

    return make


def test_a_network_is_timed_over_ssh_behind_a_login_banner(over_ssh, small):
    assert (over_ssh().measure(small).ms > 0).all()


def test_a_connection_that_is_cut_is_made_again(over_ssh, small, faulty, told):
    before = "        loaded = self._load(network)\n"
    cut = faulty(before, "        os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)\n")
    patience = Patience(silence_s=20.0, tries=2, backoff_s=0.01)

    board = over_ssh(sources=(cut, agent_source()), patience=patience)

    assert (board.measure(small).ms > 0).all()
    assert "trying again" in told[0]


@pytest.mark.parametrize(
    ("user", "python", "says"),
    [
        ("nobody-at-all@", sys.executable, "Permission denied"),
        ("", "/no/such/python", "not found"),
    ],
)
def test_what_ssh_complains_of_is_the_line_for_the_user(over_ssh, user, python, says):
    with pytest.raises(LinkError, match=f"^ssh://.*{says}"):
        over_ssh(user, python)


def test_a_host_where_nothing_listens_is_told_at_once(connect):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(LinkError, match="Connection refused"):
        connect(f"ssh://127.0.0.1:{port}")
