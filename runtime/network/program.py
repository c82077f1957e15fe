"""A network as a list of segments that can be run one by one, each where a policy wants it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from runtime.network.completion import Compute
from runtime.network.segment_kind import Kind

NETWORK_INPUT = -1
"""Stands for the network's input where the index of a segment would stand."""


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
    def kinds(self) -> tuple[Kind, ...]:
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
    """Some consecutive work of a network that gives one tensor."""

    name: str
    """Where its main layer stands in the module, `layer1.0.conv2`, or the name of its operation."""
    kind: Kind
    body: nn.Module
    """Called with one tensor for each of `inputs`."""
    inputs: tuple[int, ...]
    """Indices of the segments whose outputs it reads; NETWORK_INPUT is the network's input."""
    output_shape: tuple[int, ...]
    """As the example had it, with the batch first."""
    output_bytes: int
    weight_bytes: int
    """Of parameters and buffers; a layer that two segments call counts in both."""
    flops: int
    """Of convolutions and matrix products, a multiplication and an addition being two."""

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Computes the segment's output."""
        output: Tensor = self.body(*inputs)
        return output


@final
@dataclass(frozen=True)
class Program:
    """The segments of one network, in an order in which they can run."""

    segments: tuple[Segment, ...]
    output: int
    """Index of the segment that gives the network's output."""

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of each segment."""
        return tuple(segment.kind for segment in self.segments)

    def runs_on(self, lane: int) -> bool:  # noqa: ARG002 - any that can use the weights' device
        """Whether the lane may be asked to run it."""
        return True

    def start(self, x: Float[Tensor, "n ..."]) -> Inference:
        """Begins an inference."""
        return Inference(self, x)

    def on(self, device: torch.device) -> Program:
        """The same with its weights on a device: itself, or a copy that is made once."""
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
        """Runs all segments in order; the same result as calling the module."""
        inference = Inference(self, x)
        for _ in self.segments:
            inference.step()
        return inference.output

    @cached_property
    def last_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each segment, the values that nothing needs after it; the output is always kept."""
        last = {NETWORK_INPUT: 0}
        for i, segment in enumerate(self.segments):
            last[i] = i
            last.update(dict.fromkeys(segment.inputs, i))
        del last[self.output]
        return tuple(
            tuple(value for value, at in last.items() if at == i) for i in range(len(self.segments))
        )

    def live_bytes(self) -> Iterator[int]:
        """Bytes of all segments' outputs alive while each segment runs, its own included."""
        alive = 0
        for segment, dead in zip(self.segments, self.last_uses, strict=True):
            alive += segment.output_bytes
            yield alive
            alive -= sum(self.segments[i].output_bytes for i in dead if i != NETWORK_INPUT)


@final
class Inference(ActiveInference):
    """One run of a program, a segment at a time; a value is dropped after its last use."""

    def __init__(self, program: Program, x: Float[Tensor, "n ..."]) -> None:
        self._program = program
        self._values = {NETWORK_INPUT: x}
        self._next = 0

    def job(self, index: int, lane: int) -> Compute:  # noqa: ARG002 - values lie where they lie
        """What computes segment `index`, the next one, on any lane of the weights' device."""
        return self.step

    def step(self) -> None:
        """Runs the next segment; whatever it raises passes through, and it is still the next.

        Raises:
          IndexError: if all segments have run.
        """
        segment = self._program.segments[self._next]
        self._values[self._next] = segment(*(self._values[i] for i in segment.inputs))
        for dead in self._program.last_uses[self._next]:
            del self._values[dead]
        self._next += 1

    @property
    def live_values(self) -> frozenset[int]:
        """Indices of the segments whose outputs are held; NETWORK_INPUT among them."""
        return frozenset(self._values)

    @property
    def output(self) -> Tensor:
        """The network's output.

        Raises:
          RuntimeError: if segments have still to run.
        """
        left = len(self._program) - self._next
        if left > 0:
            raise RuntimeError(f"{left} of {len(self._program)} segments have still to run")
        return self._values[self._program.output]
