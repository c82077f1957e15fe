"""Analyses of a study beyond the general report, such as those of `benchmarks.studies`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from common.page.document import KeyFigure, Section
from nas.study.evaluation.results import Results
from nas.study.plan import Plan


class Finding(Protocol):
    """One finding of an analysis: a dataclass, which `results.json` holds under the analysis's name."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Paragraphs of the answer, in numbers."""


@final
@dataclass(frozen=True)
class Analysis:
    """A question that some studies answer."""

    name: str  # key in results.json
    applies: Callable[[Plan], bool]  # raises UserError if it is asked for where it cannot apply
    measure: Callable[[Results], Sequence[Any]]  # dataclasses that are a `Finding`
    sections: Callable[[Sequence[Any], Results], Iterator[Section]]  # of the page
    key_figures: Callable[[Sequence[Any], Results], Iterator[KeyFigure]] | None = None
