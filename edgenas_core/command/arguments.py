"""Options of commands that have no settings: argparse, with an error in one line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from edgenas_core.types.errors import UserError


class OneLineParser(argparse.ArgumentParser):
    """A parser that raises `UserError` where argparse prints its usage and ends the process."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise UserError(f"{message}; see `{self.prog} --help`")
