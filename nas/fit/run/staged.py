"""Steps of fits whose candidates are drawn and trained in stages: from scratch, or parts of one network."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from nas.accuracy.slow import Fidelity, SlowAccuracySource
from nas.fit.learners.data import TrainingData
from nas.fit.ranking.candidates import Candidates, draw, scored
from nas.fit.ranking.stages import LONGER, Stages
from nas.fit.run.context import FitContext, Ranking
from nas.fit.run.scoring import Scores
from nas.fit.run.winner import Winner, epochs_within
from nas.fit.training.checkpoint import epochs_done
from nas.fit.training.device import take_share
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trial import NetworkOf, SideBySide, TrialTraining, checkpoint_of
from nas.train.job import Start
from nas.trials.executor import Evaluated, Workers


def draw_scored(
    context: FitContext,
    check: Callable[[], None],
    *,
    share: float,
    first: Int64[ndarray, "k D"] | None,
    least: int,
    must_score_in_time: bool,
    reduce: Callable[[Candidates], Candidates],
    scores: Callable[[float, Callable[[], None]], Scores],
) -> Candidates:
    """Draw candidates within every limit, and score them.

    Args:
      context: the fit.
      check: raises to leave the fit.
      share: of the time of the fit.
      first: architectures that are considered before draws.
      least: candidates that are scored however long it takes.
      must_score_in_time: whether the fit ends where that takes longer than all its time.
      reduce: leaves out candidates that cannot be trained.
      scores: makes the scores within so many seconds.

    Raises:
      UserError: if no draw is within every limit, or the time is over.
    """
    room_s = context.seconds * share
    # Draw and time for half of the time.
    draws = reduce(_drawn(context, check, room_s / 2, first))
    began_s = time.monotonic()

    def check_time() -> None:
        check()
        late_s = draws.draw_s + time.monotonic() - began_s - context.seconds
        if late_s > 0 and must_score_in_time:
            raise UserError(
                f"hours={context.config.hours:g} is less than to score the fewest networks takes; allow more time"
            )

    # Score in the other half.
    score = scores(room_s - draws.draw_s, check_time)
    left_s = room_s - draws.draw_s - (time.monotonic() - began_s)
    candidates = scored(
        draws,
        score.each,
        score.aggregate,
        left_s,
        check=check_time,
        tell=context.tell,
        least=least,
        first=first,
    )
    return replace(candidates, score_s=time.monotonic() - began_s)


def _drawn(
    context: FitContext,
    check: Callable[[], None],
    seconds: float,
    first: Int64[ndarray, "k D"] | None,
) -> Candidates:
    """Draws within every limit; says how many there are. Between two measured networks, `check` may leave the fit."""

    def tell(line: str) -> None:
        check()
        context.tell(line)

    draws = draw(
        context.problem,
        context.config.seed,
        context.rule.draws,
        seconds,
        tell,
        networks=context.config.networks,
        say=context.say,
        first=first,
    )
    context.say(
        f"{draws.drawn:,} draws: {draws.within:,} of {draws.distinct:,} distinct networks are "
        f"within {context.problem.limits.label}"
    )
    return draws


def stage_ends(
    context: FitContext, candidates: Candidates, shares: Mapping[str, float]
) -> dict[str, float]:
    """End of each stage but the winner's, in seconds from the beginning.

    Where the candidates took longer than their share, the stages share what is left, or a tenth of the
    whole time if that is more.
    """
    spent_s = context.until_scored_s(candidates)
    left_s = max(context.seconds - spent_s, context.seconds / 10)
    ends = {"scores": spent_s}
    for stage in ("short", "longer"):
        spent_s += left_s * shares[stage] / (1 - shares["scores"])
        ends[stage] = spent_s
    return ends


def staged_trainings(
    context: FitContext,
    network: NetworkOf,
    fidelities: tuple[Fidelity, ...],
    *,
    keeps_best: bool,
) -> SlowAccuracySource:
    """Trainings of networks: side by side on one GPU, else wherever `executor=` says."""
    recipe = recipe_named(context.rule.recipe)
    named = {"source": context.accuracy.source, "description": context.accuracy.description}
    if torch.cuda.device_count() == 1 and context.config.executor is not Workers.ray:
        return SideBySide(
            context.images,
            network,
            recipe,
            fidelities,
            at_once=context.parallel,
            checkpoints=context.checkpoints,
            keeps_best=keeps_best,
            **named,
        )
    return Evaluated(
        TrialTraining(context.images, network, recipe, context.checkpoints, keeps_best),
        fidelities,
        workers=context.executor,
        slots=context.parallel,
        prepare=take_share,
        **named,
    )


def checkpoint(context: FitContext, architecture: Int64[ndarray, "D"], epochs: int) -> Path:
    """File of a training that ranks."""
    return checkpoint_of(context.checkpoints, architecture, epochs, context.config.seed)


def remove_unpromising(context: FitContext, ranking: Ranking[Stages]) -> None:
    """Remove checkpoints of candidates that will not be trained longer."""
    promising = set(ranking.jobs.order(ranking.results)[:LONGER].tolist())
    for job in ranking.results:
        if job.candidate not in promising:
            row = ranking.candidates.architectures[job.candidate]
            epochs = ranking.jobs.fidelities[job.fidelity].epochs
            checkpoint(context, row, epochs).unlink(missing_ok=True)


def ranked_epochs(
    context: FitContext, ranking: Ranking[Stages], candidate: int, most: int | None = None
) -> int:
    """Epochs of a candidate's longest ranking training whose weights are kept; 0 if there is none."""
    row = ranking.candidates.architectures[candidate]
    lengths = [
        ranking.jobs.fidelities[job.fidelity].epochs
        for job in ranking.results
        if job.candidate == candidate
    ]
    kept = [n for n in lengths if epochs_done(checkpoint(context, row, n)) == n]
    return max((n for n in kept if most is None or n <= most), default=0)


def in_time(
    winner: Winner,
    images: TrainingData,
    architecture: Int64[ndarray, "D"],
    start: Start,
    *,
    least: int,
    most: int,
    ends_s: float,
) -> Winner:
    """The decision with as many epochs after those of its ranking as fit, `least` and up to `most` in all.

    Args:
      winner: the decision, without its epochs.
      images: data of its training.
      architecture: row of its network.
      start: beginning of its training.
      least: epochs after the ranking.
      most: epochs in all.
      ends_s: end of its training on the monotonic clock.
    """
    left_s = ends_s - time.monotonic()
    more = int(epochs_within(images, architecture, start, winner.recipe, left_s))
    ranked = winner.ranked_epochs
    return replace(winner, epochs=ranked + max(least, min(more, most - ranked)))
