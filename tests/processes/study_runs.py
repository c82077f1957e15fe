"""Fixtures for tests of studies: tiny studies on synthetic tables, in this process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from rich.console import Console

from nas.config.build import register
from nas.study.command import run_study
from nas.study.config import StudyConfig
from nas.study.plan import make_plan

SMALL = (
    "name=tiny",
    "rewards=[proposed,mnasnet]",
    "devices=[synthetic-board]",
    "limits=[11ms]",
    "seeds=3",
    "budget=48",
    "workers=1",
)


@contextmanager
def _hydra_on(tables, environment):
    """Register the names of settings as the command does, and use these tables.

    `environment` is the test's own `monkeypatch`: two of them that set one variable would not restore it.
    """
    environment.setenv("NAS_DATA", str(tables))
    register()
    ConfigStore.instance().store(name="study_schema", node=StudyConfig)
    with initialize_config_module("conf", version_base="1.3"):
        yield


def _run(*given, analyses=()):
    console = Console(file=io.StringIO(), width=100, highlight=False)
    chosen = dict(text.split("=", 1) for text in given)
    choices = {name: chosen.get(name, "auto") for name in ("accuracy", "latency")}
    run_study(compose("study", list(given)), choices, given, console, analyses)
    return console.file.getvalue()


@pytest.fixture
def on_tables(synthetic_tables, monkeypatch):
    """The synthetic tables as the data folder, and Hydra's configuration."""
    with _hydra_on(synthetic_tables, monkeypatch):
        yield


@pytest.fixture
def plan_of(on_tables):
    """A plan, from settings as on the command line."""
    del on_tables
    return lambda *overrides: make_plan(compose("study", [*SMALL, *overrides]))


@pytest.fixture(scope="session")
def analyses():
    """Analyses that the studies have."""
    return ()


@pytest.fixture
def study(on_tables, analyses):
    """Run a study in this process; returns what it printed."""
    del on_tables
    return lambda *overrides, small=SMALL: _run(*small, *overrides, analyses=analyses)


@pytest.fixture(scope="session")
def finished_study(synthetic_tables, tmp_path_factory, analyses):
    """A folder that no test may change, and what was printed."""
    path = tmp_path_factory.mktemp("study") / "one"
    with pytest.MonkeyPatch.context() as environment, _hydra_on(synthetic_tables, environment):
        return path, _run(*SMALL, f"out={path}", analyses=analyses)


@pytest.fixture
def command(synthetic_tables):
    """A study's command line and its environment, for a process of its own."""

    def start(*overrides, small=SMALL, **options):
        return subprocess.Popen(
            [sys.executable, "-m", "nas.study", *small, *overrides],
            env={**os.environ, "NAS_DATA": str(synthetic_tables)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start
