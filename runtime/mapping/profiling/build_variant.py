"""One network as a variant: the same weights, called and stored another way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import torch
from torch import Tensor, nn

from runtime.mapping.model.variant import Execution, Precision, Variant
from runtime.network.backend import Device
from runtime.network.cuda.graph import CAPTURE_WARM_UP

_DTYPES = {
    Precision.fp32: torch.float32,
    Precision.tf32: torch.float32,
    Precision.bf16: torch.bfloat16,
    Precision.fp16: torch.float16,
}

_REAL = {
    Device.cpu: {
        Execution.eager: {Precision.fp32, Precision.bf16, Precision.fp16},
        Execution.torchscript: {Precision.fp32},
        Execution.onnxruntime: {Precision.fp32, Precision.int8},
    },
    Device.cuda: {
        Execution.eager: {Precision.fp32, Precision.tf32, Precision.bf16, Precision.fp16},
        Execution.graph: {Precision.fp32, Precision.tf32, Precision.bf16, Precision.fp16},
    },
}
"""What is computed as it is called; ONNX Runtime on a CPU would only convert bf16."""


@final
@dataclass(frozen=True)
class BuiltVariant:
    """A network ready to run as a variant."""

    run: Callable[[], None]
    """One inference on what lies in its memory, from an idle device to an idle device."""
    launch: Callable[[], None]
    """The same; on a GPU only begun, and on the stream that it was built for."""
    put: Callable[[Tensor], object]
    """Another input of the same shape, copied into its memory."""
    latest: Callable[[], Tensor]
    """What the last inference gave, in fp32 on the CPU; of a GPU that is idle again."""

    def output(self, x: Tensor) -> Tensor:
        """For another input of the same shape, which stays in its memory."""
        self.put(x)
        self.run()
        return self.latest()


def unsupported_reason(variant: Variant) -> str | None:
    """Why this machine cannot run a variant as it is called; None if it can."""
    known = _REAL[variant.device].get(variant.how, set())
    if variant.numbers not in known:
        return f"{variant.how.value} on {variant.device.value} does not compute in " + (
            variant.numbers.value
        )
    if variant.channels_last and variant.how is Execution.onnxruntime:
        return "ONNX Runtime has a layout of its own"
    if variant.device is Device.cuda:
        return _why_not_on_gpu(variant)
    if variant.numbers is Precision.bf16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():  # noqa: SLF001 - torch has no public name for it
        return "this processor has no instructions for bf16"
    if variant.numbers is Precision.fp16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported():  # noqa: SLF001 - likewise
        return "this processor has no instructions for fp16"
    return None


def _why_not_on_gpu(variant: Variant) -> str | None:
    if not torch.cuda.is_available():
        return "there is no GPU here"
    there = torch.cuda.get_device_properties(0)
    if variant.share > there.multi_processor_count:
        return f"this GPU has {there.multi_processor_count} multiprocessors"
    if variant.numbers in {Precision.tf32, Precision.bf16} and there.major < 8:
        return f"{there.name} has no tensor cores for {variant.numbers.value}"
    return None


def build_variant(
    variant: Variant,
    network: nn.Module,
    x: Tensor,
    calibration: Sequence[Tensor],
    *,
    stream: torch.cuda.Stream | None = None,
    written: dict[Precision, bytes] | None = None,
) -> BuiltVariant:
    """Makes it ready; the network itself stays as it is.

    Args:
      variant: which; `why_not` has no objection.
      network: in evaluation mode, in fp32 on the CPU.
      x: what it is to run on.
      calibration: inputs that the ranges of int8 are taken from.
      stream: of a GPU, on which it is to run; None for one on as many multiprocessors.
      written: the network as ONNX files, by their numbers; who builds it often keeps them, for they
        are added here.

    Raises:
      BaseException: what the backend does if it cannot run the network.
    """
    if variant.how is Execution.onnxruntime:
        return _onnx_runtime(variant, network, x, calibration, {} if written is None else written)
    layout = torch.channels_last if variant.channels_last else torch.contiguous_format
    dtype = _DTYPES[variant.numbers]
    module = copy.deepcopy(network).to(variant.device.value, dtype)
    if variant.channels_last:
        for parameter in module.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    at = x.to(variant.device.value, dtype, copy=True)
    at = at.contiguous(memory_format=layout) if at.dim() == 4 else at
    if variant.device is Device.cuda:
        return _on_gpu(variant, module, at, stream or _stream(variant.share))
    if variant.how is Execution.torchscript:
        module = _traced(module, at)

    last: list[Tensor] = []

    def run() -> None:
        torch.set_num_threads(variant.share)  # of the calling thread, whichever it is
        with torch.inference_mode():
            last[:] = [module(at)]

    def latest() -> Tensor:
        return last[0].float()

    return BuiltVariant(run, run, at.copy_, latest)


def _traced(module: nn.Module, x: Tensor) -> nn.Module:
    import warnings  # noqa: PLC0415 - with the one use

    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # of its age
        traced = torch.jit.freeze(torch.jit.trace(module, x))
        frozen: nn.Module = torch.jit.optimize_for_inference(traced)
        for _ in range(CAPTURE_WARM_UP):
            frozen(x)
    return frozen


def _onnx_runtime(
    variant: Variant,
    network: nn.Module,
    x: Tensor,
    calibration: Sequence[Tensor],
    written: dict[Precision, bytes],
) -> BuiltVariant:
    from runtime.network.formats.onnx_export import onnx_bytes  # noqa: PLC0415 - of this backend only
    from runtime.network.formats.onnx_session import OnnxSession  # noqa: PLC0415 - of this backend only

    if Precision.fp32 not in written:
        written[Precision.fp32] = onnx_bytes(copy.deepcopy(network), [x])
    if variant.numbers not in written:
        from runtime.mapping.profiling.quantisation import quantise  # noqa: PLC0415 - of this variant only

        written[variant.numbers] = quantise(
            written[Precision.fp32], [one.numpy() for one in calibration]
        )
    session = OnnxSession(written[variant.numbers], threads=variant.share)
    at = x.clone(memory_format=torch.contiguous_format)
    output = session(at.numpy())
    run = session.bound([at.numpy()], output)
    return BuiltVariant(run, run, at.copy_, lambda: torch.from_numpy(output.copy()))


def _on_gpu(
    variant: Variant, module: nn.Module, at: Tensor, stream: torch.cuda.Stream
) -> BuiltVariant:
    from runtime.network.cuda.graph import GraphEngine  # noqa: PLC0415 - for those who have a GPU

    tf32 = variant.numbers is Precision.tf32
    last: list[Tensor] = []

    def infer() -> Tensor:
        result: Tensor = module(at)
        return result

    def eager() -> None:
        with torch.inference_mode(), _tf32(tf32), torch.cuda.stream(stream):
            last[:] = [infer()]

    def put(other: Tensor) -> None:
        at.copy_(other)
        torch.cuda.synchronize()  # the variant has a stream of its own

    def run() -> None:
        with torch.cuda.stream(stream):
            launch()
        stream.synchronize()

    torch.cuda.synchronize()
    for _ in range(CAPTURE_WARM_UP):
        eager()
        stream.synchronize()
    launch: Callable[[], None] = eager
    if variant.how is Execution.graph:
        with _tf32(tf32):
            captured = GraphEngine(stream).capture(infer)
        last[:] = [captured.output]
        launch = captured.replay
    return BuiltVariant(run, launch, put, lambda: last[0].float().cpu())


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Whether fp32 may be multiplied in TF32; torch has one switch each for the process."""
    switches: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    try:
        for switch in switches:
            switch.allow_tf32 = allowed
        yield
    finally:
        for switch, was in zip(switches, before, strict=True):
            switch.allow_tf32 = was


@cache
def _stream(multiprocessors: int) -> torch.cuda.Stream:
    """One on so many, kept: torch remembers streams beyond their use."""
    if multiprocessors == torch.cuda.get_device_properties(0).multi_processor_count:
        return torch.cuda.Stream()
    from runtime.network.cuda.sm_slices import SmSlices  # noqa: PLC0415 - for those who cut a GPU

    (one,) = SmSlices((multiprocessors,)).slices
    return one.stream()
