"""`python -m nas.search`: the most accurate architecture, by tables, predictors and boards."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.exit_status import one_line_errors, run_command
from nas.config.build import default_searcher, register
from nas.config.moved_settings import fit_words, require_search_settings
from nas.config.run_config import live_settings
from nas.runs.command import run_command_line

HANDED_OVER = "training on your own data is the command nas.fit now; starting it"
"""The line that tells so."""

_ABOUT = """
Find the most accurate architecture that meets a time limit on a device.

  python -m nas.search T=17ms
  python -m nas.search T=15ms P=500k device=raspberry-pi-4/b1
  python -m nas.search reward=proposed T=17ms      (a reward is maximised by a policy gradient)
  python -m nas.search 'objectives=[accuracy,latency]' controller=guided budget=200
  python -m nas.search latency=probe device=ssh://jetson budget=300     (a board that SSH reaches)
  python -m nas.search -m reward=proposed,mnasnet,constrained seed=0,1,2
  python -m nas.search resume=runs/2026-11-21/09-00-00-proposed-jetson-nano-fp32-b1-T17ms

Accuracies and latencies come from tables, predictors and boards. To train on your own data, use nas.fit.
Settings of a chosen part are named after it: controller.lr=, reward.latency_weight=, latency.statistic=;
the whole configuration:  python -m nas.search --cfg job
"""

if TYPE_CHECKING:
    from nas.config.build import SearchExperiment
    from nas.runs.begin import RunKind


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's search, or its sweep; 2 if a run of a sweep could not be made.

    Settings of a fit, such as data=, are handed over to nas.fit.
    """
    words = sys.argv[1:] if words is None else list(words)
    with one_line_errors():
        of_fit = fit_words(words)
    if of_fit is not None:
        say(PlainConsole(), HANDED_OVER)
        run_command("nas.fit.command", of_fit)
        return
    register()
    settings = dict(word.partition("=")[::2] for word in words)
    with one_line_errors():
        require_search_settings(settings)
    live = live_settings(settings)
    added = live | default_searcher(live | settings)
    # beside the first setting, as Hydra takes settings in one group
    first = next((at for at, word in enumerate(words) if re.match(r"[^-]+=", word)), len(words))
    words[first:first] = [f"{name}={value}" for name, value in added.items()]
    run_command_line("nas.search", "search", words, search_kind, _ABOUT)


def search_kind() -> RunKind[SearchExperiment]:
    """What a search is made of."""
    from nas.search.kind import SEARCH  # noqa: PLC0415 - `--help` does not wait for it

    return SEARCH
