"""What the tests of whole fits are given."""

from __future__ import annotations

import subprocess

import pytest
from searching import command

import nas.search.command


@pytest.fixture
def search_here(in_process, monkeypatch):
    """A search in this process, which costs no import of torch."""

    def call(runs, *overrides, data=None):
        monkeypatch.setenv("NAS_DATA", str(runs if data is None else data))
        words = command(runs, *overrides)[2:]
        return subprocess.CompletedProcess(words, *in_process(nas.search.command.main, words))

    return call


@pytest.fixture
def resume_here(in_process, monkeypatch):
    """An interrupted search that goes on in this process."""

    def call(folder, *overrides, data):
        monkeypatch.setenv("NAS_DATA", str(data))
        words = ["nas.search", f"resume={folder}", *overrides]
        return subprocess.CompletedProcess(words, *in_process(nas.search.command.main, words))

    return call
