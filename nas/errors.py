"""What a user did that cannot work: one line, exit status 2, no traceback."""

from __future__ import annotations


class UserError(Exception):
    """Names the value, what is allowed and the way out, in one line."""
