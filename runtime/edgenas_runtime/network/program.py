"""A network as a list of segments that run one by one, each on the lane that a policy chooses."""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgenas_runtime.network.completion import Compute
from edgenas_runtime.network.segment_kind import SegmentKind

NETWORK_INPUT = -1
"""Index that stands for the network's input instead of a segment."""


@runtime_checkable
class ActiveInference(Protocol):
    """One inference in progress; its jobs are requested in order, each once."""

    @abstractmethod
    def job(self, index: int, lane: int) -> Compute:
        """Work of segment `index` for the lane, to be run after the previous job has ended."""

    @property
    @abstractmethod
    def output(self) -> Tensor:
        """The network's output, on the CPU or where it was computed; owned by the caller.

        Raises:
          RuntimeError: if some segments have not run yet.
        """


@runtime_checkable
class SegmentedNetwork(Protocol):
    """A network cut into segments that an executor runs one by one."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of segments."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[SegmentKind, ...]:
        """Kind of each segment."""

    @abstractmethod
    def runs_on(self, lane: int) -> bool:
        """Return whether the lane can run this network."""

    @abstractmethod
    def start(self, x: Tensor) -> ActiveInference:
        """Start an inference; the previous one of the same network must have ended."""


@final
@dataclass(frozen=True)
class Segment:
    """Consecutive operations of a network with one output tensor."""

    name: str
    """Path of its main layer in the module, `layer1.0.conv2`, or the name of its operation."""
    kind: SegmentKind
    body: nn.Module
    """Takes one tensor for each of `inputs`."""
    inputs: tuple[int, ...]
    """Indices of the segments whose outputs it reads; NETWORK_INPUT for the network's input."""
    output_shape: tuple[int, ...]
    """Shape of the output for the example input, batch first."""
    output_bytes: int
    weight_bytes: int
    """Parameters and buffers; a layer that two segments call counts in both."""
    flops: int
    """Operations of convolutions and matrix products; a multiply-add counts as two."""

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Compute the segment's output."""
        output: Tensor = self.body(*inputs)
        return output


@final
@dataclass(frozen=True)
class Program:
    """The segments of one network, in execution order."""

    segments: tuple[Segment, ...]
    output: int
    """Index of the segment whose output is the network's."""

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def kinds(self) -> tuple[SegmentKind, ...]:
        """Kind of each segment."""
        return tuple(segment.kind for segment in self.segments)

    def runs_on(self, lane: int) -> bool:  # noqa: ARG002 - every lane of the weights' device can
        """Return True."""
        return True

    def start(self, x: Float[Tensor, "n ..."]) -> Inference:
        """Start an inference."""
        return Inference(self, x)

    def on(self, device: torch.device) -> Program:
        """Return the program with its weights on a device: itself, or a copy made once per device."""
        if device not in self._copies:
            moved = [
                replace(segment, body=deepcopy(segment.body).to(device))
                for segment in self.segments
            ]
            self._copies[device] = Program(tuple(moved), self.output)
        return self._copies[device]

    @cached_property
    def _copies(self) -> dict[torch.device, Program]:
        weights = (w for s in self.segments for w in [*s.body.parameters(), *s.body.buffers()])
        return {weight.device: self for weight in weights}

    def run(self, x: Float[Tensor, "n ..."]) -> Tensor:
        """Run all segments in order; the result equals that of the module."""
        inference = Inference(self, x)
        for _ in self.segments:
            inference.step()
        return inference.output

    @cached_property
    def last_uses(self) -> tuple[tuple[int, ...], ...]:
        """Values that no later segment reads, by the last segment that does; without the output."""
        last = {NETWORK_INPUT: 0}
        for i, segment in enumerate(self.segments):
            last[i] = i
            last.update(dict.fromkeys(segment.inputs, i))
        del last[self.output]
        return tuple(
            tuple(value for value, at in last.items() if at == i) for i in range(len(self.segments))
        )


@final
class Inference(ActiveInference):
    """One run of a program, segment by segment; a value is freed after its last use."""

    def __init__(self, program: Program, x: Float[Tensor, "n ..."]) -> None:
        self._program = program
        self._values = {NETWORK_INPUT: x}
        self._next = 0

    def job(self, index: int, lane: int) -> Compute:  # noqa: ARG002 - the same on every lane
        """Return the job of segment `index`, which must be the next one."""
        return self.step

    def step(self) -> None:
        """Run the next segment; if it raises, it remains the next one.

        Raises:
          IndexError: if all segments have run.
          BaseException: whatever the segment raises.
        """
        segment = self._program.segments[self._next]
        self._values[self._next] = segment(*(self._values[i] for i in segment.inputs))
        for dead in self._program.last_uses[self._next]:
            del self._values[dead]
        self._next += 1

    @property
    def output(self) -> Tensor:
        """The network's output.

        Raises:
          RuntimeError: if some segments have not run yet.
        """
        left = len(self._program) - self._next
        if left > 0:
            raise RuntimeError(f"{left} of {len(self._program)} segments have not run yet")
        return self._values[self._program.output]
