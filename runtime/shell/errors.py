"""What a user did that cannot work: one line, exit status 2, no traceback."""

from __future__ import annotations


class UserError(Exception):
    """Names the value, what is allowed and the way out, in one line."""


def require_at_least_1(settings: dict[str, int]) -> None:
    """Refuse a count that is none.

    Raises:
      UserError: for the first that is below 1.
    """
    for name, value in settings.items():
        if value < 1:
            raise UserError(f"{name}={value} must be at least 1")
