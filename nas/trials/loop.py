"""The search loop: propose, ask, learn. What is done with the trials is the caller's.

$ python -m nas.search reward=proposed T=17ms
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from jaxtyping import Int64
from numpy import ndarray

from controller.base import Controller
from nas.trials.problem import RewardedProblem
from nas.trials.trial import Trials

OnAsked: TypeAlias = Callable[[int, Int64[ndarray, "R B D"]], None]
"""Called with the number of the first trial and the architectures, before they are evaluated."""


def search(
    controller: Controller,
    problem: RewardedProblem,
    *,
    budget: int,
    batch_size: int,
    first: int = 0,
    on_asked: OnAsked = lambda _first, _architectures: None,
) -> Iterator[Trials]:
    """Evaluate architectures until each replica has `budget` trials; `first` were evaluated earlier.

    Raises:
      UserError: if the accuracy source lacks an architecture.
      UnmeasuredError: if the latency oracle does.
    """
    while first < budget:
        architectures = controller.sample(min(batch_size, budget - first))
        on_asked(first, architectures)
        trials = problem.evaluate(architectures, first)
        controller.learn(trials, problem.score)
        yield trials
        first = trials.last
