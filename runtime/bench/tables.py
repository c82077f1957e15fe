"""The results as tables, for a terminal and for a page."""

from __future__ import annotations

from runtime.bench.faces import face_of
from runtime.bench.results import Results
from runtime.bench.shown import Shown


def tables(results: Results) -> list[Shown]:
    """Of one experiment.

    Raises:
      ValueError: if there is no such experiment.
    """
    return face_of(results).tables(results.rows)
