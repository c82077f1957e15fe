"""The progress bar on a terminal, a line every tenth of the budget elsewhere; both with the time left."""

from __future__ import annotations

from typing import final

from rich.console import Console

from common.command.progress import progress_bar
from nas.trials.tracker import Tracker
from nas.trials.trial import Trials


@final
class ProgressBar:
    """Shows where the search stands; a consumer of the loop."""

    def __init__(self, console: Console, tracker: Tracker, limit_ms: float, budget: int) -> None:
        self._console = console
        self._tracker = tracker
        self._limit_ms = limit_ms
        self._budget = budget
        self._shown = tracker.samples
        self._every = max(1, budget // (200 if console.is_terminal else 10))
        self._bar = progress_bar(console)
        self._task = self._bar.add_task("", total=budget, completed=tracker.samples)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, _trials: Trials) -> None:
        """Show the figures, a few hundred times a run."""
        done = self._tracker.samples
        if done - self._shown < self._every and done < self._budget:
            return
        self._shown = done
        if not self._tracker.has_recent:
            return
        accuracy, latency_ms, _ = self._tracker.recent_means()
        best = self._tracker.best_accuracy
        label = self._tracker.limits.label
        known = f"best within {label} {best:.2%}" if best >= 0 else f"none within {label} yet"
        costs = "".join(
            f" {limit.text(mean)} / {limit.text(limit.bound)}"
            for limit, mean in self._tracker.recent_costs()
        )
        failed = f"  {self._tracker.failed:,} failed" if self._tracker.failed else ""
        figures = f"mean {accuracy:.2%} {latency_ms:5.2f} / {self._limit_ms:g} ms{costs}  {known}"
        self._bar.update(self._task, completed=done, description=figures)
        if not self._console.is_terminal:
            left_s = self._bar.tasks[0].time_remaining
            left = f"  {in_words(float(left_s))} left" if left_s else ""
            budget = f"{self._budget:,}"
            self._console.print(
                f"{done:>{len(budget)},}/{budget} trials  {figures}{failed}{left}", soft_wrap=True
            )


def in_words(seconds: float) -> str:
    """A duration in its largest whole unit: 40 s, 12 min, 3.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
