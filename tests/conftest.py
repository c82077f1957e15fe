"""What tests of several packages are given."""

import os
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
