"""Schedulability: do random sets of networks fit on the units of a board, and how large are they?

R. Pujol Torramorell, MSc thesis, UPC/BSC, 2020, section 5.4: figures 5.1 to 5.3 (share of sets that
fit) and tables 5.2 to 5.4 (their mean number of networks), by threshold of utilisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from benchmarks.schedulability.screen import DOES_NOT_FIT, FITS, screen
from edgenas_runtime.mapping.model.choices import mapping_choices
from edgenas_runtime.mapping.model.platform_description import Platform
from edgenas_runtime.mapping.model.timing_table import TimingTable, xavier_platform, xavier_times
from edgenas_runtime.mapping.solving.program import Feasibility, solve

FRAME_MS = 100.0

_STEP = 0.2

THRESHOLDS = tuple(round(1 + _STEP * i, 1) for i in range(16))
"""Utilisations of 100 % to 400 % of the frame."""

_DLA, _TC, _RC = ("DLA1", "DLA2"), ("TC4", "TC8"), ("RC4", "RC8")
_CPU = ("CPU2", "CPU4", "CPU6")


OVERSHOOTS = 2
"""Rejected draws in a row after which a set is complete; calibrated."""


@final
@dataclass(frozen=True)
class TaskSets:
    """Sets of up to n networks."""

    size: Int64[ndarray, " sets"]
    """Number of networks of each set."""
    ms: Float64[ndarray, "sets n configurations"]
    """Execution times, ms; nan where a network cannot run, 0 after the last network of a set."""


def task_sets(
    table: TimingTable,
    reference: str,
    *,
    limit_ms: float,
    slack_ms: float,
    count: int,
    generator: np.random.Generator,
) -> TaskSets:
    """Draw sets whose times on the reference sum to at most the limit.

    Times are uniform from the minimum to the maximum of a network. A sum is at most `slack_ms`
    below the limit, which is the threshold times the frame.
    """
    column = table.configurations.index(reference)
    least, most = table.ms[:, :, 0], table.ms[:, :, 2]
    drawn: list[list[Float64[ndarray, " configurations"]]] = []
    while len(drawn) < count:
        own: list[Float64[ndarray, " configurations"]] = []
        left_ms, overshoots = limit_ms, 0
        while overshoots < OVERSHOOTS:
            kind = int(generator.integers(len(table.networks)))
            times_ms = least[kind] + (most[kind] - least[kind]) * generator.random(least.shape[1])
            if times_ms[column] > left_ms:
                overshoots += 1
                continue
            own.append(times_ms)
            left_ms -= times_ms[column]
            overshoots = 0
        if left_ms <= slack_ms:
            drawn.append(own)
    size = np.array([len(own) for own in drawn], np.int64)
    ms = np.zeros((count, int(size.max()), len(table.configurations)))
    for i, own in enumerate(drawn):
        ms[i, : len(own)] = own
    return TaskSets(size, ms)


@final
@dataclass(frozen=True)
class UtilisationScenario:
    """A reference configuration for the utilisation, and growing sets of configurations."""

    name: str
    reference: str
    networks: tuple[str, ...]
    """Networks from which sets are drawn."""
    columns: Mapping[str, tuple[str, ...]]
    """Configurations by column of the source's tables."""
    own_dla: bool = False
    """True if the two NVDLA as one count as a third unit, which no chip has."""

    @property
    def platform(self) -> Platform:
        """The Xavier, or its variant with a third NVDLA unit."""
        xavier = xavier_platform()
        if not self.own_dla:
            return xavier
        places = {**xavier.configurations, "DLA2": (frozenset({"dla"}),)}
        return Platform(f"{xavier.name}; NVDLA-comb apart", (*xavier.units, "dla"), places)


_NVDLA = UtilisationScenario(
    "nvdla",
    "DLA2",
    ("DNN1", "DNN3", "DNN4", "DNN5"),  # inferred: an NVDLA alone fits all of them at 1.0
    {
        "NVDLA-comb": ("DLA2",),
        "NVDLA": ("DLA1",),
        "NVDLA+TC": (*_DLA, *_TC),
        "NVDLA+TC+RC": (*_DLA, *_TC, *_RC),
        "NVDLA+TC+RC+CPU": (*_DLA, *_TC, *_RC, *_CPU),
    },
)

_ALL = ("DNN1", "DNN3", "DNN4", "RNN1", "RNN2", "RNN3", "DNN5")

SCENARIOS = {
    one.name: one
    for one in (
        _NVDLA,
        replace(_NVDLA, name="nvdla-apart", own_dla=True),
        UtilisationScenario(
            "gpu_tc",
            "TC8",
            _ALL,
            {
                "TC-comb": ("TC8",),
                "TC": ("TC4",),
                "TC+RC": ("TC4", "RC4"),
                "TC+RC+CPU": ("TC4", "RC4", *_CPU),
            },
        ),
        UtilisationScenario(
            "gpu_rc",
            "RC8",
            _ALL,
            {"RC-comb": ("RC8",), "RC": ("RC4",), "RC+CPU": ("RC4", *_CPU)},
        ),
    )
}


@final
@dataclass(frozen=True)
class Share:
    """Number of sets of one threshold that fit under one set of configurations."""

    column: str
    sets: int
    feasible: int
    unknown: int
    """Sets neither mapped nor proven impossible within the solver's time."""
    by_solver: int
    """Sets for which the bounds did not suffice."""
    mean_size: float | None
    """Mean number of networks of the sets that fit; None if none fits."""


def schedulability(
    scenario: UtilisationScenario, threshold: float, *, count: int, seed: int, time_limit_s: float
) -> list[Share]:
    """Map the same random sets under each column of a scenario.

    Seed, threshold and reference determine the sets. The time limit is that of the solver for one
    set.
    """
    table = xavier_times().chosen(scenario.networks)
    generator = np.random.default_rng([seed, round(10 * threshold)])
    drawn = task_sets(
        table,
        scenario.reference,
        limit_ms=threshold * FRAME_MS,
        slack_ms=_STEP * FRAME_MS,
        count=count,
        generator=generator,
    )
    platform = scenario.platform
    known: dict[frozenset[str], ndarray] = {}
    shares = []
    for column, used in scenario.columns.items():
        fits = np.zeros(count, bool)
        for fewer, fitted in known.items():
            if fewer <= {*used}:
                fits |= fitted
        left = np.nonzero(~fits)[0]
        answers, by_solver = _answers(
            drawn.ms[left], table.configurations, platform.restricted(used), time_limit_s
        )
        fits[left] = answers == FITS
        known[frozenset(used)] = fits
        sizes = drawn.size[fits]
        shares.append(
            Share(
                column,
                count,
                int(fits.sum()),
                int((answers == 0).sum()),
                by_solver,
                float(sizes.mean()) if len(sizes) else None,
            )
        )
    return shares


def _answers(
    ms: Float64[ndarray, "sets n configurations"],
    configurations: tuple[str, ...],
    platform: Platform,
    time_limit_s: float,
) -> tuple[ndarray, int]:
    sets, n, columns = ms.shape
    every = mapping_choices(ms.reshape(sets * n, columns), configurations, platform)
    places = len(every.places)
    absent = (ms == 0).any(2)
    by_set = np.where(absent[:, :, None], 0.0, every.ms.reshape(sets, n, places))
    answers = screen(every, by_set, FRAME_MS)
    unsettled = np.nonzero((answers != FITS) & (answers != DOES_NOT_FIT))[0]
    for i in unsettled:
        there = ~absent[i]
        program = replace(
            every,
            ms=by_set[i, there],
            configuration=every.configuration.reshape(sets, n, places)[i, there],
        )
        answer = solve(program, FRAME_MS, any_will_do=True, time_limit_s=time_limit_s).answer
        answers[i] = {Feasibility.feasible: FITS, Feasibility.infeasible: DOES_NOT_FIT}.get(
            answer, 0
        )
    return answers, len(unsettled)
