"""Runs frames: each network as its variant at its place, after its predecessors have ended."""

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

from benchmarks.mapped.build_variant import BuiltVariant, build_variant
from benchmarks.mapped.named_networks import NamedNetwork
from benchmarks.mapped.place_lanes import PlaceLanes
from benchmarks.mapped.variant import Variant, VariantPrecision, parse_variant
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.mapping.solving.slack import Placed, Timetable
from edgenas_runtime.network.completion import Completion
from edgenas_runtime.network.engine import no_op

if TYPE_CHECKING:
    from edgenas_runtime.lanes.gpu import GpuLane


@final
@dataclass(frozen=True)
class _ReadyFrame:
    placed: Placed
    label: str
    lane: CpuLane | GpuLane
    built: BuiltVariant
    after: tuple[int, ...]
    """Predecessors on other lanes; a lane keeps its own order."""


@final
class FrameBuilder:
    """Builds the variants of networks on the lanes of their places, each once for all timetables."""

    def __init__(self, networks: Sequence[NamedNetwork], lanes: PlaceLanes) -> None:
        """Build a network twice that occurs twice; the lanes must outlive the frames."""
        self._networks = networks
        self._lanes = lanes
        self._built: dict[tuple[int, str, object], BuiltVariant] = {}
        self._onnx_files: dict[str, dict[VariantPrecision, bytes]] = {}

    def frame(self, timetable: Timetable) -> Frame:
        """Build all networks of a timetable.

        Raises:
          ValueError: if a network cannot be built as its variant.
        """
        ready: list[_ReadyFrame] = []
        for placed in timetable:
            name = self._networks[placed.network].name
            variant = parse_variant(placed.configuration)
            own = None if placed.is_exclusive else placed.network
            lane = self._lanes.lane(variant, placed.place, of_its_own=own)
            where = lane.lane.name if placed.is_exclusive else "anywhere"
            label = f"{name} as {placed.configuration} on {where}"
            try:
                built = self._variant(placed, variant, lane)
            except (RuntimeError, ValueError, NotImplementedError) as error:
                raise ValueError(f"{label}: {' '.join(str(error).split())[:300]}") from error
            after = tuple(k for k in placed.after if ready[k].lane is not lane)
            ready.append(_ReadyFrame(placed, label, lane, built, after))
        return Frame(ready, self._networks)

    def _variant(self, placed: Placed, variant: Variant, lane: CpuLane | GpuLane) -> BuiltVariant:
        place = placed.place if placed.is_exclusive else None
        key = (placed.network, variant.name, place)
        if key not in self._built:
            network = self._networks[placed.network]
            build = partial(
                build_variant,
                variant,
                network.module,
                network.x,
                network.others,
                stream=None if isinstance(lane, CpuLane) else lane.stream,
                onnx_files=self._onnx_files.setdefault(network.name, {}),
            )
            self._built[key] = self._lanes.built(variant, place, build)
        return self._built[key]


@final
class Frame:
    """A timetable that is ready to run; made by `FrameBuilder`."""

    def __init__(self, ready: Sequence[_ReadyFrame], networks: Sequence[NamedNetwork]) -> None:
        self._ready = ready
        self._networks = networks
        self._lanes = [*dict.fromkeys(one.lane for one in ready)]

    def label(self, network: int) -> str:
        """Return a network's name with its variant and place."""
        return next(entry.label for entry in self._ready if entry.placed.network == network)

    def put(self, turn: int) -> None:
        """Give every network another input, for which `differences` compares the outputs."""
        for entry in self._ready:
            others = self._networks[entry.placed.network].others
            entry.built.put(others[turn % len(others)])
        for lane in self._lanes:
            lane.renew_origin()

    def run(self) -> Float64[ndarray, "networks 2"]:
        """Run one frame; return start and end of each network, milliseconds after the frame's start.

        Raises:
          RuntimeError: naming the network that raised, after all others have ended.
        """
        begin_s = time.perf_counter()
        launched: list[Completion] = []
        name = ""
        try:
            for entry in self._ready:
                name = entry.label
                launched.append(_launched(entry, launched))
            for entry, done in zip(self._ready, launched, strict=True):
                name = entry.label  # a failing network comes before those that fail because of it
                done.wait()
        except Exception as error:
            _wait_for_all(launched)
            reason = " ".join(str(error).split())[:200]
            raise RuntimeError(f"{name} failed: {type(error).__name__}: {reason}") from error
        spans_s: Float64[ndarray, "networks 2"] = np.empty((len(self._ready), 2))
        for entry, done in zip(self._ready, launched, strict=True):
            spans_s[entry.placed.network] = (done.began_s - begin_s, done.ended_s - begin_s)
        return 1e3 * spans_s

    def differences(
        self, references: Sequence[Sequence[Tensor]], turn: int
    ) -> Float64[ndarray, " networks"]:
        """Return the difference of each network's latest output from fp32, relative to the largest output."""
        differences: Float64[ndarray, " networks"] = np.empty(len(self._ready))
        for entry in self._ready:
            expected = references[entry.placed.network]
            largest = max(float(each.abs().max()) for each in expected)
            latest = entry.built.latest()
            difference = float((latest - expected[turn % len(expected)]).abs().max())
            differences[entry.placed.network] = difference / largest
        return differences


def _launched(ready: _ReadyFrame, before: Sequence[Completion]) -> Completion:
    for k in ready.after[1:]:
        ready.lane.launch(no_op, before[k])  # a job waits for one other; its lane keeps the order
    return ready.lane.launch(ready.built.launch, before[ready.after[0]] if ready.after else None)


def _wait_for_all(launched: Sequence[Completion]) -> None:
    for done in launched:
        with suppress(Exception):
            done.wait()
    if torch.cuda.is_available():
        with suppress(RuntimeError):  # an error of the GPU, which the caller already reports
            torch.cuda.synchronize()
