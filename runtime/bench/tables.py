"""The results as tables, for a terminal and for a page."""

from __future__ import annotations

from runtime.bench.faces import FACES
from runtime.bench.results import Results
from runtime.bench.shown import Shown


def tables(results: Results) -> list[Shown]:
    """Of one experiment."""
    return FACES[results.experiment].tables(results.rows)
