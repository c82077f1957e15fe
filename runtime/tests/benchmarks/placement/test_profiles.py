"""Profiles on disk, parameters from measurements, and buffers that are simulated."""

from dataclasses import fields

import numpy as np
import pytest

from benchmarks.placement.buffers.managed import MOST_BYTES, check_managed
from benchmarks.placement.calibrate import SIZES, first_touch_ms_per_byte
from benchmarks.placement.model.fitting import Observation, fitted
from benchmarks.placement.model.overhead import overhead_ms
from benchmarks.placement.model.parameters import Hardware
from benchmarks.placement.model.policy import MemoryPolicy
from benchmarks.placement.model.profiles import Profile, read_profile
from benchmarks.placement.model.workload import Passes, Use
from benchmarks.relative_fit import relative_fit

D, M, H = MemoryPolicy
BUS = Hardware(
    copy_start_ms=0.006,
    to_device_ms_per_byte=1.8e-8,
    to_host_ms_per_byte=1.9e-8,
    first_touch_ms_per_byte=1e-7,
    mapping_ms_per_byte=1e-7,
    flush_cpu_ms=0.02,
    flush_gpu_ms=0.0,
    l2_ms=1e-8,
    memory_ms=6.5e-7,
    pinned_mapping_ms_per_byte=0.0,
    pinned_start_ms=0.002,
    write_ms=1e-7,
    returning_ms_per_byte=5e-8,
)
JOBS = [(Passes(use, reuse), nbytes) for nbytes in SIZES for use in Use for reuse in (1, 4)]


def test_parameters_are_found_again_from_what_they_give():
    observations = [
        Observation(
            policy, job.application(nbytes), overhead_ms(policy, job.application(nbytes), BUS)
        )
        for job, nbytes in JOBS
        for policy in MemoryPolicy
    ]
    found = fitted(observations, pass_ms_per_access=1e-8, first_touch_ms_per_byte=1e-7)
    for field in fields(Hardware):
        expected = getattr(BUS, field.name)
        assert getattr(found, field.name) == pytest.approx(expected, rel=1e-6, abs=1e-9), field


def test_without_a_measurement_of_a_policy_nothing_is_fitted():
    one = Observation(D, Passes(Use.READ, 1).application(4096), 1.0)
    with pytest.raises(ValueError, match="policy H"):
        fitted([one], pass_ms_per_access=0, first_touch_ms_per_byte=0)


def test_a_parameter_that_would_be_negative_is_zero():
    found = relative_fit(np.array([[1.0, 1], [1, 2], [1, 3]]), np.array([3.0, 2.0, 1.0]))
    assert found[1] == 0
    assert found[0] > 0


def test_a_profile_is_read_as_it_was_written(tmp_path):
    profile = Profile("a GPU", BUS, {"date": "today"})
    profile.write(tmp_path / "new" / "gpu.json")
    assert read_profile(str(tmp_path / "new" / "gpu.json")) == profile


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{}", "holds no profile"),
        ("[1]", "holds no profile"),
        ("not json", "holds no profile"),
        (100_000 * "[", "holds no profile"),
        ("\udcff", "holds no profile"),  # no UTF-8
        ('{"provenance": {}}', "holds no profile"),
        ('{"name": "x", "provenance": {}, "hardware": {"speed": 1}}', "speed"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(content, told, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(content, errors="surrogateescape")
    with pytest.raises(ValueError, match=told):
        read_profile(str(path))


def test_an_unknown_profile_names_those_there_are():
    with pytest.raises(ValueError, match=r"profile=nano\b.*\bh200"):
        read_profile("nano")


@pytest.mark.parametrize(
    ("nbytes", "taken", "free"),
    [(0, 0, 2**40), (MOST_BYTES + 1, 0, 2**40), (2, MOST_BYTES - 1, 2**40), (1000, 0, 1999)],
)
def test_managed_memory_beyond_the_limits_is_refused(nbytes, taken, free):
    with pytest.raises(ValueError, match="managed memory"):
        check_managed(nbytes, taken, free)


def test_fresh_memory_of_the_host_costs_something():
    assert 0 < first_touch_ms_per_byte(2**22) < 1e-4
