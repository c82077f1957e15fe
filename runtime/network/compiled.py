"""A program in memory that stays where it is, each segment ready to run on each lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import final

import torch
from torch import Tensor

from runtime.network.completion import Compute
from runtime.network.cuda.mapped_memory import on_gpu, pinned_like
from runtime.network.engine import CPU, Engine, is_view, tried
from runtime.network.program import NETWORK_INPUT, ActiveInference, Program, SegmentedNetwork
from runtime.network.segment_kind import Kind


class Handover(Enum):
    """How a value gets from a core to a GPU and back."""

    MAPPED = "mapped"
    """It does not: both work in pinned memory of the CPU. For a chip whose CPU and GPU share their
    memory; across a bus each access of the GPU costs, and each repeated one again."""
    COPIED = "copied"
    """Each has memory of its own, and what the other wrote is copied where it is read."""


@final
class Compiled(SegmentedNetwork):
    """One inference at a time; it reads and writes the same memory each time.

    All segments' outputs are kept, as captured graphs demand, not only those still needed.
    """

    def __init__(
        self,
        program: Program,
        x: Tensor,
        engines: Sequence[Engine | None],
        *,
        handover: Handover = Handover.COPIED,
    ) -> None:
        """Makes all jobs, which runs each segment a few times on each engine.

        Args:
          program: with its weights on the CPU, or on the one device of all engines.
          x: an example of the input; those to come must be of its shape and type.
          engines: of each lane; None for a lane that will not be asked to run this network.
          handover: between the CPU and a GPU, if engines of both are there.

        Raises:
          BaseException: whatever a segment raises, and what `Engine.captured` does.
          ValueError: if there is no engine, a GPU's neighbour is another GPU, or the CPU and a GPU
            are both there for a segment that changes its input.
        """
        given = [engine for engine in engines if engine is not None]
        devices = {engine.device for engine in given}
        if not devices or len(devices - {CPU}) > 1:
            raise ValueError(f"a network runs on one GPU, the CPU or both, not on {devices}")
        self._program = program
        self._engines = tuple(None if one is None else one.for_network() for one in engines)
        self._devices = frozenset(devices)
        self._shared = handover is Handover.MAPPED and len(devices) > 1
        with torch.inference_mode(mode=False), torch.no_grad():
            self._values = {NETWORK_INPUT: self._input_memory(x)}
            for value in self._values[NETWORK_INPUT].values():
                value.copy_(x)  # waits, unlike one that is not to block
            examples = [*self._examples(x)] if len(devices) > 1 else None
            self._jobs = [self._of_segment(i, examples) for i in range(len(program))]

    def __len__(self) -> int:
        return len(self._program)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of each segment."""
        return self._program.kinds

    def runs_on(self, lane: int) -> bool:
        """Whether an engine was given for the lane."""
        return self._engines[lane] is not None

    def start(self, x: Tensor) -> ActiveInference:
        """Begins an inference; the one before it must be over.

        Raises:
          ValueError: if the input differs from the example in shape or type.
        """
        expected = self._values[NETWORK_INPUT][CPU]
        if (x.shape, x.dtype) != (expected.shape, expected.dtype):
            raise ValueError(
                f"the input is {tuple(x.shape)} of {x.dtype}, but the network was made for "
                f"{tuple(expected.shape)} of {expected.dtype}"
            )
        return _Inference(self, x)

    def job(self, index: int, lane: int) -> Compute:
        """Segment `index` on a lane, once its inputs are in the memory of the lane's device.

        Raises:
          ValueError: if the network has no engine there.
        """
        compute = self._jobs[index][lane]
        if compute is None:
            raise ValueError(f"lane {lane} has no engine for this network")
        return compute

    def device(self, lane: int) -> torch.device:
        """Whose memory a lane works in."""
        engine = self._engines[lane]
        return CPU if engine is None else engine.device

    def value(self, index: int, device: torch.device) -> Tensor:
        """The memory of a segment's output, or of the input, on a device."""
        return self._values[index][device]

    def reads(self, index: int) -> tuple[int, ...]:
        """The values that a segment is called with."""
        return self._program.segments[index].inputs

    @property
    def output(self) -> int:
        """Index of the value that the network gives."""
        return self._program.output

    @property
    def shares_memory(self) -> bool:
        """Whether every device sees what another wrote."""
        return self._shared

    def _input_memory(self, x: Tensor) -> dict[torch.device, Tensor]:
        places = {CPU: torch.empty_like(x, device=CPU)}
        for device in self._devices - {CPU}:
            places[CPU] = pinned_like(x)
            places[device] = (
                on_gpu(places[CPU], device) if self._shared else torch.empty_like(x, device=device)
            )
        return places

    def _examples(self, x: Tensor) -> Iterator[tuple[Tensor, bool]]:
        """Each segment's result on the CPU, and whether it is a view."""
        values = {NETWORK_INPUT: x.to(CPU)}
        for i, segment in enumerate(self._program.on(CPU).segments):
            inputs = tuple(values[j] for j in segment.inputs)
            values[i], altered = tried(segment, inputs)
            if altered:
                raise ValueError(
                    f"segment {segment.name} changes its input, of which the CPU and a GPU would "
                    "each have a copy; give lanes of one of them"
                )
            yield values[i], is_view(values[i], inputs)

    def _of_segment(
        self, index: int, examples: list[tuple[Tensor, bool]] | None
    ) -> list[Compute | None]:
        places = self._values[index] = {}
        if examples is not None and not examples[index][1]:
            places[CPU] = pinned_like(examples[index][0])
            if self._shared:
                (gpu,) = self._devices - {CPU}
                places[gpu] = on_gpu(places[CPU], gpu)
        jobs: list[Compute | None] = []
        made: dict[Engine, Compute] = {}
        for engine in self._engines:
            if engine is None or engine in made:  # lanes that share it: one job at a time runs
                jobs.append(None if engine is None else made[engine])
                continue
            device = engine.device
            segment = self._program.on(device).segments[index]
            inputs = [self._values[i][device] for i in segment.inputs]
            compute, written = engine.captured(segment, inputs, places.get(device))
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
        """Where each value is, once all jobs asked for have run."""

    def job(self, index: int, lane: int) -> Compute:
        compiled = self._compiled
        device = compiled.device(lane)
        moves = []
        if index == 0:
            moves.append(_Move(self._x, compiled.value(NETWORK_INPUT, CPU)))
        if not compiled.shares_memory:
            for value in compiled.reads(index):
                if device not in self._places[value]:
                    (source,) = self._places[value]
                    moves.append(
                        _Move(compiled.value(value, source), compiled.value(value, device))
                    )
                    self._places[value].add(device)
        self._places[index] = {device}
        compute = compiled.job(index, lane)
        return partial(_after_moves, tuple(moves), compute) if moves else compute

    @property
    def output(self) -> Tensor:
        index = self._compiled.output
        if len(self._places) <= len(self._compiled):
            left = len(self._compiled) + 1 - len(self._places)
            raise RuntimeError(f"{left} of {len(self._compiled)} segments have still to run")
        device = next(iter(self._places[index]))
        return self._compiled.value(index, device).to(CPU, copy=True)


@final
@dataclass(frozen=True)
class _Move:
    source: Tensor
    target: Tensor

    def __call__(self) -> None:
        """Copies; onto the GPU in the order of the current stream, from it before it returns."""
        self.target.copy_(self.source, non_blocking=self.target.is_cuda)


def _after_moves(moves: tuple[_Move, ...], compute: Compute) -> None:
    for move in moves:
        move()
    compute()
