"""Memory policies: device against pinned and managed memory by reuse and size, and the co-run scheduler.

On a GPU everything is measured, and predicted from a calibration with other sizes. Without a GPU the
rows are simulated with a profile, and marked as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import final

import numpy as np

from benchmarks.config import BenchConfig
from benchmarks.placement import corun
from benchmarks.placement.model.guidelines import admitted
from benchmarks.placement.model.overhead import overhead_ms
from benchmarks.placement.model.parameters import Hardware
from benchmarks.placement.model.policy import MemoryPolicy
from benchmarks.placement.model.profiles import Profile, read_profile
from benchmarks.placement.model.workload import Passes, Use, execution_stand_in_ms
from benchmarks.results import Row, summary
from benchmarks.steps import ExperimentStep, interleaved, time_is_left

_PUBLISHED = {
    "tx2": {"D": 0.096, "M": 0.118, "H": 0.065},
    "agx": {"D": 0.109, "M": 0.147, "H": 0.0239},
}
"""Error of the model in the source, section V-B, average case."""

REUSES = (1, 2, 3, 4, 6, 8, 16, 32, 64)

_KB = 1024
SIZES = tuple(2**power * _KB for power in range(3, 18))
"""Sizes in bytes, 8 KB to 128 MB, of the calibration and held-out."""

_SIMULATED_SIZES = tuple(4**power * _KB for power in range(2, 6))


@final
@dataclass
class _Profiles:
    """The chosen profiles, or this machine's own, measured when it is first needed."""

    config: BenchConfig
    _made: list[Profile] = field(default_factory=list)

    def __call__(self) -> list[Profile]:
        if not self._made:
            if self.config.profile is not None:
                self._made.append(read_profile(self.config.profile))
            elif self.config.on_gpu:
                from benchmarks.placement.calibrate import calibrate  # noqa: PLC0415 - loaded when needed
                from edgenas_core.inference.cuda.stream_pool import stream_pool  # noqa: PLC0415 - for those who have a GPU

                stream = stream_pool(0).take()
                self._made.append(calibrate(stream))
                stream_pool(0).give_back(stream)
            else:
                self._made.append(read_profile("h200"))
        return self._made


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """Steps: calibration, reuse by direction, and the co-run scheduler.

    Raises:
      ValueError: if a workload or the profile is unknown.
    """
    profiles = _Profiles(config)
    if config.profile is not None:
        profiles()  # a mistake is told before anything is measured
    every: dict[str, Callable[[], Iterator[Row]]] = {
        "calibration": partial(_calibration, config, profiles),
        **{use.value: partial(_reuse, config, profiles, use) for use in Use},
        "corun": partial(corun.compare, config, profiles),
    }
    return [ExperimentStep(name, every[name]) for name in config.chosen([*every])]


def _calibration(config: BenchConfig, profiles: _Profiles) -> Iterator[Row]:
    for profile in profiles():
        if config.on_gpu and config.profile is None:
            profile.write(Path(config.out) / "memory_profile.json")
        yield {
            "part": "profile",
            "simulated": not config.on_gpu,
            "profile": asdict(profile),
        }


def _reuse(config: BenchConfig, profiles: _Profiles, use: Use) -> Iterator[Row]:
    for profile in profiles():
        measure = _measured if config.on_gpu else _simulated
        sizes = SIZES if config.on_gpu else _SIMULATED_SIZES
        calibration = profile.provenance.get("samples_ms", [])
        calibrated = {one["bytes"] for one in calibration}
        for nbytes in sizes:
            if nbytes != sizes[0] and not time_is_left():
                return
            for job, samples, resident_ms in measure(config, profile.hardware, use, nbytes):
                for policy in MemoryPolicy:
                    predicted_ms = overhead_ms(policy, job.application(nbytes), profile.hardware)
                    yield {
                        "part": "reuse",
                        "profile": profile.name,
                        "simulated": not config.on_gpu,
                        "held_out": nbytes not in calibrated,
                        "use": use.value,
                        "bytes": nbytes,
                        "reuse": job.reuse,
                        "policy": policy.value,
                        **summary(samples[policy.value]),
                        "resident_ms": round(resident_ms, 5),
                        "overhead_ms": round(median(samples[policy.value]) - resident_ms, 5),
                        "predicted_overhead_ms": round(predicted_ms, 5),
                        "guideline_1": admitted(job.application(nbytes), profile.hardware).value,
                    }


_Measured = Iterator[tuple[Passes, dict[str, list[float]], float]]


def _measured(config: BenchConfig, _: Hardware, use: Use, nbytes: int) -> _Measured:
    from benchmarks.placement.calibrate import placed  # noqa: PLC0415 - loaded when needed
    from edgenas_core.inference.cuda.stream_pool import stream_pool  # noqa: PLC0415 - for those who have a GPU

    stream = stream_pool(0).take()
    with ExitStack() as opened:
        opened.callback(stream_pool(0).give_back, stream)
        buffers = placed(nbytes, stream, opened)
        for reuse in REUSES:
            job = Passes(use, reuse)
            samples = interleaved(buffers.runs(job), config.repeats)
            buffers.check(job, 1 + len(samples["resident"]))
            yield job, samples, median(samples.pop("resident"))


def _simulated(_: BenchConfig, hardware: Hardware, use: Use, nbytes: int) -> _Measured:
    for reuse in REUSES:
        job = Passes(use, reuse)
        application = job.application(nbytes, execution_stand_in_ms(job, nbytes, hardware))
        samples = {  # a second run would take exactly as long
            policy.value: [application.execution_ms + overhead_ms(policy, application, hardware)]
            for policy in MemoryPolicy
        }
        yield job, samples, application.execution_ms


@final
@dataclass(frozen=True)
class ReuseAccuracy:
    """Accuracy of the predicted choice between policies D and H."""

    cases: int
    right: int
    clear_cases: int
    """Cases in which the quartiles of the two do not overlap."""
    clear_right: int
    mean_regret: float
    """Mean loss by the predicted policy, relative to the time of the better one, over all cases."""
    largest_regret: float

    @property
    def share(self) -> float:
        """Share of right predictions over all cases."""
        return self.right / self.cases


def accuracy(rows: Sequence[Row], *, held_out: bool) -> ReuseAccuracy | None:
    """Accuracy of D against H; None if nothing was both measured and predicted."""
    cases: dict[tuple[str, int, int], dict[str, Row]] = {}
    for row in rows:
        if _counts(row) and row["held_out"] is held_out:
            key = row["use"], row["bytes"], row["reuse"]
            cases.setdefault(key, {})[row["policy"]] = row
    right = clear = clear_right = 0
    regrets = []
    whole = [case for case in cases.values() if {"D", "H"} <= {*case}]  # an interruption cuts one
    for case in whole:
        device, pinned = case["D"], case["H"]
        better, worse = sorted((device, pinned), key=lambda row: row["ms"])
        chosen = min((device, pinned), key=lambda row: row["predicted_overhead_ms"])
        is_right = chosen is better
        is_clear = better["high_ms"] < worse["low_ms"]
        right += is_right
        clear += is_clear
        clear_right += is_right and is_clear
        regrets.append(chosen["ms"] / better["ms"] - 1)
    if not whole:
        return None
    return ReuseAccuracy(
        len(whole), right, clear, clear_right, sum(regrets) / len(regrets), max(regrets)
    )


def _counts(row: Row) -> bool:
    """True if the row was measured, and so predicted."""
    return row.get("part") == "reuse" and not row["simulated"]


def model_errors(rows: Sequence[Row]) -> dict[str, Row]:
    """Geometric mean over held-out cases of the relative errors of overhead and response, by policy."""
    errors: dict[str, Row] = {}
    for policy in MemoryPolicy:
        own = [
            row
            for row in rows
            if _counts(row) and row["held_out"] and row["policy"] == policy.value
        ]
        if not own:
            continue
        response = [
            abs(row["resident_ms"] + row["predicted_overhead_ms"] - row["ms"]) / row["ms"]
            for row in own
        ]
        overhead = [
            abs(row["predicted_overhead_ms"] / row["overhead_ms"] - 1)
            for row in own
            if row["overhead_ms"] > 1e-3  # below it the events' resolution is the error
        ]
        errors[policy.value] = {
            "cases": len(own),
            "response": _geometric(response),
            "overhead": _geometric(overhead),
            "mean_response": sum(response) / len(response),
            "mean_overhead": sum(overhead) / len(overhead) if overhead else None,
            **{f"published_{board}": one[policy.value] for board, one in _PUBLISHED.items()},
        }
    return errors


def _geometric(errors: Sequence[float]) -> float | None:
    """Geometric mean with errors of at least 0.001, since a single 0 would make it 0."""
    if not errors:
        return None
    return float(np.exp(np.mean(np.log(np.maximum(errors, 1e-3)))))
