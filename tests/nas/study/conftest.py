"""Fixtures that plan and run small studies."""

from study_runs import *  # noqa: F403 - fixtures are found by their names
