"""A search that was interrupted goes on."""

from __future__ import annotations

import re
import shutil
import signal

import pyarrow.parquet as pq
import pytest
from searching import (
    LONG,
    ON_TABLES,
    has_sampled,
    interrupted,
    only_run,
    sampled,
)

import edgenas


def samples_of(folder):
    """Every column but the seconds."""
    return pq.read_table(folder / "samples.parquet").drop_columns("seconds").to_pydict()


def evidence(folder):
    """Text of the page, but for numbers with a point, curves, and where, when and how it was made."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    page = page[: page.index('<section aria-labelledby="provenance">')]
    page = re.sub(r'"bdata":"[^"]*"', "", page)
    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?", "#", page)


STOPS = {
    "killed at the start": (has_sampled(0), signal.SIGKILL),
    "Ctrl-C": (has_sampled(150), signal.SIGINT),
    "terminated": (has_sampled(250), signal.SIGTERM),
    "killed late": (has_sampled(300), signal.SIGKILL),
    "killed at the end": (lambda folder: (folder / "samples.parquet").exists(), signal.SIGKILL),
}


@pytest.mark.parametrize(
    "stops", [("terminated", "killed late"), pytest.param(tuple(STOPS), marks=pytest.mark.slow)]
)
def test_a_run_that_is_stopped_again_and_again_goes_on_to_the_same_samples_and_page_and_loses_none(
    tmp_path, synthetic_tables, search_here, resume_here, stops
):
    whole = tmp_path / "whole"
    assert search_here(whole, *ON_TABLES, *LONG, data=synthetic_tables).returncode == 0
    uninterrupted, runs, resumed, kept = only_run(whole), tmp_path / "stopped", [], 0
    for when, send in map(STOPS.get, stops):
        folder, out, err, status = interrupted(
            runs, synthetic_tables, when, *LONG, send=send, resumed=resumed
        )
        assert kept == going_on_from(out)
        kept = sampled(folder)
        resumed = [f"resume={folder}"]
        if send is not signal.SIGKILL:
            assert status == 130
            assert err == "edgenas: interrupted\n"
            assert f"resume={folder}" in out

    finished = resume_here(folder, data=synthetic_tables)

    assert finished.returncode == 0, finished.stderr
    assert going_on_from(finished.stdout) == kept >= 300
    assert samples_of(folder) == samples_of(uninterrupted)
    assert evidence(folder) == evidence(uninterrupted)
    assert "nas.search device=synthetic-board T=11ms" in (folder / "report.html").read_text()


def going_on_from(out):
    """The trial at which a search says that it goes on; 0 for one from the start."""
    (number,) = re.findall(r"going on from trial ([0-9,]+)", out) or ["0"]
    return int(number.replace(",", ""))


@pytest.mark.parametrize(
    "settings",
    [
        {"controller": "evolution", "settings": {"controller.population_size": 12}},
        {"controller": "guided"},
    ],
    ids=["evolution", "guided"],
)
@pytest.mark.parametrize("copied", [2, pytest.param(16, marks=pytest.mark.slow)])
def test_an_asynchronous_search_killed_at_any_answer_goes_on_to_the_same_samples(
    tmp_path, synthetic_tables, monkeypatch, settings, copied
):
    monkeypatch.setenv("NAS_DATA", str(synthetic_tables))
    copies = []

    def copy_as_killed(_trials):
        """What a kill at this answer leaves."""
        folder = only_run(tmp_path / "whole")
        if sampled(folder) % (48 // copied) == 1:
            copies.append(shutil.copytree(folder, tmp_path / f"killed-{sampled(folder)}"))

    whole = edgenas.search(
        device="synthetic-board",
        T="11ms",
        workers=4,
        budget=48,
        out=tmp_path / "whole",
        quiet=True,
        progress=copy_as_killed,
        **settings,
    )

    assert len(copies) == copied
    for folder in copies:
        edgenas.search(resume=folder, quiet=True)
        assert samples_of(folder) == samples_of(whole.folder), folder.name
