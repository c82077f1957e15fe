"""Fixtures of the tests of all projects of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from nas.spaces.nas_bench_201.space import NAS_BENCH_201


@pytest.fixture(scope="session", autouse=True)
def wide_terminal():
    """Commands wrap what they print at the width of the terminal; a test looks for words in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "1000")
        yield


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
    architectures = NAS_BENCH_201.rows
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


@pytest.fixture(scope="session")
def nas_data():
    """The folder of real benchmark tables."""
    if "NAS_DATA" not in os.environ:
        pytest.skip("NAS_DATA names no folder of benchmark tables")
    return Path(os.environ["NAS_DATA"])


@pytest.fixture(autouse=True)
def own_caches(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's own caches and data."""
    shared = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(shared / "no_data"))


@pytest.fixture(autouse=True)
def own_processors():
    """A measurement pins its process to a core; the next test has them all again."""
    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def in_process(monkeypatch, capsys):
    """Runs a command in this process, which is torch's import faster; status, stdout, stderr."""
    import torch  # noqa: PLC0415 - most tests need no torch

    threads = torch.get_num_threads()
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")  # the commands set it; what was there comes back

    def call(main, words):
        monkeypatch.setattr("sys.argv", words)
        try:
            main()
            status = 0
        except SystemExit as left:
            status = left.code
        return status, *capsys.readouterr()

    yield call
    torch.set_num_threads(threads)
