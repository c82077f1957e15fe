"""What the tests of whole fits are given."""

from __future__ import annotations

import subprocess

import pytest
from searching import command

import nas.fit.command


@pytest.fixture
def fit_here(in_process, monkeypatch):
    """A fit in this process, which costs no import of torch."""

    def call(runs, *overrides, data=None):
        monkeypatch.setenv("NAS_DATA", str(runs if data is None else data))
        words = command(runs, *overrides, module="nas.fit")[2:]
        return subprocess.CompletedProcess(words, *in_process(nas.fit.command.main, words))

    return call
