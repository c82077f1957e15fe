"""Fixtures that plan and run small studies, with the analyses of the benchmarks."""

import pytest
from study_runs import *  # noqa: F403 - fixtures are found by their names

from benchmarks.studies.command import ANALYSES


@pytest.fixture(scope="session")
def analyses():
    return ANALYSES
