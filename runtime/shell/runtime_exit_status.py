"""How the commands of this package end: 2 for what a user can mend, 130 for Ctrl-C, one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from runtime.shell.printable import printable

USER_ERROR = 2
INTERRUPTED = 130


@contextmanager
def one_line_errors(command: str) -> Iterator[None]:
    """Around Hydra's main function and, as Hydra adds lines to what leaves its job, inside it.

    Args:
      command: as after `python -m`, for the reference to its help.

    Raises:
      SystemExit: with status 2 after what a user can mend, 130 after Ctrl-C.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises instead of printing
    try:
        yield
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)
    except (HydraException, OmegaConfBaseException) as error:
        told = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        first = re.split(r"Config search path|\.?\s+To append|\n\s*full_key|\n\s*set_value", told)[
            0
        ]
        _leave(f"{first.strip()}; see `python -m {command} --help`", USER_ERROR)
    except (ValueError, OSError) as error:
        _leave(str(error), USER_ERROR)


def _leave(message: str, status: int) -> NoReturn:
    sys.stderr.write(f"edgenas: {printable(' '.join(message.split()))}\n")
    sys.exit(status)
