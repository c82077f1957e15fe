"""Errors that the user can correct: one line, exit status 2, no traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from edgenas_core.types.printable import printable


class UserError(Exception):
    """An error of the user; its message is one line that names the value and what is allowed."""

    def __str__(self) -> str:
        return printable(" ".join(super().__str__().split()))


def gpu_memory_line(error: BaseException) -> str | None:
    """What to do where a GPU had too little memory, for torch, CUDA or a library; None of other errors."""
    words = ("out of memory", "_ALLOC_FAILED")
    is_of_cuda = isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    if not is_of_cuda and type(error).__name__ != "OutOfMemoryError":
        return None
    what = (str(error).splitlines() or ["out of memory"])[0].partition(" Process ")[0]
    return (
        f"the GPU has too little memory ({what.rstrip('.')}); end what else uses it, choose another by "
        "CUDA_VISIBLE_DEVICES=, take a smaller side=, or train fewer at once (workers= of a new search)"
    )


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`; did you mean <the nearest known name>?`, or nothing where none is near."""
    names = list(words)
    same = [name for name in names if name.lower() == word.lower()]
    near = same or get_close_matches(word, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def not_one_of(setting: str, value: object, names: Iterable[str], see: str = "") -> UserError:
    """The error of a value that is none of the names that its setting takes.

    Args:
      setting: name of the setting.
      value: what the user wrote.
      names: what is allowed; the nearest one is offered.
      see: further advice, such as a page of the documentation.
    """
    allowed = list(names)
    what = (
        f"{setting}={value} is not one of {', '.join(allowed)}{did_you_mean(str(value), allowed)}"
    )
    return UserError(f"{what}; {see}" if see else what)


def require_at_least_1(settings: dict[str, int]) -> None:
    """Check counts, given by the names of their settings.

    Raises:
      UserError: for the first count below 1.
    """
    for name, value in settings.items():
        if value < 1:
            raise UserError(f"{name}={value} must be at least 1")
