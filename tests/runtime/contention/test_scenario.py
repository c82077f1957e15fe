"""What goes on beside a network, as users write it down."""

import os
from pathlib import Path

import pytest

from runtime.contention.hogs.network_hog import BESIDE, NetworkHog
from runtime.contention.hogs.victims import network
from runtime.contention.isolation.isolation import Isolation
from runtime.contention.scenario import SHIPPED, SOLO, Scenario, scenario_named
from runtime.contention.situation import Situation

TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")


def test_every_shipped_scenario_is_one_and_no_two_are_the_same():
    names = [path.stem for path in SHIPPED.glob("*.yaml")]

    suffixes = {scenario_named(name).suffix for name in names}

    assert {"hog", "hog_held", "drone", "gpu_hog"} <= set(names)
    assert len(suffixes) == len(names)
    assert "" not in suffixes


def test_a_network_with_the_device_to_itself_has_no_suffix():
    assert SOLO.suffix == ""
    assert Scenario().suffix == ""


def test_a_suffix_says_all_of_it_whatever_the_file_was_called():
    held = Scenario(
        hogs=("memory", "disk", "memory"),
        beside=("resnet50",),
        isolation=Isolation.fine_lock,
        limit_mb_per_s=1000,
        memory_budget="1MB",
        name="mine",
    )

    assert held.suffix == (
        "|hog:disk+hog:memory*2+beside:resnet50+fine_lock+limit:1000+ram:1000000"
    )
    same = Scenario(
        hogs=("disk", "memory", "memory"),
        beside=("resnet50",),
        isolation=Isolation.fine_lock,
        limit_mb_per_s=1000.0,
        memory_budget="1000 kB",
    )
    assert same.suffix == held.suffix


def test_a_share_of_the_gpu_is_an_isolation_of_its_own():
    assert Scenario(sms=16).suffix == "|sm:16"
    assert Scenario(sms=16).needs_gpu
    with pytest.raises(ValueError, match="cuts the GPU, which is isolation enough"):
        Scenario(hogs=("gpu_memory",), isolation=Isolation.priority, sms=16)


# one line of YAML that has 8 ** 12 texts in it
ENDLESS = "[x]"
for anchor in "bcdefghijklm":
    ENDLESS = f"[&{anchor} {ENDLESS}{7 * f', *{anchor}'}]"


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("hogs: [memry]", "'memry' is none of memory, spin, disk.*did you mean memory"),
        ("beside: [resnet51]", "'resnet51' is none of .*did you mean resnet50"),
        ("hogs: memory", "no list of names"),
        ("hogs: [memory]\nisolation: [stop]", "isolation: .'stop'. is not one text or number"),
        (f"hogs: &a [1, 2]\nbeside: {ENDLESS}", "is no list of names"),
        (f"memory_budget: {ENDLESS}", "memory_budget: .* is not one text or number"),
        ("hogs: " + 800 * "[" + 800 * "]", "recursion"),
        ("hog: [memory]", "hog is none of hogs, beside"),
        ("- memory", "the file holds a list; it must be a mapping of hogs, beside, isolation"),
        ("hogs: [memory]\nisolation: lock", "lock is none of none, budget"),
        ("hogs: [memory]\nisolation: fine_lock", "needs limit_mb_per_s"),
        ("hogs: [memory]\nisolation: budget\nlimit_mb_per_s: fast", "'fast' is no number"),
        (
            "hogs: [memory]\nisolation: budget\nlimit_mb_per_s: -1",
            "limit_mb_per_s=-1 must be above 0; to leave the hogs nothing .* isolation=stop without",
        ),
        ("isolation: stop", "protects from hogs, and there are none"),
        ("isolation: partition", "sms=32 cuts the GPU"),
        ("memory_budget: banana", "memory_budget='banana' must be a size above 0, like 64MB"),
        ("just words", "the file holds one str; it must be a mapping of"),
        ("sms: 0", "sms=0 must be at least 1"),
        ("sms: 12.5", "sms: 12.5 is no whole number"),
        ("hogs: [memory", "while parsing"),
        (f"# {'x' * 70_000}", "larger than 65536 bytes"),
    ],
)
def test_a_file_that_says_what_cannot_be_is_refused_in_one_line(tmp_path, said, complaint):
    path = tmp_path / "mine.yaml"
    path.write_text(said)

    with pytest.raises(ValueError, match=complaint) as refused:
        scenario_named(str(path))

    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_that_is_none_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"scenario=hogg is none of .*did you mean hog"):
        scenario_named("hogg")


def test_means_of_a_gpu_need_one():
    with pytest.raises(ValueError, match="needs a GPU's means"):
        scenario_named("gpu_hog").situation([1], gpu=False)


def test_what_runs_beside_needs_a_core_of_its_own():
    with pytest.raises(ValueError, match="needs a core that the network does not have"):
        scenario_named("hog").situation([], gpu=False)


def test_more_hogs_than_cores_are_told_how_many_share_one():
    ten = Scenario(hogs=("memory",) * 10)

    assert ten.crowding(range(10)) is None
    assert "10 hogs and networks beside share core 1:" in str(ten.crowding([1]))
    assert "10 hogs and networks beside share 3 cores, up to 4 on one:" in str(
        ten.crowding([1, 2, 3])
    )


def test_without_its_limit_a_scenario_has_no_isolation_that_needs_one():
    held = Scenario(hogs=("memory",), isolation=Isolation.fine_lock, limit_mb_per_s=1000)
    cut = Scenario(hogs=("gpu_memory",), sms=32, limit_mb_per_s=1000)

    assert held.unlimited.suffix == "|hog:memory"
    assert cut.unlimited.suffix == "|hog:gpu_memory+sm:32"


@pytest.mark.parametrize("name", BESIDE)
def test_every_network_that_may_run_beside_is_one(name):
    module, x = network(name)

    assert module(x).ndim == 2


@TWO_CORES
def test_a_network_runs_beside_and_ends_with_the_situation():
    with Situation([NetworkHog("nb201", core=max(os.sched_getaffinity(0)))]) as beside:
        (process,) = beside._hogs.process_ids
        moved = 0.0
        while not moved:  # an inference takes milliseconds; a busy machine takes longer
            (moved,) = beside.gb_per_s()

    assert not Path(f"/proc/{process}").exists()
