"""Searches that begin with pretrained weights: latencies, frozen features, fine-tunings, the winner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from torch import nn

from common.types.errors import UserError
from common.types.kind import Kind
from latency.base import Latencies, UnmeasuredError
from nas.accuracy.base import HasWeights
from nas.accuracy.fine_tuning.frozen import pixel_accuracy
from nas.accuracy.fine_tuning.trial import (
    FROZEN,
    FineTuningTrial,
    PretrainedImages,
    PretrainedNetwork,
    tuned_checkpoint,
)
from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.learners.data import has_classes
from nas.accuracy.slow import Fidelity, SlowAccuracySource
from nas.accuracy.training.checkpoint import weights_of
from nas.accuracy.training.recipe import recipe_named
from nas.accuracy.training.share import take_share
from nas.accuracy.training.trained_folder import RECORD, Training, read_training, trained_folder
from nas.accuracy.training.trainer import seconds_an_epoch
from nas.search.journal import Journal
from nas.search.own_images.staged_search import StagedSearch
from nas.search.own_images.winner import (
    MORE,
    Winner,
    epochs_within,
    forget_checkpoint,
    train_winner,
)
from nas.search.strategy import Outcome
from nas.spaces.base import SearchSpace
from nas.train.job import Start, pretrained_start
from nas.trials.executor import Evaluated
from nas.trials.staged.candidates import Candidates
from nas.trials.staged.fine_tunings import FineTunings
from nas.trials.staged.forecast import COSTS
from nas.trials.staged.stage_result import StageResult
from nas.trials.staged.stages import trained
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

_FROM_SCRATCH_EPOCHS = 20
"""Fewest epochs of a network from scratch that tell whether new weights are better for these images."""

_HOPELESS = 1.2
"""Predicted latency, as a share of the limit, above which a network is not timed."""


@runtime_checkable
class SpaceWithWeights(SearchSpace, HasWeights, Protocol):
    """A search space of networks that begin with weights."""


@final
class FineTuned(StagedSearch):
    """A strategy of a run on a space of networks with weights."""

    @property
    def _space(self) -> SpaceWithWeights:
        space = self._problem.space
        if not isinstance(space, SpaceWithWeights):
            raise TypeError(f"{space.name} has no weights")
        return space

    @property
    def _tunings(self) -> FineTunings:
        stages = self._proposer.stages
        if not isinstance(stages, FineTunings):
            raise TypeError(f"{type(stages).__name__} does not tune")
        return stages

    def _lengths(self) -> tuple[Fidelity, ...]:
        tunings = (
            Fidelity(
                f"{epochs} epochs" + (f", {rate:g} times the rate" if rate != 1 else ""),
                epochs,
                rate,
            )
            for rate in RATES
            for epochs in LENGTHS
        )
        return (Fidelity("frozen features", FROZEN), *tunings)

    @cached_property
    def _pretrained(self) -> PretrainedNetwork:
        images = PretrainedImages(self._space, str(self._config.data))
        return PretrainedNetwork(self._space, images, self._checkpoints)

    def _images_of(self, architecture: Int64[ndarray, "D"]) -> ImageSet:
        return self._pretrained.images(architecture)

    def _trainings(self) -> SlowAccuracySource:
        recipe, classes = recipe_named(self._rule.recipe), len(self._images.classes)
        frozen_s = (self._ends_s["frozen"] - self._ends_s["scores"]) / FROZEN_NETWORKS
        stages, rows = self._tunings, self._tunings.candidates.architectures
        is_kept = (self._int8 is not None) | (
            stages.network == stages.network[stages.rule_of_thumb]
        )
        return Evaluated(
            FineTuningTrial(
                self._pretrained,
                recipe,
                classes,
                frozen_s,
                {row.tobytes() for row in rows[is_kept]},
            ),
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
            self._timed_epoch(candidates),
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
        shares, spent_s = self._rule.shares, self._drawn_candidates.seconds
        left_s = max(self._seconds - spent_s, self._seconds / 2)
        frozen_s = spent_s + left_s * shares["frozen"] / (1 - shares["scores"])
        short_s = frozen_s + left_s * shares["short"] / (1 - shares["scores"])
        ends = {"scores": spent_s, "frozen": frozen_s, "short": short_s, "longer": short_s}
        return {**ends, "full": max((1 - shares["scratch"]) * self._seconds, short_s)}

    def _drawn(self, check: Callable[[], None]) -> Candidates:
        """Networks within the limits, by their latencies on the device.

        Those of the best published accuracy, and in turn those that are trained the quickest, are timed
        until their time is over; those whose multiply-accumulates say that they are too slow are not.
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
        while True:
            predicted = _predicted_ms(space.layers(rows[first]), flops[first], measured)
            hopeless = predicted > _HOPELESS * problem.limit_ms
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
            self._tell(f"timed {tried + 1:,} of {len(first):,} networks")
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
        if len(results) == 1 and forecast.judged.any():
            winner_s, deepest = stages.winner_s, len(self._space.depths) - 1
            rule, quickest = (
                stages.tuned_to(at, deepest)
                for at in (stages.rule_of_thumb, next(iter(results))[0])
            )
            fit = winner_s / forecast.epoch_s
            text, rows = self._space.text, self._drawn_candidates.architectures
            self._say(
                f"{winner_s:.0f} s are kept for the winner: about {fit[quickest]:.0f} epochs of "
                f"{text(rows[quickest])}, or {fit[rule]:.1f} of the rule of thumb, {text(rows[rule])}; "
                f"{self._config.epochs} epochs of this take "
                f"hours={self._config.hours * self._config.epochs / fit[rule]:.2g}"
            )

    def _decided(self, order: list[int], ends_s: float) -> Winner:
        """The best that is confirmed, tuned as deep as its time allows."""
        space, stages, results = self._space, self._tunings, self._proposer.results
        left_s = ends_s - time.monotonic()
        order = self._by_int8(stages.order(results, left_s).tolist(), left_s)
        scratch = None
        if order and self._needs_new_weights(self._claims(left_s)[order[0]]):
            scratch = self._planned_from_scratch(ends_s - time.monotonic())
        if scratch is not None:
            order = [self._candidate(scratch.arch), *order]
        at, ms, kind = self._confirmed(order)
        if scratch is not None and at == order[0]:
            return replace(scratch, latency_ms=ms, latency_kind=kind)
        recipe, deepest = self._rule.recipe, int(stages.depth[at])
        row = self._drawn_candidates.architectures[at]
        images, left_s = self._images_of(row), ends_s - time.monotonic()
        fit = epochs_within(images, row, Start(self._pretrained), recipe, left_s) * COSTS[deepest]
        least = max(1.0, min(LEAST_EPOCHS, LEAST_IMAGES / len(images.train)))
        enough = (each for each in range(deepest, 0, -1) if fit / COSTS[each] >= least)
        depth = next(enough, 0)
        epochs = max(1, min(int(fit / COSTS[depth]), self._most_epochs))
        arch = space.text(space.tuned_to(row, depth))
        return Winner(arch, recipe, epochs, 0, ms, kind, stages.rate(results))

    def _needs_new_weights(self, claimed: float) -> bool:
        """Whether the network from scratch is better than that, or regression on small pixels than all."""
        scratch, images = self._from_scratch, self._images
        if not has_classes(images):
            raise TypeError(f"{images.title} has no classes")
        best = np.nanmax([result.accuracy for result in self._proposer.results.values()])
        if scratch is not None and _valid(scratch[1]) > claimed:
            self._say(f"from scratch {_valid(scratch[1]):.1%}, pretrained {claimed:.1%} expected")
        elif (pixels := pixel_accuracy(images.train)) > best:
            self._say(f"regression on mere pixels {pixels:.1%}, pretrained networks {best:.1%}")
        else:
            return False
        return True

    def _planned_from_scratch(self, seconds: float) -> Winner | None:
        """The largest network with new weights that so many seconds train long enough."""
        candidates, recipe = self._drawn_candidates, self._scratch_recipe
        ends_s, start = time.monotonic() + seconds, Start(self._pretrained)
        for at in np.flatnonzero(self._space.is_new(candidates.architectures))[::-1].tolist():
            row = candidates.architectures[at]
            ms, kind = float(candidates.latency_ms[at]), int(candidates.latency_kind[at])
            left_s = ends_s - time.monotonic()
            epochs = int(epochs_within(self._images_of(row), row, start, recipe, left_s))
            if epochs >= _FROM_SCRATCH_EPOCHS:
                planned = Winner(self._space.text(row), recipe, epochs, 0, ms, kind)
                return replace(planned, epochs=min(epochs, self._epochs_of(recipe)))
        return None

    @property
    def _scratch_recipe(self) -> str:
        """Name of the recipe for new weights, with the augmentation of the fine-tunings."""
        return f"from_scratch:{self._rule.recipe.partition(':')[2]}"

    def outcome(self, parts: Sequence[Trials]) -> Outcome:
        """As in every search; a network from scratch is trained first."""
        if self._winner is None:
            self._train_from_scratch()
        return super().outcome(parts)

    def _train_from_scratch(self) -> None:
        """Train a network with new weights in its share of the time, if that is long enough."""
        seconds = self._rule.shares["scratch"] * self._seconds
        ends_s = time.monotonic() + seconds
        planned = self._planned_from_scratch(seconds)
        if planned is None:
            return
        train_winner(
            self._begun.experiment,
            self._images_of(self._space.parse(planned.arch)),
            self._folder,
            planned,
            self._begun.console,
            start=self._start(planned),
            most=planned.epochs,
            ends_s=ends_s,
        )
        forget_checkpoint(self._folder, planned.arch)

    @property
    def _from_scratch(self) -> tuple[int, Training] | None:
        """Candidate and training of the network with new weights; None where none was trained."""
        rows = self._drawn_candidates.architectures
        for at in np.flatnonzero(self._space.is_new(rows)).tolist():
            folder = trained_folder(self._folder, self._space.text(rows[at]))
            if (folder / RECORD).is_file():
                return at, read_training(folder)
        return None

    @property
    def _most_epochs(self) -> int:
        """As set, or twice as many as by default where there is time; of new weights, their recipe's."""
        recipe = self._rule.recipe if self._winner is None else self._winner.recipe
        return self._epochs_of(recipe)

    def _epochs_of(self, recipe: str) -> int:
        default = self._space.tasks[self._space.default_task].epochs
        if self._config.epochs != default:
            return self._config.epochs
        is_new = recipe == self._scratch_recipe
        return recipe_named(recipe).epochs if is_new else MORE * default

    def _trained_winner(self, order: list[int], left_s: float) -> tuple[int, Training]:
        """As in every search; the rule of thumb instead, as it was ranked, if it is better."""
        at, training = super()._trained_winner(order, left_s)
        better = self._better_rule_of_thumb(self._judged(training))
        if better is not None:
            forget_checkpoint(self._folder, training.arch)
            self._winner = better
            with Journal(self._begun.folder.journal, self._space) as journal:
                journal.note("winner", asdict(better))
            at, training = super()._trained_winner(order, 0.0)
        return self._better_from_scratch(self._judged(training)) or (at, training)

    def _judged(self, training: Training) -> float:
        """Accuracy on the validation images, of the int8 file in a search for int8."""
        int8 = self._int8_of_winner(training)
        return _valid(training) if int8 is None else int8.valid.fraction

    def _better_from_scratch(self, accuracy: float) -> tuple[int, Training] | None:
        """The network from scratch, if it is better than that and confirmed."""
        scratch = self._from_scratch
        if scratch is None or self._judged(scratch[1]) <= accuracy:
            return None
        at, training = scratch
        self._say(
            f"{training.arch}, from scratch, has {self._judged(training):.2%}, the winner {accuracy:.2%}: what "
            f"pretrained weights know does not help on these images; it is handed over"
        )
        try:
            self._hand_over(*scratch, *self._confirmed([at])[1:])
        except UserError as error:
            self._say(f"{error}; so it is not handed over")
            return None
        return scratch

    def _better_rule_of_thumb(self, accuracy: float) -> Winner | None:
        """The best training of the rule of thumb, if it is better than that and confirmed."""
        results, text = self._proposer.results, self._space.text
        jobs = [job for job in self._tunings.of_rule_of_thumb(results) if job.fidelity]
        best = max(jobs, key=lambda job: results[job].accuracy, default=None)
        if best is None:
            return None
        row, tuned = (
            self._drawn_candidates.architectures[best.candidate],
            self._fidelities[best.fidelity],
        )
        arch, ranked = text(row), results[best].accuracy
        if self._int8 is not None:
            from nas.export.int8 import int8_accuracy  # noqa: PLC0415 - imports onnxruntime

            file = tuned_checkpoint(self._checkpoints, row, tuned, self._config.seed)
            ranked = int8_accuracy(*self._tuned(row, file), is_winner=False).valid.fraction
        if ranked <= accuracy:
            return None
        self._say(
            f"the rule of thumb, {arch}, had {ranked:.2%} after {tuned.epochs} epochs of "
            f"ranking, the winner has {accuracy:.2%}: the rule of thumb is handed over as it was ranked"
        )
        try:
            _, ms, kind = self._confirmed([best.candidate])
        except UserError as error:
            self._say(f"{error}; so it is not handed over")
            return None
        return Winner(arch, self._rule.recipe, tuned.epochs, tuned.epochs, ms, kind, tuned.rate)

    def _claims(self, left_s: float) -> Float64[ndarray, "candidates"]:
        forecast = self._tunings.forecast(self._proposer.results)
        return forecast.accuracy(np.minimum(left_s / forecast.epoch_s, self._most_epochs))

    def _as_ranked(self, candidate: int) -> tuple[nn.Module, ImageSet, int]:
        space, row = self._space, self._drawn_candidates.architectures[candidate]
        files = (
            tuned_checkpoint(
                self._checkpoints, space.tuned_to(row, depth), tuned, self._config.seed
            )
            for tuned in sorted(self._fidelities, key=lambda tuned: tuned.epochs)
            for depth in range(len(space.depths))
        )
        trained_files = [file for file in files if file.is_file()]
        return self._tuned(row, trained_files[-1] if trained_files else None)

    def _tuned(
        self, row: Int64[ndarray, "D"], file: Path | None
    ) -> tuple[nn.Module, ImageSet, int]:
        """The network, tuned where there is a checkpoint, its images and their side."""
        images = self._images_of(row)
        network = self._pretrained(row, images.task)
        if file is not None:
            network.load_state_dict(weights_of(file))
        return network, images, self._space.side(row)

    def _start(self, winner: Winner) -> Start:
        row, epochs = self._space.parse(winner.arch), winner.ranked_epochs
        start = pretrained_start(self._pretrained, row, winner.rate, keeps_best=True)
        if not epochs:
            return start
        tuned = Fidelity("", epochs, winner.rate)
        path = tuned_checkpoint(self._checkpoints, row, tuned, self._config.seed)
        return replace(start, continues=path, words=f"{start.words}; as it was ranked")

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
            new, best = scratch[1], _valid(scratch[1])
            length = f"{new.epochs} epochs"
            stage_list.append(
                StageResult("scratch", 1, 1, new.seconds, length, new.arch, None, best)
            )
        return (*stage_list, self._rule_of_thumb(stages))

    def _rule_of_thumb(self, stages: FineTunings) -> StageResult:
        """The network that the best published accuracy within the limits chooses, as far as it was tuned."""
        results, jobs = self._proposer.results, stages.of_rule_of_thumb(self._proposer.results)
        longest = max(jobs, key=lambda job: self._fidelities[job.fidelity].epochs, default=None)
        at = stages.rule_of_thumb if longest is None else longest.candidate
        return StageResult(
            "rule",
            1,
            1,
            sum((results[job].seconds for job in jobs), 0.0),
            "" if longest is None else self._fidelities[longest.fidelity].name,
            self._space.text(stages.candidates.architectures[at]),
            None,
            None if longest is None else results[longest].accuracy,
        )


def _valid(training: Training) -> float:
    """Accuracy on the validation images, by which winners are compared."""
    if training.valid is None:
        raise TypeError("a winner is judged on validation images")
    return training.valid.fraction


def _predicted_ms(
    layers: Int64[ndarray, "n"], flops: Float64[ndarray, "n"], measured_ms: Float64[ndarray, "n"]
) -> Float64[ndarray, "n"]:
    """Latencies in proportion to multiply-accumulates: those of the same network, else of all."""
    rate = measured_ms / flops
    if np.isnan(rate).all():
        return np.full(len(layers), np.nan)
    rates = np.full(len(layers), np.nanmedian(rate))
    for number in np.unique(layers):
        same = layers == number
        if not np.isnan(rate[same]).all():
            rates[same] = np.nanmedian(rate[same])
    predicted: Float64[ndarray, "n"] = rates * flops
    return predicted
