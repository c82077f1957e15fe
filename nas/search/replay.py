"""Learn again what a journal holds: how an interrupted search comes back to where it was.

From its checkpoint on, or from the start where there is none, the controller proposes as it did
before, and takes the answers from the journal instead of asking again. So nothing that was sampled
is lost, however expensive it was, and a journal of other settings is found out.
"""

from __future__ import annotations

import numpy as np

from controller.base import Controller
from latency.base import LatencyOracle
from nas.accuracy.base import Accuracy
from nas.trials.choice_history import OperationHistory
from nas.trials.limits import NO_FURTHER_LIMITS, Limits
from nas.trials.loop import Evaluated
from nas.trials.trial import Samples
from rewards.base import Reward
from runtime.shell.errors import UserError


def check_answers(recorded: Samples, accuracy: Accuracy, oracle: LatencyOracle) -> None:
    """Refuse a journal whose numbers are not those of the sources, where asking is free.

    Raises:
      UserError: if a recorded accuracy or latency differs.
    """
    architectures = recorded.architectures
    for name, source, said in (
        ("accuracy", accuracy, recorded.accuracy),
        ("latency", oracle, recorded.latency_ms),
    ):
        if not source.tabular:
            continue
        now = accuracy(architectures) if source is accuracy else oracle.latency_ms(architectures)
        differs = now != said
        if differs.any():
            row = int(np.argmax(differs))
            raise UserError(
                f"sample {row + 1:,} of the run has {name} {said[row]:g}, but the source now says "
                f"{now[row]:g} ({source.description}); resume it with the data it was begun with"
            )


def check_rewards(recorded: Samples, reward: Reward, limits: Limits) -> None:
    """Refuse a journal whose rewards were made of other energies; the journal holds no costs.

    Raises:
      UserError: if a recorded reward differs.
    """
    now = reward(recorded.accuracy, recorded.latency_ms, limits.ratios(recorded.architectures))
    differs = ~np.isclose(now, recorded.rewards, rtol=1e-9, atol=1e-12)
    if differs.any():
        row = int(np.argmax(differs))
        raise UserError(
            f"sample {row + 1:,} of the run has reward {recorded.rewards[row]:g}, but by the costs "
            f"known now it is {now[row]:g}; resume it with the data it was begun with"
        )


def replay(
    controller: Controller,
    reward: Reward,
    recorded: Samples,
    history: OperationHistory,
    *,
    done: int,
    budget: int,
    batch_size: int,
    limits: Limits = NO_FURTHER_LIMITS,
) -> int:
    """Advance a controller and its history from `done` samples over the rest of a journal.

    Returns the samples it has learned from then: a batch that was cut off is left out.

    Raises:
      UserError: if the controller does not propose what the journal holds.
    """
    while done < budget:
        stop = done + min(batch_size, budget - done)
        if stop > len(recorded):
            break
        architectures = controller.sample(stop - done)
        if not np.array_equal(architectures[0], recorded.architectures[done:stop]):
            raise UserError(
                f"sample {done + 1:,} of the run is not what its controller proposes; it was made "
                f"with other settings or another version"
            )
        top1, latency_ms = recorded.accuracy[None, done:stop], recorded.latency_ms[None, done:stop]
        further = limits.ratios(architectures)
        rewards = reward(top1, latency_ms, further)
        ratios = reward.ratios(latency_ms, further)
        controller.learn(Evaluated(architectures, top1, ratios, rewards), reward.of_ratios)
        history.record(done, architectures)
        done = stop
    return done
