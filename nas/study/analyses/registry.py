"""The analyses that a study may have; the report and the command know this list and no entry of it."""

from __future__ import annotations

from nas.study.analyses.scenarios.page import SCENARIOS
from nas.study.analyses.thesis.page import THESIS
from nas.study.analyses.variants.page import VARIANTS

ANALYSES = (THESIS, SCENARIOS, VARIANTS)
