"""`python -m nas.fit`: the most accurate network within the limits, trained on the user's data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgenas_core.command.exit_status import one_line_errors
from nas.config.moved_settings import require_fit_settings
from nas.fit.build import live_settings_of_fit, register_fit
from nas.runs.command import run_command_line

if TYPE_CHECKING:
    from nas.fit.config import FitExperiment
    from nas.runs.begin import RunKind

_ABOUT = """
Train the most accurate network within a time limit on your own data.

  python -m nas.fit data=photos/ T=8ms hours=0.12
  python -m nas.fit data=photos/ device=ssh://jetson T=8ms hours=0.12 export=true
  python -m nas.fit network=my_net.py:build weights=best.safetensors data=photos/ T=8ms
  python -m nas.fit task=detection data=scenes/ device=here T=5ms
  python -m nas.fit resume=runs/2026-11-21/09-00-00-photos-T8ms

The fit chooses among networks that meet the limit, ranks them by short trainings on your data, trains the
best in the remaining time, and compares it with the baseline, the best published network within T. The whole
configuration: python -m nas.fit --cfg job
"""


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's fit, or its sweep; 2 if a run of a sweep could not be made."""
    words = sys.argv[1:] if words is None else list(words)
    register_fit()
    settings = dict(word.partition("=")[::2] for word in words)
    with one_line_errors():
        require_fit_settings(settings)
    live = live_settings_of_fit(settings)
    words = [*(f"{name}={value}" for name, value in live.items()), *words]
    run_command_line("nas.fit", "fit", words, fit_kind, _ABOUT)


def fit_kind() -> RunKind[FitExperiment]:
    """What a fit is made of."""
    from nas.fit.kind import FIT  # noqa: PLC0415 - `--help` does not wait for it

    return FIT
