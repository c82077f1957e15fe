"""The entry of every command: Hydra composes its settings, an error of the user becomes one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from edgenas_core.command.bounds import require_in_bounds, require_text
from edgenas_core.command.conf_folder import CONF
from edgenas_core.command.exit_status import one_line_errors, reason
from edgenas_core.command.old_settings import OF_SOME, require_current
from edgenas_core.command.plug_ins import missing_extra
from edgenas_core.command.settings import help_text
from edgenas_core.types.errors import UserError, did_you_mean, gpu_memory_line, not_one_of

_Config = TypeVar("_Config")

_NAMED = ("reward", "controller", "accuracy", "latency")
GROUPS = (*_NAMED, "experiment")
"""Settings that choose a file or a class by its name; of all but the last, one is always chosen."""

_OPTIONS = (
    *("--help", "--hydra-help", "--version", "--info"),
    *("--cfg", "--resolve", "--package", "--run", "--multirun", "--shell-completion"),
    *("--config-path", "--config-name", "--config-dir", "--experimental-rerun"),
)
"""Long options of Hydra 1.3."""


_OPTION_HELP = """
  Options:
    --json            Print the result as one JSON document; all other lines go to standard error
    -m                Run once for each of several values, as in seed=0,1,2 (search and fit)
    --cfg job         Print the whole configuration
"""


def hydra_command(
    command: str,
    file: str,
    task: Callable[[DictConfig], None],
    *also: type[Exception],
    words: Sequence[str] | None = None,
    about: str = "",
) -> None:
    """Compose the settings of the command line, and run the task with them.

    Options, such as `-m` and `--cfg`, and settings of Hydra are left to `hydra.main`. In a sweep (`-m`)
    the task is run once for each job; Hydra names the job that failed.

    Args:
      command: name after `python -m`, for the reference to its help.
      file: YAML file of the default settings, relative to conf/, without its ending.
      task: body of the command.
      also: exceptions, besides `UserError` and `OSError`, that are errors of the user.
      words: settings and options; None for those of the process.
      about: what `--help` prints before the settings; without it, the help is help/<name>.yaml beside the file.

    Raises:
      SystemExit: with status 2 after an error of the user, 130 after Ctrl-C.
    """
    path, words = CONF / file, sys.argv[1:] if words is None else list(words)
    with one_line_errors(), user_errors(command, *also):
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(
                errors="backslashreplace"
            )  # a terminal may lack letters of a path
        if "--version" in words:  # Hydra would print its own
            sys.stdout.write(f"edgenas {version('edgenas')}\n")
        elif {"--help", "-h"} & {*words}:
            settings = [word for word in words if not word.startswith("-")]
            if about:
                with _composed(command, path, settings) as composed:
                    sys.stdout.write(help_text(about, _schema(path), composed, chosen_names()))
                sys.stdout.write(_OPTION_HELP)
                return
            # a file of its own, as OmegaConf would parse its thousands of letters in every command
            template = OmegaConf.load(path.parent / "help" / f"{path.name}.yaml")
            with _composed(command, path, settings) as composed, open_dict(composed):
                composed.merge_with(template)
                sys.stdout.write(f"{composed.template}\n")
        elif any(word.lstrip("+~").startswith(("-", "hydra")) for word in words):
            _main(command, path, task, also, words)
        else:
            with _composed(command, path, words) as composed:
                task(composed)


def _schema(path: Path) -> type[Any]:
    """Dataclass of a command's settings."""
    schema = OmegaConf.get_type(ConfigStore.instance().load(f"{path.name}_schema.yaml").node)
    assert schema is not None
    return schema


def _main(
    command: str,
    path: Path,
    task: Callable[[DictConfig], None],
    also: Sequence[type[Exception]],
    words: list[str],
) -> None:
    """Let Hydra parse the command line; it may run the task, a sweep, or print the settings."""
    has_begun = False

    def run(composed: DictConfig) -> None:
        nonlocal has_begun
        has_begun = True
        if HydraConfig.get().mode is RunMode.MULTIRUN:
            require_in_bounds(OmegaConf.to_container(composed))
            task(composed)
            return
        with one_line_errors(), user_errors(command, *also):  # else Hydra adds lines to them
            require_in_bounds(OmegaConf.to_container(composed))
            task(composed)

    run.__module__ = command  # Hydra names the job after it
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises instead of printing
    main = hydra.main(version_base="1.3", config_path=str(path.parent), config_name=path.name)(run)
    _require_words(command, words)
    _require_options(command, words)
    with composing(command, words, lambda: has_begun), _arguments(words):
        main()


@contextmanager
def _arguments(words: Sequence[str]) -> Iterator[None]:
    """Have `hydra.main` read these words, not those of its process."""
    before = sys.argv
    sys.argv = [before[0], *words]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _outer_application_aside() -> Iterator[None]:
    """Set the state of a Hydra application that is running in this process aside, and put it back."""
    outer, config = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = outer
        if outer is not None:
            HydraConfig.instance().cfg = config


@contextmanager
def _composed(command: str, path: Path, words: Sequence[str]) -> Iterator[DictConfig]:
    """Compose settings, also inside a Hydra application of the user's.

    Hydra's global state is as before afterwards; `HydraConfig` only if such an application had set it.

    Raises:
      UserError: if a value cannot be converted, or is too large.
    """
    parser = OverridesParser.create()
    _require_words(command, words)
    with _outer_application_aside(), hydra.initialize_config_dir(str(path.parent), command, "1.3"):
        with composing(command, words):
            readable = [_readable(parser, word) for word in words]
            composed = hydra.compose(path.name, readable, return_hydra_config=True)
        HydraConfig.instance().set_config(composed)
        with open_dict(composed):
            del composed["hydra"]
        require_in_bounds(OmegaConf.to_container(composed))
        yield composed


def _require_words(command: str, words: Sequence[str]) -> None:
    """Check the words of a command line before Hydra reads them, and the folder that paths begin in.

    Raises:
      UserError: if one is no text, is a setting of an earlier version, or chooses more or less than one name
        for a group.
    """
    require_text("working folder", str(Path.cwd()))
    require_current(command, words)
    for text in words:
        name, _, value = text.partition("=")
        require_text(name, value)
        if name.lstrip("+") in _NAMED and {*value} & {*"[]{}"}:
            raise UserError(f"{text} is not one name")


def _require_options(command: str, words: Sequence[str]) -> None:
    """Check that Hydra has every long option; otherwise it would print the usage of its own.

    Raises:
      UserError: if it lacks one, such as `--data`, a setting written with dashes.
    """
    for word in words:
        option = word.partition("=")[0]
        setting = option.lstrip("-")
        if option.startswith("--") and setting and option not in _OPTIONS:
            raise UserError(
                f"unknown option {option}; settings have no dashes, as in {setting}=<value>; "
                f"see `python -m {command} --help`"
            )


@contextmanager
def composing(
    command: str, words: Sequence[str], is_over: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Raise `UserError` where Hydra stumbles over a value or file, such as reward=null or broken YAML."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, OSError, UserError):
        raise  # `user_errors` names the value
    except Exception as error:
        if is_over():
            raise
        what = f"{type(error).__name__}: {str(error)[:400]}"
        message = f"{' '.join(words)[:200]}: {what}; see `python -m {command} --help`"
        raise UserError(message) from error


def _readable(parser: OverridesParser, word: str) -> str:
    """The setting, its value quoted if Hydra's grammar lacks one of its signs, such as those of a path."""
    name, equals, value = word.partition("=")
    try:
        parser.parse_overrides([word])
    except OverrideParseException:
        if equals and value[:1] not in {"'", '"', "[", "{"}:
            return f"{name}={QuotedString(value, Quote.single).with_quotes()}"
    return word


def chosen_names() -> dict[str, str]:
    """Name that was chosen for each group of the settings."""
    return {name: str(choice) for name, choice in HydraConfig.get().runtime.choices.items()}


def typed_hydra_command(
    command: str,
    file: str,
    schema: type[_Config],
    task: Callable[[_Config], None],
    *also: type[Exception],
    words: Sequence[str] | None = None,
    about: str = "",
) -> None:
    """Like `hydra_command`, with the settings as an object of the dataclass `schema`.

    The YAML file names it in its defaults as `<file>_schema`.

    Raises:
      SystemExit: as `hydra_command` does, and with status 2 if a setting without default is missing.
    """
    ConfigStore.instance().store(name=f"{(CONF / file).name}_schema", node=schema)
    hydra_command(
        command, file, lambda composed: task(_object(composed)), *also, words=words, about=about
    )


def require_complete(composed: DictConfig) -> None:
    """Refuse settings that lack a value; UserError names the first."""
    for name in sorted(OmegaConf.missing_keys(composed)):
        raise UserError(f"{name} is not set; write {name}=<value>")


def _object(composed: DictConfig) -> Any:
    require_complete(composed)
    return OmegaConf.to_object(composed)


@contextmanager
def called(
    command: str,
    file: str,
    values: Mapping[str, Any],
    *also: type[Exception],
) -> Iterator[DictConfig]:
    """Compose settings for a program that calls a command as a function.

    Args:
      command: as for `hydra_command`.
      file: as for `hydra_command`.
      values: settings that differ from the defaults, by their full names.
      also: as for `hydra_command`.

    Raises:
      UserError: where the command would print one line and exit with status 2.
    """
    chosen = {name: value for name, value in values.items() if name.lstrip("+") in GROUPS}
    words = [f"{name}={choice}" for name, choice in chosen.items()]
    require_current(command, [f"{name}={value}" for name, value in values.items()])
    with (
        user_errors(command, *also),
        _composed(command, CONF / file, words) as composed,
    ):
        for name, value in values.items():
            if name not in chosen:
                with composing(command, [name]):
                    OmegaConf.update(composed, name, value)
        require_in_bounds(OmegaConf.to_container(composed))
        yield composed


@contextmanager
def typed_call(
    command: str, file: str, schema: type[_Config], values: Mapping[str, Any]
) -> Iterator[_Config]:
    """Like `called`, with the settings as an object of the dataclass `schema`.

    Raises:
      UserError: as `called` does, and if a setting without default is missing.
    """
    ConfigStore.instance().store(name=f"{(CONF / file).name}_schema", node=schema)
    with called(command, file, values) as composed:
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
        return f"[{','.join(map(_text, value))}]"
    text = value.name if isinstance(value, Enum) else str(value)
    try:
        is_plain = OverridesParser.create().parse_override(f"a={text}").value() == text != ""
    except HydraException:
        is_plain = False
    return text if is_plain else QuotedString(text, Quote.single).with_quotes()


@contextmanager
def user_errors(command: str, *also: type[Exception]) -> Iterator[None]:
    """Raise `UserError` instead of an error of Hydra, OmegaConf or the operating system."""
    try:
        yield
    # before OSError, which a missing file of the settings is, too
    except (HydraException, OmegaConfBaseException) as error:
        message = f"{_in_one_line(error)}; see `python -m {command} --help`"
        raise UserError(message) from None  # a notebook would show Hydra's own pages
    except OSError as error:
        raise UserError(reason(error)) from error
    except also as error:
        raise UserError(str(error)) from error
    except RuntimeError as error:
        if (line := gpu_memory_line(error)) is None:
            raise
        raise UserError(line) from error


def _unknown_name(file: str | None, options: Sequence[str]) -> str:
    """How to install the extra that has a name, or which names there are."""
    group, _, name = str(file).rpartition("/")
    names = [option for option in options if not option.endswith("_schema")]
    missing = missing_extra(f"edgenas.{group}", name, f"{group}={name}")
    return missing or str(not_one_of(group, name, names))


def _in_one_line(error: Exception) -> str:
    """What is wrong, and what is allowed, from the fields of the error where it has them."""
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, UserError):  # of a resolver
            return str(behind)
        behind = behind.__context__
    if isinstance(error, MissingConfigException) and error.options:
        return _unknown_name(error.missing_cfg_file, error.options)
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override} cannot be read as name=value; quote a value with brackets or quotes"
        )
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    name = str(getattr(cause, "full_key", None) or "")
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        group = name.removesuffix(str(cause.key))
        settings = [f"{group}{key}" for key in cause.parent_node or ()]
        known = OF_SOME.get(name) or did_you_mean(name, settings)
        return f"unknown setting {name}{known}"
    if name:
        return f"{name}: {str(cause).splitlines()[0]}"
    return " ".join(str(error).split())
