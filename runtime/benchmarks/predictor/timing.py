"""Timing of each distinct layer of networks alone, and of random layers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.predictor.regression import layers
from edgenas_core.inference.backend import Backend, Device
from edgenas_core.inference.inference import prepare
from edgenas_core.machine.timing import Samples, Stopwatch, TimingConfig, time_interleaved
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.network.program import NETWORK_INPUT, Program

_TOGETHER = 8
"""Number of layers that are timed in turns."""
_MOST_BYTES = 2**30
"""Of the weights of the copies of a layer that are run in turns: far more than a cache holds."""
_MOST_FLOPS = 3e9
"""Largest number of operations of a random layer."""
_SHARES = {
    "conv": 0.45,
    "dw": 0.05,
    "linear": 0.1,
    "pool": 0.1,
    **dict.fromkeys(("norm", "act", "add", "cat", "softmax", "reshape"), 0.045),
    "identity": 0.03,
}
"""Shares of the kinds among the random layers."""


@final
@dataclass(frozen=True)
class Subject:
    """A layer to time; its body may be on the meta device."""

    layer: str
    body: nn.Module
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of its inputs."""

    @property
    def key(self) -> str:
        """Equal for layers that do the same work, also under different names."""
        made_of = [str(module) for module in self.body.children()]
        is_traced = isinstance(self.body, torch.fx.GraphModule)
        return f"{self.layer} {made_of if is_traced else self.body} {self.shapes}"


@final
@dataclass(frozen=True)
class LayerRun:
    """Device and backend on which layers are timed."""

    device: Device
    backend: Backend

    @property
    def times(self) -> int:
        """Runs of a layer in one call: 20 in a CUDA graph amortise its launch.

        Each has weights of its own, so that caches are as warm as 20 such layers in a row leave them.
        """
        return 20 if self.backend is Backend.graph else 1


def subjects_of(program: Program, input_shape: Sequence[int]) -> list[Subject]:
    """The layers of a program, in order."""
    shapes = {NETWORK_INPUT: tuple(input_shape)}
    shapes.update({i: segment.output_shape for i, segment in enumerate(program.segments)})
    return [
        Subject(layer, segment.body, tuple(shapes[i] for i in segment.inputs))
        for layer, segment in zip(layers(program, input_shape), program.segments, strict=True)
    ]


def distinct(subjects: Iterable[Subject]) -> list[Subject]:
    """Keep one of the layers that do the same work."""
    return list({subject.key: subject for subject in subjects}.values())


def has_kernels(subject: Subject) -> bool:
    """False for a layer whose output is its input or a view of it: a graph of it is empty."""
    if next(subject.body.parameters(), None) is not None:
        return True
    inputs = [torch.empty(shape, device="meta") for shape in subject.shapes]
    with torch.no_grad():
        output = copy.deepcopy(subject.body).to("meta")(*inputs)
    return not any(output is x or output._base is x for x in inputs)  # noqa: SLF001 - tells views


def random_layers(rule: Rule, count: int) -> list[Subject]:
    """Random layers with shapes that the networks do not have; the same in every call."""
    generator = np.random.default_rng(0)
    subjects: list[Subject] = []
    while len(subjects) < count:
        channels, out = (
            int(generator.choice([8, 16, 24, 48, 64, 96, 160, 256, 384])) for _ in "ab"
        )
        side = int(generator.choice([4, 7, 8, 14, 16, 24, 28, 32, 56, 64, 80]))
        with torch.device("meta"):
            module = _random_layer(generator, channels, out)
        shape = (1, channels) if isinstance(module, nn.Linear) else (1, channels, side, side)
        x = torch.empty(shape, device="meta")
        program = decompose(nn.Sequential(module).eval(), x, rule)
        *_, subject = subjects_of(program, shape)
        if program.segments[-1].flops <= _MOST_FLOPS:
            subjects.append(subject)
    return subjects


def time_layers(
    bodies: Sequence[Subject], run: LayerRun, config: TimingConfig
) -> Iterator[Samples]:
    """Time each layer alone; yields samples in ms, in order, a few layers in turns.

    Raises:
      ValueError: if the backend does not run on the device.
    """
    generator = np.random.default_rng(0)
    is_gpu = run.device is Device.cuda
    stopwatch = Stopwatch(torch.cuda.synchronize) if is_gpu else Stopwatch()
    for start in range(0, len(bodies), _TOGETHER):
        calls = [_call(body, run) for body in bodies[start : start + _TOGETHER]]
        for samples in time_interleaved(calls, config, generator, stopwatch):
            yield Samples(samples.ms / run.times, samples.warm_up_calls, samples.is_stable)


@final
class Addition(nn.Module):
    """Addition of two tensors."""

    def forward(self, x: Tensor) -> Tensor:
        """Add the input to itself."""
        return x + x


@final
class Concatenation(nn.Module):
    """Concatenation of two tensors along the channels."""

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the input with itself."""
        return torch.cat([x, x], 1)


@final
class _Repeated(nn.Module):
    """A layer that is run several times, with its further inputs inside and weights of its own each time."""

    def __init__(self, body: nn.Module, rest: Sequence[Tensor], repeats: int) -> None:
        super().__init__()
        weights = sum(each.nbytes for each in (*body.parameters(), *body.buffers()))
        copies = max(1, min(repeats, _MOST_BYTES // max(1, weights)))
        self.bodies = nn.ModuleList([body, *(copy.deepcopy(body) for _ in range(copies - 1))])
        self.repeats = repeats
        for i, tensor in enumerate(rest):
            self.register_buffer(f"input_{i}", tensor)

    def forward(self, x: Tensor) -> Tensor:
        rest = list(self.buffers(recurse=False))
        for i in range(self.repeats):
            y: Tensor = self.bodies[i % len(self.bodies)](x, *rest)
        return y


def _random_layer(generator: np.random.Generator, channels: int, out: int) -> nn.Module:
    what = str(generator.choice([*_SHARES], p=[*_SHARES.values()]))
    if what == "conv":
        kernel = int(generator.choice([1, 3, 5, 7], p=[0.35, 0.45, 0.1, 0.1]))
        stride = int(generator.choice([1, 2]))
        return nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)
    if what == "dw":
        return nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
    if what == "linear":
        return nn.Linear(channels, 16 * out)
    if what == "pool":
        return nn.MaxPool2d(3, 2, 1) if generator.random() < 0.5 else nn.AvgPool2d(3, 1, 1)
    if what == "norm":
        return nn.BatchNorm2d(channels)
    alone: dict[str, nn.Module] = {
        "act": nn.ReLU(),
        "add": Addition(),
        "cat": Concatenation(),
        "reshape": nn.Flatten(),
        "identity": nn.Identity(),
    }
    return alone.get(what) or nn.Sequential(nn.Flatten(), nn.Softmax(1))


def _materialised(body: nn.Module, device: str) -> nn.Module:
    """A copy with weights, of a module on the meta device that has only shapes."""
    real = copy.deepcopy(body).to_empty(device=device)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in [*real.parameters(), *real.buffers()]:
            if weight.is_floating_point():
                noise = torch.rand(weight.shape, generator=generator) * 0.1 + 0.05
                weight.copy_(noise.to(device))
    return real.eval()


def _call(subject: Subject, run: LayerRun) -> Callable[[], object]:
    """A callable for one inference of a layer, or for `run.times` of them."""
    inputs = [torch.rand(shape) for shape in subject.shapes]
    if run.backend is Backend.onnxruntime:
        from edgenas_core.inference.formats.onnx_export import onnx_bytes  # noqa: PLC0415 - of this backend only
        from edgenas_core.inference.formats.onnx_session import OnnxSession  # noqa: PLC0415 - of this backend only

        real = _materialised(subject.body, "cpu")
        session = OnnxSession(onnx_bytes(real, inputs))
        arrays = [tensor.numpy() for tensor in inputs]
        return lambda: session(*arrays)
    real = _materialised(subject.body, run.device.value)
    further = [tensor.to(run.device.value) for tensor in inputs[1:]]
    network = _Repeated(real, further, run.times) if further or run.times > 1 else real
    return prepare(network, inputs[0], run.device, run.backend)
