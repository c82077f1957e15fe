"""Fits that begin with pretrained weights: latencies, frozen features, fine-tunings, the winner."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from torch import nn

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.units import epochs_text
from latency.base import Latencies, UnmeasuredError
from nas.accuracy.base import HasWeights
from nas.accuracy.slow import Fidelity, SlowAccuracySource
from nas.fit.data.image_set import ImageSet, weighted_accuracy
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.fine_tunings import FineTunings, better_rate
from nas.fit.ranking.forecast import COSTS, TuningTimes
from nas.fit.ranking.stage_result import StageResult
from nas.fit.ranking.stages import Result, StageJob, trained
from nas.fit.run.context import FitContext, Ranking, within_smaller
from nas.fit.run.entries import Entry
from nas.fit.run.kind import FitKind
from nas.fit.run.pool_latencies import Pool, pool_latencies
from nas.fit.run.report import baseline_stage
from nas.fit.run.teachers import Teachers
from nas.fit.run.winner import Winner, epochs_of_new, epochs_within, valid_accuracy
from nas.fit.starts.fine_tuning.frozen import pixel_accuracy
from nas.fit.starts.fine_tuning.trial import (
    FROZEN,
    FineTuningTrial,
    PretrainedImages,
    PretrainedNetwork,
    frozen_pass,
    tuned_checkpoint,
)
from nas.fit.training.device import take_share
from nas.fit.training.evaluation import classes_of
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trained_folder import Training
from nas.fit.training.trainer import seconds_an_epoch
from nas.spaces.base import SearchSpace
from nas.train.job import Start, pretrained_start
from nas.trials.executor import Evaluated
from nas.trials.problem import SearchProblem

LENGTHS = (3, 6, 12)
"""Epochs of the fine-tunings that rank."""

RATES = (1.0, 0.4)
"""Learning rates that are tried, as multiples of the recipe's."""

FROZEN_NETWORKS = 10
"""Networks whose frozen features fit into their time, on fewer images if need be."""

LEAST_EPOCHS, LEAST_IMAGES = 3, 4000
"""Epochs of the winner, or images that it sees, below which fewer of its layers are tuned.

By `benchmarks/results/fine_tuning.csv`, three epochs of all layers on 1,349 images are worth 1.1 points more
than twelve of the last stage.
"""

FROM_SCRATCH_EPOCHS = 20
"""Fewest epochs of a network from scratch that tell whether random initialisation is better for these images."""


NEAR = 1.5
"""Multiple of T up to which networks are just outside."""


@runtime_checkable
class SpaceWithWeights(SearchSpace, HasWeights, Protocol):
    """A search space of networks that begin with weights."""


@final
class Pretrained(FitKind[FineTunings]):
    """Networks with pretrained weights; the network of the best published accuracy is the baseline."""

    def __init__(self, context: FitContext, space: SpaceWithWeights, images: ImageSet) -> None:
        super().__init__(context)
        self._space, self._images = space, images
        data = PretrainedImages(space, str(context.config.data))
        self._network = PretrainedNetwork(space, data, context.checkpoints)
        # The recipe for random initialisation has the augmentation of the fine-tunings.
        self._scratch_recipe = f"from_scratch:{context.rule.recipe.partition(':')[2]}"
        self._plans = TuningPlans(context, space, self._network)
        self._beyond: tuple[Int64[ndarray, "D"], float, Kind] | None = None

    @property
    def fidelities(self) -> tuple[Fidelity, ...]:
        """Frozen features, then the fine-tunings of each rate, the shortest first."""
        names = {rate: f", {rate:g} times the rate" if rate != 1 else "" for rate in RATES}
        tunings = (
            Fidelity(f"{epochs_text(epochs)}{names[rate]}", epochs, rate)
            for rate in RATES
            for epochs in LENGTHS
        )
        return (Fidelity("frozen features", FROZEN), *tunings)

    def draw(self, check: Callable[[], None]) -> Candidates:
        """Networks within the limits, tuned to every depth, and networks with random initialisation."""
        began_s, space, problem = time.monotonic(), self._space, self.context.problem
        rows = space.every_network(is_small=problem.is_for_microcontroller)
        rows, costs = within_other_limits(problem, rows)  # before any is timed
        if not len(rows):
            raise UserError(
                f"no pretrained network is within {problem.limits.label}"
                f"{problem.limits.least(costs)}; raise that, or add smaller networks with weights="
            )
        space.require_weights(rows)
        pool = Pool(rows, space.prior(rows), flops_of(problem, space, rows))
        latencies = pool_latencies(self.context, space, pool, check)
        self._beyond = network_beyond(problem, pool, latencies)
        drawn = tuned_to_depths(self.context, space, pool, latencies, time.monotonic() - began_s)
        return with_new_networks(problem, space, drawn)

    def jobs(self, candidates: Candidates, *, is_decided: bool) -> FineTunings:
        """Frozen features of the most promising, then fine-tunings."""
        context, space = self.context, self._space
        candidates = candidates.rows(~space.is_new(candidates.architectures))  # which come first
        rows, judges = candidates.architectures, len(self._images.valid)
        _, network = np.unique(space.tuned_to(rows, 0), axis=0, return_inverse=True)
        ends_s = stage_ends(context, candidates)
        return FineTunings(
            candidates,
            depth=space.depth(rows),
            network=network.reshape(-1),
            fidelities=self.fidelities,
            until_s=ends_s,
            images=(len(self._images.train) + judges, judges),
            epochs=context.config.epochs,
            smaller=tuple(within_smaller(context, candidates)),
            times=TuningTimes(
                context.parallel,
                timed=None if is_decided else self._plans.timed_epoch(candidates),
                frozen_s=(ends_s["frozen"] - ends_s["scores"]) / FROZEN_NETWORKS,
                frozen_pass=lambda at: frozen_pass(context.checkpoints, space, rows[at]),
            ),
        )

    def trainings(self, jobs: FineTunings) -> SlowAccuracySource:
        """Frozen features and fine-tunings."""
        context, classes = self.context, len(self._images.classes)
        recipe = recipe_named(context.rule.recipe)
        return Evaluated(
            FineTuningTrial(self._network, recipe, classes, jobs.times.frozen_s),
            jobs.fidelities,
            workers=context.executor,
            slots=context.parallel,
            prepare=take_share,
            source=context.accuracy.source,
            description=context.accuracy.description,
        )

    def after_training(self, ranking: Ranking[FineTunings]) -> None:
        """Say after the first training what can be trained in the winner's time."""
        jobs, results, space = ranking.jobs, ranking.results, self._space
        forecast, winner_s = jobs.forecast(results), jobs.winner_s
        if len(results) != 1 or not forecast.judged.any() or winner_s <= 0:
            return
        self.context.clock.promised_s = winner_s
        deepest, first = len(space.depths) - 1, next(iter(results)).candidate
        baseline, quickest = (jobs.tuned_to(at, deepest) for at in (jobs.baseline, first))
        fit, rows = winner_s / forecast.epoch_s, ranking.candidates.architectures
        config = self.context.config
        self.context.say(
            f"{winner_s:.0f} s are kept for the winner: {epochs_text(fit[quickest])} of "
            f"{space.text(rows[quickest])}, or {fit[baseline]:.1f} of the baseline, the best published "
            f"accuracy within T: {space.text(rows[baseline])}, whose {epochs_text(config.epochs)} take "
            f"hours={config.hours * config.epochs / fit[baseline]:.2g}"
        )

    def plan_beside(self, candidates: Candidates, seconds: float) -> Winner | None:
        """The largest network with random initialisation that can be trained long enough in so many seconds."""
        space, recipe = self._space, self._scratch_recipe
        ends_s, start = time.monotonic() + seconds, Start(self._network)
        for at in np.flatnonzero(space.is_new(candidates.architectures))[::-1].tolist():
            row = candidates.architectures[at]
            left_s = ends_s - time.monotonic()
            epochs = int(epochs_within(self.images(row), row, start, recipe, left_s))
            if epochs >= FROM_SCRATCH_EPOCHS:
                epochs = min(epochs, self.most_epochs(recipe))
                ms, kind = float(candidates.latency_ms[at]), int(candidates.latency_kind[at])
                return Winner(space.text(row), recipe, epochs, 0, ms, kind)
        return None

    def entries(
        self, ranking: Ranking[FineTunings], beside: Training | None, ends_s: float
    ) -> list[Entry]:
        """Candidates by what they would reach in the time left; before them what was reached, or is from scratch."""
        jobs, results = ranking.jobs, ranking.results
        self._plans.teachers.prepare(ranking, ends_s)
        # Candidates by their forecasts.
        left_s = ends_s - time.monotonic()
        order = jobs.order(results, left_s).tolist()
        claims = expected_accuracies(jobs, results, left_s, self.context.config.epochs)
        entries = [
            Entry(at, float(claims[at]), partial(self._plans.tuned, ranking, at, ends_s))
            for at in order
        ]
        # A fine-tuning that ranked, where a new one would hardly surpass it.
        reached = jobs.reached(results, claims, order[0]) if order else None
        if reached is not None:
            plan = partial(self._plans.continued, ranking, reached, ends_s)
            entries.insert(0, Entry(reached.candidate, results[reached].accuracy, plan))
        # Random initialisation, where pretrained networks are worse.
        if entries and is_better_from_scratch(
            self.context, self._images, ranking, beside, entries[0].accuracy
        ):
            planned = self.plan_beside(ranking.candidates, ends_s - time.monotonic())
            if planned is not None:
                at = ranking.position(self._space.parse(planned.arch))
                accuracy = 0.0 if beside is None else valid_accuracy(beside)
                entries.insert(0, Entry(at, accuracy, partial(replace, planned)))
        return entries

    def alternatives(
        self,
        ranking: Ranking[FineTunings],
        arch: str | None,  # noqa: ARG002 - a winner may be worse than its own ranking
    ) -> list[Entry]:
        """The baseline by its best fine-tuning, or with nothing but its head where that seems better."""
        results, jobs = ranking.results, ranking.jobs.of_baseline(ranking.results)
        best = max(jobs, key=lambda job: (job.fidelity > 0, results[job].accuracy), default=None)
        if best is None:
            return []
        least = results[best].accuracy
        others = [job for job in jobs if job.fidelity == 0 and results[job].accuracy > least]
        return [self._plans.as_ranked(ranking, job) for job in (best, *others)]

    def comparing_s(self, ranking: Ranking[FineTunings]) -> float:
        """Seconds that the baseline takes on validation images, twice, and test images."""
        images = 2 * len(self._images.valid) + len(self._images.test)
        return ranking.jobs.judging_s(ranking.results, images)

    def stage_results(
        self, ranking: Ranking[FineTunings], beside: Training | None
    ) -> tuple[StageResult, ...]:
        """Latencies, frozen features, fine-tunings, the network from scratch and the baseline."""
        jobs, results = ranking.jobs, ranking.results
        stages = tuning_stages(jobs, ranking, self._space)
        if beside is not None:
            length, best = epochs_text(beside.epochs), valid_accuracy(beside)
            scratch = StageResult("scratch", 1, 1, beside.seconds, length, beside.arch, None, best)
            stages.append(scratch)
        at, trials = jobs.baseline, jobs.of_baseline(results)
        return (*stages, baseline_stage(self.context, ranking, at, trials))

    def baseline_within(
        self, ranking: Ranking[FineTunings], within: Bool[ndarray, "n"]
    ) -> StageResult | None:
        """The network of the best published accuracy among some."""
        jobs = ranking.jobs
        within = within[: len(jobs.candidates)]  # later ones have random initialisation
        if not within.any():
            return None
        at = jobs.baseline_within(within)
        trials = [job for job in ranking.results if jobs.network[job.candidate] == jobs.network[at]]
        return baseline_stage(self.context, ranking, at, trials)

    def start(self, winner: Winner) -> Start:
        """Pretrained weights, or the winner's fine-tuning that ranked."""
        return self._plans.start(winner)

    def most_epochs(self, recipe: str) -> int:
        """Epochs as set; from scratch those of the recipe where none are set."""
        epochs, space = self.context.config.epochs, self._space
        is_default = epochs == space.tasks[space.default_task].epochs
        if recipe != self._scratch_recipe or not is_default:
            return epochs
        return epochs_of_new(self._images, recipe_named(recipe).epochs)

    def unlearnt(self, architecture: Int64[ndarray, "D"]) -> nn.Module | None:
        """The network as it is published; None for random initialisation."""
        if self._space.is_new(architecture):
            return None
        return self._space.start(architecture, self.images(architecture).task)

    def just_beyond(self) -> tuple[Int64[ndarray, "D"], float, Kind] | None:
        """The network of the best published accuracy just outside T; None in a fit that was resumed."""
        return self._beyond

    def images(self, architecture: Int64[ndarray, "D"]) -> ImageSet:
        """The images at the network's side, with its normalisation."""
        return self._network.images(architecture)


@final
class TuningPlans:
    """Trainings of pretrained networks in full: anew, continued, or as they were ranked."""

    def __init__(
        self, context: FitContext, space: SpaceWithWeights, network: PretrainedNetwork
    ) -> None:
        self._context, self._space, self._network = context, space, network
        self.teachers = Teachers(context, network)

    def tuned(self, ranking: Ranking[FineTunings], at: int, ends_s: float) -> Winner:
        """A fine-tuning as deep as the time allows."""
        context, space, jobs = self._context, self._space, ranking.jobs
        row, deepest = ranking.candidates.architectures[at], int(jobs.depth[at])
        images = self._network.images(row)
        # Epochs that fit where the deepest layers are not tuned, then of each depth.
        fit = self._fitting(row, ends_s) * COSTS[deepest]
        least = max(1.0, min(LEAST_EPOCHS, LEAST_IMAGES / len(images.train)))
        enough = (depth for depth in range(deepest, 0, -1) if fit / COSTS[depth] >= least)
        depth = next(enough, 0)
        epochs = max(1, min(int(fit / COSTS[depth]), context.config.epochs))
        arch, rate = (
            space.text(space.tuned_to(row, depth)),
            better_rate(jobs.fidelities, ranking.results),
        )
        return Winner(arch, context.rule.recipe, epochs, 0, 0.0, 0, rate)

    def continued(self, ranking: Ranking[FineTunings], job: StageJob, ends_s: float) -> Winner:
        """A fine-tuning that ranked, with as many further epochs as fit."""
        row, tuned = (
            ranking.candidates.architectures[job.candidate],
            ranking.jobs.fidelities[job.fidelity],
        )
        most, fit = self._context.config.epochs, int(self._fitting(row, ends_s))
        epochs = max(tuned.epochs, min(tuned.epochs + fit, most))
        arch, recipe = self._space.text(row), self._context.rule.recipe
        return Winner(arch, recipe, epochs, tuned.epochs, 0.0, 0, tuned.rate)

    def as_ranked(self, ranking: Ranking[FineTunings], job: StageJob) -> Entry:
        """A network as it was ranked."""
        row, tuned = (
            ranking.candidates.architectures[job.candidate],
            ranking.jobs.fidelities[job.fidelity],
        )
        accuracy = ranking.results[job].accuracy
        if tuned.epochs == FROZEN:  # its accuracy is of other images
            images = self._network.images(row)
            network = self._network(row, images.task)
            answers = classes_of(network, images.valid, images).cpu().numpy()
            accuracy = weighted_accuracy(answers, images.valid.labels)
        arch, epochs = self._space.text(row), max(1, tuned.epochs)
        recipe = self._context.rule.recipe
        winner = Winner(arch, recipe, epochs, tuned.epochs, 0.0, 0, tuned.rate)
        words = f"the baseline, {arch}, had {accuracy:.2%} by {tuned.name} when it was ranked"
        return Entry(job.candidate, accuracy, partial(replace, winner), words)

    def start(self, winner: Winner) -> Start:
        """Pretrained weights, or the winner's fine-tuning that ranked."""
        row, epochs = self._space.parse(winner.arch), winner.ranked_epochs
        start = pretrained_start(self._network, row, winner.rate, keeps_best=True)
        is_tuned = winner.epochs > epochs and not self._space.is_new(row)
        teaching = self.teachers.of(row) if is_tuned else None
        if teaching is not None:
            start = replace(
                start, teaching=teaching, words=f"{start.words}; taught by {teaching.teachers}"
            )
        if not epochs:
            return start
        tuned, context = Fidelity("", epochs, winner.rate), self._context
        path = tuned_checkpoint(context.checkpoints, row, tuned, context.config.seed)
        how = "as it was ranked" if winner.epochs == epochs else "gone on from its ranking"
        return replace(start, continues=path, words=f"{start.words}; {how}")

    def timed_epoch(self, candidates: Candidates) -> tuple[int, float]:
        """The candidate of the fewest multiply-accumulates, and the seconds of an epoch of it."""
        depth = self._space.depth(candidates.architectures)
        deepest = np.flatnonzero(depth == depth.max())
        at = int(deepest[np.argmin(candidates.flops[deepest])])
        row = candidates.architectures[at]
        images = self._network.images(row)
        take_share(0, 1)
        network = self._network(row, images.task)
        return at, seconds_an_epoch(network, images, recipe_named(self._context.rule.recipe))

    def _fitting(self, row: Int64[ndarray, "D"], ends_s: float) -> float:
        """Epochs of a candidate that fit."""
        start = Start(self._network, teaching=self.teachers.of(row))
        recipe, left_s = self._context.rule.recipe, ends_s - time.monotonic()
        return epochs_within(self._network.images(row), row, start, recipe, left_s)


def stage_ends(context: FitContext, candidates: Candidates) -> dict[str, float]:
    """End of each stage, in seconds from the beginning."""
    shares, spent_s = context.rule.shares, context.until_scored_s(candidates)
    left_s = max(context.seconds - spent_s, context.seconds / 10)
    frozen_s = spent_s + left_s * shares["frozen"] / (1 - shares["scores"])
    short_s = frozen_s + left_s * shares["short"] / (1 - shares["scores"])
    full_s = max((1 - shares["scratch"]) * context.seconds, short_s)
    return {"scores": spent_s, "frozen": frozen_s, "short": short_s, "full": full_s}


def expected_accuracies(
    jobs: FineTunings, results: Mapping[StageJob, Result], seconds: float, most: int
) -> Float64[ndarray, "n"]:
    """Accuracy that each candidate is forecast to reach in so many seconds, and `most` epochs."""
    forecast = jobs.forecast(results)
    return forecast.accuracy(np.minimum(seconds / forecast.epoch_s, most))


def is_better_from_scratch(
    context: FitContext,
    images: ImageSet,
    ranking: Ranking[FineTunings],
    beside: Training | None,
    claimed: float,
) -> bool:
    """Whether the network from scratch is above `claimed`, or regression on small pixels above all networks."""
    if beside is not None and valid_accuracy(beside) > claimed:
        context.say(f"from scratch {valid_accuracy(beside):.1%}, pretrained {claimed:.1%} expected")
        return True
    best = np.nanmax([result.accuracy for result in ranking.results.values()])
    pixels = pixel_accuracy(images.train)
    if pixels > best:
        context.say(f"regression on mere pixels {pixels:.1%}, pretrained networks {best:.1%}")
    return bool(pixels > best)


def within_other_limits(
    problem: SearchProblem, rows: Int64[ndarray, "n D"]
) -> tuple[Int64[ndarray, "k D"], Float64[ndarray, "n limits"]]:
    """Rows within every limit but T, and the costs of those that were counted.

    Rows of a network follow one another by their side, and no larger side costs less: the first one beyond a limit ends the
    counting, which takes up to a second each.
    """
    is_kept, costs, beyond = np.zeros(len(rows), bool), [], -1
    for number, row in enumerate(rows):
        if row[0] == beyond:
            continue
        costs.append(problem.limits.costs(row))
        is_kept[number] = problem.limits.met(costs[-1])
        if not is_kept[number]:
            beyond = row[0]
    return rows[is_kept], np.reshape(costs, (len(costs), len(problem.limits.each)))


def tuned_to_depths(
    context: FitContext,
    space: SpaceWithWeights,
    pool: Pool,
    latencies: Latencies,  # NaN where it was not timed
    seconds: float,
) -> Candidates:
    """Networks within the limits, each tuned to every depth.

    Raises:
      UserError: if there is none.
    """
    problem, latency_ms = context.problem, latencies.ms
    timed = ~np.isnan(latency_ms)
    kept = np.flatnonzero(timed & (problem.compared_ms(latencies) <= problem.limit_ms))
    if not len(kept):
        fastest = f"; the fastest takes {np.nanmin(latency_ms):.3g} ms" if timed.any() else ""
        raise UserError(
            f"no pretrained network is within {problem.limits.label} on "
            f"{problem.oracle.device}{fastest}; raise T, or add smaller networks with weights="
        )
    context.say(
        f"latencies: {timed.sum():,} of {len(pool.rows):,} networks at their sides are known, "
        f"{len(kept):,} are within {problem.limits.label}"
    )
    depths = range(len(space.depths))
    every = np.stack([space.tuned_to(pool.rows[kept], depth) for depth in depths], axis=1)
    return Candidates(
        every.reshape(-1, every.shape[-1]),
        latency_ms=np.repeat(latency_ms[kept], len(depths)),
        latency_kind=np.repeat(latencies.kind[kept], len(depths)),
        flops=np.repeat(pool.flops[kept], len(depths)),
        prior=np.repeat(pool.prior[kept], len(depths)),
        drawn=len(pool.rows),
        distinct=int(timed.sum()),
        within=len(kept),
        draw_s=seconds,
        score_s=0.0,
    )


def network_beyond(
    problem: SearchProblem, pool: Pool, latencies: Latencies
) -> tuple[Int64[ndarray, "D"], float, Kind] | None:
    """The network of the best published accuracy up to `NEAR` times T, if no network within T has as good a one."""
    compared_ms = np.where(np.isnan(latencies.ms), np.inf, problem.compared_ms(latencies))
    within = compared_ms <= problem.limit_ms
    just_outside = np.flatnonzero(~within & (compared_ms <= NEAR * problem.limit_ms))
    best = pool.prior[within].max(initial=0.0)
    better = just_outside[pool.prior[just_outside] > best]
    if not len(better):
        return None
    at = int(better[np.argmax(pool.prior[better])])
    return pool.rows[at], float(latencies.ms[at]), Kind(int(latencies.kind[at]))


def with_new_networks(
    problem: SearchProblem, space: SpaceWithWeights, candidates: Candidates
) -> Candidates:
    """Candidates and, after them, networks with random initialisation within every limit, the smallest first."""
    count, rows = len(candidates), space.new_networks()
    rows = rows[problem.limits.met(problem.limits.costs(rows))]
    try:
        answered = problem.oracle.answer(space.canonical(rows))
    except UnmeasuredError:
        return candidates
    within = np.flatnonzero(problem.compared_ms(answered) <= problem.limit_ms)
    longer = candidates.rows(np.append(np.arange(count), np.zeros(len(within), np.int64)))
    longer.architectures[count:] = rows[within]
    longer.latency_ms[count:] = answered.ms[within]
    longer.latency_kind[count:] = answered.kind[within]
    longer.flops[count:] = flops_of(problem, space, rows[within])
    longer.prior[count:] = space.prior(rows[within])
    return longer


def flops_of(
    problem: SearchProblem, space: SpaceWithWeights, rows: Int64[ndarray, "n D"]
) -> Float64[ndarray, "n"]:
    """Multiply-accumulates; counted at one side of each network, in proportion to pixels at the others."""
    sides = np.array([space.side(row) for row in rows], np.float64)
    networks, counted = space.layers(rows).tolist(), dict[int, float]()
    for row, number, side in zip(rows, networks, sides, strict=True):
        if number not in counted:
            counted[number] = float(space.costs(row, problem.task)["flops"]) / side**2
    return np.asarray([counted[number] for number in networks] * sides**2)


def tuning_stages(
    jobs: FineTunings, ranking: Ranking[FineTunings], space: SearchSpace
) -> list[StageResult]:
    """Latencies, frozen features, and the fine-tunings of each length and rate."""
    candidates, rows = jobs.candidates, jobs.candidates.architectures
    stages = [StageResult("draw", candidates.drawn, candidates.within, candidates.draw_s)]
    for fidelity, trial in enumerate(jobs.fidelities):
        trials = [job for job in ranking.results if job.fidelity == fidelity]
        at, accuracy = trained(ranking.results, fidelity)
        if not len(at):
            continue
        first = int(np.argmax(accuracy))
        stages.append(
            StageResult(
                "short" if trial.epochs else "frozen",
                len(trials),
                len(at),
                sum(ranking.results[job].seconds for job in trials),
                trial.name,
                space.text(rows[at[first]]),
                None,
                float(accuracy[first]),
                len(trials) - len(at),
            )
        )
    return stages
