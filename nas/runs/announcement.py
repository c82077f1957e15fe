"""The lines that every run prints before its first trial: its limits, and whether they can be met."""

from __future__ import annotations

import math

from nas.trials.problem import SearchProblem


def beginning(problem: SearchProblem) -> str:
    """What is searched, on which device, and within which limits."""
    limits = "".join(f", {limit}" for limit in problem.limits.each)
    if problem.margin:
        allowed_ms = problem.limit_ms * math.exp(-problem.margin)
        limits += f", predictions up to {allowed_ms:.3g} ms (confidence {problem.confidence:g})"
    return f"searching {problem.task.name} on {problem.oracle.device}, T = {problem.limit_ms:g} ms{limits}"


def doubts(problem: SearchProblem) -> tuple[str, ...]:
    """What must be known of the latencies beforehand."""
    return tuple(getattr(problem.oracle, "warnings", ()))


def sources(problem: SearchProblem) -> list[str]:
    """Sources of the numbers."""
    return [
        f"accuracy {problem.accuracy.description}",
        f"latency {problem.oracle.description}",
        *(f"{limit.title} {limit.source}" for limit in problem.limits.each),
    ]
