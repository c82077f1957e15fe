"""The results as tables, for a terminal and for a page."""

from __future__ import annotations

from runtime.experiments.faces import face_of
from runtime.page.results import Results
from runtime.page.table_view import Shown


def tables(results: Results) -> list[Shown]:
    """Of one experiment.

    Raises:
      ValueError: if there is no such experiment.
    """
    return face_of(results).tables(results.rows)
