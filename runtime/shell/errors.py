"""Errors that the user can correct: one line, exit status 2, no traceback."""

from __future__ import annotations


class UserError(Exception):
    """An error of the user; its message is one line that names the value and what is allowed."""


def require_at_least_1(settings: dict[str, int]) -> None:
    """Check counts, given by the names of their settings.

    Raises:
      UserError: for the first count below 1.
    """
    for name, value in settings.items():
        if value < 1:
            raise UserError(f"{name}={value} must be at least 1")
