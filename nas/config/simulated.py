"""Instant answers played as slow ones: `workers=4` searches as if four trainings ran at once."""

from __future__ import annotations

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.types.kind import Kind
from nas.accuracy.base import HasAccuracyTable
from nas.accuracy.slow import Evaluation, Fidelity
from nas.accuracy.table import training_seconds
from nas.trials.executor import Simulated
from nas.trials.problem import SearchProblem

_SECONDS_PER_FLOP = 1e-5
"""Duration of a simulated training that no table has; only the order of completion depends on it."""


def simulated(problem: SearchProblem, epochs: int) -> Simulated:
    """The problem's accuracy source on a simulated clock.

    A training takes the seconds that the benchmark's table has, else a time in proportion to its
    network's FLOPs.
    """
    space, task, accuracy = problem.space, problem.task, problem.accuracy
    table_s = None
    if isinstance(space, HasAccuracyTable) and accuracy.source == "table":
        table_s = training_seconds(space, task, epochs)

    def evaluate(
        architecture: Int64[ndarray, "D"],
        fidelity: Fidelity,  # noqa: ARG001 - a table has one length of training
        seed: int,  # noqa: ARG001 - and one answer
    ) -> Evaluation:
        answer = accuracy.answer(architecture[None].copy())
        if table_s is not None and isinstance(space, HasAccuracyTable):
            seconds = float(table_s[space.numbers(architecture)])
        else:
            seconds = float(space.costs(architecture, task)["flops"]) * _SECONDS_PER_FLOP
        return Evaluation(float(answer.fraction[0]), Kind(int(answer.kind[0])), seconds)

    return Simulated(
        evaluate,
        (Fidelity(f"{epochs} epochs", epochs),),
        source=accuracy.source,
        description=accuracy.description,
    )
