"""What disturbs, as this machine tells it; and NVIDIA's answers, from a script in its place."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from edgenas_core.machine.description import machine_facts
from edgenas_core.machine.monitors import (
    OtherLoad,
    Stolen,
    Throttles,
    cpu_mhz,
    gpu_mhz,
    gpu_throttling,
)
from edgenas_core.machine.nvidia import read_gpu, throttling


@pytest.fixture
def busy():
    """Another process that computes."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield process
        process.kill()


@pytest.mark.usefixtures("busy")
def test_another_process_that_computes_is_seen():
    sense = OtherLoad(0.3, os.sched_getaffinity(0))

    assert any(sense() for _ in range(5))


@pytest.mark.usefixtures("busy")
def test_other_parts_of_the_measurement_are_expected():
    here = set(os.sched_getaffinity(0))

    assert OtherLoad(0.3, here, expected=64.0)() != [], "no part of it runs on our own processors"
    assert OtherLoad(0.3, set(), expected=64.0)() == []


def test_a_throttle_is_told_once():
    counts = iter([3, 5, 5])
    throttles = Throttles(lambda: next(counts))

    (line,) = throttles()
    assert " 2 " in line
    assert throttles() == []


def test_theft_is_a_share_of_the_processors_time(monkeypatch):
    stolen = Stolen(0.02, {0, 1})
    marks = iter([(stolen._mark[0] + 10.0, stolen._mark[1] + 1.0)])
    monkeypatch.setattr(stolen, "_read", lambda: next(marks))

    (line,) = stolen()
    assert " 5%" in line


def test_this_machine_tells_what_it_is():
    facts = machine_facts(0, gpu=False)

    assert facts["cpu"]
    assert facts["versions"]["torch"]
    assert facts["memory_gib"] > 0
    assert Throttles()() == []
    assert cpu_mhz(0) is None or cpu_mhz(0) > 0


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Puts a script in the place of nvidia-smi; it answers the fields that it is asked for."""

    def answering(line, unknown="none"):
        script = tmp_path / "nvidia-smi"
        script.write_text(f'#!/bin/sh\ncase "$*" in *{unknown}*) exit 2;; esac\necho "{line}"\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return answering


BUSY = "NVIDIA H200, 580.159.04, 1980, 3201, 1980, 124.5, 700.00, 41"


@pytest.mark.parametrize("unknown", ["none", "clocks_event_reasons"])
def test_the_driver_tells_clock_and_power_in_its_new_words_and_its_old(driver, unknown):
    driver(f"{BUSY}, 0x0000000000000000", unknown)

    state = read_gpu()

    assert (state["clocks.sm"], state["power.limit"]) == ("1980", "700.00")
    assert gpu_mhz() == 1980.0
    assert gpu_throttling() == []


def test_a_gpu_at_its_power_limit_and_too_hot_is_found(driver):
    driver(f"{BUSY}, 0x0000000000000024")

    assert throttling(read_gpu()) == ["power limit", "software thermal slowdown"]
    assert len(gpu_throttling()) == 1


def test_an_idle_gpu_is_not_throttled(driver):
    driver(f"{BUSY}, 0x0000000000000001")

    assert gpu_throttling() == []


def test_a_driver_that_does_not_answer_is_no_gpu(driver):
    driver("No devices were found")

    assert read_gpu() is None
    assert gpu_mhz() is None
    assert gpu_throttling() == []
