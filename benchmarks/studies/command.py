"""`python -m benchmarks experiment=thesis`: a study, with the analyses of the benchmarks."""

from __future__ import annotations

from benchmarks.studies.scenarios.page import SCENARIOS
from benchmarks.studies.thesis.page import THESIS
from benchmarks.studies.variants.page import VARIANTS
from nas.study.command import main as study

ANALYSES = (THESIS, SCENARIOS, VARIANTS)


def main() -> None:
    """Run the command line's study."""
    study(analyses=ANALYSES, command="benchmarks")
