"""Plans of which none is better than another in both memory and delay."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.weight_streaming.planning.stages import StreamPlan


def pareto(plans: Iterable[StreamPlan]) -> list[StreamPlan]:
    """Those that are faster than all that need no more memory, by rising memory."""
    best: list[StreamPlan] = []
    for one in sorted(plans, key=lambda one: (one.memory_bytes, one.predicted_ms)):
        if not best or one.predicted_ms < best[-1].predicted_ms * (1 - 1e-12):
            best.append(one)
    return best
