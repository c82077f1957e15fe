"""Frames run for real: each network as its variant, on its place, when those before it have ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor

from runtime.lanes.cpu import CpuLane
from runtime.mapping.model.variant import Precision, Variant, parse_variant
from runtime.mapping.profiling.build_variant import BuiltVariant, build_variant
from runtime.mapping.profiling.networks import NamedNetwork
from runtime.mapping.running.place_lanes import PlaceLanes
from runtime.mapping.solving.timetable import Placed, Timetable
from runtime.network.completion import Completion
from runtime.network.engine import no_op

if TYPE_CHECKING:
    from runtime.lanes.gpu import GpuLane


@final
@dataclass(frozen=True)
class _Ready:
    placed: Placed
    told: str
    lane: CpuLane | GpuLane
    built: BuiltVariant
    after: tuple[int, ...]
    """Of those that must have ended, the ones on other lanes: a lane keeps its order itself."""


@final
class FrameBuilder:
    """Networks as variants on the lanes of places, each made once, whatever timetables ask for it."""

    def __init__(self, subjects: Sequence[NamedNetwork], lanes: PlaceLanes) -> None:
        """Makes nothing yet.

        Args:
          subjects: the networks of a frame; one that is there twice has two memories.
          lanes: stay open as long as what is made here is used.
        """
        self._subjects = subjects
        self._lanes = lanes
        self._built: dict[tuple[int, str, object], BuiltVariant] = {}
        self._written: dict[str, dict[Precision, bytes]] = {}

    def frame(self, timetable: Timetable) -> Frame:
        """A timetable, ready to run.

        Raises:
          ValueError: if a network cannot be made ready as its variant.
        """
        ready: list[_Ready] = []
        for placed in timetable:
            name = self._subjects[placed.network].name
            variant = parse_variant(placed.configuration)
            own = None if placed.is_exclusive else placed.network
            lane = self._lanes.lane(variant, placed.place, of_its_own=own)
            where = lane.lane.name if placed.is_exclusive else "anywhere"
            told = f"{name} as {placed.configuration} on {where}"
            try:
                built = self._made(placed, variant, lane)
            except (RuntimeError, ValueError, NotImplementedError) as error:
                raise ValueError(f"{told}: {' '.join(str(error).split())[:300]}") from error
            after = tuple(k for k in placed.after if ready[k].lane is not lane)
            ready.append(_Ready(placed, told, lane, built, after))
        return Frame(ready, self._subjects)

    def _made(self, placed: Placed, variant: Variant, lane: CpuLane | GpuLane) -> BuiltVariant:
        place = placed.place if placed.is_exclusive else None
        key = (placed.network, variant.name, place)
        if key not in self._built:
            one = self._subjects[placed.network]
            build = partial(
                build_variant,
                variant,
                one.module,
                one.x,
                one.others,
                stream=None if isinstance(lane, CpuLane) else lane.stream,
                written=self._written.setdefault(one.name, {}),
            )
            self._built[key] = self._lanes.built(variant, place, build)
        return self._built[key]


@final
class Frame:
    """A timetable with everything in its place; made by `FrameBuilder`."""

    def __init__(self, ready: Sequence[_Ready], subjects: Sequence[NamedNetwork]) -> None:
        self._ready = ready
        self._subjects = subjects
        self._lanes = [*dict.fromkeys(one.lane for one in ready)]

    def told(self, network: int) -> str:
        """A network with its variant and place."""
        return next(one.told for one in self._ready if one.placed.network == network)

    def put(self, turn: int) -> None:
        """Other inputs, for all networks; `differences` is of the outputs for those."""
        for one in self._ready:
            others = self._subjects[one.placed.network].others
            one.built.put(others[turn % len(others)])
        for lane in self._lanes:
            lane.renew_origin()

    def run(self) -> Float64[ndarray, "networks 2"]:
        """One frame: when each network began and ended, milliseconds since the frame did.

        Raises:
          RuntimeError: naming the network that raised; the others have come to their end.
        """
        begin_s = time.perf_counter()
        launched: list[Completion] = []
        name = ""
        try:
            for one in self._ready:
                name = one.told
                launched.append(_launched(one, launched))
            for one, done in zip(self._ready, launched, strict=True):
                name = one.told  # who fails comes before those that fail because of it
                done.wait()
        except Exception as error:
            _wait_for_all(launched)
            told = " ".join(str(error).split())[:200]
            raise RuntimeError(f"{name} failed: {type(error).__name__}: {told}") from error
        found: Float64[ndarray, "networks 2"] = np.empty((len(self._ready), 2))
        for one, done in zip(self._ready, launched, strict=True):
            found[one.placed.network] = (done.began_s - begin_s, done.ended_s - begin_s)
        return 1e3 * found

    def differences(
        self, references: Sequence[Sequence[Tensor]], turn: int
    ) -> Float64[ndarray, " networks"]:
        """Execution far each network's latest output is from fp32, as part of the largest of all outputs.

        Args:
          references: of each network, for each of its inputs.
          turn: as in `put`.
        """
        found: Float64[ndarray, " networks"] = np.empty(len(self._ready))
        for one in self._ready:
            wanted = references[one.placed.network]
            largest = max(float(each.abs().max()) for each in wanted)
            latest = one.built.latest()
            difference = float((latest - wanted[turn % len(wanted)]).abs().max())
            found[one.placed.network] = difference / largest
        return found


def _launched(one: _Ready, before: Sequence[Completion]) -> Completion:
    for k in one.after[1:]:
        one.lane.launch(no_op, before[k])  # a job waits for one other; its lane keeps the order
    return one.lane.launch(one.built.launch, before[one.after[0]] if one.after else None)


def _wait_for_all(launched: Sequence[Completion]) -> None:
    for done in launched:
        with suppress(Exception):
            done.wait()
    if torch.cuda.is_available():
        with suppress(RuntimeError):  # of a GPU that is lost: that is being told
            torch.cuda.synchronize()
