"""A search that was interrupted goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from searching import (
    BUDGET,
    ON_TABLES,
    has_sampled,
    interrupted,
    only_run,
    resume,
    sampled,
    search,
    wait_until,
)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, synthetic_tables):
    runs = tmp_path_factory.mktemp("whole")
    assert search(runs, *ON_TABLES, BUDGET, data=synthetic_tables).returncode == 0
    return only_run(runs)


def samples_of(folder):
    """Every column but the seconds."""
    return pq.read_table(folder / "samples.parquet").drop_columns("seconds").to_pydict()


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
    kept = sampled(folder)
    if send is signal.SIGINT:
        assert status == 130
        assert err == "edgenas: interrupted\n"
        assert f"resume={folder}" in out

    resumed = resume(folder, data=synthetic_tables)

    assert resumed.returncode == 0, resumed.stderr
    (going_on,) = re.findall(r"going on from trial ([0-9,]+)", resumed.stdout)
    assert int(going_on.replace(",", "")) == kept
    assert samples_of(folder) == samples_of(uninterrupted)
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

    assert samples_of(folder) == samples_of(uninterrupted)
    assert evidence(folder) == evidence(uninterrupted)


@pytest.mark.slow  # that each can be restored, tests/controller/test_contract.py proves
@pytest.mark.parametrize(
    "controller",
    ["evolution", "local_search", "exhaustive"],
)
def test_every_searcher_goes_on_to_the_same_samples(tmp_path, synthetic_tables, controller):
    every = (f"controller={controller}", "controller.batch_size=1", BUDGET)
    whole = search(tmp_path / "whole", *ON_TABLES, *every, data=synthetic_tables)
    assert whole.returncode == 0, whole.stderr
    folder, *_ = interrupted(
        tmp_path / "cut",
        synthetic_tables,
        lambda folder: (folder / "checkpoint.npz").exists(),
        *every,
    )

    resumed = resume(folder, data=synthetic_tables)

    assert resumed.returncode == 0, resumed.stderr
    assert samples_of(folder) == samples_of(only_run(tmp_path / "whole"))


def test_an_asynchronous_search_keeps_every_answer_and_goes_on_to_its_budget(
    tmp_path, synthetic_tables
):
    """What ran while it was killed begins anew, so what follows may come in another order."""
    settings = ("controller=local_search", "workers=3", "budget=600")
    whole = search(tmp_path / "whole", *ON_TABLES, *settings, data=synthetic_tables)
    assert whole.returncode == 0, whole.stderr
    folder, *_ = interrupted(tmp_path / "cut", synthetic_tables, has_sampled(200), *settings)
    kept = sampled(folder)

    resumed = resume(folder, data=synthetic_tables)

    assert resumed.returncode == 0, resumed.stderr
    assert f"going on from trial {kept:,}" in resumed.stdout
    samples, expected = samples_of(folder), samples_of(only_run(tmp_path / "whole"))
    assert sorted(samples["sample"]) == list(range(600))
    for name, column in samples.items():
        assert column[:kept] == expected[name][:kept]
