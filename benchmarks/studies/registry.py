"""The analyses that a study may have; the report and the command know this list and no entry of it."""

from __future__ import annotations

from benchmarks.studies.scenarios.page import SCENARIOS
from benchmarks.studies.thesis.page import THESIS
from benchmarks.studies.variants.page import VARIANTS

ANALYSES = (THESIS, SCENARIOS, VARIANTS)
