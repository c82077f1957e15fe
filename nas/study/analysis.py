"""Analyses of a study beyond the general report, such as those of `benchmarks.studies`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from edgenas_core.page.document import KeyFigure, Section
from nas.study.evaluation.results import Results
from nas.study.plan import Plan


@final
@dataclass(frozen=True)
class Analysis:
    """A question that some studies answer."""

    name: str  # key in results.json
    applies: Callable[[Plan], bool]
    measure: Callable[[Results], Sequence[Any]]  # dataclasses, whose `sentences` are the answer
    sections: Callable[[Sequence[Any], Results], Iterator[Section]]  # of the page
    key_figures: Callable[[Sequence[Any], Results], Iterator[KeyFigure]] | None = None
