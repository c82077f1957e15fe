"""The registry of devices."""

import pytest

from edgenas_core.machine.timing import Statistic
from latency.devices.registry import (
    Processor,
    find,
    id_of_statistic,
    registered,
    tail_in_words,
    unregistered,
)
from nas.spaces.nas_bench_201.plugin import SPACE


def test_no_name_means_two_devices():
    names = [name for device in registered(SPACE) for name in (device.id, device.column)]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("device", registered(SPACE), ids=lambda device: device.id)
def test_an_id_says_what_is_known_and_nothing_more(device):
    parts = device.id.partition("@")[0].split("/")
    stated = [part for part in (device.precision, f"b{device.batch}") if part is not None]
    if device.runtime is not None:
        stated = [device.runtime, *stated]
    if device.id == "gtx-1080ti/nats/b256":
        stated = ["nats", *stated]

    assert parts[1:] == stated


@pytest.mark.parametrize("name", ["jetson-nano/fp32/b1", "latbench-embedded-gpu-jetson-nano-fp32"])
def test_a_device_is_found_by_its_id_and_by_its_column(name):
    device = find(SPACE, name)

    assert device is not None
    assert device.id == "jetson-nano/fp32/b1"
    assert (device.kind, device.precision, device.batch) == (Processor.gpu, "fp32", 1)


@pytest.mark.parametrize("name", ["my-board", "a@b", "jetson-nano/fp32/b1", "p95"])
def test_a_median_needs_no_words(name):
    assert tail_in_words(name) is None


def test_a_tail_is_said_in_words():
    told = tail_in_words(id_of_statistic("my-board|hog", Statistic.p95))

    assert "p95" in told
    assert "95 of 100" in told


def test_a_column_outside_the_registry_is_a_device_of_which_nothing_is_known():
    assert find(SPACE, "my-board") is None

    device = unregistered("my-board")

    assert device.id == device.column == "my-board"
    assert (device.runtime, device.precision, device.batch) == (None, None, None)
