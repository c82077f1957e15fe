"""Checks and settings of the environment that a command is started in."""

from __future__ import annotations

import os
import resource
import sys
from datetime import datetime
from io import TextIOWrapper

from common.types.errors import UserError

_LEAST_BYTES = 10**9


def require_usable() -> None:
    """Check the time zone, the arguments and the memory, which else fail in the middle of a run.

    Raises:
      UserError: naming the variable or limit, and the way out.
    """
    try:
        datetime.now().astimezone()
    except ValueError as error:
        raise UserError(f"TZ={os.environ.get('TZ')} is no time zone; unset it") from error
    arguments = " ".join(sys.argv[1:])
    if arguments.encode(errors="replace").decode() != arguments:  # bytes that are no text
        raise UserError(f"{arguments!r} is no text in UTF-8; rename the file or folder")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_BYTES:
        raise UserError(
            f"`ulimit -v` leaves {limit:,} bytes of address space, but {_LEAST_BYTES:,} are needed; "
            f"raise it"
        )
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack letters of a path
    os.environ.pop("MPLBACKEND", None)  # matplotlib writes files only, and fails if it is unknown
