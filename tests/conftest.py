"""What tests of several packages are given."""

import os
from pathlib import Path

import pytest


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
