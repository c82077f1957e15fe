"""Exit statuses of all commands: 2 for an error of the user, 130 for Ctrl-C, SIGTERM or SIGHUP; one line.

This module imports nothing slow: a command uses it while it imports the rest.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from edgenas_core.command import json_output
from edgenas_core.command.interruption import heeded
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable

USER_ERROR = 2  # argparse's own status for a command that cannot work
INTERRUPTED = 130  # 128 + SIGINT, what a shell reports
UNREAD = 141  # 128 + SIGPIPE


@contextmanager
def one_line_errors(*also: type[Exception]) -> Iterator[None]:
    """Run a command's body; also usable as a decorator of it.

    Standard streams that the caller has closed become empty ones. A `UserError`, and an `OSError` such as a
    full disk or a forbidden folder, becomes one line on standard error; any other exception is a bug and
    keeps its traceback.

    Args:
      also: further exceptions that are errors of the user.

    Raises:
      SystemExit: with status 2 after such an error, 130 after Ctrl-C, SIGTERM or SIGHUP, 141 where nobody reads
        the output any more. A further signal after 130 ends the process at once.
    """
    users: tuple[type[Exception], ...] = (OSError, UserError, *also)
    for name in ("stdin", "stdout", "stderr"):  # in the order of their numbers, which are free
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115 - of the process
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in heeded()
        if number is not signal.SIGINT
    }
    try:
        with plain_interrupts():
            yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        for number in heeded():
            signal.signal(number, signal.SIG_DFL)
        _leave("interrupted", INTERRUPTED)
    except MemoryError as error:
        _leave(f"not enough memory {error}; take smaller settings, or free some", USER_ERROR)
    except users as error:
        if BrokenPipeError in {type(error), type(error.__cause__)} and _is_unread():
            sys.exit(UNREAD)
        _leave(reason(error) if isinstance(error, OSError) else str(error), USER_ERROR)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_command(module: str, words: Sequence[str] | None = None) -> None:
    """Import a command, and run its `main` with the words that follow its name, or those of the process.

    Among the words, `--json` asks for a document instead of lines.

    Args:
      module: such as nas.search.command.
      words: None for those of the process.

    Raises:
      SystemExit: with status 130 after Ctrl-C, also while it is imported; `main` raises others.
    """
    words = sys.argv[1:] if words is None else words
    others = [word for word in words if word != json_output.OPTION]
    asks_for_json = len(others) < len(words) and not {"--help", "-h"} & {*words}
    with json_output.as_json(module.split(".")[1]) if asks_for_json else nullcontext():
        with one_line_errors():
            main = import_module(module).main
        main(others)


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt where Ctrl-C ended as another exception, such as a failed import's.

    Raises:
      KeyboardInterrupt: from the exception that it had caused.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__
        if cause is None:
            raise
        raise KeyboardInterrupt from error


def reason(error: OSError) -> str:
    """The operating system's message, after the path of the file if there is one."""
    if error.strerror is None:  # of a library, not of the system
        return " ".join(str(part) for part in error.args if part) or type(error).__name__
    message = error.strerror
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        message += ": the disk is full"
    return message if error.filename is None else f"{error.filename}: {message}"


def _is_unread() -> bool:
    """Whether nobody reads standard output any more; then nothing more is written to it."""
    poll = select.poll()
    poll.register(1, 0)
    is_unread = any(events & select.POLLERR for _, events in poll.poll(0))
    if is_unread:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return is_unread


def _leave(message: str, status: int) -> NoReturn:
    line = printable(" ".join(message.split()))
    json_output.note_error(line)
    sys.stderr.write(f"edgenas: {line}\n")
    sys.exit(status)
