"""Hydra's errors, and those of a task that it runs, as one line and exit status 2."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from runtime.shell.errors import UserError
from runtime.shell.exit_status import one_line_errors

_NO_NAME = "Config group override must be a string"  # no error of Hydra's own, but a ValueError
_GROUPS = ("reward", "controller", "accuracy", "latency", "experiment")


@contextmanager
def one_line_hydra_errors(command: str) -> Iterator[None]:
    """Around Hydra's main function and, as Hydra adds lines to what leaves its job, inside it.

    Raises:
      SystemExit: as `one_line_errors` does.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises instead of printing
    with one_line_errors():
        try:
            yield
        except (HydraException, OmegaConfBaseException) as error:
            why = [_for_users(str(error))]
            if error.__cause__ is not None:
                why.append(_for_users(str(error.__cause__)))
            raise UserError(f"{': '.join(why)}; see `python -m {command} --help`") from error
        except ValueError as error:
            if not str(error).startswith(_NO_NAME):
                raise
            raise UserError(
                f"{' '.join(_choices_of(sys.argv[1:]))}: each of these is chosen by its name; see "
                f"`python -m {command} --help`"
            ) from error


def _choices_of(arguments: Sequence[str]) -> list[str]:
    """Those that choose one of several, as in reward=null."""
    return [text for text in arguments if text.partition("=")[0] in _GROUPS]


def _for_users(text: str) -> str:
    """Without Hydra's advice to developers, and the names that only its YAML files use."""
    told = re.split(r"\n?Config search path|\.?\s+To append|\n\s*full_key|\n\s*set_value", text)[0]
    return re.sub(r"\s*\w+_schema\b", "", " ".join(told.split()))
