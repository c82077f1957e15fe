"""What messages advise exists: settings, commands and extras that they name, and options of the task at hand."""

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import tomllib

from edgenas_core.command.settings import settings_of
from latency.measuring.settings import MeasureConfig
from nas.config.build import NAMES, SearchConfig
from nas.export.config import ExportConfig
from nas.fit.config import FitConfig
from nas.study.config import StudyConfig
from nas.train.config import TrainConfig
from nas.transfer import TransferConfig

ROOT = Path(__file__).parents[1]
ROOMS = ("controller", "edgenas", "edgenas_core", "latency", "nas", "rewards")
SAYING = {"say", "tell", "_tell", "Line"}
"""Functions that print; errors are named *Error."""

OTHERS = {"resume", "profile", "port", "scenario"}
"""Settings of commands that are read before Hydra reads any."""

OF_FILES = {
    "isolation",
    "sms",
    "victim_sms",
    "limit_mb_per_s",
    "gb_per_s",
    "memory_budget",
    "top1",
    "sd",
}
"""Fields of scenarios and of cards of weights."""

OF_LINES = {"us", "arena", "runs", "largest_difference"}
"""Words of a line that a microcontroller prints."""

ARGUMENTS = {"backend", "counts", "outputs", "progress", "quiet", "settings", "when", "s"}
"""Arguments of Python functions."""

NO_SETTINGS = re.compile(r"(<[^>]*>|--?\w[\w-]*=\S*|\w+\([^)]*\))")
"""Placeholders, options of other programs, calls."""


def known_settings():
    """Full and short names of all settings of all commands and their parts."""
    parts = {path for names in NAMES.values() for path in names.values()}
    classes = [getattr(import_module(p.partition(":")[0]), p.partition(":")[2]) for p in parts]
    commands = (SearchConfig, FitConfig, MeasureConfig, TrainConfig, ExportConfig, TransferConfig)
    names = {
        each.name for schema in (*commands, StudyConfig, *classes) for each in settings_of(schema)
    }
    short = {name.rpartition(".")[2] for name in names}
    grouped = {f"{group}.{name}" for group in NAMES for name in names | short | {"target_ms"}}
    return names | short | grouped | {*NAMES} | OTHERS | OF_FILES | OF_LINES | ARGUMENTS


def text_of(node):
    """Text of a string with a blank in the place of each value; None of another expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "\0" for part in node.values
        )
    return None


def messages():
    """File, line and text of what is raised or printed."""
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            if name in SAYING or name.endswith("Error"):
                for argument in call.args:
                    for node in ast.walk(argument):
                        if text := text_of(node):
                            yield path.relative_to(ROOT), node.lineno, text


MESSAGES = [*messages()]


def test_every_setting_that_a_message_names_exists():
    known = known_settings()
    unknown = [
        f"{path}:{line}: {name}= in {text!r}"
        for path, line, text in MESSAGES
        for name in re.findall(r"(?<![\w.\0?'\"/-])([A-Za-z_][\w.]*)=", NO_SETTINGS.sub(" ", text))
        if name not in known and not name.isupper()
    ]

    assert unknown == []
    assert len(MESSAGES) > 500


def test_every_command_and_extra_that_a_message_names_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    for path, line, text in MESSAGES:
        for module in re.findall(r"python -m ([\w.]+)", text):
            assert find_spec(module), f"{path}:{line}: python -m {module}"
        for extra in re.findall(r"edgenas\[([\w-]+)\]", text):
            assert extra in extras, f"{path}:{line}: edgenas[{extra}]"


COMMANDS = ("nas.fit", "nas.search", "nas.measure", "nas.train", "nas.export", "nas.transfer")
"""Commands that compose their settings; of `nas.study` the names are checked alone."""

PLACEHOLDERS = {"FILE.py:NAME", "FILE.py:FUNCTION", "FOLDER", "value"}
"""Values that stand for another one."""

NEEDED = {"latency.probes": ["latency=transfer"]}
"""Settings without which another one is refused."""

OF_RUNTIME = {"latency=mapped"}
"""Settings that edgenas-runtime has, which is not installed everywhere."""

LITERAL = re.compile(r"(?<![\w.\0?'\"/-])([a-z_][\w.]*|T)=([\w.:/+-]*\w)(?![\w\0<({\[*=|])")
"""Settings with a value, in a message."""


def advised():
    """Settings with literal values that messages advise, each with a place of one."""
    unset = OF_FILES | OF_LINES | ARGUMENTS | OTHERS
    return {
        f"{name}={value}": f"{path}:{line}"
        for path, line, text in MESSAGES
        for name, value in LITERAL.findall(text)
        if name not in unset and value not in PLACEHOLDERS and path.name != "moved_settings.py"
    }


def test_every_setting_that_a_message_gives_a_value_is_composed_by_a_command(in_process):
    refused = {}
    for setting, place in advised().items():
        if setting in OF_RUNTIME and not find_spec("edgenas_runtime"):
            continue
        answers = []
        for command in COMMANDS:
            main = import_module(
                command if command == "nas.transfer" else f"{command}.command"
            ).main
            words = [*NEEDED.get(setting.partition("=")[0], ()), setting, "--cfg", "job"]
            status, _, error = in_process(main, [command, *words])
            if status == 0:
                break
            answers.append(error.strip()[-150:])
        else:
            refused[setting] = (place, answers)

    assert refused == {}
    assert len(advised()) > 40
