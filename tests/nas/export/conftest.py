"""A finished run to export from."""

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A real search on the embedded models; read only."""
    runs = tmp_path_factory.mktemp("runs")
    subprocess.run(
        [sys.executable, "-m", "nas.search", "T=17ms", "budget=300", f"runs={runs}"],
        env={name: value for name, value in os.environ.items() if name != "NAS_DATA"},
        check=True,
        capture_output=True,
    )
    (folder,) = runs.glob("*/*")
    return folder
