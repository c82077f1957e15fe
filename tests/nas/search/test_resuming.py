"""A search that was interrupted goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from searching import (
    BUDGET,
    ON_TABLES,
    has_sampled,
    interrupted,
    only_run,
    resume,
    search,
    wait_until,
)

from nas.trials.trial import read_journal, read_parquet


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, synthetic_tables):
    runs = tmp_path_factory.mktemp("whole")
    assert search(runs, *ON_TABLES, BUDGET, data=synthetic_tables).returncode == 0
    return only_run(runs)


def samples_of(folder):
    return read_parquet(folder / "samples.parquet")


def evidence(folder):
    """The page, but for where, when and how it was made."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    return page[: page.index('<section aria-labelledby="provenance">')]


@pytest.mark.parametrize(
    ("when", "send"),
    [
        pytest.param(has_sampled(0), signal.SIGKILL, id="kill at the start"),
        pytest.param(
            has_sampled(500),
            signal.SIGKILL,
            marks=pytest.mark.slow,  # as is the run below that is interrupted twice
            id="kill early",
        ),
        pytest.param(has_sampled(3000), signal.SIGKILL, id="kill late"),
        pytest.param(
            lambda folder: (folder / "figures").exists(), signal.SIGKILL, id="kill at the end"
        ),
        pytest.param(has_sampled(2000), signal.SIGINT, id="Ctrl-C"),
    ],
)
def test_an_interrupted_run_goes_on_to_the_same_samples_and_page_and_loses_none(
    tmp_path, synthetic_tables, uninterrupted, when, send
):
    folder, out, err, status = interrupted(tmp_path, synthetic_tables, when, BUDGET, send=send)
    sampled = len(read_journal(folder / "samples.csv"))
    if send is signal.SIGINT:
        assert status == 130
        assert err == "edgenas: interrupted\n"
        assert f"resume={folder}" in out

    resumed = resume(folder, data=synthetic_tables)

    assert resumed.returncode == 0, resumed.stderr
    (going_on,) = re.findall(r"going on from sample ([0-9,]+)", resumed.stdout)
    assert sampled - 16 < int(going_on.replace(",", "")) <= sampled  # a batch may be cut off
    samples, whole = samples_of(folder), samples_of(uninterrupted)
    for name in ("architectures", "accuracy", "latency_ms", "rewards"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(whole, name))
    assert evidence(folder) == evidence(uninterrupted)
    assert "nas.search device=synthetic-board T=11ms" in (folder / "report.html").read_text()


def test_a_run_that_is_interrupted_twice_goes_on_to_the_same_samples(
    tmp_path, synthetic_tables, uninterrupted
):
    folder, *_ = interrupted(tmp_path, synthetic_tables, has_sampled(500), BUDGET)
    again = subprocess.Popen(
        [sys.executable, "-m", "nas.search", f"resume={folder}"],
        env={**os.environ, "NAS_DATA": str(synthetic_tables)},
        stdout=subprocess.DEVNULL,
    )
    with again:
        wait_until(lambda: has_sampled(2500)(folder), again)
        again.kill()

    assert resume(folder, data=synthetic_tables).returncode == 0

    np.testing.assert_array_equal(
        samples_of(folder).architectures, samples_of(uninterrupted).architectures
    )
    assert evidence(folder) == evidence(uninterrupted)


@pytest.mark.parametrize(
    "controller",
    [
        "evolution",
        # that they can be restored, tests/controller/test_contract.py proves of each
        pytest.param("local_search", marks=pytest.mark.slow),
        pytest.param("exhaustive", marks=pytest.mark.slow),
    ],
)
def test_every_searcher_goes_on_to_the_same_samples(tmp_path, synthetic_tables, controller):
    settings = (f"controller={controller}", "controller.batch_size=1", BUDGET)
    whole = search(tmp_path / "whole", *ON_TABLES, *settings, data=synthetic_tables)
    assert whole.returncode == 0, whole.stderr
    folder, *_ = interrupted(
        tmp_path / "cut",
        synthetic_tables,
        lambda folder: (folder / "checkpoint.npz").exists(),
        *settings,
    )

    resumed = resume(folder, data=synthetic_tables)

    assert resumed.returncode == 0, resumed.stderr
    expected = read_parquet(only_run(tmp_path / "whole") / "samples.parquet")
    samples = read_parquet(folder / "samples.parquet")
    for name in ("architectures", "rewards"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(expected, name))
