"""Settings that stand once, in a dataclass: their description, their help, and names of earlier versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from importlib import import_module

import pytest
from omegaconf import OmegaConf

from edgenas_core.command.old_settings import require_current
from edgenas_core.command.settings import group, help_text, setting, settings_of
from edgenas_core.types.errors import UserError
from latency.measuring.settings import MeasureConfig
from nas.config.build import NAMES, SearchConfig
from nas.export.config import ExportConfig
from nas.fit.config import FitConfig
from nas.study.config import StudyConfig
from nas.train.config import TrainConfig
from nas.transfer import TransferConfig

COMMANDS = (
    *(SearchConfig, FitConfig, MeasureConfig, TrainConfig, ExportConfig, TransferConfig),
    StudyConfig,
)


class Colour(Enum):
    red = 1
    green = 2


@dataclass
class Timing:
    wait_s: float = setting(2.0, "Time before it begins.", unit="s")


@dataclass
class Settings:
    count: int | None = setting(None, "Number of parts.", unset="all", heading="What")
    colour: Colour = setting(Colour.red, "Colour of each.")
    names: list[str] = setting(["a", "b"], "Their names.")
    timing: Timing = group(Timing)


def test_help_has_type_default_unit_and_sentence_of_each_setting():
    text = help_text("About.", Settings, OmegaConf.structured(Settings), {})

    assert text.splitlines() == [
        "About.",
        "",
        "  What:",
        "    count             Number of parts (int; default: all)",
        "    colour            Colour of each (red or green; default red)",
        "    names             Their names (list of text; default [a,b])",
        "    timing.wait_s     Time before it begins (float, s; default 2)",
    ]


@pytest.mark.parametrize("schema", COMMANDS)
def test_every_setting_of_a_command_has_its_sentence(schema):
    assert [each.name for each in settings_of(schema) if not each.sentence] == []


def test_there_are_no_more_settings_than_these():
    """The number only falls: a new one takes the place of another."""
    parts = {path for names in NAMES.values() for path in names.values()}
    classes = [
        getattr(import_module(path.partition(":")[0]), path.partition(":")[2]) for path in parts
    ]
    names = [each.name for schema in (*COMMANDS, *classes) for each in settings_of(schema)]

    assert len([name for name in names if name not in {*NAMES, "target_ms"}]) <= 183


def test_a_setting_of_an_earlier_version_answers_with_its_new_name_or_what_holds_now():
    with pytest.raises(UserError, match="runs= is now out="):
        require_current("nas.search", ["T", "runs"])
    with pytest.raises(UserError, match="shard= is gone: "):
        require_current("nas.measure", ["+shard"])
    require_current("nas.measure", ["out", "device"])
