"""`python -m benchmarks experiment=thesis`: a study, with the analyses of the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies.scenarios.page import SCENARIOS
from benchmarks.studies.thesis.page import THESIS
from nas.study.command import main as study

ANALYSES = (THESIS, SCENARIOS)


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's study."""
    study(words, ANALYSES, command="benchmarks")
