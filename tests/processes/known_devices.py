"""Few known devices to predict a new one from: each costs time, and a process keeps what it knows."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from latency.devices.registry import registered
from latency.sources.transfer import _most_informative, known_latency
from nas.spaces.nas_bench_201.plugin import SPACE

KNOWN = registered(SPACE)[28:32]


def _forget():
    known_latency.cache_clear()
    _most_informative.cache_clear()


@contextmanager
def few_known_devices():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latency.sources.transfer.registered", lambda _space: KNOWN)
        _forget()
        yield
    _forget()
