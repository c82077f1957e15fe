"""The error raised where a library of the extra `searchers` is missing."""

from __future__ import annotations


def missing_extra(controller: str, library: str) -> ValueError:
    """The error raised where a library is not installed."""
    return ValueError(
        f"controller={controller} needs {library}, which is not installed; "
        f"pip install 'edgenas[searchers]'"
    )
