"""The entry of every command that Hydra composes; all errors of the user become one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runtime.shell.conf_folder import CONF
from runtime.shell.errors import UserError, did_you_mean
from runtime.shell.exit_status import one_line_errors

_Config = TypeVar("_Config")

_NO_NAME = "Config group override must be a string"  # no error of Hydra's own, but a ValueError
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
            task(composed)
            return
        with one_line_hydra_errors(command, *also):  # Hydra adds lines to what leaves its job
            task(composed)

    run.__module__ = command  # Hydra names the job after it
    path = CONF / file
    main = hydra.main(version_base="1.3", config_path=str(path.parent), config_name=path.name)(run)
    with one_line_hydra_errors(command, *also, removed=removed):
        main()


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

    def build(composed: DictConfig) -> None:
        for name in sorted(OmegaConf.missing_keys(composed)):
            raise UserError(f"{name} is not set; write {name}=<value>")
        config: Any = OmegaConf.to_object(composed)
        task(config)

    hydra_command(command, file, build, *also)


@contextmanager
def one_line_hydra_errors(
    command: str, *also: type[Exception], removed: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a command's body; an error of Hydra or OmegaConf is one of the user, too.

    Raises:
      SystemExit: as `one_line_errors` does.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises instead of printing
    with one_line_errors(*also):
        try:
            yield
        except (HydraException, OmegaConfBaseException) as error:
            advice = [text for name, text in (removed or {}).items() if f"'{name}'" in str(error)]
            messages = [_for_users(error), *advice, f"see `python -m {command} --help`"]
            raise UserError("; ".join(messages)) from error
        except ValueError as error:
            if not str(error).startswith(_NO_NAME):
                raise
            raise UserError(
                f"{' '.join(_choices_of(sys.argv[1:]))}: each of these is chosen by its name; see "
                f"`python -m {command} --help`"
            ) from error


def _choices_of(arguments: Sequence[str]) -> list[str]:
    """The arguments that choose a file of a group, such as reward=null."""
    return [text for text in arguments if text.partition("=")[0] in _GROUPS]


_TYPES = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}


def _for_users(error: Exception) -> str:
    """The message in the words of the command line; without Hydra's advice to developers."""
    cause = error.__cause__
    text = ": ".join(_cleaned(str(one)) for one in (error, cause) if one is not None)
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
    return text


def _not_one_of(setting: str, name: str, known: Sequence[str]) -> str:
    return f"{setting} is not one of {', '.join(known)}{did_you_mean(name, known)}"


def _cleaned(text: str) -> str:
    said = re.split(r"\n?Config search path|\.?\s+To append|\n\s*full_key|\n\s*set_value", text)[0]
    return re.sub(r"\s*\w+_schema\b", "", " ".join(said.split()))
