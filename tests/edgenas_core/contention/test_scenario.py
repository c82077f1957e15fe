"""Scenarios as users write them."""

import os
from pathlib import Path

import pytest
import torch

from edgenas_core.contention.contention import Contention
from edgenas_core.contention.hogs.process_hogs import BESIDE, NetworkHog
from edgenas_core.contention.isolation import Isolation
from edgenas_core.contention.networks import network
from edgenas_core.contention.scenario import BUNDLED, SOLO, Scenario, scenario_named
from edgenas_core.types.errors import UserError

TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")


def test_every_bundled_scenario_is_valid_and_no_two_are_the_same():
    names = [path.stem for path in BUNDLED.glob("*.yaml")]

    suffixes = {scenario_named(name).suffix for name in names}

    assert {"hog", "hog_held", "drone", "gpu_hog"} <= set(names)
    assert len(suffixes) == len(names)
    assert "" not in suffixes


def test_a_network_with_the_device_to_itself_has_no_suffix():
    assert SOLO.suffix == ""
    assert Scenario().suffix == ""


def test_a_suffix_encodes_every_setting_but_the_name():
    held = Scenario(
        hogs=("memory", "spin", "memory"),
        beside=("resnet50",),
        isolation=Isolation.fine_lock,
        limit_mb_per_s=1000,
        memory_budget="1MB",
        name="mine",
    )

    assert held.suffix == (
        "|hog:memory*2+hog:spin+beside:resnet50+fine_lock+limit:1000+ram:1000000"
    )
    same = Scenario(
        hogs=("spin", "memory", "memory"),
        beside=("resnet50",),
        isolation=Isolation.fine_lock,
        limit_mb_per_s=1000.0,
        memory_budget="1000 kB",
    )
    assert same.suffix == held.suffix


def test_a_share_of_the_gpu_is_an_isolation_of_its_own():
    assert Scenario(sms=16).suffix == "|sm:16"
    assert Scenario(sms=16).needs_gpu
    with pytest.raises(ValueError, match=r"sms=16 .*isolation=priority"):
        Scenario(hogs=("gpu_memory",), isolation=Isolation.priority, sms=16)


# one line of YAML that has 8 ** 12 texts in it
ENDLESS = "[x]"
for anchor in "bcdefghijklm":
    ENDLESS = f"[&{anchor} {ENDLESS}{7 * f', *{anchor}'}]"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("hogs: [memry]", "did you mean memory"),
        ("beside: [resnet51]", "did you mean resnet50"),
        ("hogs: memory", "hogs"),
        ("hogs: [memory]\nisolation: [stop]", "isolation"),
        (f"hogs: &a [1, 2]\nbeside: {ENDLESS}", "alias"),
        (f"memory_budget: {ENDLESS}", "alias"),
        ("hogs: " + 800 * "[" + 800 * "]", "parts within parts"),
        ("hog: [memory]", "hog"),
        ("- memory", "hogs, beside, isolation"),
        ("hogs: [memory]\nisolation: lock", "lock"),
        ("hogs: [memory]\nisolation: fine_lock", "limit_mb_per_s"),
        ("hogs: [memory]\nisolation: budget\nlimit_mb_per_s: fast", "limit_mb_per_s"),
        ("hogs: [memory]\nisolation: budget\nlimit_mb_per_s: -1", "limit_mb_per_s=-1"),
        ("isolation: stop", "isolation=stop"),
        ("isolation: partition", "isolation=partition .*sms=32"),
        ("memory_budget: banana", "memory_budget='banana'"),
        ("just words", "just words"),
        ("sms: 0", "sms=0"),
        ("sms: 12.5", "sms"),
        ("hogs: [memory", "while parsing"),
        (f"# {'x' * 70_000}", "65,536 bytes"),
    ],
)
def test_an_invalid_file_is_refused_in_one_line(tmp_path, content, named):
    path = tmp_path / "mine.yaml"
    path.write_text(content)

    with pytest.raises(UserError, match=named) as refused:
        scenario_named(str(path))

    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UserError, match=r"scenario=hogg .*\bhog\b"):
        scenario_named("hogg")


def test_a_gpu_hog_needs_a_gpu():
    with pytest.raises(ValueError, match="device=cuda"):
        scenario_named("gpu_hog").contention([1], gpu=False)


def test_a_hog_needs_a_spare_core():
    with pytest.raises(ValueError, match="core"):
        scenario_named("hog").contention([], gpu=False)


def test_a_warning_says_how_many_hogs_share_a_core():
    ten = Scenario(hogs=("memory",) * 10)

    assert ten.crowding(range(10)) is None
    assert "10 hogs" in str(ten.crowding([1]))
    assert "up to 4" in str(ten.crowding([1, 2, 3]))


@pytest.mark.parametrize("name", BESIDE)
def test_every_network_that_may_run_beside_can_be_built(name):
    with torch.device("meta"):
        module, x = network(name)

        assert module(x).ndim == 2


@TWO_CORES
def test_a_network_runs_beside_and_ends_with_the_contention():
    with Contention([NetworkHog(name="nb201", core=max(os.sched_getaffinity(0)))]) as beside:
        (process,) = beside._hogs.process_ids
        moved = 0.0
        while not moved:  # an inference takes milliseconds; a busy machine takes longer
            (moved,) = beside.gb_per_s()

    assert not Path(f"/proc/{process}").exists()
