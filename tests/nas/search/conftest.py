"""What the tests of the search command are given."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest
from searching import LONG, command, has_sampled, only_run

import nas.search.command


@pytest.fixture
def search_here(in_process, monkeypatch):
    """As `search`, in this process, which costs no import; the others show the exit status."""

    def call(runs, *overrides, data=None):
        monkeypatch.setenv("NAS_DATA", str(runs if data is None else data))
        words = command(runs, *overrides)[2:]
        return subprocess.CompletedProcess(words, *in_process(nas.search.command.main, words))

    return call


@pytest.fixture
def resume_here(in_process, monkeypatch):
    """As `resume`, in this process."""

    def call(folder, *overrides, data):
        if data is None:
            monkeypatch.delenv("NAS_DATA", raising=False)
        else:
            monkeypatch.setenv("NAS_DATA", str(data))
        words = ["nas.search", f"resume={folder}", *overrides]
        return subprocess.CompletedProcess(words, *in_process(nas.search.command.main, words))

    return call


@pytest.fixture
def interrupted_here(search_here):
    """Folder of a search in this process that Ctrl-C ended early."""

    def call(runs, data, *overrides):
        over = threading.Event()

        def interrupt():
            while not over.wait(0.01):
                if any(map(has_sampled(50), runs.glob("*/*"))):
                    os.kill(os.getpid(), signal.SIGINT)
                    return

        waiting = threading.Thread(target=interrupt)
        waiting.start()
        try:
            finished = search_here(runs, *LONG, *overrides, data=data)
        finally:
            over.set()
            waiting.join()
        assert finished.returncode == 130, finished.stderr
        return only_run(runs)

    return call
