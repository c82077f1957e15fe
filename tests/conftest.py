"""What tests of several packages are given."""

import bz2
import dataclasses
import functools
import gc
import json
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# A process a core runs the tests, and others beside it: threads that wait for each other cost tenfold.
# The processes that run the tests, and those that a test starts, inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks a hub

import jaxtyping
import omegaconf
import pytest
import yaml
from hypothesis import settings


def _compose_faster():
    """Let OmegaConf read YAML by libyaml and parse each interpolation once: composing settings is half of most commands."""
    omegaconf.base.parse = functools.lru_cache(omegaconf.base.parse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "SafeLoader", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        loader = omegaconf._utils.get_yaml_loader()
    omegaconf._utils.get_yaml_loader = lambda: loader


_compose_faster()

gc.disable()  # until all is imported: see pytest_collection_finish

_CHECKED_CALLS = {"controller": 5, "latency": 5}  # of each function; 2 elsewhere
_calls = Counter()  # of this test, by code object


def _check_first_calls(*, typechecker):
    """Replace `jaxtyping.jaxtyped`: check the first calls of a function in each test.

    A check costs 100 microseconds, and a search calls what it is made of a thousand times with the same types.
    A function that no test of this process calls is not even decorated.
    """

    def decorate(target):
        if isinstance(target, type):
            if dataclasses.is_dataclass(target) and not hasattr(target.__init__, "__wrapped__"):
                target.__init__ = decorate(target.__init__)
            return target
        code, checked = target.__code__, None
        most = _CHECKED_CALLS.get(target.__module__.partition(".")[0], 2)

        @functools.wraps(target)
        def call(*args, **kwargs):
            nonlocal checked
            if _calls[code] >= most:
                return target(*args, **kwargs)
            _calls[code] += 1
            if checked is None:
                checked = _jaxtyped(target, typechecker=typechecker)
            return checked(*args, **kwargs)

        return call

    return decorate


# Types and shapes of every signature are checked while tests run; not of runtime, whose networks
# torch traces.
_jaxtyped, jaxtyping.jaxtyped = jaxtyping.jaxtyped, _check_first_calls
jaxtyping.install_import_hook(["controller", "rewards", "latency", "nas"], "beartype.beartype")

# the hook works on what is imported after it
from shared_fixtures import *  # noqa: E402, F403 - fixtures are found by their names

from nas.spaces.nas_bench_201.space import NAS_BENCH_201  # noqa: E402

settings.register_profile("edgenas", deadline=None, max_examples=40)  # a busy machine is no failure
settings.load_profile("edgenas")

# A shell's background job ignores Ctrl-C, and so would the commands that it is sent to here.
signal.signal(signal.SIGINT, signal.default_int_handler)


_LONG = (
    "tests/controller/test_contract.py",
    "tests/nas/spaces/nas_bench_201/public/test_import.py",
    "tests/nas/export/",
    "tests/nas/search/",
    "tests/nas/study/",
    "tests/nas/measure/",
    "tests/nas/test_third_party_space.py",
    "tests/latency/sources/test_probe_command.py",
    "tests/nas/test_readme.py",
    "tests/nas/test_transfer.py",
    "tests/test_strange_values.py",
    "tests/test_wheel.py",
)
"""Half of the time of all tests; their files hold a few long ones."""

_SHARING = ("tests/nas/export/", "tests/nas/study/")
"""Rooms with fixtures of a session that take seconds."""


def pytest_collection_modifyitems(items):
    """The long tests first, so that at the end no process waits long."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


def pytest_collection_finish():
    """No collection of garbage goes through what was imported: a tenth of the time of all tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A room whose files share a training or a study stays in one process, which makes it once."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - tests run without xdist, too

    class ByRoom(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            room = next((room for room in _SHARING if nodeid.startswith(room)), None)
            return room or super()._split_scope(nodeid)

    return ByRoom(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_runtest_setup():
    """Check the first calls of each test, whatever ran before it."""
    _calls.clear()


@dataclass(frozen=True)
class Visit:
    """What happened when a browser opened a page."""

    dom: str  # after its scripts ran
    console: list[str]
    requests: list[str]  # of the page, not of the browser itself


@pytest.fixture
def visit(tmp_path):
    """Opens a file in headless Chromium, which reaches no host."""
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None
    )
    if program is None:
        pytest.skip("chromium is not installed")

    def open_page(path):
        network = tmp_path / "network.json"
        flags = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
        flags += " disable-component-update disable-sync enable-logging=stderr dump-dom"
        command = [program, "--headless", *(f"--{flag}" for flag in flags.split())]
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000"]
        command += [f"--user-data-dir={tmp_path / 'profile'}", f"--log-net-log={network}"]
        done = subprocess.run(
            [*command, path.as_uri()], capture_output=True, text=True, check=True, timeout=600
        )
        events = [event.get("params", {}) for event in json.loads(network.read_text())["events"]]
        asked = [e["url"] for e in events if e.get("initiator", "not an origin") != "not an origin"]
        return Visit(done.stdout, re.findall(r":CONSOLE[^ ]*\] (.*)", done.stderr), asked)

    return open_page


@pytest.fixture(scope="session")
def sshd(tmp_path_factory):
    """(port, folder of an ssh that uses the keys) of a server that lets this user in, after a banner."""
    server_program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if server_program is None or shutil.which("ssh") is None:
        pytest.skip("needs sshd and ssh: apt-get install openssh-server openssh-client")
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
    client = folder / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    client.chmod(0o700)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd locks itself in
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [server_program, "-D", "-e", "-f", folder / "sshd_config"], stderr=log
        )
    for _ in range(1_000):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                break
        if server.poll() is not None:
            pytest.skip(f"sshd does not start here: {(folder / 'log').read_text()[-300:]}")
        time.sleep(0.05)
    yield port, client.parent
    server.terminate()
    server.wait()


def _trial(dataset, epochs, percent, latency_s):
    """One training, as NATS-Bench's `ResultsCount.state_dict` has it."""
    splits = {"cifar10-valid": ("x-valid", "ori-test"), "cifar10": ("ori-test",)}
    names = splits.get(dataset, ("x-valid", "x-test", "ori-test"))
    last = epochs - 1
    return {
        "name": "synthetic",
        "net_state_dict": None,
        "train_acc1es": {last: 99.0},
        "train_acc5es": None,
        "train_losses": {last: 0.1},
        "train_times": None,
        "arch_config": {},
        "params": 1.0,
        "flop": 1.0,
        "seed": 777,
        "epochs": epochs,
        "latency": [latency_s],
        "eval_names": list(names),
        "eval_acc1es": {f"{n}@{last}": percent + 10 * (n != "x-valid") for n in names},
        "eval_losses": {f"{n}@{last}": 0.5 for n in names},
        "eval_times": {},
    }


@pytest.fixture
def write_cell():
    """Write a cell of a synthetic archive: validation `percent`, test ten more, 12 epochs half."""

    def write(folder, index, percent=50.0, latency_s=0.01, **changes):
        datasets = ("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120")
        cell = {
            str(epochs): {
                "arch_index": index,
                "arch_str": NAS_BENCH_201.strings[index],
                "all_results": {
                    (name, 777): _trial(name, epochs, share * percent, latency_s)
                    for name in datasets
                },
                "dataset_seed": {name: [777] for name in datasets},
                "clear_net_done": True,
                **changes,
            }
            for epochs, share in ((12, 0.5), (200, 1.0))
        }
        content = bz2.compress(pickle.dumps(cell, 4))
        (folder / f"{index:06d}.pickle.pbz2").write_bytes(content)

    return write


@pytest.fixture(scope="session")
def meta_content():
    meta = {"meta_archs": list(NAS_BENCH_201.strings), "total_archs": NAS_BENCH_201.size}
    return bz2.compress(pickle.dumps(meta, 4))


@pytest.fixture
def archive_folder(tmp_path, write_cell, meta_content):
    """A synthetic archive of cells 3 and 4."""
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "meta.pickle.pbz2").write_bytes(meta_content)
    write_cell(folder, 3, percent=40.0, latency_s=0.012)
    write_cell(folder, 4, percent=60.0, latency_s=0.024)
    return folder


class Mirror:
    """A real HTTP server on loopback, which can be told to misbehave.

    Serves `files` by path. `log` holds (path, status) of each answer."""

    def __init__(self):
        self.files = {}
        self.log = []
        self.cut_after = []  # bytes of body after which each next answer ends
        self.statuses = []  # instead of 200, for each next answer
        self.redirects = []  # to where each next answer sends the client
        self.url = ""

    def answer(self, handler):
        content = self.files.get(handler.path)
        status = 404 if content is None else 200
        if self.statuses:
            status = self.statuses.pop(0)
        if self.redirects:
            status = 302
        self.log.append((handler.path, status))
        body = content if status == 200 else b""
        handler.send_response(status)
        if self.redirects:
            handler.send_header("Location", self.redirects.pop(0))
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.cut_after.pop(0)] if self.cut_after else body)
        handler.close_connection = True


@pytest.fixture
def mirror(monkeypatch):
    """The server, up while a test runs."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    serving = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            serving.answer(self)

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    serving.url = f"http://127.0.0.1:{server.server_port}"
    yield serving
    server.shutdown()
    thread.join()
    server.server_close()
