"""Result of each stage of a search on own images: its work, its cost and what it changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from nas.spaces.base import SearchSpace
from nas.trials.staged.stages import Job, Result, Stages


@final
@dataclass(frozen=True)
class StageResult:
    """A stage and the network that it puts first."""

    name: str  # draw, proxies or supernet, short, longer, full
    networks: int  # drawn, scored or trained in it
    kept: int  # that go on to the next stage
    seconds: float  # of the draws, of the scores, of all trainings together
    epochs: int | None  # of each training
    favourite: str | None  # architecture that it puts first
    place_before: int | None  # of the favourite in the order before this stage, from 1
    accuracy: float | None  # of the favourite in this stage, on validation images
    failed: int  # trainings


def stage_results(
    stages: Stages,
    results: Mapping[Job, Result],
    space: SearchSpace,
    *,
    scores_are_accuracies: bool = False,
) -> tuple[StageResult, ...]:
    """The stages before the winner's own training; scores are of proxies, or accuracies of a supernet."""
    candidates = stages.candidates
    by_flops = np.argsort(-candidates.flops, kind="stable")
    by_prior = np.argsort(-candidates.prior, kind="stable")
    found = [
        StageResult(
            "draw",
            candidates.drawn,
            candidates.within,
            candidates.draw_s,
            *(None, None, None, None),
            0,
        )
    ]
    if candidates.score_s:
        found.append(
            StageResult(
                "supernet" if scores_are_accuracies else "proxies",
                len(candidates),
                len(candidates),
                candidates.score_s,
                None,
                space.text(candidates.architectures[by_prior[0]]),
                _place(int(by_prior[0]), by_flops),
                float(candidates.prior[by_prior[0]]) if scores_are_accuracies else None,
                0,
            )
        )
    short = stages.short_fidelity(results) or 0
    before = by_prior
    for name, fidelity, order in (
        ("short", short, stages.ranked(results)),
        ("longer", short + 1, stages.order(results)),
    ):
        jobs = [job for job in results if (job.fidelity > short) is (name == "longer")]
        if not jobs or not len(order):
            continue
        accuracies = dict(
            zip(*(one.tolist() for one in stages.trained(results, fidelity)), strict=True)
        )
        found.append(
            StageResult(
                name,
                len(jobs),
                len(order),
                sum(results[job].seconds for job in jobs),
                stages.fidelities[fidelity].epochs,
                space.text(candidates.architectures[order[0]]),
                _place(int(order[0]), before),
                accuracies.get(int(order[0])),
                int(sum(np.isnan(results[job].accuracy) for job in jobs)),
            )
        )
        before = order
    return tuple(found)


def _place(candidate: int, order: Int64[ndarray, "n"]) -> int | None:
    """Place of a candidate in an order, from 1; None if it is not in it."""
    at = np.flatnonzero(order == candidate)
    return 1 + int(at[0]) if len(at) else None
