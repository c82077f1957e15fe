"""Keyword arguments of the functions: names, types and sentences of the dataclasses of settings."""

from __future__ import annotations

import ast
import inspect
import runpy
from pathlib import Path

import edgenas
from edgenas_core.command.settings import settings_of
from latency.measuring.settings import MeasureConfig

ROOT = Path(__file__).parents[2]


def test_the_types_of_the_keywords_are_those_of_the_settings():
    written = runpy.run_path(str(ROOT / "docs" / "keywords.py"))["keywords"]()

    there = (ROOT / "edgenas" / "keywords.py").read_text(encoding="utf-8")

    assert ast.dump(ast.parse(there)) == ast.dump(ast.parse(written)), "python docs/keywords.py"


def test_a_function_has_the_settings_of_its_command_as_parameters():
    parameters = {*inspect.signature(edgenas.measure).parameters}

    assert parameters >= {each.name.partition(".")[0] for each in settings_of(MeasureConfig)}
    assert parameters >= {"settings", "quiet"}
    assert "timing.samples: Number of measurements of each network." in edgenas.measure.__doc__
