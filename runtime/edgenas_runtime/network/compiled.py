"""A program compiled for lanes: every segment reads and writes memory at fixed addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor

from edgenas_runtime.network.completion import Compute
from edgenas_runtime.network.engine import CPU, Engine, is_view, run_example
from edgenas_runtime.network.mapped_memory import pinned_like
from edgenas_runtime.network.program import (
    NETWORK_INPUT,
    ActiveInference,
    Program,
    SegmentedNetwork,
)
from edgenas_runtime.network.segment_kind import SegmentKind


@final
class Compiled(SegmentedNetwork):
    """A network that runs one inference at a time, always in the same memory.

    The outputs of all segments are kept, also those that are no longer needed, because captured
    graphs need fixed addresses. An output that the CPU and a GPU read is copied between them.
    """

    def __init__(
        self,
        program: Program,
        x: Tensor,
        engines: Sequence[Engine | None],
    ) -> None:
        """Compile all segments, which runs each of them a few times on each engine.

        Weights are on the CPU or on the one device of all engines; every later input must have the
        shape and type of `x`. An engine is None for a lane that never runs this network.

        Raises:
          BaseException: whatever a segment or `Engine.compile` raises.
          ValueError: if there is no engine, the engines are of several GPUs, or a segment changes
            its input and there are engines of both the CPU and a GPU.
        """
        there = [engine for engine in engines if engine is not None]
        devices = {engine.device for engine in there}
        if not devices or len(devices - {CPU}) > 1:
            raise ValueError(f"a network runs on the CPU, one GPU or both, not on {devices}")
        self._program = program
        self.output = program.output
        """Index of the segment whose output is the network's."""
        self._engines = tuple(
            None if engine is None else engine.for_network() for engine in engines
        )
        self._devices = frozenset(devices)
        with torch.inference_mode(mode=False), torch.no_grad():
            self._values = {NETWORK_INPUT: self._input_memory(x)}
            for value in self._values[NETWORK_INPUT].values():
                value.copy_(x)  # blocks, unlike non_blocking=True
            examples = [*self._examples(x)] if len(devices) > 1 else None
            self._jobs = [self._of_segment(i, examples) for i in range(len(program))]

    def __len__(self) -> int:
        return len(self._program)

    @property
    def kinds(self) -> tuple[SegmentKind, ...]:
        """Kind of each segment."""
        return self._program.kinds

    def runs_on(self, lane: int) -> bool:
        """Return whether the lane has an engine for this network."""
        return self._engines[lane] is not None

    def start(self, x: Tensor) -> ActiveInference:
        """Start an inference; the previous one must have ended.

        Raises:
          ValueError: if shape or type of the input differ from the example's.
        """
        expected = self._values[NETWORK_INPUT][CPU]
        if (x.shape, x.dtype) != (expected.shape, expected.dtype):
            raise ValueError(
                f"the input is {tuple(x.shape)} of {x.dtype}, but the network was compiled for "
                f"{tuple(expected.shape)} of {expected.dtype}"
            )
        return _Inference(self, x)

    def job(self, index: int, lane: int) -> Compute:
        """Return the job of segment `index` on a lane; its inputs must be on the lane's device.

        Raises:
          ValueError: if the lane has no engine for this network.
        """
        compute = self._jobs[index][lane]
        if compute is None:
            raise ValueError(f"lane {lane} has no engine for this network")
        return compute

    def device(self, lane: int) -> torch.device:
        """Device of a lane."""
        engine = self._engines[lane]
        return CPU if engine is None else engine.device

    def value(self, index: int, device: torch.device) -> Tensor:
        """Memory of a segment's output, or of NETWORK_INPUT, on a device."""
        return self._values[index][device]

    def reads(self, index: int) -> tuple[int, ...]:
        """Indices of the values that a segment reads."""
        return self._program.segments[index].inputs

    def _input_memory(self, x: Tensor) -> dict[torch.device, Tensor]:
        places = {CPU: torch.empty_like(x, device=CPU)}
        for device in self._devices - {CPU}:
            places[CPU] = pinned_like(x)
            places[device] = torch.empty_like(x, device=device)
        return places

    def _examples(self, x: Tensor) -> Iterator[tuple[Tensor, bool]]:
        """Yield the output of each segment on the CPU and whether it is a view of an input."""
        values = {NETWORK_INPUT: x.to(CPU)}
        for i, segment in enumerate(self._program.on(CPU).segments):
            inputs = tuple(values[j] for j in segment.inputs)
            values[i], altered = run_example(segment, inputs)
            if altered:
                raise ValueError(
                    f"segment {segment.name} changes its input, which the CPU and the GPU hold as "
                    "separate copies; use lanes of one of them only"
                )
            yield values[i], is_view(values[i], inputs)

    def _of_segment(
        self, index: int, examples: list[tuple[Tensor, bool]] | None
    ) -> list[Compute | None]:
        places = self._values[index] = {}
        if examples is not None and not examples[index][1]:
            places[CPU] = pinned_like(examples[index][0])
        jobs: list[Compute | None] = []
        made: dict[Engine, Compute] = {}
        for engine in self._engines:
            if (
                engine is None or engine in made
            ):  # lanes may share an engine: they run one at a time
                jobs.append(None if engine is None else made[engine])
                continue
            device = engine.device
            segment = self._program.on(device).segments[index]
            inputs = [self._values[i][device] for i in segment.inputs]
            compute, written = engine.compile(segment, inputs, places.get(device))
            places.setdefault(device, written)
            made[engine] = compute
            jobs.append(compute)
        return jobs


@final
class _Inference(ActiveInference):
    def __init__(self, compiled: Compiled, x: Tensor) -> None:
        self._compiled = compiled
        self._x = x
        self._places: dict[int, set[torch.device]] = {NETWORK_INPUT: {CPU}}
        """Devices that hold each value after all requested jobs have run."""

    def job(self, index: int, lane: int) -> Compute:
        compiled = self._compiled
        device = compiled.device(lane)
        moves = []
        if index == 0:
            moves.append(_Move(self._x, compiled.value(NETWORK_INPUT, CPU)))
        for value in compiled.reads(index):
            if device not in self._places[value]:
                (source,) = self._places[value]
                moves.append(_Move(compiled.value(value, source), compiled.value(value, device)))
                self._places[value].add(device)
        self._places[index] = {device}
        compute = compiled.job(index, lane)
        return partial(_after_moves, tuple(moves), compute) if moves else compute

    @property
    def output(self) -> Tensor:
        index = self._compiled.output
        if len(self._places) <= len(self._compiled):
            left = len(self._compiled) + 1 - len(self._places)
            raise RuntimeError(f"{left} of {len(self._compiled)} segments have not run yet")
        device = next(iter(self._places[index]))
        return self._compiled.value(index, device).to(CPU, copy=True)


@final
@dataclass(frozen=True)
class _Move:
    source: Tensor
    target: Tensor

    def __call__(self) -> None:
        """Copy: to the GPU in order of the current stream, from the GPU blocking."""
        self.target.copy_(self.source, non_blocking=self.target.is_cuda)


def _after_moves(moves: tuple[_Move, ...], compute: Compute) -> None:
    for move in moves:
        move()
    compute()
