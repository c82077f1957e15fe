"""What the tests of the search command are given."""

from __future__ import annotations

import subprocess

import pytest
from searching import command

import nas.search_command


@pytest.fixture
def search_here(in_process, monkeypatch):
    """As `search`, in this process, which costs no import; the others show the exit status."""

    def call(runs, *overrides, data=None):
        monkeypatch.setenv("NAS_DATA", str(runs if data is None else data))
        words = command(runs, *overrides)[2:]
        return subprocess.CompletedProcess(words, *in_process(nas.search_command.main, words))

    return call
