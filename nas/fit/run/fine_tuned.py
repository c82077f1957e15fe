"""Searches that begin with pretrained weights: latencies, frozen features, fine-tunings, the winner."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.units import epochs_text
from latency.base import Latencies, UnmeasuredError
from latency.sources.layers import layers_of_live
from nas.accuracy.slow import Fidelity, SlowAccuracySource
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.fine_tunings import FineTunings
from nas.fit.ranking.forecast import COSTS
from nas.fit.ranking.stage_result import StageResult
from nas.fit.ranking.stages import trained
from nas.fit.run.alternatives import ComparedSearch
from nas.fit.run.expected_latency import expected_ms, layer_work
from nas.fit.run.winner import Winner, epochs_within, valid_accuracy
from nas.fit.starts.fine_tuning.trial import FROZEN, FineTuningTrial, frozen_pass
from nas.fit.training.device import take_share
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trainer import seconds_an_epoch
from nas.train.job import Start
from nas.trials.executor import Evaluated
from nas.trials.trial import Trials

LENGTHS = (3, 6, 12)
"""Epochs of the fine-tunings that rank."""

RATES = (1.0, 0.4)
"""Learning rates that are tried, as multiples of the recipe's."""

FROZEN_NETWORKS = 10
"""Networks whose frozen features fit into their time, on fewer images if need be."""

LEAST_EPOCHS, LEAST_IMAGES = 3, 4000
"""Epochs of the winner, or images that it sees, or fewer of its layers are tuned.

By `benchmarks/results/fine_tuning.csv`, three epochs of all layers on 1,349 images are worth 1.1 points more
than twelve of the last stage.
"""

_HOPELESS = 1.2
"""Predicted latency, as a share of the limit, above which a network is not timed."""


@final
class FineTuned(ComparedSearch):
    """A strategy of a run on a space of networks with weights."""

    def _lengths(self) -> tuple[Fidelity, ...]:
        tunings = (
            Fidelity(
                epochs_text(epochs) + (f", {rate:g} times the rate" if rate != 1 else ""),
                epochs,
                rate,
            )
            for rate in RATES
            for epochs in LENGTHS
        )
        return (Fidelity("frozen features", FROZEN), *tunings)

    def _trainings(self) -> SlowAccuracySource:
        recipe, classes = recipe_named(self._rule.recipe), len(self._images.classes)
        return Evaluated(
            FineTuningTrial(self._pretrained, recipe, classes, self._tunings.frozen_s),
            self._fidelities,
            workers=self._executor,
            slots=self._parallel,
            prepare=take_share,
            source=self._accuracy.source,
            description=self._accuracy.description,
        )

    def _stages(self, candidates: Candidates) -> FineTunings:
        space = self._space
        candidates = candidates.rows(~space.is_new(candidates.architectures))  # which come first
        rows = candidates.architectures
        _, network = np.unique(space.tuned_to(rows, 0), axis=0, return_inverse=True)
        images = len(self._images.valid)
        return FineTunings(
            candidates,
            space.depth(rows),
            network.reshape(-1),
            self._fidelities,
            self._ends_s,
            (len(self._images.train) + images, images),
            self._config.epochs,
            self._parallel,
            None if self._winners else self._timed_epoch(candidates),
            (self._ends_s["frozen"] - self._ends_s["scores"]) / FROZEN_NETWORKS,
            lambda at: frozen_pass(self._checkpoints, space, rows[at]),
        )

    def _timed_epoch(self, candidates: Candidates) -> tuple[int, float]:
        """The candidate of the fewest multiply-accumulates, and the seconds of an epoch of it."""
        depth = self._space.depth(candidates.architectures)
        deepest = np.flatnonzero(depth == depth.max())
        at = int(deepest[np.argmin(candidates.flops[deepest])])
        row = candidates.architectures[at]
        images = self._images_of(row)
        take_share(0, 1)
        network = self._pretrained(row, images.task)
        return at, seconds_an_epoch(network, images, recipe_named(self._rule.recipe))

    @cached_property
    def _ends_s(self) -> dict[str, float]:
        shares, spent_s = self._rule.shares, self._scored_s
        left_s = max(self._seconds - spent_s, self._seconds / 10)
        frozen_s = spent_s + left_s * shares["frozen"] / (1 - shares["scores"])
        short_s = frozen_s + left_s * shares["short"] / (1 - shares["scores"])
        ends = {"scores": spent_s, "frozen": frozen_s, "short": short_s, "longer": short_s}
        return {**ends, "full": max((1 - shares["scratch"]) * self._seconds, short_s)}

    @property
    def _ranking_ends_s(self) -> float:
        return self._tunings.ranked_until_s(self._tunings.forecast(self._proposer.results))

    def _drawn(self, check: Callable[[], None]) -> Candidates:
        """Networks within the limits, by their latencies on the device.

        Those of the best published accuracy, and in turn those that are trained the quickest, are timed
        until their time is over; those are not whose layers, where the device has a table of them, or
        else multiply-accumulates say that they are too slow.
        """
        began_s, space, problem = time.monotonic(), self._space, self._problem
        rows = space.every_network()
        costs = problem.limits.costs(rows)
        rows = rows[problem.limits.met(costs)]  # before any is timed
        if not len(rows):
            raise UserError(
                f"no pretrained network is within {problem.limits.label}"
                f"{problem.limits.least(costs)}; raise that, or add smaller networks with weights="
            )
        space.require_weights(rows)
        prior, flops = space.prior(rows), self._flops(rows)
        layers = space.canonical(rows)
        _, first, group = np.unique(layers, axis=0, return_index=True, return_inverse=True)
        measured = np.full(len(first), np.nan)
        kinds = np.full(len(first), Kind.missing, np.int8)
        ends_s = began_s + self._rule.shares["scores"] * self._seconds
        best = np.array([prior[group == number].max() for number in range(len(first))])
        skipped = np.zeros(len(first), bool)
        networks, work = space.layers(rows[first]), flops[first]
        model = layers_of_live(problem.oracle, space, problem.task)
        if model is not None:
            by_prior, until_s = np.argsort(-best), (3 * began_s + ends_s) / 4
            rows_by_prior = layers[first][by_prior]
            work[by_prior] = layer_work(
                model.network_ms, rows_by_prior, networks[by_prior], work[by_prior], until_s
            )
        while True:
            predicted = expected_ms(networks, work, measured)
            hopeless = predicted > _HOPELESS * problem.limit_ms
            if not (measured <= problem.limit_ms).any():
                hopeless[np.argmin(flops[first])] = False  # the message names the fastest
            open_ = np.isnan(measured) & ~skipped & ~hopeless
            is_late = time.monotonic() >= ends_s and (measured <= problem.limit_ms).any()
            if is_late or not open_.any():
                break
            tried, unknown = int((~np.isnan(measured)).sum()), np.flatnonzero(open_)
            easy = unknown[np.argsort(flops[first][unknown], kind="stable")]
            at = int(easy[0] if tried else easy[len(easy) // 4])  # tells how fast the device is
            if tried % 2:
                at = int(unknown[np.argmax(best[unknown])])
            try:
                answered = problem.oracle.answer(layers[first[at]][None])
                measured[at], kinds[at] = answered.ms[0], answered.kind[0]
            except UnmeasuredError as error:
                skipped[at] = True
                self._say(f"{space.text(rows[first[at]])}: {error}")
            self._tell(f"networks timed: {tried + 1:,} of {len(first):,}")
            check()
        answered = Latencies(measured[group], kinds[group])
        drawn = self._candidates_of(rows, prior, flops, answered, time.monotonic() - began_s)
        return self._with_new_networks(drawn)

    def _candidates_of(
        self,
        rows: Int64[ndarray, "n D"],
        prior: Float64[ndarray, "n"],
        flops: Float64[ndarray, "n"],
        latencies: Latencies,  # NaN where it was not timed
        seconds: float,
    ) -> Candidates:
        """Those within the limits, each tuned to every depth."""
        problem, latency_ms = self._problem, latencies.ms
        timed = ~np.isnan(latency_ms)
        compared = problem.compared_ms(latencies)
        within = timed & (compared <= problem.limit_ms)
        kept = np.flatnonzero(within)
        if not len(kept):
            fastest = f"; the fastest took {np.nanmin(latency_ms):.3g} ms" if timed.any() else ""
            raise UserError(
                f"no pretrained network is within {problem.limits.label} on "
                f"{problem.oracle.device}{fastest}; raise T, or add smaller networks with weights="
            )
        self._say(
            f"latencies: {timed.sum():,} of {len(rows):,} networks at their sides are known, "
            f"{len(kept):,} are within {problem.limits.label}"
        )
        depths = range(len(self._space.depths))
        every = np.stack([self._space.tuned_to(rows[kept], depth) for depth in depths], axis=1)
        return Candidates(
            every.reshape(-1, every.shape[-1]),
            latency_ms=np.repeat(latency_ms[kept], len(depths)),
            latency_kind=np.repeat(latencies.kind[kept], len(depths)),
            flops=np.repeat(flops[kept], len(depths)),
            prior=np.repeat(prior[kept], len(depths)),
            drawn=len(rows),
            distinct=int(timed.sum()),
            within=len(kept),
            draw_s=seconds,
            score_s=0.0,
        )

    def _with_new_networks(self, candidates: Candidates) -> Candidates:
        """The same, and the networks with new weights that are within every limit, the smallest first."""
        space, problem, count = self._space, self._problem, len(candidates)
        rows = space.new_networks()
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
        longer.flops[count:] = self._flops(rows[within])
        longer.prior[count:] = space.prior(rows[within])
        return longer

    def _flops(self, rows: Int64[ndarray, "n D"]) -> Float64[ndarray, "n"]:
        """Multiply-accumulates; counted at one side of each network, in proportion at the others."""
        sides = np.array([self._space.side(row) for row in rows], np.float64)
        counted: dict[int, float] = {}
        for row, number, side in zip(rows, self._space.layers(rows).tolist(), sides, strict=True):
            if number not in counted:
                flops = self._space.costs(row, self._problem.task)["flops"]
                counted[number] = float(flops) / side**2
        per_pixel = [counted[number] for number in self._space.layers(rows).tolist()]
        return np.asarray(per_pixel * sides**2)

    def consume(self, trials: Trials) -> None:
        """Say what a trial came to; after the first one, what can be trained in the time."""
        super().consume(trials)
        stages, results = self._tunings, self._proposer.results
        forecast = stages.forecast(results)
        winner_s, deepest = stages.winner_s, len(self._space.depths) - 1
        if len(results) == 1 and forecast.judged.any() and winner_s > 0:
            self._promised_s = winner_s
            rule, quickest = (
                stages.tuned_to(at, deepest)
                for at in (stages.rule_of_thumb, next(iter(results))[0])
            )
            fit = winner_s / forecast.epoch_s
            text, rows = self._space.text, self._drawn_candidates.architectures
            self._say(
                f"{winner_s:.0f} s are kept for the winner: {epochs_text(fit[quickest])} of "
                f"{text(rows[quickest])}, or {fit[rule]:.1f} of the rule of thumb, the best published "
                f"accuracy within T: {text(rows[rule])}, whose {epochs_text(self._config.epochs)} take "
                f"hours={self._config.hours * self._config.epochs / fit[rule]:.2g}"
            )

    def _decided(self, order: list[int], ends_s: float) -> Winner:
        """The best that is confirmed, tuned as deep as its time allows."""
        space, stages, results = self._space, self._tunings, self._proposer.results
        left_s = ends_s - time.monotonic()
        order = stages.order(results, left_s).tolist()
        claims = self._claims(left_s)
        ranked = stages.reached(results, claims, order[0]) if order else None
        if ranked is not None:
            order = [ranked.candidate, *order]
            claims[ranked.candidate] = results[ranked].accuracy
        scratch = None
        if order and self._needs_new_weights(claims[order[0]]):
            scratch = self._planned_from_scratch(ends_s - time.monotonic())
        if scratch is not None:
            order = [self._candidate(scratch.arch), *order]
        at, ms, kind = self._confirmed(order)
        if scratch is not None and at == order[0]:
            return replace(scratch, latency_ms=ms, latency_kind=kind)
        recipe, deepest = self._rule.recipe, int(stages.depth[at])
        row = self._drawn_candidates.architectures[at]
        images, left_s = self._images_of(row), ends_s - time.monotonic()
        fit = epochs_within(images, row, Start(self._pretrained), recipe, left_s)
        if ranked is not None and at == ranked.candidate:
            tuned = self._fidelities[ranked.fidelity]
            epochs = max(tuned.epochs, min(tuned.epochs + int(fit), self._most_epochs(recipe)))
            return Winner(space.text(row), recipe, epochs, tuned.epochs, ms, kind, tuned.rate)
        fit *= COSTS[deepest]
        least = max(1.0, min(LEAST_EPOCHS, LEAST_IMAGES / len(images.train)))
        enough = (each for each in range(deepest, 0, -1) if fit / COSTS[each] >= least)
        depth = next(enough, 0)
        epochs = max(1, min(int(fit / COSTS[depth]), self._most_epochs(recipe)))
        arch = space.text(space.tuned_to(row, depth))
        return Winner(arch, recipe, epochs, 0, ms, kind, stages.rate(results))

    def _claims(self, left_s: float) -> Float64[ndarray, "candidates"]:
        forecast = self._tunings.forecast(self._proposer.results)
        return forecast.accuracy(
            np.minimum(left_s / forecast.epoch_s, self._most_epochs(self._rule.recipe))
        )

    def _stage_results(self) -> tuple[StageResult, ...]:
        stages, results, space = self._tunings, self._proposer.results, self._space
        candidates, rows = stages.candidates, stages.candidates.architectures
        stage_list = [StageResult("draw", candidates.drawn, candidates.within, candidates.draw_s)]
        for fidelity, trial in enumerate(self._fidelities):
            jobs = [job for job in results if job.fidelity == fidelity]
            at, accuracy = trained(results, fidelity)
            if not len(at):
                continue
            first = int(np.argmax(accuracy))
            stage_list.append(
                StageResult(
                    "short" if trial.epochs else "frozen",
                    len(jobs),
                    len(at),
                    sum(results[job].seconds for job in jobs),
                    trial.name,
                    space.text(rows[at[first]]),
                    None,
                    float(accuracy[first]),
                    len(jobs) - len(at),
                )
            )
        scratch = self._from_scratch
        if scratch is not None:
            length, best = epochs_text(scratch.epochs), valid_accuracy(scratch)
            stage_list.append(
                StageResult("scratch", 1, 1, scratch.seconds, length, scratch.arch, None, best)
            )
        rule = self._rule_stage(stages.rule_of_thumb, stages.of_rule_of_thumb(results))
        return (*stage_list, rule)
