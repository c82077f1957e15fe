"""What tests of several packages are given."""

import json
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Types and shapes of every signature are checked while tests run; not of runtime, whose networks
# torch traces.
install_import_hook(["controller", "rewards", "latency", "nas"], "beartype.beartype")

from nas.search_space import NAS_BENCH_201  # noqa: E402 - the hook works on what comes after it

settings.register_profile("edgenas", deadline=None)  # a busy machine is not a failure
settings.load_profile("edgenas")

# A shell's background job ignores Ctrl-C, and so would the commands that it is sent to here.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def nas_data():
    """The folder of real benchmark tables."""
    if "NAS_DATA" not in os.environ:
        pytest.skip("NAS_DATA names no folder of benchmark tables")
    return Path(os.environ["NAS_DATA"])


@pytest.fixture
def one_thread():
    """Torch on one core: on a busy machine, threads that wait for each other cost tenfold."""
    import torch  # noqa: PLC0415 - most tests need no torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def synthetic_tables(tmp_path_factory):
    """A data folder whose numbers are synthetic: smooth in the operations, with some noise.

    Accuracy for the three data sets, and latency of `synthetic-board` (2.5 to about 30 ms).
    """
    generator = np.random.default_rng(0)
    architectures = NAS_BENCH_201.architectures
    worth = np.array([0.0, 2.0, 6.0, 8.0, 1.0])[architectures].sum(-1) / 48
    cost_ms = np.array([0.0, 0.1, 2.0, 4.5, 1.0])[architectures].sum(-1)
    percent = 100 * np.clip(0.3 + 0.4 * worth + generator.normal(0, 0.01, len(worth)), 0.01, 0.99)
    latency_ms = 2.5 + cost_ms + generator.uniform(0, 0.2, len(cost_ms))

    folder = tmp_path_factory.mktemp("synthetic_tables")
    datasets = ("cifar10", "cifar100", "imagenet16")
    columns = [f"{d}_{s}" for d in datasets for s in ("valid", "test", "epoch12_valid")]
    shifts = generator.normal(0, 0.2, (len(columns), len(percent)))
    accuracy = np.clip(percent + shifts, 0.5, 99.5)
    _write_csv(folder / "nb201_accuracy.csv", columns, accuracy)
    _write_csv(folder / "nb201_latency_ms.csv", ["synthetic-board"], latency_ms[None])
    return folder


def _write_csv(path, columns, values):
    lines = [",".join(["index", "arch", *columns])]
    for index, (arch, numbers) in enumerate(zip(NAS_BENCH_201.strings, values.T, strict=True)):
        lines.append(",".join([str(index), arch, *(f"{x:.4f}" for x in numbers)]))
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


@pytest.fixture(autouse=True)
def own_caches(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's own caches and data."""
    shared = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(shared / "no_data"))


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
            [*command, path.as_uri()], capture_output=True, text=True, check=True, timeout=120
        )
        events = [event.get("params", {}) for event in json.loads(network.read_text())["events"]]
        asked = [e["url"] for e in events if e.get("initiator", "not an origin") != "not an origin"]
        return Visit(done.stdout, re.findall(r":CONSOLE[^ ]*\] (.*)", done.stderr), asked)

    return open_page
