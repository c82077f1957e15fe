"""The next fine-tuning: a function of the candidates, the results and the clock, as in `stages`.

Candidates are networks with weights at a side, each tuned to several depths. Each is worth what it is
forecast to reach in the time of the winner. Frozen features are taken of the most promising first; those
whose forecasts leave the winner open are fine-tuned, the longer the fewer, as far as trainings fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.accuracy.slow import Fidelity
from nas.fit.ranking.candidates import Candidates
from nas.fit.ranking.forecast import ALONE, Forecast, TuningTimes
from nas.fit.ranking.stages import Result, StageJob, failed
from nas.fit.starts.fine_tuning.trial import FEWEST_JUDGED

MOST_TUNED = 6
"""Networks that are fine-tuned for the fewest epochs; half as many for each longer training."""

_SHARED_BY = 2
"""Networks whose features fit into the time that is left before another one's are taken."""

_MARGIN = 1.3
"""Time that is kept for the winner beside that of its epochs."""

_CLOSE = 2.0
"""Standard deviations within which a network may still win."""


@final
@dataclass(frozen=True)
class FineTunings:
    """Frozen features, then fine-tunings of the best; candidate `baseline` is among them."""

    candidates: Candidates
    depth: Int64[ndarray, "n"]  # of tuning, from 0, the classifier alone
    network: Int64[ndarray, "n"]  # number of network and side, the same for all depths
    fidelities: tuple[Fidelity, ...]  # frozen features, then lengths of tuning for each rate
    until_s: Mapping[str, float]  # end of each stage, on the clock of the search
    images: tuple[int, int]  # that judge frozen features, and tuned networks
    epochs: int  # of the winner, at most
    times: TuningTimes = ALONE
    smaller: tuple[Bool[ndarray, "n"], ...] = ()  # candidates within each smaller limit

    @cached_property
    def baseline(self) -> int:
        """The network of the best published accuracy."""
        return self.baseline_within(np.ones(len(self.candidates), bool))

    def baseline_within(self, within: Bool[ndarray, "n"]) -> int:
        """The one of the best published accuracy among some of the candidates."""
        heads = self._tunings[:, 0]
        heads = heads[within[heads]]
        return int(heads[np.argmax(self.candidates.prior[heads])])

    def of_baseline(self, results: Mapping[StageJob, Result]) -> list[StageJob]:
        """Trials of that network, tuned to any depth, but for those that failed."""
        alike = self.network == self.network[self.baseline]
        return [
            job for job in results if alike[job.candidate] and not np.isnan(results[job].accuracy)
        ]

    @cached_property
    def _tunings(self) -> Int64[ndarray, "networks depths"]:
        """Candidates of each network, the classifier alone first."""
        by_depth = np.lexsort((self.depth, self.network))
        return np.asarray(by_depth.reshape(-1, int(self.depth.max()) + 1))

    @property
    def winner_s(self) -> float:
        """Time that is kept for the winner."""
        return self.until_s["full"] - self.until_s["short"]

    def forecast(self, results: Mapping[StageJob, Result]) -> Forecast:
        """What these results let expect."""
        return Forecast(
            self.candidates,
            self.depth,
            self.network,
            self.fidelities,
            self.images,
            results,
            self.times,
        )

    def ranked_until_s(self, forecast: Forecast) -> float:
        """End of the fine-tunings that rank; later where all epochs of the first take less than its time."""
        first = self._by_worth(forecast, self.winner_s)[0][0]
        needed_s = _MARGIN * self.epochs * float(forecast.epoch_s[first])
        return max(self.until_s["short"], self.until_s["full"] - needed_s)

    def ends_s(self, results: Mapping[StageJob, Result]) -> float:
        """End of the trainings, in seconds from the beginning of the fit."""
        return self.ranked_until_s(self.forecast(results))

    def next(
        self, results: Mapping[StageJob, Result], running: Collection[StageJob], elapsed_s: float
    ) -> StageJob | None:
        """The next training to begin; None where there is none now, or none any more."""
        forecast, asked = self.forecast(results), {*results, *running}
        if not forecast.judged.any():  # the first network tells how fast this machine is
            heads = self._tunings[:, 0]
            by_flops = heads[np.argsort(self.candidates.flops[heads], kind="stable")]
            untried = [head for head in by_flops.tolist() if StageJob(head, 0) not in asked]
            return None if running or not untried else StageJob(untried[0], 0)
        job = self._next_frozen(forecast, asked, elapsed_s)
        if job is not None or any(job.fidelity == 0 for job in running):
            return job
        ends_s = self.ranked_until_s(forecast)
        for job in self._planned(forecast, ends_s):
            fits = elapsed_s + forecast.seconds(job) <= ends_s
            if fits and not any(_covers(self.fidelities, other, job) for other in asked):
                return job
        return None

    def _next_frozen(
        self, forecast: Forecast, asked: set[StageJob], elapsed_s: float
    ) -> StageJob | None:
        """The baseline, then the untried networks that may win, those of the best forecast first.

        The baseline comes last where that takes longer than the features of all may.
        """
        least_s = np.maximum(self.times.frozen_s, forecast.pass_s * FEWEST_JUDGED / self.images[0])
        seconds = np.minimum(forecast.pass_s, least_s)
        left_s, ranking_s = (self.until_s[end] - elapsed_s for end in ("frozen", "short"))
        rules = [self.baseline, *map(self.baseline_within, filter(np.any, self.smaller))]
        others = ((head, left_s / _SHARED_BY) for head in self._may_win(forecast))
        for head, room_s in (
            *((rule, left_s) for rule in rules),
            *others,
            *((rule, ranking_s) for rule in rules),
        ):
            job = StageJob(head, 0)
            if job not in asked and seconds[head] <= room_s:
                return job
        return None

    def _may_win(self, forecast: Forecast) -> list[int]:
        """Networks that may be the best within T, and within each smaller limit, their heads, in turns of the limits."""
        order, worth, sd = self._by_worth(forecast, self.winner_s)
        queues = []
        for within in (np.ones(len(self.candidates), bool), *self.smaller):
            kept = within[order]
            high, low = (worth + _CLOSE * sd)[kept], (worth - _CLOSE * sd)[kept]
            least = low[forecast.judged[order[kept]]].max(initial=-np.inf)
            queues.append([self.tuned_to(at, 0) for at in order[kept][high >= least].tolist()])
        turns = zip_longest(*queues)
        return list(dict.fromkeys(head for turn in turns for head in turn if head is not None))

    def _planned(self, forecast: Forecast, ends_s: float) -> Iterator[StageJob]:
        """Fine-tunings that are worth their time, by the forecasts."""
        order, worth, sd = self._by_worth(forecast, self.winner_s)
        is_judged = forecast.judged[order]
        order, worth, sd = order[is_judged], worth[is_judged], sd[is_judged]
        close = order[worth + _CLOSE * sd >= worth[0] - _CLOSE * sd[0]].tolist()
        room_s = (ends_s - self.until_s["frozen"]) * self.times.parallel
        rate = better_rate(self.fidelities, forecast.results)
        lengths = [i for i, each in enumerate(self.fidelities) if each.epochs and each.rate == rate]
        # The baseline, and the best within each smaller limit, are tuned in any case.
        wanted = [self.baseline]
        for within in self.smaller:
            wanted += order[within[order]][:1].tolist()
        others = {int(self.network[at]) for at in wanted}
        thumb = [
            each
            for each in order.tolist()
            if self.network[each] in others
            and forecast.seconds(StageJob(each, lengths[0])) <= room_s / 2
        ]
        close = list(dict.fromkeys((*close[:1], *thumb, *close[1:])))

        def together_s(fidelity: int) -> float:
            jobs = [StageJob(each, fidelity) for each in close[:MOST_TUNED]]
            return sum(map(forecast.seconds, jobs))

        fitting = [i for i in lengths if together_s(i) <= room_s / 2]
        rungs = lengths[lengths.index(fitting[-1]) :] if fitting else lengths
        for number, fidelity in enumerate(rungs):
            yield from (StageJob(each, fidelity) for each in close[: MOST_TUNED >> number])
            if number == 0:
                epochs = self.fidelities[fidelity].epochs
                yield from (
                    StageJob(close[0], i)
                    for i, each in enumerate(self.fidelities)
                    if each.epochs == epochs and i != fidelity
                )

    def _by_worth(
        self, forecast: Forecast, seconds: float
    ) -> tuple[Int64[ndarray, "k"], Float64[ndarray, "k"], Float64[ndarray, "k"]]:
        """Each network tuned as deep as is best in so many seconds, the best first; worth and spread."""
        worth = forecast.accuracy(np.minimum(seconds / forecast.epoch_s, self.epochs))
        best = worth[self._tunings].argmax(1)
        chosen = self._tunings[np.arange(len(best)), best]
        order = chosen[np.argsort(-worth[chosen], kind="stable")]
        return order, worth[order], forecast.sd[order]

    def tuned_to(self, candidate: int, depth: int) -> int:
        """The same network at the same side, tuned to a depth."""
        alike = self.network == self.network[candidate]
        return int(np.flatnonzero(alike & (self.depth == depth))[0])

    def reached(
        self, results: Mapping[StageJob, Result], claims: Float64[ndarray, "n"], first: int
    ) -> StageJob | None:
        """The best fine-tuning, where a training of the candidate that claims most would hardly surpass it.

        Accuracies are compared as forecasts are, without luck; of another network, less a deviation.
        """
        forecast, worth = self.forecast(results), {}
        for job, result in results.items():
            epochs = self.fidelities[job.fidelity].epochs
            if epochs and not np.isnan(result.accuracy):
                expected = forecast.accuracy(np.full(len(self.depth), float(epochs)))
                worth[job] = float(expected[job.candidate])
        best = max(worth, key=lambda job: (worth[job], results[job].accuracy), default=None)
        if best is None:
            return None
        is_other = self.network[first] != self.network[best.candidate]
        claimed = claims[first] - is_other * forecast.sd[first]
        return best if worth[best] >= claimed else None

    def judging_s(self, results: Mapping[StageJob, Result], images: int) -> float:
        """Time that the tuned baseline takes on so many images; 0 where it was not tuned."""
        if not any(job.fidelity for job in self.of_baseline(results)):
            return 0.0
        return float(self.forecast(results).pass_s[self.baseline]) * images / self.images[0]

    def order(
        self, results: Mapping[StageJob, Result], seconds: float | None = None
    ) -> Int64[ndarray, "k"]:
        """Candidates by what they reach in the time of the winner, each at its best depth."""
        forecast = self.forecast(results)
        order, _, _ = self._by_worth(forecast, self.winner_s if seconds is None else seconds)
        return np.asarray(order[forecast.judged[order] & ~np.isin(order, failed(results))])


def _covers(fidelities: Sequence[Fidelity], other: StageJob, job: StageJob) -> bool:
    """Whether a training is as long as another one of the same candidate and rate."""
    have, wanted = fidelities[other.fidelity], fidelities[job.fidelity]
    return (
        other.candidate == job.candidate
        and have.rate == wanted.rate
        and have.epochs >= wanted.epochs
    )


def better_rate(fidelities: Sequence[Fidelity], results: Mapping[StageJob, Result]) -> float:
    """The learning rate, as a multiple of the recipe's, that gained most where two were tried; 1 by default."""
    gained: dict[float, float] = {}
    kinds = [(each.epochs, each.rate) for each in fidelities]
    for job, result in results.items():
        tried = fidelities[job.fidelity]
        usual = StageJob(job.candidate, kinds.index((tried.epochs, 1.0)))
        if usual in results and not np.isnan(results[usual].accuracy + result.accuracy):
            difference = result.accuracy - results[usual].accuracy
            gained[tried.rate] = gained.get(tried.rate, 0.0) + difference
    return max(gained, key=lambda rate: (gained[rate], rate == 1), default=1.0)
