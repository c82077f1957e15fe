"""Fixtures that plan and run small studies of boards."""

import pytest
from study_runs import *  # noqa: F403 - fixtures are found by their names

from benchmarks.variants.command import register_boards
from benchmarks.variants.page import VARIANTS


@pytest.fixture(autouse=True)
def boards():
    """The names that only this study knows."""
    register_boards()


@pytest.fixture(scope="session")
def analyses():
    return [VARIANTS]
