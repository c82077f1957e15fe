"""The entry of every command that Hydra composes; all errors of the user become one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import hydra
from hydra._internal.hydra import Hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from common.command.bounds import require_in_bounds
from common.command.conf_folder import CONF
from common.command.environment import require_usable
from common.command.exit_status import one_line_errors, reason
from common.types.errors import UserError, did_you_mean

_Config = TypeVar("_Config")

_NO_NAME = "Config group override must be a string"  # no error of Hydra's own, but a ValueError
_TOO_MANY_DIGITS = "for integer string conversion"  # of Python's own error, within Hydra's parser
_PLAIN = re.compile(r"(?!(null|true|false|inf|nan)$)[A-Za-z0-9_./-]*[A-Za-z][A-Za-z0-9_./-]*")
"""Text that Hydra takes for a string, without quotes; 1e3 is none."""
_GROUPS = ("reward", "controller", "accuracy", "latency", "experiment")


def hydra_command(
    command: str,
    file: str,
    task: Callable[[DictConfig], None],
    *also: type[Exception],
    removed: Mapping[str, str] | None = None,
) -> None:
    """Compose the settings of the command line, and run the task with them.

    In a sweep (`-m`) the task is run once for each job; Hydra names the job that failed.

    Args:
      command: name after `python -m`, for the reference to its help.
      file: YAML file of the default settings, relative to conf/, without its ending.
      task: body of the command.
      also: exceptions, besides `UserError` and `OSError`, that are errors of the user.
      removed: advice for each `<group>/<name>` that an earlier version had.

    Raises:
      SystemExit: with status 2 after an error of the user, 130 after Ctrl-C.
    """

    def run(composed: DictConfig) -> None:
        if HydraConfig.get().mode is RunMode.MULTIRUN:
            require_in_bounds(OmegaConf.to_container(composed))
            task(composed)
            return
        with one_line_hydra_errors(command, *also):  # Hydra adds lines to what leaves its job
            require_in_bounds(OmegaConf.to_container(composed))
            task(composed)

    run.__module__ = command  # Hydra names the job after it
    if "--version" in sys.argv[1:]:  # Hydra would print its own
        sys.stdout.write(f"edgenas {version('edgenas')}\n")
        return
    words = map(_with_letters, sys.argv[1:])
    sys.argv[1:] = sorted(words, key=_is_setting)  # argparse wants the settings in one piece
    path = CONF / file
    main = hydra.main(version_base="1.3", config_path=str(path.parent), config_name=path.name)(run)
    with one_line_hydra_errors(command, *also, removed=removed):
        require_usable()
        _refuse_unused(sys.argv[1:])
        if any(text.partition("=")[0] in {"--cfg", "-c"} for text in sys.argv[1:]):
            _print_choices(path, sys.argv[1:])
        with _composed_once(sys.argv[1:]):
            main()


@contextmanager
def _composed_once(arguments: Sequence[str]) -> Iterator[None]:
    """Spare Hydra's first composition of two, which only looks for a `hydra.mode` in the settings.

    It takes 0.2 s. Only settings of Hydra, or files of the user's, can have one.
    """
    if any("hydra" in text or text.startswith(("-c", "--c")) for text in arguments):
        yield
        return
    get_mode = Hydra.get_mode
    Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = get_mode  # type: ignore[method-assign]


def _refuse_unused(arguments: Sequence[str]) -> None:
    """Refuse settings of Hydra that would make an empty folder; UserError names the other."""
    for text in arguments:
        if text.lstrip("+").startswith(("hydra.run.dir=", "hydra.sweep.subdir=")):
            raise UserError(
                f"{text}: nothing is written there; runs= or out= names the folder of the results, and "
                f"hydra.sweep.dir= that of a sweep's page"
            )


def _print_choices(path: Path, arguments: Sequence[str]) -> None:
    """Print the chosen name of each group, which the settings that `--cfg` prints do not hold."""
    words = [text for text in arguments if "=" in text and not text.startswith("-")]
    split = [
        part for text in arguments for part in (text.split("=", 1) if text[:1] == "-" else [text])
    ]
    for option, folder in pairwise(split):
        if option in {"--config-dir", "-cd"}:
            words.append(word("hydra.searchpath", [f"file://{Path(folder).absolute()}"]))
    with hydra.initialize_config_dir(str(path.parent), version_base="1.3"):
        composed = hydra.compose(path.name, words, return_hydra_config=True)
    for name, choice in composed.hydra.runtime.choices.items():
        if not name.startswith("hydra/"):
            sys.stdout.write(f"# {name}={choice}\n")


def _is_setting(argument: str) -> bool:
    return "=" in argument and not argument.startswith("-")


def _with_letters(argument: str) -> str:
    """Quote a value with letters that Hydra's grammar does not know, such as those of a path."""
    name, equals, value = argument.partition("=")
    if not equals or argument.isascii() or value[:1] in {"'", '"', "[", "{", "$"}:
        return argument
    return f'{name}="{value}"'


def quoted(argument: str, setting: str) -> str:
    """Quote the value of a setting whose text may have signs that mean something to Hydra."""
    value = argument.removeprefix(f"{setting}=")
    is_plain = value == argument or value[:1] in {"'", '"'} or value.replace("-", "").isalnum()
    return argument if is_plain else f"{setting}='{value}'"


def typed_hydra_command(
    command: str,
    file: str,
    schema: type[_Config],
    task: Callable[[_Config], None],
    *also: type[Exception],
) -> None:
    """Like `hydra_command`, with the settings as an object of the dataclass `schema`.

    The YAML file names it in its defaults as `<file>_schema`.

    Raises:
      SystemExit: as `hydra_command` does, and with status 2 if a setting without default is missing.
    """
    ConfigStore.instance().store(name=f"{(CONF / file).name}_schema", node=schema)
    hydra_command(command, file, lambda composed: task(_object(composed)), *also)


def _object(composed: DictConfig) -> Any:
    """The settings as an object of their schema; UserError names one that has no value."""
    for name in sorted(OmegaConf.missing_keys(composed)):
        raise UserError(f"{name} is not set; write {name}=<value>")
    return OmegaConf.to_object(composed)


@contextmanager
def called(
    command: str,
    file: str,
    words: Sequence[str],
    *also: type[Exception],
    removed: Mapping[str, str] | None = None,
) -> Iterator[tuple[DictConfig, dict[str, str]]]:
    """Compose settings in memory, for a program that calls a command as a function.

    Gives the settings, and the chosen name of each group. Hydra's global state is as before
    afterwards.

    Args:
      command: as for `hydra_command`.
      file: likewise.
      words: settings as on the command line, such as T=17ms.
      also: as for `hydra_command`.
      removed: likewise.

    Raises:
      UserError: where the command would print one line and exit with status 2.
    """
    path = CONF / file
    with (
        user_errors(command, words, *also, removed=removed),
        hydra.initialize_config_dir(str(path.parent), version_base="1.3", job_name=command),
    ):
        composed = hydra.compose(path.name, list(words), return_hydra_config=True)
        choices = {name: str(one) for name, one in composed.hydra.runtime.choices.items()}
        with open_dict(composed):
            del composed["hydra"]
        require_in_bounds(OmegaConf.to_container(composed))
        yield composed, choices


@contextmanager
def typed_call(
    command: str, file: str, schema: type[_Config], words: Sequence[str], *also: type[Exception]
) -> Iterator[_Config]:
    """Like `called`, with the settings as an object of the dataclass `schema`.

    Raises:
      UserError: as `called` does, and if a setting without default is missing.
    """
    ConfigStore.instance().store(name=f"{(CONF / file).name}_schema", node=schema)
    with called(command, file, words, *also) as (composed, _):
        config: _Config = _object(composed)
        yield config


def word(name: str, value: object) -> str:
    """A setting as on the command line, with its value quoted where Hydra needs that."""
    return f"{name}={_text(value)}"


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(_text, value)) + "]"
    text = value.name if isinstance(value, Enum) else str(value)
    if _PLAIN.fullmatch(text) and not re.fullmatch(r"[-0-9._]+[eE][-0-9]+", text):
        return text
    slashed = re.sub(r"(\\+)(?='|$)", r"\1\1", text)  # Hydra reads \\ before a quote as one
    return "'" + slashed.replace("'", "\\'") + "'"


@contextmanager
def one_line_hydra_errors(
    command: str, *also: type[Exception], removed: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a command's body; an error of Hydra or OmegaConf is one of the user, too.

    Raises:
      SystemExit: as `one_line_errors` does.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises instead of printing
    with one_line_errors(), user_errors(command, sys.argv[1:], *also, removed=removed):
        yield


@contextmanager
def user_errors(
    command: str,
    arguments: Sequence[str],
    *also: type[Exception],
    removed: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Raise `UserError` instead of an error of Hydra, OmegaConf or the operating system."""
    try:
        yield
    # before OSError, which a missing file of the settings is, too
    except (HydraException, OmegaConfBaseException) as error:
        advice = [text for name, text in (removed or {}).items() if f"'{name}'" in str(error)]
        messages = [_for_users(error), *advice, f"see `python -m {command} --help`"]
        raise UserError("; ".join(messages)) from None  # a notebook would show Hydra's own pages
    except OSError as error:
        raise UserError(reason(error)) from error
    except also as error:
        raise UserError(str(error)) from error
    except ValueError as error:
        if _TOO_MANY_DIGITS in str(error):
            raise UserError("a number has thousands of digits; write a smaller one") from error
        if not str(error).startswith(_NO_NAME):
            raise
        raise UserError(
            f"{' '.join(_choices_of(arguments))}: each of these is chosen by its name; see "
            f"`python -m {command} --help`"
        ) from error


def _choices_of(arguments: Sequence[str]) -> list[str]:
    """The arguments that choose a file of a group, such as reward=null."""
    return [text for text in arguments if text.partition("=")[0] in _GROUPS]


_QUOTED = """'runs="a[b]"'"""
_TYPES = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}


def _for_users(error: Exception) -> str:
    """The message in the words of the command line; without Hydra's advice to developers."""
    cause = error.__cause__
    text = ": ".join(_cleaned(str(one)) for one in (error, cause) if one is not None)
    if "override_grammar" in text:
        text = f"{text.split('See http')[0].strip()}; quote the value, as in {_QUOTED}"
    if found := re.search(r"Could not find '([^/']+)/(.*)' Available options in '\1': (.*)", text):
        group, name, options = found.groups()
        return _not_one_of(f"{group}={name}", name, options.split())
    if found := re.search(r"override (.*): Invalid value '(.*)', expected one of \[(.*)\]", text):
        return _not_one_of(found[1], found[2], found[3].split(", "))
    if found := re.search(r"override (.*): Value .* could not be converted to (\w+)", text):
        return f"{found[1]} is not {_TYPES.get(found[2], found[2])}"
    if found := re.search(r"Could not override '(.*)': Key '(.*)' not in ", text):
        group = found[1].removesuffix(found[2])
        known = [f"{group}{name}" for name in getattr(cause, "parent_node", None) or ()]
        return f"unknown setting {found[1]}{did_you_mean(found[1], known)}"
    if found := re.search(r"Could not override '(.*)'\. No match in the defaults list", text):
        return (
            f"no {found[1]} is chosen that could be replaced; to add one write +{found[1]}=<name>"
        )
    return text


def _not_one_of(setting: str, name: str, known: Sequence[str]) -> str:
    return f"{setting} is not one of {', '.join(known)}{did_you_mean(name, known)}"


def _cleaned(text: str) -> str:
    said = re.split(r"\n?Config search path|\.?\s+To append|\n\s*full_key|\n\s*set_value", text)[0]
    return re.sub(r"\s*\w+_schema\b", "", " ".join(said.split()))
